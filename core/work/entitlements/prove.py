"""Proof that an interval is done: nothing of the key space is missing, and both sides agree.

The proof is made from what each range's own transaction or comparison saw, not from what
was meant to be applied. Ranges must tile the key space: numbers without a gap, each lower
bound the upper bound before it, minus infinity to plus infinity. A range left out by a
resume, or marked but not equal, is found here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...checksum import Checksum
from ...model import Kind, Proof, Unproved
from ...records import RangeRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...ports import Reader, WorkOrder
    from ...records import PlanRecord

PAGE = 500
NAMES_SHOWN = 3


def ranges_of(records: Reader, job: str, plan: str) -> Iterator[RangeRecord]:
    """A plan's ranges in order, a page at a time in memory."""
    after = ""
    while True:
        page = records.scan(Kind.RANGE, job, prefix=f"{plan}/", after=after, limit=PAGE)
        for record in page:
            yield RangeRecord.from_json(record.value)
        if len(page) < PAGE:
            return
        after = page[-1].key


def quarantined_in(records: Reader, job: str, plan: str) -> dict[str, str]:
    """All accounts that a plan leaves as they are, with the reason."""
    found: dict[str, str] = {}
    for one in ranges_of(records, job, plan):
        found |= one.quarantined or {}
    return found


def prove(order: WorkOrder, plan: PlanRecord) -> Proof | Unproved:
    """Add up all ranges of a plan; say what is wrong where they do not prove it done."""
    desired = observed = Checksum()
    number, upper = 0, None
    quarantined: dict[str, str] = {}
    for found in ranges_of(order.records, order.interval.job, plan.id):
        if found.number != number + 1 or found.lower != upper or (number and upper is None):
            return Unproved(f"range {number + 1} of the plan is missing")
        number, upper = found.number, found.upper
        if found.proved != found.expected:
            return Unproved(f"range {number} holds {found.proved} and should hold {found.expected}")
        quarantined |= found.quarantined or {}
        desired, observed = desired + found.desired, observed + found.proved
    if number == 0 or number != plan.ranges or upper is not None:
        return Unproved(f"the plan ends after range {number} of {plan.ranges}")
    if quarantined:
        return Unproved(_names(quarantined), quarantined)
    if desired != observed:
        return Unproved(f"the source has {desired}, the target {observed}")
    return Proof(order.interval, order.record.rerun, desired, observed)


def _names(quarantined: dict[str, str]) -> str:
    """`2 accounts are in quarantine: a1 (why), a2 (why)`, the first few by name."""
    count = len(quarantined)
    shown = [f"{account} ({why})" for account, why in list(quarantined.items())[:NAMES_SHOWN]]
    more = [f"{count - NAMES_SHOWN} more"] if count > NAMES_SHOWN else []
    verb = "account is" if count == 1 else "accounts are"
    return f"{count} {verb} in quarantine: {', '.join([*shown, *more])}"
