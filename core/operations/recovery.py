"""When store and target disagree about what was completed last, one of them went back.

The target's fence row names the newest interval it has seen completed. The store's records
name the newest it has proved. They are written one after the other, target first, so after
a crash the target may be ahead by the very interval that is still unfinished in the store:
that one is simply worked on, found equal, and completed, and what is older and open then is
overtaken by it, as it would have been without the crash. Anything else means that a copy was
restored, or a file was deleted:

- **The target is ahead**: the store was wiped, moved or replaced by an older copy. Its lost
  records are replaced by `completed` ones with the reason `recovered`, one span for each
  stretch without records. Nothing is replayed over newer truth.
- **The target is behind**: it was restored from a copy. The store's newest completed
  interval is reopened as a rerun, on the word of `reconcile` itself (`target_rewound`).

A clock can go back too. What was skipped for its age by a clock that was ahead, and has been
put right since, is pending again (`clock_stepped`); so is what a span of such skips covers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..model import ABSENT, Append, Interval, Kind, Put, State, Trigger, instant_key
from ..records import IntervalRecord, to_text
from ..schedule import TICK, instant_id
from .history import SECOND
from .look import find_record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from ..config import Job
    from ..model import JsonObject, Newest, Write
    from ..ports import Store
    from .look import Look

ACTOR = "reconcile"
LOOK_BACK = 1000
"""So many records are searched for the newest completed one."""
SPANS_COUNTED = 10_000
"""Stretches longer than this become one span, without looking at each instant."""


def disagreement(
    store: Store, job: Job, seen: Look, newest: Newest | None, *, knows_all: bool = False
) -> Sequence[Write]:
    """What must be written before anything is decided; nothing where both sides agree.
    `knows_all`: the target has seen no grant that is newer than the store's."""
    if newest is not None and newest.scheduled_at > seen.now:
        return ()  # named by a clock ahead of now: it says nothing of what was due until now
    proved = newest_completed(store, job, seen.now)
    ours = (proved.scheduled_at, proved.rerun) if proved is not None else None
    theirs = (newest.scheduled_at, newest.rerun) if newest is not None else None
    if ours == theirs:
        return ()
    if newest is not None and (proved is None or theirs > ours):  # type: ignore[operator]
        if knows_all and _is_about_to_complete(store, job, newest):
            return ()
        return list(_recovered(store, job, seen, newest, proved))
    assert proved is not None, "one of both is newer"
    return _rewound(store, job, seen, proved, newest)


def _is_about_to_complete(store: Store, job: Job, newest: Newest) -> bool:
    """Whether the target's newest interval is being worked, so that only its end is not told."""
    record, _ = find_record(store, job.name, newest.scheduled_at)
    if record is None or record.scheduled_at != newest.scheduled_at:
        return False
    return record.runs > 0 and not record.state.is_final and record.rerun == newest.rerun


def taken_back(job: Job, seen: Look) -> Iterator[Write]:
    """Skips that a clock ahead of now decided: their intervals are pending again."""
    for void in seen.void:
        key = instant_key(void.record.scheduled_at)
        yield Put(
            Kind.INTERVAL,
            job.name,
            key,
            void.record.to_json(),
            expect=void.version,
            tag=void.record.tag,
        )
        event: JsonObject = {
            "type": "clock_stepped",
            "actor": ACTOR,
            "was": void.said,
            "decided_at": to_text(void.at),
        }
        yield Append(Kind.EVENT, job.name, key, event)


def newest_completed(store: Store, job: Job, now: datetime) -> IntervalRecord | None:
    """The newest interval until now that the store has proved; recovered ones count."""
    edge = instant_key(now + SECOND)
    found = store.scan(Kind.INTERVAL, job.name, before=edge, limit=LOOK_BACK, newest_first=True)
    for record in (IntervalRecord.from_json(one.value) for one in found):
        if record.state is State.COMPLETED:
            if record.until_at is None:
                return record
            last = record.until_at
            return replace(record, scheduled_at=last, id=record.last_id or instant_id(last))
    return None


