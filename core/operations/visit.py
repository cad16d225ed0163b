"""What a trigger does: decide, take the lease, decide again, work, decide again, release.

There is no daemon and no next-run pointer. A knock that finds nothing to do writes nothing
and takes no lease. One that finds the lease busy leaves a note in the same step, so that
the holder looks again before it lets go.

Whatever only work needs is imported when there is work: cron calls all day, and mostly there is
none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from .. import planning
from ..config import TTL_ONE_HOST
from ..errors import (
    LeaseBusy,
    OverlapIsNewer,
    ReconcileError,
    StoreBusy,
    StoreUnreachable,
    StoreUnusable,
    WriteConflict,
)
from ..events import DryRun, IntervalReport, RunReport, Warned
from ..model import LeaseKey, Outcome, Trigger
from .history import completed
from .look import Look, look, new_record, read_interval
from .reports import (
    as_run,
    busy_report,
    cut_short,
    paused_report,
    rate_report,
    trigger_report,
    waiting_reports,
)
from .taking import comes, due_now, named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..config import Job
    from ..leasing import LeaseKeeper, Terms
    from ..model import Actor, Rate, StoreFacts
    from ..planning import Due
    from ..ports import Store
    from .application import Application
    from .backfill.turns import Turn
    from .limits import Limits
    from .pacing import Pace

LOOK_EVERY = timedelta(hours=1)
"""How often a trigger with nothing due looks whether the target is as it was left."""
PREVIEW = 4
"""So many changes does a dry run show."""
NEVER = datetime.fromtimestamp(0, UTC)

CONFLICTS = 10
"""So often in a row may acts by hand come between a decision and its record."""


@dataclass(slots=True)
class Visit:
    """One trigger's stay at one job. With `only`, just those instants are worked; one that
    `settles` works none, and only writes down what is decided. In the `foreground` somebody waits
    for the job's backfill, be the job paused or not."""

    app: Application
    job: Job
    store: Store
    facts: StoreFacts
    trigger: Trigger
    actor: Actor | None = None
    dry_run: bool = False
    max_runtime: timedelta | None = None
    only: Sequence[datetime] | None = None
    settles: bool = False
    foreground: bool = False
    _turn: Turn | None = None
    """The backfill that runs, as of the newest decision."""
    _preview: DryRun | None = None
    _looked: bool = False
    _conflicts: int = 0
    _looked_before: datetime | None = None  # when a trigger was here before this one
    _paced: Pace | None = None
    _target_at: datetime = NEVER
    """The newest interval that the target has completed, as far as this visit knows."""
    _seen: Look | None = None
    """What was read, as long as nothing of it was changed."""

    def idle(self) -> RunReport | None:
        """What a knock reports that finds nothing to do; None where it would do something.
        Writes nothing, and takes no lease."""
        seen = look(self.store, self.job, self.facts.now)
        due = self._due(seen, set())
        return None if due or self._has_to_write(seen) else self._report(seen, [])

    def run(self) -> RunReport:
        """Decide, do what there is to do under the lease, and tell whoever wants to know."""
        try:
            report = self._run()
        except (StoreBusy, StoreUnreachable, StoreUnusable):
            raise  # nothing can be read or claimed
        except ReconcileError:
            self._tell(None)
            raise
        self._tell(report)
        return report

    def _tell(self, report: RunReport | None) -> None:
        if self.app.notifier is not None and not self.dry_run:
            from .alerting import after_visit

            seen = self._seen if report is not None else None
            after_visit(self.app, self.store, self.job, seen, report)

    def _run(self) -> RunReport:
        until = None
        if self.max_runtime is not None:
            until = self.app.runtime.clock.boot() + self.max_runtime.total_seconds()
        self._seen = seen = look(self.store, self.job, self.facts.now)
        self._looked_before = seen.job.looked_at
        due = self._due(seen, set())
        self.app.runtime.reached("due_computed")
        if not (due or self._has_to_write(seen)):
            return self._report(seen, [])
        from ..leasing import LeaseKeeper

        keeper = LeaseKeeper(
            self.store,
            self.app.open_store,
            self.app.runtime,
            LeaseKey(self.job.name),
            self.terms(),
        )
        try:
            try:
                keeper.acquire(due[0].interval.key if due else "", overlap=bool(due))
            except LeaseBusy as busy:
                if not due:
                    return self._report(seen, [])
                # What this trigger wanted, of which it is not the interval at work.
                key = busy.lease.interval
                waits = next((d.interval for d in due if d.interval.key != key), None)
                return busy_report(self.store, self.job, busy.lease, waits, self.facts.now)
            self._warn(keeper.now())
            self.app.runtime.reached("lease_acquired")
            self._seen = None
            if not (self.dry_run or self._leaves_target_alone(seen)):
                from .comparing import compare

                self._looked = True
                found = compare(self.app, self.store, self.job, keeper, seen, has_due=bool(due))
                self._target_at = found or self._target_at
            return self._work_through(keeper, until)
        finally:
            keeper.abandon()

    def _has_to_write(self, seen: Look) -> bool:
        """Whether there is something to write down although nothing may be worked."""
        if self.dry_run:
            return False
        if seen.decision.skips or seen.decision.overtaken or seen.changed:
            return True
        if self._turn is not None and self._turn.has_to_write:
            return True
        return not self._leaves_target_alone(seen) and self._is_stale(seen)

    def _leaves_target_alone(self, seen: Look) -> bool:
        """A target may be away, or be restored, while its job is paused: nobody looks at it."""
        waits = self.only is None and not self.foreground and seen.decision.pause is not None
        return self.settles or waits

    def _warn(self, now: datetime) -> None:
        """Say what the store cannot promise, where work is about to begin."""
        from .doubts import doubts

        for text in doubts(self.facts, now, self.app.runtime.clock.now()):
            self.app.runtime.report(Warned(self.job.name, text, now))

    def terms(self) -> Terms:
        """How the job wants its lease kept on this store."""
        from ..leasing import Terms

        lease = self.job.lease
        ttl = lease.ttl or self.facts.default_ttl or TTL_ONE_HOST
        return Terms(ttl, lease.progress_deadline, lease.detect_dead)

    def _due(self, seen: Look, tried: set[str]) -> list[Due]:
        """What this visit may take, in order of work."""
        job, store, dry = self.job, self.store, self.dry_run
        if self.only is not None:
            return list(named(store, job, seen, self.only, tried, dry_run=dry))
        due = [] if self.settles else due_now(self.app, store, job, seen, tried, dry_run=dry)
        if seen.job.backfill is None or self.dry_run:
            self._turn = None
            return due
        from .backfill import turns

        self._turn = turns.turn(store, job, seen)
        if self._turn is None or self.settles:
            return due
        return turns.in_order(due, seen, self._turn, tried, foreground=self.foreground)

    def _is_stale(self, seen: Look) -> bool:
        """Whether the target was not looked at for so long that a restored copy of it would
        stand unseen until the next interval is due."""
        looked_at = seen.job.looked_at
        if self.only is not None or looked_at is None:
            return False
        return not timedelta(0) <= seen.now - looked_at < LOOK_EVERY

    def _work_through(self, keeper: LeaseKeeper, until: float | None) -> RunReport:
        tried: set[str] = set()
        reports: list[IntervalReport] = []
        while True:
            lease = self.store.lease(LeaseKey(self.job.name))
            overlaps = lease.overlaps if lease is not None else 0
            # By the clock that the trigger saw which was turned away meanwhile.
            target = None if self.dry_run else self._target_at
            seen = look(self.store, self.job, self.store.facts().now, tried, target)
            due = self._due(seen, tried)
            self.app.runtime.reached("decided")
            written = self.dry_run or self._write_decisions(keeper, seen)
            if not written or comes(self.app.runtime, seen, due, keeper):
                continue
            limits = self._limits(until)
            may_go_on = limits.allow(reports)
            pace, own = self._pace(), self._own(due)
            waits = pace.waits(seen, due, own) if pace and may_go_on else None
            if pace and waits is not None and pace.sleeps(keeper, waits, seen, until, own):
                continue
            if due and may_go_on and waits is None:
                rate = pace.rate_of(seen, due[0]) if pace else None
                reports.append(self._work(keeper, due[0], until, rate))
                tried.add(due[0].interval.key)
                if reports[-1].outcome is Outcome.COMPLETED:
                    self._target_at = max(self._target_at, due[0].interval.scheduled_at)
                if reports[-1].outcome in (Outcome.FENCED_OUT,) or not self._holds(reports[-1]):
                    return self._report(seen, reports)
                continue
            if self.only is None and not self.dry_run:
                from .pruning import when_done

                when_done(self.app, self.store, self.job, seen, self._looked_before, keeper)
            may_take = may_go_on and self.only is None and (waits is None or own is not None)
            try:
                keeper.release(overlaps if may_take else None)
            except OverlapIsNewer:
                continue
            except (StoreUnreachable, StoreBusy):
                pass  # the work is done and recorded; the lease is found dead, or expires
            self.app.runtime.reached("released")
            late = limits.time_alone_forbids(reports)
            return self._report(seen, reports, left=due, waits=waits, late=late)

    def _pace(self) -> Pace | None:
        """What bounds how many are begun late; None where nothing does."""
        bounded = self.job.catch_up.rate is not None or self._turn is not None
        if not bounded or self.only is not None or self.dry_run:
            return None
        from .pacing import Pace

        self._paced = self._paced or Pace(self.app.runtime, self.store, self.job)
        return self._paced

    def _own(self, due: Sequence[Due]) -> Turn | None:
        """The backfill that runs, where the next place is its own."""
        return self._turn if due and self._turn is not None and self._turn.owns(due[0]) else None

    @staticmethod
    def _holds(report: IntervalReport) -> bool:
        """Whether the lease may still be used after an interval ended that way."""
        return report.error is None or report.error.name not in ("lease_lapsed", "write_conflict")

    def _limits(self, until: float | None) -> Limits:
        """What bounds this trigger, as of the newest decision."""
        from .limits import MOST, Limits

        most = 1 if self.dry_run else self.job.max_intervals
        if self._turn is not None:
            most = min(most or MOST, MOST)
        return Limits(self.app.runtime, until, most)

    def _work(
        self, keeper: LeaseKeeper, due: Due, until: float | None, replay: Rate | None
    ) -> IntervalReport:
        from ..assignment import Assignment
        from ..engine import Engine

        if keeper.lease.interval != due.interval.key:
            keeper.regrant(due.interval.key)
        record = new_record(due)
        if self.actor is not None:
            record = replace(record, repair_owner=self.actor.name)
        work = self.app.build_work(self.job)
        try:
            task = Assignment(
                job=self.job,
                interval=due.interval,
                record=record,
                version=due.version,
                trigger=self.trigger,
                actor=self.actor,
                dry_run=self.dry_run,
                expected_ranges=self._last_ranges(),
                replay=replay,
            )
            if self._turn is not None:
                from .backfill import turns

                task = turns.assigned(task, self._turn, due)
            engine = Engine(self.store, self.facts.id, keeper, self.app.runtime, work, task, until)
            report = engine.work()
            if self.dry_run:
                self._preview = work.preview(self.store, due.interval, PREVIEW)
        finally:
            work.close()
        if report.outcome in (Outcome.FAILED, Outcome.INCOMPLETE) and report.retry_at is None:
            stands, _ = read_interval(self.store, self.job.name, due.interval.scheduled_at)
            if stands is not None and not stands.state.is_final:
                report = report._replace(retry_at=planning.retry_at(self.job, stands))
        if self._preview is not None:
            report = as_run(report, self._preview)
        self.app.runtime.report(report)
        return report

    def _last_ranges(self) -> int | None:
        last = completed(self.store, self.job.name, self.facts.now, limit=1)
        return last[0].ranges_total if last else None

    def _write_decisions(self, keeper: LeaseKeeper, seen: Look) -> bool:
        """Record what was decided besides the work: the job as first seen, and every skip. False
        where that, or somebody by hand in this moment, has changed what to decide from."""
        from . import decided

        if self._turn is not None and self._turn.has_to_write:
            from .backfill.settling import settle

            try:
                if settle(self.app, self.store, self.job, seen, self._turn, keeper):
                    return False
            except WriteConflict as error:
                return self._conflicted(error)
        by_hand = self.only is not None
        writes, told = decided.batch(self.job, seen, by_hand=by_hand, looked=self._looked)
        if writes:
            try:
                keeper.commit(writes)
            except WriteConflict as error:
                return self._conflicted(error)
            self._looked = False
            if told is not None:
                self.app.runtime.report(told)
        unseen = seen.decision.skips or seen.decision.overtaken
        return self._turn is None or not unseen  # which a backfill has to see first

    def _conflicted(self, error: WriteConflict) -> bool:
        """Decide again, but not for ever."""
        self._conflicts += 1
        if self._conflicts > CONFLICTS:
            raise error
        return False

    def _report(
        self,
        seen: Look,
        reports: Sequence[IntervalReport],
        *,
        left: Sequence[Due] = (),
        waits: datetime | None = None,
        late: bool = False,
    ) -> RunReport:
        """All that was worked and all that waits. `left`: what is due and was not begun; `waits`:
        until when the rate keeps it; `late`: there was no time for it."""
        asked_for = self.only is not None or self.foreground or self.dry_run
        if seen.decision.pause is not None and not (asked_for or reports):
            return paused_report(self.job, seen)
        waiting = [] if self.only is not None else waiting_reports(self.job, seen, reports)
        interrupted = bool(left) and not reports and self.app.runtime.stop.reason is not None
        report = trigger_report(
            self.store,
            self.job,
            seen,
            reports,
            waiting,
            interrupted=interrupted,
            dry_run=self._preview,
        )
        if left and reports:
            stopped = self.app.runtime.stop.reason is not None
            report = cut_short(report, seen, left[0], stopped=stopped, late=late)
        if waits is None:
            return report
        return rate_report(report, self.job, left, waits, seen, self._own(left))
