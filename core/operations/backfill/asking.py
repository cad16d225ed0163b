"""`reconcile backfill`: asked for, changed and cancelled by people, each signed on the job's trail.

What was asked for stands in the store before anything is done. The same call again finds it there
and goes on with it, so that a client which asks twice, or asks again after a lost answer, gets
one backfill; with `--rerun-completed` also where that has ended since.
"""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ...backfills import (
    MOST,
    Backfill,
    BackfillRecord,
    BackfillReport,
    BackfillView,
    key_of,
    running,
    takes,
)
from ...errors import ConfigError, StoreBusy, UsageError, WriteConflict
from ...model import ABSENT, Actor, Append, Kind, Put, Trigger
from ...rates import parse_rate, show_rate
from ...records import to_text
from ...trail import OF_JOB
from ..giving_up import signed
from ..look import look
from ..visit import Visit
from .bounds import bounds, planned
from .views import done, usual_seconds, view_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from ...config import Job
    from ...model import JsonObject, Rate, Write
    from ...ports import Store
    from ..application import Application, BackfillRequest

TRIES = 10
"""So often in a row may a holder's write come between reading the job's record and writing it."""
PAUSED = "0"


def plan(app: Application, request: BackfillRequest) -> BackfillReport:
    """What it would do, and until when; nothing is written."""
    job = app.job(request.job)
    rate, paused = _rate(request, job)
    with closing(app.open_store()) as store:
        seen = look(store, job, store.facts().now)
        found = planned(app, store, job, seen, request)
        usual = usual_seconds(store, job, seen)
        number = found.record.to_run + found.record.opened
        span = None if paused else takes(number, rate, usual)
        until = None if span is None else seen.now + span
        backfill = Backfill(found.record, rate, paused)
        view = BackfillView(backfill, number, {}, until=until)
    return BackfillReport(
        job.name,
        seen.now,
        "planned",
        view,
        overtaken=found.overtaken,
        newest=found.newest,
        usual=usual,
    )


def ask(app: Application, store: Store, request: BackfillRequest) -> BackfillReport:
    """Put a backfill on record, or find that it is there already: `goes_on` in both cases.

    Raises `UsageError` where another one runs, for bounds that are none, and for a job that has
    no past; `OldOverNew` where all of it would undo newer truth.
    """
    job = app.job(request.job)
    rate, paused = _rate(request, job)
    for tries_left in reversed(range(TRIES)):
        now = store.facts().now
        seen = look(store, job, now)
        backfill = running(store, job.name, seen.job)
        if backfill is not None:
            _refuse_another(job, backfill, bounds(store, job, seen, request), request)
            if request.rate is not None and (rate, paused) != (backfill.rate, backfill.paused):
                return change(app, store, request)._replace(did="goes_on")
            return BackfillReport(job.name, now, "goes_on", view_of(store, job, seen))
        found = planned(app, store, job, seen, request)
        ended = _told_before(store, job, found.record, request)
        if ended is not None:
            view = BackfillView(ended, 0, done(store, job, ended))
            return BackfillReport(job.name, now, "finished_before", view)
        if not found.record.to_run:
            view = BackfillView(Backfill(found.record, rate), found.record.opened, {})
            return BackfillReport(job.name, now, "nothing", view)
        of_job = replace(seen.job, backfill=_said(found.record.number, rate, paused=paused))
        by = Actor(request.actor, request.reason, now)
        event = signed(
            "backfill_asked",
            by,
            number=found.record.number,
            first=found.record.first_id,
            last=found.record.last_id,
            rate=_shown(rate, paused=paused),
            rerun_completed=request.rerun_completed or None,
        )
        writes: list[Write] = [
            Put(Kind.JOB, job.name, "", of_job.to_json(), expect=seen.version or ABSENT),
            found.record.put(job.name)._replace(expect=ABSENT),
            Append(Kind.EVENT, job.name, OF_JOB, event),
        ]
        if _note(store, writes, last=not tries_left):
            app.runtime.reached("backfill_asked")
            seen = look(store, job, now)
            return BackfillReport(job.name, now, "goes_on", view_of(store, job, seen))
    raise AssertionError("the last try returns or raises")


def found(app: Application, store: Store, request: BackfillRequest) -> BackfillReport:
    """The one that runs, to go on with it; `none` where none does."""
    job = app.job(request.job)
    now = store.facts().now
    view = view_of(store, job, look(store, job, now))
    return BackfillReport(job.name, now, "none" if view is None else "goes_on", view)


def change(app: Application, store: Store, request: BackfillRequest) -> BackfillReport:
    """Another rate for the one that runs; `0` lets it begin nothing more until it gets one."""
    job = app.job(request.job)
    rate, paused = _rate(request, job)

    def changed(backfill: Backfill) -> JsonObject:
        kept = backfill.rate if paused else rate
        return _said(backfill.record.number, kept, paused=paused)

    shown = _shown(rate, paused=paused)
    return _said_of_running(app, store, request, "changed", {"rate": shown}, changed)


