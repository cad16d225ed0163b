"""One look at a job: its records, what is decided from them, and how each interval stands."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from .. import planning
from ..errors import ReconcileError, UsageError, WriteConflict
from ..model import ABSENT, Interval, Kind, LeaseKey, State, instant_key
from ..records import OPEN, IntervalRecord, JobRecord
from ..schedule import instant_id, read_id
from ..trail import changed_by
from .history import LOOKED_AT, History, newest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ..config import Job
    from ..model import Lease, Record, Write
    from ..planning import Decision, Due, Pause, Waiting
    from ..ports import Store
    from ..schedule import Schedule
    from .application import Application

PAGE = 1000
FEW = 3
"""The newest completed interval is mostly one of so many."""
CORRECTION = timedelta(minutes=5)
"""By so much a clock is put right in daily life; it makes nothing void that was worked, for that
would be worked twice."""
BY_CLOCK = ("catch_up_window", "superseded")
"""Reasons of skips that follow from what time it is."""


class Look(NamedTuple):
    """A job at one instant of the store's clock. `changed`: its own record must be written;
    `unsettled`: so many records were read to decide. Older than `completed` nothing may be
    applied any more."""

    now: datetime
    job: JobRecord
    version: int
    changed: bool
    schedule: Schedule | None
    decision: Decision
    unsettled: int
    void: Sequence[Void] = ()
    completed: datetime | None = None

    def is_void(self, record: IntervalRecord) -> bool:
        """Whether a record stands for nothing, as a skip that a clock ahead of now decided."""
        return self.standing(record) is not record

    def standing(self, record: IntervalRecord) -> IntervalRecord:
        """The record, or where it is void the pending one that takes its place: what it has
        had of runs and reruns is counted on."""
        again = (v.record for v in self.void if v.record.scheduled_at == record.scheduled_at)
        return next(again, record)


class Void(NamedTuple):
    """What only a clock ahead of now could decide: a skip, or anything about an interval that
    is not due yet. `record` is the pending interval that it is again, `said` what it was,
    `at` when that was written."""

    record: IntervalRecord
    version: int
    said: str
    at: datetime


def look(
    store: Store,
    job: Job,
    now: datetime,
    tried: Collection[str] = (),
    target: datetime | None = None,
) -> Look:
    """Read a job's records and decide what is due. `target`: the newest interval that the
    target is known to have completed, where that was asked; else the records' word is taken."""
    stored = store.get(Kind.JOB, job.name, "")
    before = JobRecord.from_json(stored.value) if stored is not None else None
    record = planning.seen(job, before, now)
    schedule = planning.schedule_of(record)
    floor = planning.floor(record, now)
    pauses = planning.pauses_of(record)
    found = _Found(store, job, floor, now, planning.in_force(pauses, now))
    newer = _completed(store, job, now, target)
    runs = store.scan(Kind.RUN, job.name, tag=OPEN) if newer is not None else ()
    decision = planning.decide(
        job,
        schedule,
        floor,
        found,
        now,
        tried=tried,
        completed=newer,
        open_runs={run.key.rpartition("/")[0] for run in runs},
        pauses=pauses,
        failed=_failed_for_good(store, job, now),
    )
    return Look(
        now=now,
        job=record,
        version=stored.version if stored is not None else ABSENT,
        changed=record != before,
        schedule=schedule,
        decision=decision,
        unsettled=found.read,
        void=found.void,
        completed=newer,
    )


def _failed_for_good(store: Store, job: Job, now: datetime) -> IntervalRecord | None:
    """The oldest interval that holds up newer ones until a person acts."""
    if job.on_failed != "block":
        return None
    failed, _ = History(store, job.name, now, first=FEW).failures(LOOKED_AT)
    return next((one for one in reversed(failed) if one.reason == "attempts"), None)


