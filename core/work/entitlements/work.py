"""Entitlement reconciliation as the engine sees it: plan, judge, apply, prove, complete.

A run goes on where the interval's cursor stands. The plan it finds there still holds when
the source tells the same truth (its fingerprint), ranges are cut alike, no other interval
has changed the target since (see `standing.py`), and, for a source that tells the truth of
now, when it is not older than `plan_age`; a plan that waits for or has an approval does not
age. Otherwise a new plan is made: nothing that was applied is lost by that, it is simply
found equal.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, cast

from ...endpoints import Unordered
from ...errors import (
    FencedOut,
    LeaseLapsed,
    OldOverNew,
    ReconcileError,
    SourcePaused,
    SourceUnreachable,
    StoreBusy,
    StoreUnreachable,
    StoreUnusable,
    WriteConflict,
)
from ...events import DryRun, PlannedAnew
from ...model import Delete, Kind, Proof, Unproved
from ...records import IntervalRecord, PlanRecord, range_key
from ...steps import Step
from .allowance import settle_others, spent_by_others
from .apply import Applier, GuardTripped
from .asking import Asking
from .judge import Totals, digest, explain, judge, planned_changes
from .plan import Planner
from .prove import prove, quarantined_in
from .standing import counted, is_void, went_back

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from datetime import timedelta

    from ...config import EntitlementsConfig, Job
    from ...endpoints import Reading, Source, Target
    from ...model import (
        Fence,
        FenceRow,
        Interval,
        Json,
        JsonObject,
        LeaseKey,
        Reported,
        Write,
    )
    from ...ports import Reader, WorkOrder
    from ...rows import Change
    from ...sources.spool import Spools
    from .judge import Trip

_GOES_ON = (
    *(FencedOut, LeaseLapsed, StoreBusy, StoreUnreachable, StoreUnusable, WriteConflict),
    *(SourcePaused, SourceUnreachable),
)
"""Faults that are not the interval's, and a source that is away for a while: a next run, or
another one by now, goes on with what was read."""


class EntitlementsWork:
    """One interval of entitlements. `fence_wait` bounds the wait for an old holder's commit.

    `spools` is where the source sorts what is not in order; it is kept until the interval
    has completed, failed or waits for an approval, so that a run that is broken off need not
    sort again.
    """

    def __init__(
        self,
        job: Job,
        source: Source,
        target: Target,
        fence_wait: timedelta,
        spools: Spools | None = None,
    ) -> None:
        self._spools = spools
        self._ended = False
        self._job = job
        self._config = cast("EntitlementsConfig", job.work)
        self._source = source
        self._target = target
        self._fence_wait = fence_wait
        self.fenced = target.fenced
        self._floor: FenceRow | None = None
        self._plan: PlanRecord | None = None
        self._reading: Reading | None = None

    def floor(self, key: LeaseKey) -> FenceRow | None:
        """See `ports.Work`."""
        return self._target.floor(key)

    def raise_fence(self, fence: Fence, store_id: str) -> FenceRow:
        """See `ports.Work`."""
        self._floor = self._target.raise_fence(fence, store_id, self._fence_wait)
        return self._floor

    def steps(self, order: WorkOrder) -> Iterator[Step]:
        """See `ports.Work`. Raises `OldOverNew` for a dated interval that comes too late."""
        try:
            for step in self._steps(order):
                self._ended = step.needs_approval is not None
                yield step
        except _GOES_ON:
            raise
        except ReconcileError:
            self._ended = True
            raise
        else:
            self._ended = order.dry_run

    def _steps(self, order: WorkOrder) -> Iterator[Step]:
        self._refuse_old_over_new(order)
        if self._has_own_rows:
            self._target.work_on(order.interval)
        schema = self._target.schema()
        self._reading = self._source.open(
            order.interval, schema, Asking(order, self._target, schema)
        )
        planner = Planner(order, self._config, self._reading, self._target, schema)
        yield from self._noticed_copy(order)
        plan = self._standing_plan(order, self._reading)
        waited = plan is not None and self._has_waited(order, plan)
        if plan is None and not order.dry_run:
            yield from self._told(order)
        while True:
            if plan is None or not plan.complete:
                plan = yield from self._planned(order, planner, plan)
            self._plan = plan
            totals = self._totals(order, plan)
            approved = order.approval == plan.hash
            trip = None if approved else judge(plan, self._config.guards, totals)
            if trip is not None:
                yield self._needs_approval(order, plan, trip, totals)
                return
            order.reached("judged")
            if order.dry_run:
                return
            if order.record.waiting is not None and order.record.cursor is not None:
                yield Step(order.record.cursor, (), {"waiting": None})
            yield from self._settle_others(order, plan)
            applier = Applier(
                order=order,
                config=self._config,
                reading=self._reading,
                target=self._target,
                schema=schema,
                plan=plan,
                totals=totals,
                approved=approved,
                waited=waited,
            )
            try:
                yield from applier.steps(_number(order.record.cursor, "range"))
            except (GuardTripped, Unordered):
                plan, waited = None, False
            else:
                return

    def _noticed_copy(self, order: WorkOrder) -> Iterator[Step]:
        """A target restored in mid-night has not what the store's ranges say it has."""
        record, records = order.record, order.records
        if order.dry_run or record.cursor is None:
            return
        if went_back(record, self._floor, order.fence, records, self._target):
            event: JsonObject = {"type": "target_rewound", "actor": "reconcile"}
            yield Step({**record.cursor, "void": True}, (), {}, event=event)

    def _told(self, order: WorkOrder) -> Iterator[Step]:
        """Before a new plan: what a killed run committed under the old one and did not tell."""
        record = counted(order.record, order.records, self._target, self._job.name)
        if record is not order.record and record.cursor is not None:
            names = ("grant", "revoke", "update", "spent_revoke", "spent_update")
            yield Step(record.cursor, (), {name: getattr(record, name) for name in names})

    def _settle_others(self, order: WorkOrder, plan: PlanRecord) -> Iterator[Step]:
        """Before the first change: no other interval's plan will say what the target holds.
        Completion drops the markers of others, so what those say is counted in any case.
        Where each interval has its own rows, neither is so."""
        cursor = order.record.cursor
        if cursor is not None and not self._has_own_rows:
            job, key = self._job.name, order.interval.key
            void = plan.differing > 0
            writes = settle_others(order.records, self._target, job, key, order.now(), void=void)
            if writes:
                yield Step(cursor, writes, {})

    def _totals(self, order: WorkOrder, plan: PlanRecord) -> Totals:
        """What is planned, and what counts with it; the base never moves, but that an interval
        with rows of its own had none before its first pass."""
        base = plan.observed.count if order.record.base is None else order.record.base
        others = 0
        if self._has_own_rows:
            base = max(base, plan.observed.count)
        if not self._has_own_rows:
            # Of a plan without revokes too: one may be new when its ranges are applied.
            others = spent_by_others(
                order.records, self._target, self._job.name, order.interval.key, order.now()
            )
        return Totals(
            revoke=plan.revoke,
            update=plan.update,
            base=base,
            spent_revoke=plan.applied_revoke,
            spent_update=plan.applied_update,
            others=others,
        )

    def _planned(
        self, order: WorkOrder, planner: Planner, plan: PlanRecord | None
    ) -> Generator[Step, None, PlanRecord]:
        """Go on with a plan from where the cursor stands, or begin a new one."""
        upper: Json = None
        resume: Json = None
        if plan is None:
            plan = planner.new_plan()
        elif order.record.cursor is not None:
            upper = order.record.cursor.get("upper")
            resume = order.record.cursor.get("resume")
        after = upper if isinstance(upper, str) else None
        try:
            plan = yield from planner.steps(plan, after, resume)
        except Unordered:
            plan = yield from planner.steps(planner.new_plan(), None, None)
        order.reached("plan_completed")
        return plan

    def _needs_approval(
        self, order: WorkOrder, plan: PlanRecord, trip: Trip, totals: Totals
    ) -> Step:
        report = explain(
            trip,
            plan,
            totals,
            order.records,
            self._job.name,
            source=self._source.describe(order.interval),
            last_rows=self._last_rows(order),
            guards=self._config.guards,
        )
        return Step(order.record.cursor or {}, (), {}, needs_approval=report)

    def prove(self, order: WorkOrder) -> Proof | Unproved:
        """See `ports.Work`."""
        assert self._plan is not None, "steps come first"
        found = prove(order, self._plan)
        self._ended = isinstance(found, Unproved)
        return found

    def complete(self, order: WorkOrder, proof: Proof | Reported) -> Sequence[Write]:
        """See `ports.Work`. The planned changes are in the target's log now."""
        assert isinstance(proof, Proof), "prove gave it"
        try:
            self._target.complete(order.fence, proof)
        except OldOverNew:
            if self._source.dated:
                raise
            # A live source told the truth of now, whatever interval asked for it.
        assert self._plan is not None, "steps come first"
        self._ended = True
        plan = self._plan
        job = self._job.name
        return [Delete(Kind.CHANGES, job, range_key(plan.id, n + 1)) for n in range(plan.ranges)]

    def key(self) -> Sequence[int]:
        """See `ports.Work`."""
        return self._target.schema().key

    def changes(
        self, interval: str | None, account: str | None
    ) -> Iterator[tuple[JsonObject, Change]]:
        """See `ports.Work`."""
        return self._target.changes(interval=interval, account=account)

    def preview(self, records: Reader, interval: Interval, limit: int) -> DryRun | None:
        """See `ports.Work`."""
        plan = self._plan
        if plan is None:
            return None
        job = self._job.name
        changes = planned_changes(records, job, plan.id)
        return DryRun(
            interval=interval.id,
            changes={"grant": plan.grant, "revoke": plan.revoke, "update": plan.update},
            sample=list(islice(changes, limit)),
            key=self._target.schema().key,
            plan=plan.id,
            quarantined=quarantined_in(records, job, plan.id) if plan.quarantined else {},
        )

    def still_waits(self, interval: Interval, waiting: JsonObject) -> bool:
        """See `ports.Work`."""
        if waiting.get("guards") != digest(self._config.guards):
            return False
        reading = self._source.open(interval, self._target.schema())
        try:
            return reading.fingerprint == waiting.get("fingerprint", "")
        finally:
            reading.close()

    def interrupt(self) -> None:
        """See `ports.Work`."""
        self._target.interrupt()

    def trust(self, until: float) -> None:
        """See `ports.Work`. Each transaction asks for the window itself."""

    def close(self) -> None:
        """See `ports.Work`."""
        if self._reading is not None:
            self._reading.close()
        if self._ended and self._spools is not None:
            self._spools.sweep()
        self._target.close()

    # --- parts

    @property
    def _has_own_rows(self) -> bool:
        """Whether no interval sees another's rows, so that none can undo another."""
        return self._config.target.interval_column is not None

    def _refuse_old_over_new(self, order: WorkOrder) -> None:
        """A floor later than now was named by a clock that was ahead, and stands for nothing."""
        newest = self._floor.newest if self._floor is not None else None
        if not self._source.dated or self._has_own_rows or newest is None:
            return
        interval = order.interval
        if interval.scheduled_at < newest.scheduled_at <= order.now():
            raise OldOverNew(
                f"{interval.job} {interval.id} is older than {newest.interval}, which the target"
                " has completed: it would undo newer truth",
                hint=f"rerun {newest.interval} if the target needs mending",
            )

    def _standing_plan(self, order: WorkOrder, reading: Reading) -> PlanRecord | None:
        """The plan that the cursor names, where it still holds; where not, the user is told."""
        record = order.record
        if record.cursor is None or order.dry_run:
            return None
        found = order.records.get(Kind.PLAN, self._job.name, str(record.cursor.get("plan")))
        plan = PlanRecord.from_json(found.value) if found is not None else None
        why = self._outdated(order, plan, reading)
        if why is None:
            return plan
        order.report(PlannedAnew(self._job.name, order.interval.id, order.now(), why))
        return None

    def _outdated(self, order: WorkOrder, plan: PlanRecord | None, reading: Reading) -> str | None:
        """Why the plan that the cursor names does not hold; None where it does."""
        record = order.record
        if is_void(record.cursor or {}):
            return "the target has changed since it was planned"
        if plan is None or plan.rerun != record.rerun:
            return "it is worked again"
        if plan.fingerprint != reading.fingerprint:
            return "the source has changed"
        if not plan.complete and plan.range_size != self._config.range_size:
            return "range_size has changed"
        ages = not self._source.dated and not record.approval and not record.waiting
        if ages and order.now() - plan.begun_at > self._config.plan_age:
            return "the plan is older than plan_age"
        return None

    def _has_waited(self, order: WorkOrder, plan: PlanRecord) -> bool:
        """Whether what the plan found equal must be looked at again."""
        return order.approval is not None or order.now() - plan.begun_at > self._config.plan_age

    def _last_rows(self, order: WorkOrder) -> int | None:
        """How many rows the source had at the newest completed interval before this one."""
        for found in order.records.scan(
            Kind.INTERVAL,
            self._job.name,
            before=order.interval.key,
            limit=10,
            newest_first=True,
        ):
            record = IntervalRecord.from_json(found.value)
            if record.completed_at is not None:
                return record.source_rows
        return None


def _number(cursor: JsonObject | None, name: str) -> int:
    found = cursor.get(name) if cursor is not None else None
    return found if isinstance(found, int) else 0