def cancel(app: Application, request: BackfillRequest) -> BackfillReport:
    """Give up the rest: at once where nobody works, else the holder does when it decides next."""
    job = app.job(request.job)
    with closing(app.open_store()) as store:

        def cancelled(backfill: Backfill) -> JsonObject:
            by: JsonObject = {
                "actor": request.actor,
                "reason": request.reason,
                "at": to_text(store.facts().now),
            }
            said = _said(backfill.record.number, backfill.rate, paused=backfill.paused)
            return {**said, "cancelled": by}

        report = _said_of_running(app, store, request, "cancelled", {}, cancelled)
        if report.view is None:
            return report
        app.runtime.reached("backfill_cancelled")
        visit = Visit(app=app, job=job, store=store, facts=store.facts(), trigger=Trigger.MANUAL)
        visit.settles = True
        with suppress(StoreBusy):  # somebody writes to it; the next trigger does it
            visit.run()
        return report._replace(view=standing(store, job, report.view.backfill.record.number))


def standing(store: Store, job: Job, number: int) -> BackfillView | None:
    """How a backfill stands, be it running or over."""
    seen = look(store, job, store.facts().now)
    view = view_of(store, job, seen, usual_seconds(store, job, seen))
    if view is not None and view.backfill.record.number == number:
        return view
    found = store.get(Kind.BACKFILL, job.name, key_of(number))
    if found is None:
        return None
    ended = Backfill(BackfillRecord.from_json(found.value))
    return BackfillView(ended, 0, done(store, job, ended))


def _said_of_running(
    app: Application,
    store: Store,
    request: BackfillRequest,
    did: str,
    facts: JsonObject,
    say: Callable[[Backfill], JsonObject],
) -> BackfillReport:
    """Change what is said of the backfill that runs, signed."""
    job = app.job(request.job)
    for tries_left in reversed(range(TRIES)):
        now = store.facts().now
        seen = look(store, job, now)
        backfill = running(store, job.name, seen.job)
        if backfill is None:
            return BackfillReport(job.name, now, "none")
        if backfill.cancelled is not None:
            return BackfillReport(job.name, now, "cancelled", view_of(store, job, seen))
        of_job = replace(seen.job, backfill=say(backfill))
        by = Actor(request.actor, request.reason, now)
        event = signed(f"backfill_{did}", by, number=backfill.record.number, **facts)
        writes: list[Write] = [
            Put(Kind.JOB, job.name, "", of_job.to_json(), expect=seen.version or ABSENT),
            Append(Kind.EVENT, job.name, OF_JOB, event),
        ]
        if _note(store, writes, last=not tries_left):
            seen = look(store, job, now)
            view = view_of(store, job, seen, usual_seconds(store, job, seen))
            return BackfillReport(job.name, now, did, view)
    raise AssertionError("the last try returns or raises")


def _note(store: Store, writes: list[Write], *, last: bool) -> bool:
    """Whether it was written; False where the holder has changed the job's record meanwhile."""
    try:
        store.note(writes)
    except WriteConflict:
        if last:
            raise
        return False
    return True


def _said(number: int, rate: Rate | None, *, paused: bool) -> JsonObject:
    said: dict[str, str | int | bool] = {"number": number}
    if rate is not None:
        said["rate"] = show_rate(rate)
    if paused:
        said["paused"] = True
    return said


def _shown(rate: Rate | None, *, paused: bool) -> str | None:
    if paused:
        return PAUSED
    return None if rate is None else show_rate(rate)


def _rate(request: BackfillRequest, job: Job) -> tuple[Rate | None, bool]:
    """The rate asked for, by default that of the job's catch-up; and whether it is none at all."""
    if request.rate is None:
        return job.catch_up.rate, False
    if request.rate == PAUSED:
        return job.catch_up.rate, True
    try:
        rate = parse_rate(request.rate)
    except ConfigError as error:
        raise UsageError(f"--rate: {error}", hint=f"{error.hint}; 0 pauses it") from error
    if rate.amount > MOST:
        raise UsageError(
            f"--rate {request.rate} is not counted: at most {MOST:,} may begin in its time",
            hint='say it of a shorter time, for example "100/s"',
        )
    return rate, False


def _refuse_another(
    job: Job, backfill: Backfill, asked: tuple[datetime, datetime], request: BackfillRequest
) -> None:
    record = backfill.record
    same = (record.first_at, record.last_at, record.rerun_completed)
    if same != (*asked, request.rerun_completed):
        rerun = ", rerunning what was completed" if record.rerun_completed else ""
        raise UsageError(
            f"{job.name} has a backfill already: #{record.number} from {record.first_id} to"
            f" {record.last_id}{rerun}, asked for by {record.actor}",
            hint=f"go on with it: reconcile backfill {job.name}\n"
            f'give up its rest: reconcile backfill {job.name} --cancel -m "why"',
        )
    if backfill.cancelled is not None:
        raise UsageError(
            f"{job.name}: backfill #{record.number} is being cancelled by"
            f" {backfill.cancelled.name}; its rest ends with the next trigger",
            hint=f"then ask for it again; how it stands: reconcile status {job.name}",
        )


def _told_before(
    store: Store, job: Job, asked: BackfillRecord, request: BackfillRequest
) -> Backfill | None:
    """The newest backfill, where this call asks in its very words for what that has done: a client
    that repeats itself must not have all rerun twice."""
    newest = store.scan(Kind.BACKFILL, job.name, limit=1, newest_first=True)
    if not (newest and asked.rerun_completed):
        return None
    record = BackfillRecord.from_json(newest[0].value)
    words = (record.first_at, record.last_at, record.rerun_completed, record.actor, record.reason)
    same = (asked.first_at, asked.last_at, True, request.actor, request.reason)
    return Backfill(record) if words == same and not record.cancelled else None