class _Found:
    """The records that a decision needs, with their versions, as they stand by the clock of now.
    What stands for nothing is collected in `void`; `read` counts all."""

    def __init__(
        self, store: Store, job: Job, floor: datetime, now: datetime, pause: Pause | None
    ) -> None:
        self._records = _records(store, job.name, floor)
        self._now = now
        self._pause = pause
        self.read = 0
        self.void: list[Void] = []

    def __iter__(self) -> Iterator[tuple[IntervalRecord, int]]:
        for found in self._records:
            self.read += 1
            record = IntervalRecord.from_json(found.value)
            said = _said_ahead(record, found.at, self._now, self._pause)
            if said is not None:
                record = IntervalRecord(
                    id=record.id,
                    scheduled_at=record.scheduled_at,
                    runs=record.runs,
                    runs_before=record.runs_before,
                    rerun=record.rerun,
                    reruns=record.reruns,
                    timezone=record.timezone,
                )
                self.void.append(Void(record, found.version, said, found.at))
            yield record, found.version


def _completed(store: Store, job: Job, now: datetime, target: datetime | None) -> datetime | None:
    """The newest completed interval, for a source that tells the truth of one night."""
    if not job.work.overtakes:
        return None
    edge = instant_key(now + timedelta(seconds=1))
    for record in islice(newest(store, job.name, before=edge, first=FEW), LOOKED_AT):
        if record.state is State.COMPLETED:
            ours = record.until_at or record.scheduled_at
            return ours if target is None else min(ours, target)
    return None


def _said_ahead(
    record: IntervalRecord, written_at: datetime, now: datetime, pause: Pause | None
) -> str | None:
    """What a record says that was written by a clock ahead of now; None for one that stands.
    `pause` is in force: whoever went by its end was ahead of it."""
    by_clock = record.reason in BY_CLOCK or (
        record.reason == "paused" and pause is not None and record.scheduled_at > pause.at
    )
    if written_at > now and by_clock and record.scheduled_at <= now:
        return record.reason
    begun = record.state is not State.PENDING
    if begun and record.scheduled_at > now and written_at > now + CORRECTION:
        return record.reason or record.state
    return None


def _records(store: Store, job: str, floor: datetime) -> Iterator[Record]:
    """What `decide` asks for: the open ones however old, then all from the floor on."""
    edge = instant_key(floor - timedelta(seconds=1))
    # Up to and with the edge: `before` is exclusive, and so is `after`.
    yield from _pages(store, job, after="", before=f"{edge}/", tag=OPEN)
    yield from _pages(store, job, after=edge, before="", tag="")


def _pages(store: Store, job: str, *, after: str, before: str, tag: str) -> Iterator[Record]:
    while True:
        page = store.scan(Kind.INTERVAL, job, after=after, before=before, tag=tag, limit=PAGE)
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1].key


def note_act(store: Store, job: str, record: IntervalRecord, writes: Sequence[Write]) -> None:
    """Write down an act by hand. `WriteConflict` says who changed the interval since it was
    read, and that nothing was done."""
    try:
        store.note(writes)
    except WriteConflict as error:
        who = changed_by(store, job, instant_key(record.scheduled_at))
        raise WriteConflict(
            f"{job} {record.id} was changed in this very moment by {who}; nothing was done",
            hint=f"see how it stands, then decide again: reconcile status {job} {record.id}",
        ) from error


def live_lease(app: Application, store: Store, job: Job) -> Lease | None:
    """The newest grant if somebody works under it: not expired, released, nor provably dead."""
    lease = store.lease(LeaseKey(job.name))
    if lease is None or not lease.live:
        return None
    dead = job.lease.detect_dead and app.runtime.host.is_dead(lease.holder)
    return None if dead else lease


def open_records(store: Store, job: str) -> Iterator[tuple[IntervalRecord, int]]:
    """All intervals without a final state, oldest first."""
    for found in _pages(store, job, after="", before="", tag=OPEN):
        yield IntervalRecord.from_json(found.value), found.version


