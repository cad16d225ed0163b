"""The planning pass: read both sides once, range by range, and write nothing to the target.

Each range is one checkpoint of the store: its bounds, counts and sums, the planned changes
(compressed), and the plan's totals so far. A plan killed after range 17 goes on at range
18; the source is read again from where range 18 begins. The last range's checkpoint also
says that the plan is complete.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from ...events import Progress
from ...keys import normaliser
from ...model import Kind, Put
from ...records import PlanRecord, RangeRecord, range_key, without_plan
from ...rows import Action
from ...steps import Step
from .asking import unasked
from .compare import compare, pack, set_apart
from .ranges import cut, split

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from ...config import EntitlementsConfig
    from ...endpoints import Reading, Target
    from ...model import Json, JsonObject, Write
    from ...ports import WorkOrder
    from ...rows import Page, Schema
    from .compare import Difference
    from .ranges import SourceRange

PLANNING = "planning"
APPLYING = "applying"
ROWS_PER_ACCOUNT = 4
"""A range of so many rows for each of its accounts is read as one, whatever the source has."""

DRY = "dry"
"""Tag of a dry run's plan; a job keeps the newest."""


def noticed(order: WorkOrder, pages: Iterator[Page]) -> Iterator[Page]:
    """Each page as a sign of progress: a range can be many pages long."""
    for page in pages:
        order.progressed()
        yield page


@dataclass(slots=True)
class Planner:
    """Makes or goes on with one plan."""

    order: WorkOrder
    config: EntitlementsConfig
    reading: Reading
    target: Target
    schema: Schema

    def new_plan(self) -> PlanRecord:
        """An empty plan for the truth that `reading` tells."""
        record = self.order.record
        must, normalise = self.config.guards.must_contain, normaliser(self.schema.policy)
        return PlanRecord(
            id=self.order.new_id(),
            interval=self.order.interval.key,
            rerun=record.rerun,
            fingerprint=self.reading.fingerprint,
            range_size=self.config.range_size,
            begun_at=self.order.now(),
            missing=list(map(normalise, must) if normalise else must),
            applied_revoke=record.spent_revoke,
            applied_update=record.spent_update,
        )

    def steps(
        self, plan: PlanRecord, after: str | None, resume: Json
    ) -> Generator[Step, None, PlanRecord]:
        """Plan the ranges above `after`, a step each; returns the complete plan."""
        pages = noticed(self.order, self.reading.pages(after, resume))
        first = next(pages, None)
        # Pages of a spool say so from the first one on: what is compared again later has to
        # come from it, and not from the beginning of a file that is not in order.
        begins = first.resume if first is not None and resume is None else resume
        if first is not None:
            pages = chain((first,), pages)
        for whole in cut(pages, plan.range_size, self.schema, after=after):
            for piece in self._fitting(whole, begins):
                part = replace(piece, number=plan.ranges + 1)
                self.order.progressed()
                observed = self.target.lines(part.span)
                bad = set_apart(part.bad, self.target, part.span, self.schema)
                bad = {**bad, **unasked(self.reading, observed)}
                difference = compare(part.rows, observed, self.schema, bad)
                self.order.progressed()
                found = _range_record(part, difference, begins)
                plan = _add(plan, found, difference, part)
                self.order.reached("range_planned")
                yield self._step(plan, found, difference, part)
            begins = whole.resume
        return plan

    def _fitting(self, part: SourceRange, begins: Json) -> Iterator[SourceRange]:
        """The range, in several where the target has many more rows in it than the source, as
        when an export broke off: memory is bounded by what either side has of one range."""
        rows = max(ROWS_PER_ACCOUNT * self.config.range_size, 2 * len(part.rows))
        while (upper := self.target.bound(part.span, rows)) is not None:
            piece, part = split(part, upper, begins, self.schema)
            yield piece
        yield part

    def _obsolete(self) -> list[Write]:
        """What the first range of a new plan replaces: the interval's plan before it, or the
        plan of the job's last dry run."""
        job, records = self.order.interval.job, self.order.records
        old = self.order.record.plan
        if self.order.dry_run:
            found = records.scan(Kind.PLAN, job, tag=DRY)
        else:
            stored = records.get(Kind.PLAN, job, old) if old is not None else None
            found = [stored] if stored is not None else []
        writes: list[Write] = []
        for one in found:
            writes += without_plan(job, one.key, PlanRecord.from_json(one.value).ranges)
        return writes

    def _step(
        self, plan: PlanRecord, found: RangeRecord, difference: Difference, part: SourceRange
    ) -> Step:
        job = self.order.interval.job
        key = range_key(plan.id, found.number)
        writes: list[Write] = self._obsolete() if found.number == 1 else []
        writes += [
            Put(Kind.PLAN, job, plan.id, plan.to_json(), tag=DRY if self.order.dry_run else ""),
            Put(Kind.RANGE, job, key, found.to_json()),
        ]
        if difference.changes:
            losing: JsonObject = {"losing": sorted(difference.losing)}
            writes.append(Put(Kind.CHANGES, job, key, losing, blob=pack(difference.changes)))
        show: dict[str, Json] = {
            "plan": plan.id,
            "accounts": plan.accounts,
            "ranges_done": plan.ranges,
        }
        if plan.complete:
            cursor: JsonObject = {
                "phase": APPLYING,
                "plan": plan.id,
                "range": 0,
                "generation": self.order.fence.generation,
            }
            show |= {"ranges_done": 0, "ranges_total": plan.ranges}
            show["source_rows"] = plan.desired.count
            if self.order.record.base is None:
                show["base"] = plan.observed.count
        else:
            cursor = {
                "phase": PLANNING,
                "plan": plan.id,
                "range": plan.ranges,
                "upper": part.span.upper,
                "resume": part.resume,
                "generation": self.order.fence.generation,
            }
        report = Progress(
            job=job,
            interval=self.order.interval.id,
            phase=PLANNING,
            range=plan.ranges,
            total=plan.ranges if plan.complete else None,
            exact=plan.complete,
            accounts=plan.accounts,
            grant=plan.grant,
            revoke=plan.revoke,
            update=plan.update,
        )
        return Step(cursor, writes, show, report)


def _range_record(part: SourceRange, difference: Difference, begins: Json) -> RangeRecord:
    return RangeRecord(
        number=part.number,
        desired=difference.desired,
        observed=difference.observed,
        lower=part.span.lower,
        upper=part.span.upper,
        accounts=part.accounts,
        grant=difference.count(Action.GRANT),
        revoke=difference.count(Action.REVOKE),
        update=difference.count(Action.UPDATE),
        losing=len(difference.losing),
        quarantined=difference.quarantined or None,
        left=difference.left,
        resume=begins,
    )


def _add(
    plan: PlanRecord, found: RangeRecord, difference: Difference, part: SourceRange
) -> PlanRecord:
    """The plan's totals with one more range in them."""
    missing = plan.missing
    if missing:
        here = {row[0] for row in part.rows}
        missing = [account for account in missing if account not in here]
    return replace(
        plan,
        ranges=found.number,
        accounts=plan.accounts + found.accounts,
        complete=found.upper is None,
        desired=plan.desired + found.desired,
        observed=plan.observed + found.observed,
        grant=plan.grant + found.grant,
        revoke=plan.revoke + found.revoke,
        update=plan.update + found.update,
        losing=plan.losing + found.losing,
        differing=plan.differing + found.differs,
        quarantined=plan.quarantined + len(found.quarantined or ()),
        approvable=plan.approvable + difference.approvable(),
        missing=missing,
    )
