"""Applying a plan: every range that differs is one transaction of the target.

The transaction checks the fence, applies each change only where the row still is as it was
compared, re-reads the range and commits it with its marker, or not at all. Where somebody
else wrote meanwhile the range is compared again, and what is new in it passes the guards
again; an account that keeps changing is left alone after `TRIES` comparisons, and so is one
whose row the table refuses. A range whose marker stands was committed by a run that did not
live to tell the store; it is not applied again.

A plan may have waited, for an approval or longer than `plan_age`. So at its end every range
that this run has not committed itself is read once more, those that were found equal too;
what does not hold any more is compared, judged and committed again, under numbers above
those of the plan, each of which is used once, for a marker of its own.

What was applied without approval is counted with each checkpoint: all of a plan that was not
approved, and what is not in one that was.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...checksum import checksum, without
from ...errors import AccountRefused, ChangedMeanwhile, FencedOut, TargetUnusable
from ...events import Progress
from ...model import Kind, PlanId, Put
from ...records import range_key
from ...rows import Action, KeySpan, RangeChanges
from ...steps import Step
from .asking import unasked
from .compare import compare, set_apart, unpack
from .judge import judge_counts
from .plan import APPLYING, noticed
from .prove import ranges_of
from .ranges import cut
from .standing import differing, next_again

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ...config import EntitlementsConfig
    from ...endpoints import Committed, Reading, Target
    from ...model import JsonObject
    from ...ports import WorkOrder
    from ...records import IntervalRecord, PlanRecord, RangeRecord
    from ...rows import Change, Row, Schema
    from .judge import Totals

TRIES = 5
"""So often one account is compared before it is left alone."""
ROUNDS = 5 * TRIES
"""So often one range is, whoever's accounts change."""
REFUSALS = 20
"""So many accounts of a range may be refused by the table; with more it is no fault of theirs."""

CONFLICT = "somebody else keeps changing it"


class GuardTripped(Exception):
    """A range that changed since it was planned would now revoke more than allowed."""


@dataclass(frozen=True, slots=True)
class Losses:
    """Revokes and updates: what the guards count."""

    revoke: int = 0
    update: int = 0

    def __add__(self, other: Losses) -> Losses:
        return Losses(self.revoke + other.revoke, self.update + other.update)