def read_interval(store: Store, job: str, instant: datetime) -> tuple[IntervalRecord | None, int]:
    """An interval's record with its version, (None, 0) where it has none."""
    found = store.get(Kind.INTERVAL, job, instant_key(instant))
    if found is None:
        return None, ABSENT
    return IntervalRecord.from_json(found.value), found.version


def find_record(store: Store, job: str, instant: datetime) -> tuple[IntervalRecord | None, int]:
    """As `read_interval`, or the span that stands for the instant among others."""
    record, version = read_interval(store, job, instant)
    if record is not None:
        return record, version
    before = store.scan(Kind.INTERVAL, job, before=instant_key(instant), limit=1, newest_first=True)
    for found in before:
        span = IntervalRecord.from_json(found.value)
        if span.until_at is not None and span.until_at >= instant:
            return span, found.version
    return None, ABSENT


def interval_at(seen: Look, job: str, instant: datetime) -> Interval:
    """The identity of an instant; a job on demand takes any."""
    if seen.schedule is not None:
        return seen.schedule.interval(job, instant)
    return Interval(job, instant, instant_id(instant), planning.timezone_at(seen.job, instant))


def find_instant(store: Store, seen: Look, job: str, text: str) -> datetime:
    """The instant that a user's INTERVAL means. `UsageError` where there is none, or where it
    was pruned."""
    instant = named_instant(store, seen, job, text)
    if is_pruned(seen, instant) and find_record(store, job, instant)[0] is None:
        raise UsageError(
            f"{job} {text} lies before the job's horizon: it was pruned",
            hint="what is older than keep in [store] is dropped; what was changed, the target may"
            f" still tell: reconcile changes {job} {text}",
        )
    return instant


def is_pruned(seen: Look, instant: datetime) -> bool:
    """Whether an interval that has no record had one that was pruned."""
    edge = seen.job.pruned_until_at
    return edge is not None and instant < edge


def named_instant(store: Store, seen: Look, job: str, text: str) -> datetime:
    """As `find_instant`, of pruned ones too."""
    if text == "latest":
        edge = instant_key(seen.now + timedelta(seconds=1))
        newest = store.scan(Kind.INTERVAL, job, before=edge, limit=1, newest_first=True)
        scheduled = seen.schedule.latest_until(seen.now) if seen.schedule else None
        known = [IntervalRecord.from_json(r.value).scheduled_at for r in newest]
        if scheduled is not None:
            known.append(scheduled)
        if known:
            return max(known)
    elif text == "oldest":
        instants = [
            record.scheduled_at
            for record, _ in open_records(store, job)
            if record.scheduled_at <= seen.now
        ][:1]
        instants += [due.interval.scheduled_at for due in seen.decision.owed]
        if instants:
            return min(instants)
        raise UsageError(
            f"{job}: nothing is unfinished",
            hint=f"see its newest interval: reconcile status {job} latest",
        )
    elif seen.schedule is not None:
        spelled = read_id(text)
        if isinstance(spelled, datetime) and read_interval(store, job, spelled)[0] is not None:
            return spelled  # on the schedule or not: somebody asked for it by hand
        return seen.schedule.parse_id(text)
    else:
        spelled = read_id(text)
        return spelled if isinstance(spelled, datetime) else datetime.combine(spelled, time(), UTC)
    raise UsageError(
        f"{job} has no interval {text}",
        hint=f"see which there are: reconcile status {job}",
    )


def due_again(app: Application, job: Job, waiting: Waiting) -> bool:
    """Whether a guard that stopped an interval would see another source or other settings."""
    if waiting.why != "approval" or waiting.record.waiting is None:
        return False
    work = app.build_work(job)
    try:
        return not work.still_waits(waiting.interval, waiting.record.waiting)
    except ReconcileError:
        return False  # what cannot be read now is no reason to try again
    finally:
        work.close()


def new_record(due: Due) -> IntervalRecord:
    """The record an interval begins with."""
    return due.record or IntervalRecord.of(due.interval)
