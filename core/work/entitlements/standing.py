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

from ...model import Kind, PlanId
from ...records import PlanRecord, RangeRecord, range_key
from ...rows import Action
from .plan import APPLYING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...endpoints import Target
    from ...model import Fence, FenceRow, JsonObject
    from ...ports import Reader
    from ...records import IntervalRecord

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
    told = cursor.get("marker")
    if cursor.get("phase") != APPLYING or not isinstance(told, int):
        return False
    return target.marker(PlanId(str(cursor.get("plan"))), told) is None


def counted(record: IntervalRecord, records: Reader, target: Target, job: str) -> IntervalRecord:
    """The record with the one range that a killed run may have committed and not told of."""
    cursor = record.cursor
    if cursor is None or cursor.get("phase") != APPLYING:
        return record
    plan_id = PlanId(str(cursor.get("plan")))
    stored = records.get(Kind.PLAN, job, plan_id)
    plan = PlanRecord.from_json(stored.value) if stored is not None else None
    found = next(differing(records, job, plan_id, _number(cursor)), None)
    if found is not None:
        number = found.number
        cursor = {**cursor, "range": number, "upper": found.upper, "marker": number}
    elif plan is not None:
        number = next_again(cursor, plan)
        cursor = {**cursor, "marker": number}
    else:
        return record
    untold = target.marker(plan_id, number)
    if untold is None:
        return record
    changes = untold.changes
    revoke, update = changes[Action.REVOKE], changes[Action.UPDATE]
    as_planned = found is not None and (revoke, update) == (found.revoke, found.update)
    approved = plan is not None and (record.approval or {}).get("hash") == plan.hash
    covered = as_planned and approved
    return replace(
        record,
        cursor=cursor,
        grant=record.grant + changes[Action.GRANT],
        revoke=record.revoke + revoke,
        update=record.update + update,
        spent_revoke=record.spent_revoke + (0 if covered else revoke),
        spent_update=record.spent_update + (0 if covered else update),
    )


def next_again(cursor: JsonObject, plan: PlanRecord) -> int:
    """Number of the next marker of ranges that are committed once more, above those of the
    plan; `marker` of a cursor is the newest that the store was told of."""
    told = cursor.get("marker")
    return max(plan.ranges, told if isinstance(told, int) else 0) + 1


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