@dataclass(slots=True)
class Applier:
    """Applies one complete plan that the guards let pass."""

    order: WorkOrder
    config: EntitlementsConfig
    reading: Reading
    target: Target
    schema: Schema
    plan: PlanRecord
    totals: Totals
    approved: bool
    waited: bool = False
    _beyond: Losses = Losses()
    _counts: dict[str, int] = field(default_factory=dict)
    _marker: int | None = None

    def steps(self, done: int) -> Iterator[Step]:
        """Apply the differing ranges after number `done`, a step each.

        Raises `GuardTripped`: plan anew, and let the guards look at the whole again.
        """
        record = self.order.record
        self._beyond = _beyond_of(record.cursor)
        self._counts = _counts_of(record)
        self._marker = _marker_of(record.cursor)
        job, plan = self.order.interval.job, self.plan.id
        for planned in differing(self.order.records, job, plan, done):
            self.order.progressed()
            changes = self._planned(planned.number)
            committed, found, new = self._commit(planned, changes, changes, planned.number)
            self.order.reached("range_committed")
            self._count(committed, new if self.approved else _losses_of(committed))
            self._marker = planned.number
            yield self._step(found, found.number)
        if self.waited:
            yield from self._look_again()

    def _look_again(self) -> Iterator[Step]:
        """What was compared or committed by earlier runs must still hold."""
        for old in ranges_of(self.order.records, self.order.interval.job, self.plan.id):
            self.order.progressed()
            if old.run_id == self.order.fence.run:
                continue
            yield from self._untold(old)
            lines = self.target.lines(KeySpan(old.lower, old.upper))
            if checksum(lines) == old.expected:
                continue
            compared, changes = self._compare_again(old, {})
            self._beyond += self._judge_again((), changes)
            self._marker = self._next_again()
            committed, found, _ = self._commit(compared, changes, changes, self._marker)
            self.order.reached("range_committed")
            self._count(committed, _losses_of(committed))
            yield self._step(found, self.plan.ranges)

    def _untold(self, old: RangeRecord) -> Iterator[Step]:
        """A killed run may have looked again too, and committed more than it could tell."""
        number = self._next_again()
        untold = self.target.marker(PlanId(self.plan.id), number)
        if untold is not None:
            losses = _losses_of(untold)
            self._beyond += losses
            self._count(untold, losses)
            self._marker = number
            # Which range it was only the target knows; this run has not committed it.
            step = self._step(old, self.plan.ranges)
            show = {name: value for name, value in step.show.items() if name != "committed"}
            yield step._replace(writes=(), show=show)

    def _next_again(self) -> int:
        return next_again({"marker": self._marker}, self.plan)

    def _count(self, committed: Committed, spent: Losses) -> None:
        """What a range has changed, and how much of that nobody has approved."""
        for action in Action:
            self._counts[action] += committed.changes[action]
        self._counts["spent_revoke"] += spent.revoke
        self._counts["spent_update"] += spent.update

    def _commit(
        self,
        found: RangeRecord,
        changes: Sequence[Change],
        planned: Sequence[Change],
        number: int,
    ) -> tuple[Committed, RangeRecord, Losses]:
        """Commit one range, comparing it again as often as somebody else changes it.

        `planned` are the changes that were judged already; `number` is that of the marker.
        Returns also what was applied beyond those.
        """
        refused: dict[str, str] = {}
        stubborn: dict[str, str] = {}
        tries: Counter[str] = Counter()
        rounds = 0
        new: Losses | None = None
        while True:
            part = self._part(found, changes, stubborn, number)
            try:
                committed = self.target.commit(self.order.fence, part, self.order.trusted_until())
            except AccountRefused as error:
                self.order.progressed()
                refused[error.account] = str(error)
                if len(refused) > REFUSALS:
                    raise
                stubborn |= refused
                found, changes = self._compare_again(found, stubborn)
                new = self._judge_again(planned, changes)
            except ChangedMeanwhile as error:
                self.order.progressed()
                rounds += 1
                if rounds > ROUNDS:
                    raise TargetUnusable(
                        f"range {found.number} of the target keeps changing while it is applied",
                        hint="find out who else writes to the table; the next run tries again",
                    ) from error
                tries.update(error.accounts)
                stubborn = {a: CONFLICT for a, n in tries.items() if n >= TRIES} | refused
                before = set(changes)
                found, changes = self._compare_again(found, stubborn)
                if not error.accounts:
                    tries.update({c.row[0] or "" for c in before ^ set(changes)})
                new = self._judge_again(planned, changes)
            else:
                new = _unplanned(planned, committed) if new is None else new
                self._beyond += new
                applied = replace(found, applied=committed.checksum, run_id=self.order.fence.run)
                return committed, applied, new

    def _planned(self, number: int) -> list[Change]:
        record = self.order.records.get(
            Kind.CHANGES, self.order.interval.job, range_key(self.plan.id, number)
        )
        if record is None or record.blob is None:
            # They are dropped at completion only: another run came first, or the store went back.
            raise FencedOut(
                f"the store has no planned changes for range {number} any more: another run has"
                " completed the interval, or the store was replaced",
                hint="nothing to do: the next trigger works what is left",
            )
        return unpack(record.blob)

    def _part(
        self,
        found: RangeRecord,
        changes: Sequence[Change],
        stubborn: dict[str, str],
        number: int,
    ) -> RangeChanges:
        return RangeChanges(
            job=self.order.interval.job,
            interval=self.order.interval.id,
            rerun=self.order.record.rerun,
            plan=PlanId(self.plan.id),
            number=number,
            span=KeySpan(found.lower, found.upper),
            changes=changes,
            expected=found.expected,
            apart=frozenset(stubborn),
        )

    def _compare_again(
        self, found: RangeRecord, stubborn: dict[str, str]
    ) -> tuple[RangeRecord, Sequence[Change]]:
        span = KeySpan(found.lower, found.upper)
        rows, bad = self._source_rows(found)
        observed = self.target.lines(span)
        bad = set_apart(bad, self.target, span, self.schema)
        bad = {**bad, **unasked(self.reading, observed)}
        if stubborn:
            # They may change again before the commit, so they are no part of what it sums up.
            rows = [row for row in rows if row[0] not in stubborn]
            observed = without(observed, stubborn)
        difference = compare(rows, observed, self.schema, bad | stubborn)
        again = replace(
            found,
            desired=difference.desired,
            observed=difference.observed,
            grant=difference.count(Action.GRANT),
            revoke=difference.count(Action.REVOKE),
            update=difference.count(Action.UPDATE),
            quarantined=difference.quarantined or None,
            left=difference.left,
        )
        return again, difference.changes

    def _source_rows(self, found: RangeRecord) -> tuple[list[Row], dict[str, str]]:
        """The source's rows of one range, read again."""
        pages = noticed(self.order, self.reading.pages(found.lower, found.resume))
        rows: list[Row] = []
        bad: dict[str, str] = {}
        upper = None if found.upper is None else self.schema.sort_value(found.upper)
        for part in cut(pages, self.plan.range_size, self.schema, after=found.lower):
            inside = [
                row
                for row in part.rows
                if upper is None or self.schema.sort_value(row[0] or "") <= upper
            ]
            rows += inside
            bad |= {
                a: why
                for a, why in part.bad.items()
                if upper is None or self.schema.sort_value(a) <= upper
            }
            if len(inside) < len(part.rows) or part.span.upper == found.upper:
                break
        return rows, bad

    def _judge_again(self, planned: Sequence[Change], changes: Sequence[Change]) -> Losses:
        """What is new in this range, judged with what was new in others, on top of the plan;
        without the plan, if that was approved."""
        known = set(planned)
        new = _losses(change for change in changes if change not in known)
        judged = self._beyond + new
        if not self.approved:
            judged += Losses(self.totals.revoke, self.totals.update)
        totals = replace(self.totals, revoke=judged.revoke, update=judged.update)
        if judge_counts(self.config.guards, totals) is not None:
            raise GuardTripped
        return new

    def _step(self, found: RangeRecord, done: int) -> Step:
        """The checkpoint of one range, with all up to number `done` behind it."""
        job, counts = self.order.interval.job, self._counts
        report = Progress(
            job=job,
            interval=self.order.interval.id,
            phase=APPLYING,
            range=done,
            total=self.plan.ranges,
            exact=True,
            accounts=min(done * self.plan.range_size, self.plan.accounts),
            grant=counts["grant"],
            revoke=counts["revoke"],
            update=counts["update"],
        )
        return Step(
            cursor={
                "phase": APPLYING,
                "plan": self.plan.id,
                "range": done,
                "upper": found.upper,
                "generation": self.order.fence.generation,
                "marker": self._marker,
                "beyond": [self._beyond.revoke, self._beyond.update],
            },
            writes=[Put(Kind.RANGE, job, range_key(self.plan.id, found.number), found.to_json())],
            show={**counts, "ranges_done": done, "committed": found.number},
            report=report,
        )


