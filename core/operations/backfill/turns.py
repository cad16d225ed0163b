"""What a trigger has to do with a backfill that runs: whose place is the next, and what it begins
with.

Nothing here is read where the job has none.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from ...backfills import STARTS, running
from ...model import ABSENT, Actor, Append, Kind, State, Trigger, instant_key
from ...planning import Due
from ...rates import may_start_at, starts_of
from ...records import IntervalRecord
from ...schedule import TICK
from ..giving_up import signed
from ..look import find_record, interval_at, open_records
from ..recovery import reopened
from ..spans import alone

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import datetime

    from ...assignment import Assignment
    from ...backfills import Backfill, BackfillRecord
    from ...config import Job
    from ...model import Record, Write
    from ...ports import Reader, Store
    from ...schedule import Schedule
    from ..look import Look

LOOKED_AT = 5000
"""So many intervals are looked at for the next one to begin, before that is written down."""
PAGE = 500


class Turn(NamedTuple):
    """A backfill as one decision sees it. `begins` is the next interval that it would begin, None
    where there is none or it may not; after it comes `after`, and without it `next_at`. `writes`
    is what has to be written with it; `more`: not all were looked at yet. `opened`: so many of
    its own are begun and not finished."""

    backfill: Backfill
    begins: Due | None = None
    next_at: datetime | None = None
    after: datetime | None = None
    writes: Sequence[Write] = ()
    more: bool = False
    opened: int = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing is left of it."""
        return self.next_at is None and not self.more and not self.opened

    def owns(self, due: Due) -> bool:
        """Whether it is one of its own."""
        return due.record is not None and due.record.backfill == self.backfill.record.number

    @property
    def has_to_write(self) -> bool:
        """Whether there is something to write down although nothing of it is begun."""
        moved = self.begins is None and self.next_at != self.backfill.record.next_at
        return self.is_over or self.more or moved or self.backfill.cancelled is not None


def turn(store: Store, job: Job, seen: Look) -> Turn | None:
    """The backfill that runs, with the next interval that it would begin; None without one."""
    backfill = running(store, job.name, seen.job)
    if backfill is None:
        return None
    record = backfill.record
    opened = sum(_is_of(one, record) for one, _ in open_records(store, job.name))
    if backfill.cancelled is not None:
        return Turn(backfill, next_at=record.next_at, opened=opened)
    return _following(store, job, seen, backfill)._replace(opened=opened)


def in_order(
    due: Sequence[Due], seen: Look, found: Turn, tried: Collection[str], *, foreground: bool
) -> list[Due]:
    """What is due with the backfill's own in their places: behind all others, but for every
    fourth place. While the job is paused there are only these, and only in the `foreground`."""
    if seen.decision.pause is not None:
        if not foreground:
            return []
        due = [one for one in seen.decision.due if found.owns(one)]
    others = [one for one in due if not found.owns(one)]
    if found.backfill.paused or found.backfill.cancelled is not None:
        return others
    own = [one for one in due if found.owns(one)]
    if found.begins is not None and found.begins.interval.key not in tried:
        own.append(found.begins)
    first = own[:1] if found.backfill.is_its_turn else []
    return [*first, *others, *own[len(first) :]]


def left(seen: Look, found: Turn) -> int:
    """How many of its intervals are not begun, or not finished."""
    record = found.backfill.record
    if record.next_at is None or seen.schedule is None:
        return found.opened
    ahead = seen.schedule.count(record.next_at - TICK, record.last_at)
    return min(ahead, max(1, record.to_run - record.begun)) + found.opened


def _place(found: Turn, due: Due) -> tuple[int, int, int]:
    """Its number, the how-manieth of its own this is, and of how many."""
    record = found.backfill.record
    nth = record.begun + (due is found.begins)
    return record.number, nth, max(nth, record.to_run)


def begins_at(records: Reader, job: Job, found: Turn, now: datetime) -> datetime:
    """From when on the rate lets the next of its runs begin."""
    rate = found.backfill.rate
    return now if rate is None else may_start_at(starts_of(records, job.name, STARTS), rate, now)


def assigned(task: Assignment, found: Turn, due: Due) -> Assignment:
    """The assignment as a backfill that runs changes it: one of its own, or another beside it."""
    task = replace(task, opening=_opening(task.job, found, due))
    if not found.owns(due):
        return task
    return replace(
        task,
        trigger=Trigger.BACKFILL,
        replay=found.backfill.rate,
        starts=STARTS,
        backfill=_place(found, due),
    )


