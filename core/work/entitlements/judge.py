"""The guards: they judge a whole plan before its first change.

A trip changes nothing and waits for a person, who approves exactly the planned revokes and
updates by their hash, or refuses. No unrelated row, and no switch, lets a plan past all of
them. The base of the shares is the number of rows the target had in scope at the interval's
first plan, so that an interval cannot grow its own allowance; what resumes and reruns of
the interval already applied counts too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING

from ...model import Kind
from ...records import GuardReport, range_key
from ...rows import Action
from .compare import unpack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...config import GuardsConfig
    from ...ports import Reader
    from ...records import PlanRecord
    from ...rows import Change

NAMES_SHOWN = 5
MOST_SHOWN = 3
PAGE = 200


@dataclass(frozen=True, slots=True)
class Totals:
    """What an interval revokes and updates: planned, and applied by its earlier runs."""

    revoke: int
    update: int
    base: int

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.revoke + other.revoke, self.update + other.update, self.base + other.base
        )


@dataclass(frozen=True, slots=True)
class Trip:
    """A guard that does not let the plan pass. `limit` is what its setting says."""

    guard: str
    limit: float


def judge(plan: PlanRecord, guards: GuardsConfig, totals: Totals) -> Trip | None:
    """The first guard that trips, most alarming first; None when all let the plan pass."""
    rows = plan.desired.count
    if rows == 0 and totals.base > 0 and not plan.quarantined:
        return Trip("empty_source", 0)
    if rows < guards.min_rows:
        return Trip("min_rows", guards.min_rows)
    if plan.missing:
        return Trip("must_contain", len(guards.must_contain))
    return judge_counts(guards, totals)


def judge_counts(guards: GuardsConfig, totals: Totals) -> Trip | None:
    """The guards that only count; asked again when a range turns out to have changed."""
    if totals.revoke > max(guards.max_revoke * totals.base, guards.max_revoke_min):
        return Trip("max_revoke", guards.max_revoke)
    if totals.update > max(guards.max_update * totals.base, guards.max_revoke_min):
        return Trip("max_update", guards.max_update)
    return None


def digest(guards: GuardsConfig) -> str:
    """Stands for the guards' settings, to see whether they were changed."""
    return sha256(repr(guards).encode()).hexdigest()[:12]


def planned_changes(records: Reader, job: str, plan: str) -> Iterator[Change]:
    """All planned changes of a plan in order of key, a range at a time in memory."""
    after = ""
    while True:
        found = records.scan(Kind.CHANGES, job, prefix=f"{plan}/", after=after, limit=PAGE)
        for record in found:
            assert record.blob is not None
            yield from unpack(record.blob)
        if len(found) < PAGE:
            return
        after = found[-1].key


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
    """All that a person needs to decide about a plan that a guard stopped."""
    most: Counter[str] = Counter()
    losing_revokes = 0
    losing = set(_losing(records, job, plan))
    for change in planned_changes(records, job, plan.id):
        if change.action is Action.REVOKE:
            most[change.row[1] or "NULL"] += 1
            losing_revokes += change.row[0] in losing
    return GuardReport(
        guard=trip.guard,
        limit=trip.limit,
        base=totals.base,
        grant=plan.grant,
        revoke=plan.revoke,
        update=plan.update,
        hash=plan.hash,
        losing_accounts=plan.losing,
        losing_names=list(islice(sorted(losing), NAMES_SHOWN)),
        revokes_elsewhere=plan.revoke - losing_revokes,
        most_revoked=[list(pair) for pair in most.most_common(MOST_SHOWN)],
        source=source,
        source_rows=plan.desired.count,
        last_rows=last_rows,
        fingerprint=plan.fingerprint,
        guards=digest(guards),
    )


def _losing(records: Reader, job: str, plan: PlanRecord) -> Iterator[str]:
    """The accounts that would lose everything, as the ranges' records name them."""
    for number in range(1, plan.ranges + 1):
        found = records.get(Kind.CHANGES, job, range_key(plan.id, number))
        names = found.value.get("losing") if found is not None else None
        if isinstance(names, list):
            yield from names