def _losses(changes: Iterable[Change]) -> Losses:
    actions = Counter(change.action for change in changes)
    return Losses(actions[Action.REVOKE], actions[Action.UPDATE])


def _losses_of(committed: Committed) -> Losses:
    return Losses(committed.changes[Action.REVOKE], committed.changes[Action.UPDATE])


def _counts_of(record: IntervalRecord) -> dict[str, int]:
    """What the interval has applied, and how much of it without approval."""
    names = ("grant", "revoke", "update", "spent_revoke", "spent_update")
    return {name: getattr(record, name) for name in names}


def _marker_of(cursor: JsonObject | None) -> int | None:
    """The newest marker that earlier runs of this plan told of."""
    found = cursor.get("marker") if cursor is not None else None
    return found if isinstance(found, int) else None


def _beyond_of(cursor: JsonObject | None) -> Losses:
    """What earlier runs of this plan applied that was not in it."""
    found = cursor.get("beyond") if cursor is not None else None
    if not isinstance(found, list):
        return Losses()
    revoke, update = found
    return Losses(revoke, update)


def _unplanned(planned: Sequence[Change], committed: Committed) -> Losses:
    """The marker of a run that was killed tells how much it applied, not what: all of it
    counts as new where that is not what was planned."""
    found = _losses_of(committed)
    return Losses() if found == _losses(planned) else found
