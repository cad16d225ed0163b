"""Tells people what `core/alerts.py` finds, and monitoring systems how all jobs stand.

Called by every trigger when its work is over, a busy one and one with nothing due too, for its
own job; and by one trigger a minute for all jobs of the configuration, so that a job whose own
trigger never comes is missed by the others. Which one, a stamp in the store decides: a record
that is written under the version it was read at. (With one job, and no file of figures, there
is nothing to do for others, and no stamp.)

Nothing in here may harm the work. It has been recorded and its lease released by now; what
cannot be told is one warning and left to the next call. A process that was asked to stop tells
nobody, so that it is gone in time: the next call does.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from .. import alerts
from ..errors import (
    NotDelivered,
    ReconcileError,
    StoreBusy,
    StoreUnreachable,
    StoreUnusable,
    WriteConflict,
)
from ..events import NotTold
from ..model import ABSENT, Kind, Outcome, Put
from ..records import OPEN, from_text, to_text
from .look import find_record, interval_at, look

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ..alert_records import AlertRecord
    from ..alerts import Found
    from ..config import Job
    from ..events import RunReport
    from ..model import Json, Write
    from ..ports import Notifier, Store
    from .application import Application
    from .look import Look

EVERY = timedelta(minutes=1)
"""How often all jobs are judged."""
PATIENCE = 60.0
"""Seconds after which one call begins no further delivery."""
ALL = "@all"
"""Where the stamp is kept; no job can have this name."""


def after_visit(
    app: Application, store: Store, job: Job, seen: Look | None, report: RunReport | None
) -> None:
    """What a trigger does for others before it ends. `seen`: what it had read, where nothing has
    changed since; `report` None: it was refused."""
    notifier = app.notifier
    if notifier is None or app.runtime.stop.reason is not None:
        return
    desk = _Desk(app, store, notifier)
    intervals = () if report is None else report.intervals
    try:
        if report is not None and report.outcome is Outcome.BUSY:
            _count_turned_away(store, job)
        if notifier.channels:
            desk.job(job, seen)
        desk.others(job, publish=any(not one.known_before for one in intervals))
    except ReconcileError as error:
        desk.warn(job.name, f"nobody was told how it stands: {error}", known=False)


def _count_turned_away(store: Store, job: Job) -> None:
    """A count that cannot be written is not worth a word: the store may be as busy as the job."""
    from ..tally import note_turned_away

    with suppress(StoreBusy, StoreUnreachable, WriteConflict):
        note_turned_away(store, job.name)


def after_none(app: Application, store: Store, jobs: Sequence[Job]) -> None:
    """What a call does for others that had found nothing to do for any of these jobs."""
    notifier = app.notifier
    if notifier is None or not jobs or app.runtime.stop.reason is not None:
        return
    desk = _Desk(app, store, notifier)
    try:
        for job in jobs if notifier.channels else ():
            desk.job(job)
        desk.others(jobs[0], publish=False)
    except ReconcileError as error:
        desk.warn(jobs[0].name, f"nobody was told how it stands: {error}", known=False)


class _Desk:
    """One call's judging and telling."""

    def __init__(self, app: Application, store: Store, notifier: Notifier) -> None:
        self._app = app
        self._store = store
        self._notifier = notifier
        self._clock = app.runtime.clock
        self._until = self._clock.boot() + PATIENCE

    def warn(self, job: str, text: str, *, known: bool) -> None:
        """One line about what could not be told."""
        self._app.runtime.report(NotTold(job, text, self._clock.now(), known))

    # --- one job

    def job(self, job: Job, seen: Look | None = None) -> None:
        """Judge one job: raise, clear, send."""
        seen = seen or look(self._store, job, self._store.facts().now)
        if seen.version == ABSENT and job.start is None:
            return  # nobody has run it yet, so nothing is owed
        found = {
            one.key: one
            for one in alerts.judge(job, seen.job, seen.schedule, seen.decision, seen.now)
        }
        still = None if seen.decision.pause is not None else self._backfill(job, seen)
        if still is not None:
            found.setdefault(still.key, still)
        stored = self._store.scan(Kind.ALERT, job.name, tag=OPEN)
        if not (found or stored):
            return
        from ..alert_records import AlertRecord

        standing = {one.key: (AlertRecord.from_json(one.value), one.version) for one in stored}
        for key, (alert, version) in standing.items():
            self._standing(job, seen, alert, version, noticed=key in found)
        for key, one in found.items():
            if key not in standing:
                self._raise(job, one, seen.now)

    def _backfill(self, job: Job, seen: Look) -> Found | None:
        """What is wrong with the backfill that runs; a read or two only where there is one."""
        if seen.job.backfill is None:
            return None
        from ..backfills import key_of, running
        from ..planning.pauses import pauses_of

        backfill = running(self._store, job.name, seen.job)
        if backfill is None or backfill.record.next_at is None:
            return None
        stored = self._store.get(Kind.BACKFILL, job.name, key_of(backfill.record.number))
        moved = backfill.record.asked_at if stored is None else stored.at
        ends = (pause.over_at for pause in pauses_of(seen.job))
        moved = max([moved, *(end for end in ends if end is not None and end <= seen.now)])
        following = interval_at(seen, job.name, backfill.record.next_at)
        return alerts.judge_backfill(job, seen.schedule, backfill, following, moved, seen.now)

    def _raise(self, job: Job, found: Found, now: datetime) -> None:
        from .. import alert_records as records

        if found.kind == alerts.OVERDUE:
            failed = alerts.alert_key(found.interval.key, alerts.FAILED)
            if self._stands(job, failed):
                return  # somebody has reopened it, and the alert of its failure still stands
        stored = self._store.get(Kind.ALERT, job.name, found.key)
        before = None if stored is None else records.AlertRecord.from_json(stored.value)
        if before is not None and not before.cleared:
            return  # another call has raised it in this very moment
        alert = records.raised(found, before, now)
        version = ABSENT if stored is None else stored.version
        self._tell(job, alert, version, now, [records.trail_event(job.name, alert)])

    def _stands(self, job: Job, key: str) -> bool:
        from ..alert_records import AlertRecord

        stored = self._store.get(Kind.ALERT, job.name, key)
        return stored is not None and not AlertRecord.from_json(stored.value).cleared

    def _standing(
        self, job: Job, seen: Look, alert: AlertRecord, version: int, *, noticed: bool
    ) -> None:
        """Clear what is over; send what was not sent."""
        from .. import alert_records as records

        if not alert.cleared and not noticed:
            record, _ = find_record(self._store, job.name, alert.scheduled_at)
            due = {one.interval.key for one in seen.decision.owed}
            why = records.is_over(
                alert,
                job,
                seen.job,
                seen.schedule,
                None if record is None else seen.standing(record),
                seen.now,
                still_due=alert.interval_key in due,
            )
            if why is not None:
                alert = records.cleared(alert, job.name, why)
                event = records.trail_event(job.name, alert)
                self._tell(job, alert, version, seen.now, [event])
                return
        if alert.unsent(self._notifier.channels) and not alert.is_claimed(seen.now):
            self._tell(job, alert, version, seen.now, [])

    def _tell(
        self, job: Job, alert: AlertRecord, version: int, now: datetime, writes: Sequence[Write]
    ) -> None:
        """Claim, send, mark as sent. Whoever is slower at claiming leaves it to the other."""
        if self._clock.boot() >= self._until:
            return
        channels = self._notifier.channels
        unsent = alert.unsent(channels)
        claimed = replace(alert, claimed_at=now if unsent else None)
        try:
            self._put(job, claimed, version, writes)
        except WriteConflict:
            return
        if not unsent:
            return
        from ..alert_records import message

        host = self._app.runtime.host.holder().host
        value = message(alert, job.name, host, now)
        sent, failed = list(alert.sent), []
        for channel in unsent:
            try:
                self._notifier.send(channel, value)
                sent.append(channel)
            except NotDelivered as error:
                failed.append(f"{error}")
        tries = alert.tries + 1 if failed else 0
        told = replace(alert, sent=sent, tries=tries, claimed_at=None)
        with suppress(WriteConflict):  # it was cleared meanwhile, and is told anew
            self._put(job, told, version + 1, [])
        for text in failed:
            self.warn(job.name, f"alert {value['id']} not delivered: {text}", known=tries > 1)

    def _put(self, job: Job, alert: AlertRecord, version: int, writes: Sequence[Write]) -> None:
        tag = alert.tag(self._notifier.channels)
        put = Put(Kind.ALERT, job.name, alert.key, alert.to_json(), expect=version, tag=tag)
        self._store.note([put, *writes])

    # --- all jobs

    def others(self, own: Job, *, publish: bool) -> None:
        """Judge the other jobs if a minute is over, and publish how all stand."""
        config = self._app.config
        wants_figures = self._notifier.wants_figures
        due = False
        if len(config.jobs) > 1 or wants_figures:
            due = self._is_time()
        if due and self._notifier.channels:
            for job in config.jobs.values():
                if job.name != own.name:
                    self._other(job)
        if wants_figures and (publish or due):
            self._publish(own)

    def _other(self, job: Job) -> None:
        try:
            self.job(job)
        except StoreUnusable as error:  # a damaged record of one job is no reason to miss others
            self.warn(job.name, f"could not be judged: {error}", known=False)

    def _is_time(self) -> bool:
        """Whether this call is the one of this minute."""
        now = self._store.facts().now
        stored = self._store.get(Kind.ALERT, ALL, "")
        value: dict[str, Json] = {} if stored is None else dict(stored.value)
        if stored is not None:
            last = from_text(str(value["looked_at"]))
            if timedelta(0) <= now - last < EVERY:
                return False
        version = ABSENT if stored is None else stored.version
        value["looked_at"] = to_text(now)
        try:
            self._store.note([Put(Kind.ALERT, ALL, "", value, version)])
        except WriteConflict:
            return False
        return True

    def _publish(self, own: Job) -> None:
        """Write the file of figures; that it cannot be written is said to be known from the
        second time on."""
        from .figures import figures

        stored = self._store.get(Kind.ALERT, ALL, "")
        value: dict[str, Json] = {} if stored is None else dict(stored.value)
        known = bool(value.get("unpublished"))
        try:
            self._notifier.publish(figures(self._app, self._store))
            fails = False
        except NotDelivered as error:
            self.warn(own.name, str(error), known=known)
            fails = True
        if fails != known and stored is not None:
            value["unpublished"] = fails
            self._store.note([Put(Kind.ALERT, ALL, "", value)])