def _recovered(
    store: Store, job: Job, seen: Look, newest: Newest, proved: IntervalRecord | None
) -> Iterator[Write]:
    """Close what the store does not know any more, up to the target's newest interval."""
    if seen.version == ABSENT and seen.job.horizon_at > newest.scheduled_at:
        # A store that never saw the job would begin with tonight, and owe no night before.
        record_of_job = replace(seen.job, horizon_at=newest.scheduled_at)
        yield Put(Kind.JOB, job.name, "", record_of_job.to_json(), expect=ABSENT)
    after = proved.scheduled_at if proved is not None else None
    if after == newest.scheduled_at:
        assert proved is not None, "it has an instant"
        one, version, of_span = _own_record(store, job, seen, proved)
        yield from of_span
        yield from _writes(job, _as_in_target(one, newest), version, newest)
        return
    known: list[tuple[datetime, datetime]] = []
    for record, version in _between(store, job, after, newest.scheduled_at):
        known.append((record.scheduled_at, record.until_at or record.scheduled_at))
        if record.scheduled_at == newest.scheduled_at:
            # One that is open was completed in the target and is about to be in the store.
            if record.state.is_final or record.rerun < newest.rerun:
                yield from _writes(job, _as_in_target(record, newest), version, newest)
        elif not record.state.is_final:
            closed = replace(record, state=State.COMPLETED, reason="recovered", waiting=None)
            yield from _writes(job, closed, version, newest)
    for first, until, count in _stretches(job, seen, after, newest, known):
        record = replace(
            IntervalRecord.of(first),
            state=State.COMPLETED,
            reason="recovered",
            span=count,
            until_at=until if until != first.scheduled_at else None,
            last_id=newest.interval if until == newest.scheduled_at else None,
            rerun=newest.rerun if until == newest.scheduled_at else 0,
            checksum=newest.checksum if until == newest.scheduled_at else None,
        )
        yield from _writes(job, record, ABSENT, newest)


def _as_in_target(record: IntervalRecord, newest: Newest) -> IntervalRecord:
    """The newest interval, of which the target has seen more than this record."""
    return replace(
        record,
        state=State.COMPLETED,
        reason="recovered",
        rerun=newest.rerun,
        checksum=newest.checksum,
        waiting=None,
        failure=None,
        earlier=None,
    )


def _writes(job: Job, record: IntervalRecord, version: int, newest: Newest) -> Iterator[Write]:
    key = instant_key(record.scheduled_at)
    yield Put(Kind.INTERVAL, job.name, key, record.to_json(), expect=version, tag=record.tag)
    event: JsonObject = {
        "type": "recovered",
        "actor": ACTOR,
        "span": record.span,
        "newest": newest.interval,
        "checksum": str(newest.checksum),
    }
    yield Append(Kind.EVENT, job.name, key, event)


def _between(
    store: Store, job: Job, after: datetime | None, until: datetime
) -> Iterator[tuple[IntervalRecord, int]]:
    """Records after one instant up to and including another, oldest first."""
    edge = instant_key(after) if after is not None else ""
    while True:
        page = store.scan(Kind.INTERVAL, job.name, after=edge, limit=LOOK_BACK)
        for found in page:
            record = IntervalRecord.from_json(found.value)
            if record.scheduled_at > until:
                return
            yield record, found.version
        if len(page) < LOOK_BACK:
            return
        edge = page[-1].key


