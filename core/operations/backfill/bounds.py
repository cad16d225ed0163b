"""What a call of `reconcile backfill` asks for: its bounds, and how many there are to do."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from ...backfills import (
    BackfillRecord,
)
from ...errors import OldOverNew, UsageError
from ...model import Kind, LeaseKey, State, Trigger
from ...records import IntervalRecord
from ...schedule import TICK
from ..look import find_record, interval_at, named_instant
from .turns import stored_between

if TYPE_CHECKING:
    from datetime import datetime

    from ...config import Job
    from ...model import JsonObject
    from ...ports import Store
    from ..application import Application, BackfillRequest
    from ..look import Look


class Plan(NamedTuple):
    """What a backfill of a span would do. `overtaken`: so many are older than `newest`, which the
    target has completed, and may not be applied any more."""

    record: BackfillRecord
    overtaken: int = 0
    newest: str | None = None


def planned(app: Application, store: Store, job: Job, seen: Look, request: BackfillRequest) -> Plan:
    """The backfill that is asked for, as it would be put on record.

    Raises `UsageError` for bounds that are none and for a job that has no past, `OldOverNew`
    where all of it would undo newer truth.
    """
    first, last = bounds(store, job, seen, request)
    newest = _newest(app, job, seen)
    edge = first if newest is None else max(first, min(newest, last + TICK))
    old = _counted(store, job, seen, first, edge - TICK)
    new = _counted(store, job, seen, edge, last)
    overtaken = old.total - old.standing - old.opened
    of_old = old.total if newest is not None else 0
    to_run = new.total - new.opened - (0 if request.rerun_completed else new.standing)
    name = None if newest is None else interval_at(seen, job.name, newest).id
    if not to_run and overtaken and name is not None:
        raise OldOverNew(
            f"{job.name}: all {of_old} intervals from {request.first} to {request.last} are older"
            f" than {name}, which the target has completed: they would undo newer truth",
            hint=f'mend the target by the newest: reconcile rerun {job.name} {name} -m "why"',
        )
    record = BackfillRecord(
        number=_number(store, job),
        first_at=first,
        last_at=last,
        first_id=interval_at(seen, job.name, first).id,
        last_id=interval_at(seen, job.name, last).id,
        actor=request.actor,
        reason=request.reason,
        asked_at=seen.now,
        total=old.total + new.total,
        to_run=to_run,
        standing=old.standing + new.standing,
        opened=old.opened + new.opened,
        rerun_completed=request.rerun_completed,
        next_at=first,
    )
    return Plan(record, overtaken, name)


def bounds(
    store: Store, job: Job, seen: Look, request: BackfillRequest
) -> tuple[datetime, datetime]:
    """The first and the last scheduled instant. Raises `UsageError`."""
    if seen.schedule is None:
        raise UsageError(
            f"{job.name} is on demand: it has no intervals to fill in",
            hint=f"work one that you name: reconcile run {job.name} --interval ID",
        )
    if not job.work.has_past:
        raise UsageError(
            f"{job.name} has a live source, which tells the truth of now and of no night before:"
            " it has no past to fill in",
            hint="name the interval in its path, for example exports/{date}.csv; or work the"
            f' newest again: reconcile rerun {job.name} latest -m "why"',
        )
    assert request.first is not None, "it is asked for with both bounds"
    assert request.last is not None
    first = _instant(store, job, seen, request.first)
    last = _instant(store, job, seen, request.last)
    if first > last:
        raise UsageError(f"--from {request.first} is later than --to {request.last}")
    pruned = seen.job.pruned_until_at
    if pruned is not None and first < pruned and not request.rerun_completed:
        kept = seen.schedule.next_after(pruned - TICK)
        name = "" if kept is None else interval_at(seen, job.name, kept).id
        raise UsageError(
            f"{job.name} {request.first} was pruned, and nobody knows any more what was completed"
            f" before {name}",
            hint=f"begin at {name}, or do all of them again with --rerun-completed",
        )
    begins, ends = seen.schedule.next_after(first - TICK), seen.schedule.latest_until(last)
    if begins is None or ends is None or begins > ends:
        raise UsageError(f"{job.name} has no interval from {request.first} to {request.last}")
    return begins, ends


def _instant(store: Store, job: Job, seen: Look, text: str) -> datetime:
    assert seen.schedule is not None, "the job has a schedule"
    named = text in ("latest", "oldest")
    instant = named_instant(store, seen, job.name, text) if named else seen.schedule.parse_id(text)
    if instant > seen.now:
        newest = seen.schedule.latest_until(seen.now)
        name = "" if newest is None else f": the newest is {interval_at(seen, job.name, newest).id}"
        raise UsageError(f"{job.name} {text} lies in the future", hint=f"it has no past{name}")
    return instant


def _newest(app: Application, job: Job, seen: Look) -> datetime | None:
    """The newest interval that is completed, by the records or the target, where nothing older
    may be applied any more."""
    if not job.work.overtakes:
        return None
    known = [] if seen.completed is None else [seen.completed]
    with closing(app.build_work(job)) as work:
        row = work.floor(LeaseKey(job.name)) if work.fenced else None
    if row is not None and row.newest is not None and row.newest.scheduled_at <= seen.now:
        known.append(row.newest.scheduled_at)
    return max(known, default=None)


_BY_SCHEDULE = (Trigger.SCHEDULE, Trigger.BACKFILL)
"""Triggers of what was scheduled; a person may have rerun what he had asked for himself."""


class _Counts(NamedTuple):
    total: int = 0
    standing: int = 0
    opened: int = 0


def _counted(store: Store, job: Job, seen: Look, first: datetime, last: datetime) -> _Counts:
    """How many scheduled instants there are from the first to the last, how many of them are
    completed, and how many are begun and unfinished. Reads all records, keeps none."""
    assert seen.schedule is not None, "the job has a schedule"
    if first > last:
        return _Counts()
    total = seen.schedule.count(first - TICK, last)
    standing = opened = 0
    covers, _ = find_record(store, job.name, first)
    if covers is not None:
        standing, opened = _tallied(seen, covers, first, last)
    for found in stored_between(store, job, first, last):
        more = _tallied_stored(seen, found.value, first, last)
        standing, opened = standing + more[0], opened + more[1]
    return _Counts(total, standing, opened)


def _tallied_stored(
    seen: Look, value: JsonObject, first: datetime, last: datetime
) -> tuple[int, int]:
    """As `_tallied`, without reading all of a record where that is not needed."""
    if value.get("span", 1) != 1 or value.get("trigger") not in _BY_SCHEDULE:
        return _tallied(seen, IntervalRecord.from_json(value), first, last)
    state = value.get("state")
    return int(state == State.COMPLETED), int(state in (State.PENDING, State.UNFINISHED))


def _tallied(
    seen: Look, record: IntervalRecord, first: datetime, last: datetime
) -> tuple[int, int]:
    assert seen.schedule is not None, "the job has a schedule"
    number = 1
    if record.span > 1 or record.trigger not in _BY_SCHEDULE:
        low = max(first, record.scheduled_at)
        high = min(last, record.until_at or record.scheduled_at)
        number = seen.schedule.count(low - TICK, high)
    if record.state is State.COMPLETED:
        return number, 0
    return 0, 0 if record.state.is_final else number


def _number(store: Store, job: Job) -> int:
    newest = store.scan(Kind.BACKFILL, job.name, limit=1, newest_first=True)
    return int(newest[0].key) + 1 if newest else 1