def _opening(job: Job, found: Turn, due: Due) -> list[Write]:
    """What is written in the batch that opens a run: how far the backfill is, and for a new one
    of its own who asked for it."""
    backfill = found.backfill
    if not found.owns(due):
        # Counted once more it would seem to have moved, and nobody would be told that it stands.
        return [] if backfill.is_its_turn else [backfill.after_live().put(job.name)]
    if due is not found.begins:
        return [backfill.after_own(found.next_at, new=False).put(job.name)]
    assert due.record is not None, "it is prepared"
    record = backfill.record
    by = Actor(record.actor, record.reason, record.asked_at)
    rerun = due.record.rerun or None
    event = signed("backfill", by, number=record.number, rerun=rerun)
    return [
        *found.writes,
        Append(Kind.EVENT, job.name, due.interval.key, event),
        backfill.after_own(found.after, new=True).put(job.name),
    ]


def _is_of(record: IntervalRecord, backfill: BackfillRecord) -> bool:
    return record.backfill == backfill.number


# --- which one is next


class _Records:
    """The records from an instant on, asked for in order of time."""

    def __init__(self, store: Store, job: Job, begin: datetime, until: datetime) -> None:
        covers, version = find_record(store, job.name, begin)
        first = [] if covers is None else [(covers, version)]
        self._rest = chain(first, between(store, job, begin, until))
        self._newest: tuple[IntervalRecord, int] | None = None

    def at(self, instant: datetime) -> tuple[IntervalRecord | None, int]:
        """The record of an instant, or the span that stands for it."""
        while self._newest is None or end_of(self._newest[0]) < instant:
            following = next(self._rest, None)
            if following is None:
                return None, ABSENT
            self._newest = following
        record, version = self._newest
        return (record, version) if record.scheduled_at <= instant else (None, ABSENT)


def end_of(record: IntervalRecord) -> datetime:
    """The last instant that a record stands for."""
    return record.until_at or record.scheduled_at


def between(
    store: Store, job: Job, after: datetime, until: datetime
) -> Iterator[tuple[IntervalRecord, int]]:
    """Records later than an instant, up to and including another."""
    for found in stored_between(store, job, after, until):
        yield IntervalRecord.from_json(found.value), found.version


def stored_between(store: Store, job: Job, after: datetime, until: datetime) -> Iterator[Record]:
    """As `between`, as they are stored: reading all of one takes longer than its state."""
    key, limit = instant_key(after), 5
    while True:
        page = store.scan(
            Kind.INTERVAL, job.name, after=key, before=f"{instant_key(until)}~", limit=limit
        )
        yield from page
        if len(page) < limit:
            return
        key, limit = page[-1].key, PAGE


def _following(store: Store, job: Job, seen: Look, backfill: Backfill) -> Turn:
    """Walk from `next_at` on, past what is left alone, to the next interval to begin."""
    record = backfill.record
    at, schedule = record.next_at, seen.schedule
    if at is None or schedule is None:
        return Turn(backfill)
    if seen.completed is not None and at < seen.completed:
        return Turn(backfill, next_at=at, more=True)  # all until there are overtaken first
    last = min(record.last_at, seen.now)  # by a clock that was put back, the rest is to come
    records = _Records(store, job, at, last)
    instants = schedule.between(at - TICK, last)
    looked_at = 0
    while (instant := next(instants, None)) is not None:
        looked_at += 1
        if looked_at > LOOKED_AT:
            return Turn(backfill, next_at=instant, more=True)
        found, version = records.at(instant)
        if found is not None and _is_left_alone(found, backfill.record):
            if found.until_at is not None:
                instants = schedule.between(found.until_at, last)
            continue
        due, writes = _begun(job, seen, backfill, instant, found, version)
        return Turn(backfill, due, instant, _next(schedule, record, instant), writes)
    return Turn(backfill, next_at=_next(schedule, record, max(at - TICK, last)))


def _next(schedule: Schedule, record: BackfillRecord, instant: datetime) -> datetime | None:
    """The next of its instants; None after the last."""
    found = schedule.next_after(instant)
    return found if found is not None and found <= record.last_at else None


def _is_left_alone(found: IntervalRecord, record: BackfillRecord) -> bool:
    if found.state is State.COMPLETED:
        return not record.rerun_completed
    return not found.state.is_final


def _begun(
    job: Job,
    seen: Look,
    backfill: Backfill,
    instant: datetime,
    found: IntervalRecord | None,
    version: int,
) -> tuple[Due, Sequence[Write]]:
    """The interval as the backfill begins it. What nobody has worked is begun for the first time;
    else it is a rerun."""
    interval = interval_at(seen, job.name, instant)
    writes: Sequence[Write] = ()
    record = IntervalRecord.of(interval)
    if found is not None:
        by = {"actor": backfill.record.actor, "reason": backfill.record.reason}
        own = alone(job, seen, found, version, instant, **by)
        before, version, writes = own.record, own.version, own.writes
        interval = before.interval(job.name)
        if before.runs or before.state is State.COMPLETED:
            record = reopened(before, backfill.record.actor)
        else:
            record = replace(IntervalRecord.of(interval), rerun=before.rerun, reruns=before.reruns)
    record = replace(
        record,
        trigger=Trigger.BACKFILL,
        backfill=backfill.record.number,
        repair_owner=backfill.record.actor,
    )
    return Due(interval, record, version), writes