def _stretches(
    job: Job,
    seen: Look,
    after: datetime | None,
    newest: Newest,
    known: Sequence[tuple[datetime, datetime]],
) -> Iterator[tuple[Interval, datetime, int]]:
    """Contiguous scheduled instants without a record: first, last, how many."""
    last = Interval(job.name, newest.scheduled_at, newest.interval)
    schedule = seen.schedule
    if schedule is None:
        if newest.scheduled_at not in [first for first, _ in known]:
            yield last, newest.scheduled_at, 1
        return
    begin = after or min(seen.job.horizon_at, newest.scheduled_at) - TICK
    count = schedule.count(begin, newest.scheduled_at)
    if count > SPANS_COUNTED:
        first_at = schedule.next_after(begin) or newest.scheduled_at
        yield schedule.interval(job.name, first_at), newest.scheduled_at, count
        return
    instants = list(schedule.between(begin, newest.scheduled_at))
    if instants[-1:] != [newest.scheduled_at]:
        instants.append(newest.scheduled_at)
    number = 0
    stretch: list[datetime] = []
    for at in [*instants, None]:
        while at is not None and number < len(known) and known[number][1] < at:
            number += 1
        if at is not None and not (number < len(known) and known[number][0] <= at):
            stretch.append(at)
        elif stretch:
            alone = stretch[0] == last.scheduled_at
            first = last if alone else schedule.interval(job.name, stretch[0])
            yield first, stretch[-1], len(stretch)
            stretch = []


def _rewound(
    store: Store, job: Job, seen: Look, proved: IntervalRecord, newest: Newest | None
) -> Sequence[Write]:
    """Work the store's newest completed interval again, under its own identity."""
    record, version, of_span = _own_record(store, job, seen, proved)
    # What the target does not hold any more counts for no guard.
    again = replace(reopened(record, ACTOR), base=None, spent_revoke=0, spent_update=0)
    key = instant_key(record.scheduled_at)
    event: JsonObject = {
        "type": "target_rewound",
        "actor": ACTOR,
        "rerun": again.rerun,
        "target_has": newest.interval if newest is not None else None,
    }
    return [
        *of_span,
        Put(Kind.INTERVAL, job.name, key, again.to_json(), expect=version, tag=again.tag),
        Append(Kind.EVENT, job.name, key, event),
    ]


def _own_record(
    store: Store, job: Job, seen: Look, proved: IntervalRecord
) -> tuple[IntervalRecord, int, list[Write]]:
    """The record, with its version, of the newest completed interval alone. The last one of a
    recovered span gets one, and the span ends before it."""
    record, version = find_record(store, job.name, proved.scheduled_at)
    assert record is not None, "it was found a moment ago"
    if record.until_at is None:
        return record, version, []
    alone = replace(proved, span=1, until_at=None, last_id=None)
    return alone, ABSENT, [_shortened(job, seen, record, version)]


def _shortened(job: Job, seen: Look, span: IntervalRecord, version: int) -> Put:
    """A span without its last instant; it no longer ends with what the target had proved."""
    assert span.until_at is not None, "it has more than one instant"
    assert seen.schedule is not None, "spans are of scheduled instants"
    until = seen.schedule.latest_until(span.until_at - TICK, span.scheduled_at)
    alone = until is None or until == span.scheduled_at
    short = replace(
        span,
        span=span.span - 1,
        until_at=None if alone else until,
        last_id=None if alone or until is None else seen.schedule.interval_id(until),
        rerun=0,
        checksum=None,
        reported=None,
    )
    key = instant_key(span.scheduled_at)
    return Put(Kind.INTERVAL, job.name, key, short.to_json(), expect=version, tag=short.tag)


def reopened(record: IntervalRecord, owner: str) -> IntervalRecord:
    """The same interval to be worked from the start again, under the next rerun number.

    What it had achieved is kept in `earlier`, to stand again should the rerun fail. The guards
    go on counting from the first pass: its base, and what was applied without approval.
    """
    keeps = record.state is State.COMPLETED
    number = max(record.rerun, record.reruns) + 1
    return IntervalRecord(
        id=record.id,
        scheduled_at=record.scheduled_at,
        timezone=record.timezone,
        state=State.UNFINISHED,
        trigger=Trigger.RERUN,
        rerun=number,
        reruns=number,
        runs=record.runs,
        runs_before=record.runs,
        repair_owner=owner,
        earlier=record.to_json() if keeps else record.earlier,
        base=record.base,
        spent_revoke=record.spent_revoke,
        spent_update=record.spent_update,
    )
