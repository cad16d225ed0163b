"""The guards: they judge a whole plan before its first change.

A trip changes nothing and waits for a person, who approves exactly the planned revokes and
updates by their hash, or refuses. No unrelated row, and no switch, lets a plan past all of
them; what they decide follows from what is planned, what was applied without approval, and
the base, and a plan without revokes is not stopped for those of others.

The base of the shares is the number of rows the target had in scope at the interval's first
plan, so that an interval cannot grow its own allowance, by a rerun neither. What counts
against it is told in `allowance.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from ...model import Kind
from ...records import GuardReport
from ...rows import Action
from .compare import unpack
from .tally import most_common

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...config import GuardsConfig
    from ...model import Record
    from ...ports import Reader
    from ...records import PlanRecord
    from ...rows import Change

NAMES_SHOWN = 5
MOST_SHOWN = 3
PAGE = 4
"""Ranges whose planned changes are in memory at once."""


@dataclass(frozen=True, slots=True)
class Totals:
    """What a plan revokes and updates, and what counts with it.

    `spent_revoke` and `spent_update` were applied by the interval before this plan, `others`
    are revokes of other intervals in the window; none of them was approved.
    """

    revoke: int
    update: int
    base: int
    spent_revoke: int = 0
    spent_update: int = 0
    others: int = 0


@dataclass(frozen=True, slots=True)
class Trip:
    """A guard that does not let the plan pass. `limit` is what its setting says."""

    guard: str
    limit: float


def judge(plan: PlanRecord, guards: GuardsConfig, totals: Totals) -> Trip | None:
    """The first guard that trips, most alarming first; None when all let the plan pass."""
    rows = plan.desired.count
    if rows == 0 and totals.base > 0 and totals.revoke:
        return Trip("empty_source", 0)
    if rows < guards.min_rows:
        return Trip("min_rows", guards.min_rows)
    if plan.missing:
        return Trip("must_contain", len(guards.must_contain))
    return judge_counts(guards, totals)


def judge_counts(guards: GuardsConfig, totals: Totals) -> Trip | None:
    """The guards that only count; asked again when a range turns out to have changed."""
    revoke = totals.revoke + totals.spent_revoke + totals.others
    if totals.revoke and revoke > max(guards.max_revoke * totals.base, guards.max_revoke_min):
        return Trip("max_revoke", guards.max_revoke)
    update = totals.update + totals.spent_update
    if totals.update and update > max(guards.max_update * totals.base, guards.max_revoke_min):
        return Trip("max_update", guards.max_update)
    return None


def digest(guards: GuardsConfig) -> str:
    """Stands for the guards' settings, to see whether they were changed."""
    return sha256(repr(guards).encode()).hexdigest()[:12]


def planned_changes(records: Reader, job: str, plan: str) -> Iterator[Change]:
    """All planned changes of a plan in order of key, a few ranges at a time in memory."""
    for record in _planned_ranges(records, job, plan):
        yield from _changes(record)


def _planned_ranges(records: Reader, job: str, plan: str) -> Iterator[Record]:
    after = ""
    while True:
        page = records.scan(Kind.CHANGES, job, prefix=f"{plan}/", after=after, limit=PAGE)
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1].key


def _changes(record: Record) -> list[Change]:
    assert record.blob is not None
    return unpack(record.blob)


def explain(
    trip: Trip,
    plan: PlanRecord,
    totals: Totals,
    records: Reader,
    job: str,
    *,
    source: str,
    last_rows: int | None,
    guards: GuardsConfig,
) -> GuardReport:
    """All that a person needs to decide about a plan that a guard stopped.

    Memory is bounded by the range, however much the plan would change.
    """
    losing_revokes = 0
    names: list[str] = []
    for record in _planned_ranges(records, job, plan.id) if plan.losing else ():
        # An account is never split over ranges, so that each range knows its own.
        losing = _losing(record)
        names += losing[: NAMES_SHOWN - len(names)]
        of_range = set(losing)
        losing_revokes += sum(c.row[0] in of_range for c in _revokes(record))

    def entitlements() -> Iterator[str]:
        for record in _planned_ranges(records, job, plan.id) if plan.revoke else ():
            for change in _revokes(record):
                yield _entitlement(change)

    return GuardReport(
        guard=trip.guard,
        limit=trip.limit,
        base=totals.base,
        grant=plan.grant,
        revoke=plan.revoke,
        update=plan.update,
        hash=plan.hash,
        losing_accounts=plan.losing,
        losing_names=names,
        revokes_elsewhere=plan.revoke - losing_revokes,
        most_revoked=[list(pair) for pair in most_common(entitlements, MOST_SHOWN)],
        source=source,
        source_rows=plan.desired.count,
        last_rows=last_rows,
        fingerprint=plan.fingerprint,
        guards=digest(guards),
        minimum=guards.max_revoke_min,
        spent=totals.spent_update if trip.guard == "max_update" else totals.spent_revoke,
        others=0 if trip.guard == "max_update" else totals.others,
        missing=list(plan.missing) if trip.guard == "must_contain" else [],
    )


def _revokes(record: Record) -> Iterator[Change]:
    return (change for change in _changes(record) if change.action is Action.REVOKE)


def _entitlement(change: Change) -> str:
    """What is revoked, in words: the column after the account, where there is one."""
    named = change.row[1] if len(change.row) > 1 else change.row[0]
    return named or "NULL"


def _losing(record: Record) -> list[str]:
    """The accounts of a range that would lose everything, as its record names them."""
    names = record.value.get("losing")
    return [str(name) for name in names] if isinstance(names, list) else []
