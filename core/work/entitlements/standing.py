"""Whether a plan still tells what the target holds, and what was applied of it.

A plan is a comparison with the target as it stood. While one interval waits (for approval,
a retry, its time budget), another may put its own changes into the same rows; then no range
of the waiting plan, not even one that was found equal, says anything any more. So before a
plan's first change every other open interval's plan is declared void, in the store, where
a kill cannot undo it.

A range lands in the target before the store knows. Killed in between, a run leaves a marker
that a resumed plan finds by itself; where a new plan is made instead, what the marker says is
counted first, so that the guards judge all that the interval has done.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...model import Kind, PlanId, Put
from ...records import OPEN, IntervalRecord, PlanRecord, RangeRecord, range_key
from ...rows import Action
from .plan import APPLYING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...endpoints import Target
    from ...model import Fence, FenceRow, JsonObject, Write
    from ...ports import Reader

PAGE = 200


def is_void(cursor: JsonObject) -> bool:
    """Whether another interval has changed the target since this cursor's plan was made."""
    return cursor.get("void") is True


def went_back(
    record: IntervalRecord, floor: FenceRow | None, fence: Fence, records: Reader, target: Target
) -> bool:
    """Whether the target was restored from a copy since the interval's cursor was written.

    The run that wrote the cursor had raised the fence, so the fence row was not lower; and
    the range it tells of was committed, so its marker is there.
    """
    cursor = record.cursor
    generation = cursor.get("generation") if cursor is not None else None
    if cursor is None or not isinstance(generation, int) or floor is None:
        return False
    if floor.generation < generation or floor.run == fence.run:
        return True  # lower than it was, or there was none before ours
    done, plan = _number(cursor), PlanId(str(cursor.get("plan")))
    if cursor.get("phase") != APPLYING or not done:
        return False
    found = records.get(Kind.RANGE, fence.key.job, range_key(plan, done))
    if found is None or RangeRecord.from_json(found.value).applied is None:
        return False
    of_plan = records.get(Kind.PLAN, fence.key.job, plan)
    again = done + PlanRecord.from_json(of_plan.value).ranges if of_plan is not None else done
    return target.marker(plan, done) is None and target.marker(plan, again) is None


def void_others(records: Reader, target: Target, job: str, interval: str) -> list[Write]:
    """Declare the plans of all open intervals void but that of one (its key)."""
    writes: list[Write] = []
    after = ""
    while True:
        page = records.scan(Kind.INTERVAL, job, after=after, tag=OPEN, limit=PAGE)
        for found in page:
            record = IntervalRecord.from_json(found.value)
            cursor = record.cursor
            if found.key == interval or cursor is None or is_void(cursor):
                continue
            record = counted(record, records, target, job)
            record = replace(record, cursor={**(record.cursor or cursor), "void": True})
            value = record.to_json()
            writes.append(Put(Kind.INTERVAL, job, found.key, value, found.version, found.tag))
        if len(page) < PAGE:
            return writes
        after = page[-1].key


def counted(record: IntervalRecord, records: Reader, target: Target, job: str) -> IntervalRecord:
    """The record with the one range that a killed run may have committed and not told of."""
    cursor = record.cursor
    if cursor is None or cursor.get("phase") != APPLYING:
        return record
    plan = PlanId(str(cursor.get("plan")))
    found = next(differing(records, job, plan, _number(cursor)), None)
    untold = target.marker(plan, found.number) if found is not None else None
    if found is None or untold is None:
        return record
    return replace(
        record,
        cursor={**cursor, "range": found.number, "upper": found.upper},
        grant=record.grant + untold.changes[Action.GRANT],
        revoke=record.revoke + untold.changes[Action.REVOKE],
        update=record.update + untold.changes[Action.UPDATE],
    )


def differing(records: Reader, job: str, plan: str, done: int) -> Iterator[RangeRecord]:
    """The ranges of a plan after number `done` that have something to apply, in order."""
    after = range_key(plan, done)
    while True:
        page = records.scan(Kind.RANGE, job, prefix=f"{plan}/", after=after, limit=PAGE)
        for record in page:
            found = RangeRecord.from_json(record.value)
            if found.differs:
                yield found
        if len(page) < PAGE:
            return
        after = page[-1].key


def _number(cursor: JsonObject) -> int:
    found = cursor.get("range")
    return found if isinstance(found, int) else 0
