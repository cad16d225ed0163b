"""One interval from the raised fence to the proof, whatever the work is.

The steps of a trigger, in order; `Runtime.reached` is told each name, and a kill after any
of them is survived with no manual step::

    due_computed       the pure decision is made, nothing is written
    lease_acquired     the store granted a generation
    decided            decided again, from records nobody else can change now
    fence_raised       the target refuses every older generation
    run_opened         run record and interval are in the store; a dead predecessor's run is closed
    range_planned      one more range is compared (its checkpoint comes next)
    checkpoint_saved   cursor, range and totals are in the store, as one
    plan_completed     all ranges tile the key space
    judged             the guards let the plan pass
    range_committed    one more range is in the target, with marker and change log
    proved             counts and checksums agree
    target_completed   the target's fence row names this interval as its newest
    interval_completed the store says so too
    released           the lease is given back

Why the order holds. The fence is raised before the run is opened, so a run that is reported
closed can no longer write. A range lands in the target with its marker before the store's
checkpoint: killed between them, the next run finds the marker and applies nothing. The
target is told of completion before the store: killed between them, the next run finds all
ranges marked, proves again from its records and repeats only the store's half.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Event
from typing import TYPE_CHECKING

from .endpoints import BrokenOff
from .errors import (
    FencedOut,
    LeaseLapsed,
    OldOverNew,
    ReconcileError,
    SourcePaused,
    StoreBusy,
    StoreUnreachable,
    StoreUnusable,
    WriteConflict,
)
from .events import Progress, Stopping
from .fencing import raise_fence
from .journal import Journal
from .model import Ending, Outcome, Unproved

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from .assignment import Assignment
    from .events import IntervalReport, Report
    from .leasing import LeaseKeeper
    from .model import Fence, Interval, JsonObject, Rate, Trigger
    from .ports import Reader, Runtime, Store, Work
    from .records import IntervalRecord


STEP_SECONDS = 1.0
"""So often whoever waits looks whether the run is to end."""


class Order:
    """The engine's side of `ports.WorkOrder`."""

    def __init__(
        self,
        keeper: LeaseKeeper,
        runtime: Runtime,
        store: Store,
        task: Assignment,
        journal: Journal,
        on_progress: Callable[[], None],
        is_to_end: Callable[[], bool] = lambda: False,
    ) -> None:
        self._on_progress = on_progress
        self._is_to_end = is_to_end
        self._keeper = keeper
        self._runtime = runtime
        self._store = store
        self._task = task
        self._journal = journal

    @property
    def fence(self) -> Fence:
        return self._keeper.fence

    @property
    def interval(self) -> Interval:
        return self._task.interval

    @property
    def record(self) -> IntervalRecord:
        return self._journal.record

    @property
    def approval(self) -> str | None:
        approval = self._journal.record.approval
        found = approval.get("hash") if approval is not None else None
        return found if isinstance(found, str) else None

    @property
    def dry_run(self) -> bool:
        return self._task.dry_run

    @property
    def trigger(self) -> Trigger:
        return self._task.trigger

    @property
    def records(self) -> Reader:
        return self._store

    def now(self) -> datetime:
        return self._keeper.now()

    def trusted_until(self) -> float:
        return self._keeper.trusted_until()

    def take(self, bucket: str, rate: Rate) -> float:
        return self._store.take(bucket, rate)

    def wait(self, seconds: float) -> None:
        clock, never = self._runtime.clock, Event()
        wakes = clock.boot() + seconds
        self.go_on()
        while (left := wakes - clock.boot()) > 0:
            clock.wait(min(STEP_SECONDS, left), never)
            self.go_on()

    def go_on(self) -> None:
        self.progressed()
        if self._is_to_end():
            raise BrokenOff

    def progressed(self) -> None:
        self._keeper.progressed()
        self._on_progress()

    def check(self) -> None:
        self._keeper.check()
        self._on_progress()

    def stop_asked(self) -> bool:
        return self._is_to_end()

    def new_id(self) -> str:
        return self._runtime.entropy.token()

    def reached(self, step: str) -> None:
        self._runtime.reached(step)

    def report(self, report: Report) -> None:
        self._runtime.report(report)


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a run ends before its work is done, at a checkpoint; `by` is who asked for it."""

    ending: Ending
    outcome: Outcome
    detail: str
    by: str | None = None


class Engine:
    """Works one interval under a grant that `keeper` already holds for it."""

    def __init__(
        self,
        store: Store,
        store_id: str,
        keeper: LeaseKeeper,
        runtime: Runtime,
        work: Work,
        task: Assignment,
        until: float | None = None,
    ) -> None:
        """`until` is the `CLOCK_BOOTTIME` reading at which time is up."""
        self._store = store
        self._store_id = store_id
        self._keeper = keeper
        self._runtime = runtime
        self._work = work
        self._task = task
        self._until = until
        self._journal = Journal(store, keeper, runtime, task)
        self._stopping_said = False

    def work(self) -> IntervalReport:
        """Work the interval until it ends one way or another, and close its run.

        Raises errors of the store. A run that was fenced out, whose lease lapsed, or whose
        record was changed by hand is reported, and can write nothing more, not even that it
        ended: the next run closes it.
        """
        self._keeper.break_off = self._work.interrupt
        self._keeper.tell_trust(self._work.trust)
        try:
            return self._work_until_told()
        except FencedOut as error:
            return self._fenced_out(error)
        except LeaseLapsed as error:
            return self._lapsed(error)
        except WriteConflict as error:
            return self._journal.report(Outcome.FAILED)._replace(error=error)
        except (StoreUnreachable, StoreBusy, StoreUnusable):
            raise
        except OldOverNew as error:
            return self._journal.overtaken(error)
        except ReconcileError as error:
            return self._journal.failed(error)
        finally:
            self._keeper.break_off = lambda: None
            self._keeper.tell_trust(lambda until: None)

    def _work_until_told(self) -> IntervalReport:
        """Work, unless the source tells that it has to end before."""
        try:
            return self._fence_and_work()
        except SourcePaused as error:
            return self._journal.paused(error)
        except BrokenOff:
            stop = self._asked_to_stop()
            assert stop is not None, "that is why it was broken off"
            return self._stopped(stop)

    def _fence_and_work(self) -> IntervalReport:
        if not self._task.dry_run:
            raise_fence(
                self._keeper,
                self._work,
                self._store,
                self._store_id,
                self._task.interval.key,
                self._runtime,
            )
            self._runtime.reached("fence_raised")
            self._runtime.report(self._journal.open_run())
            self._runtime.reached("run_opened")
        order = Order(
            self._keeper,
            self._runtime,
            self._store,
            self._task,
            self._journal,
            self._answer_signal,
            lambda: self._asked_to_stop() is not None,
        )
        for step in self._work.steps(order):
            self._journal.save(step)
            self._runtime.reached("checkpoint_saved")
            if step.report is not None:
                self._show(step.report)
            if step.needs_approval is not None:
                return self._journal.needs_approval(step.needs_approval)
            stop = None if step.goes_on else self._asked_to_stop()
            if stop is not None:
                return self._stopped(stop)
        if self._task.dry_run:
            return self._journal.report(Outcome.COMPLETED)
        proof = self._work.prove(order)
        if isinstance(proof, Unproved):
            return self._journal.unproved(proof)
        self._runtime.reached("proved")
        obsolete = self._work.complete(order, proof)
        self._runtime.reached("target_completed")
        report = self._journal.completed(proof, obsolete)
        self._runtime.reached("interval_completed")
        return report

    def _stopped(self, stop: Stop) -> IntervalReport:
        if stop.by is not None:
            self._journal.record = replace(self._journal.record, repair_owner=stop.by)
        return self._journal.stopped(stop.ending, stop.outcome, stop.detail)

    def _lapsed(self, error: LeaseLapsed) -> IntervalReport:
        """The target only knows that it was broken off, or that time was over; why, the lease
        says: somebody else may have it by now, also where renewal has not asked, as after a stop
        that was longer than the progress deadline."""
        try:
            self._keeper.progressed()
        except FencedOut as fenced_out:
            return self._fenced_out(fenced_out)
        except LeaseLapsed as lapsed:
            error = lapsed
            with suppress(StoreUnreachable, StoreBusy, StoreUnusable):  # then that is all we know
                newest = self._store.lease(self._keeper.fence.key)
                if newest is not None and newest.fence != self._keeper.fence:
                    return self._fenced_out(FencedOut(str(error), newer=newest))
        return self._journal.report(Outcome.FAILED)._replace(error=error)

    def _fenced_out(self, error: FencedOut) -> IntervalReport:
        if error.newer is None:
            with suppress(ReconcileError):  # then the refusal stands as it came
                error = self._explained(error)
        report = self._journal.report(Outcome.FENCED_OUT)
        return report._replace(error=error, newer=error.newer)

    def _explained(self, error: FencedOut) -> FencedOut:
        """A target that refuses says no more than which grant it knows. Who has that?"""
        key = self._keeper.fence.key
        newest = self._store.lease(key)
        if newest is not None and newest.fence != self._keeper.fence:
            return FencedOut(str(error), newer=newest, hint=error.hint)
        row = self._work.floor(key)
        if row is None or row.store_id == self._store_id:
            return error
        return FencedOut(
            f"another store, {row.store_id}, has fenced the target at generation"
            f" {row.generation}; this one is {self._store_id}",
            hint="let only one of them run this job; find the host that uses the other store",
        )

    def _asked_to_stop(self) -> Stop | None:
        signal = self._runtime.stop.reason
        if signal is not None:
            return Stop(Ending.INTERRUPTED, Outcome.INTERRUPTED, signal)
        request: JsonObject | None = self._keeper.stop_request
        if request is not None:
            by = str(request.get("actor"))
            return Stop(Ending.INTERRUPTED, Outcome.INTERRUPTED, f"stop by {by}", by)
        if self._until is not None and self._runtime.clock.boot() >= self._until:
            return Stop(Ending.OUT_OF_TIME, Outcome.OUT_OF_TIME, "max_runtime")
        return None

    def _show(self, report: Report) -> None:
        if isinstance(report, Progress) and report.total is None:
            report = report._replace(total=self._task.expected_ranges)
        self._runtime.report(report)

    def _answer_signal(self) -> None:
        """Say at the next sign of progress that a signal was heard: a range can be long."""
        if self._runtime.stop.reason is not None and not self._stopping_said:
            self._stopping_said = True
            record, job = self._journal.record, self._task.job
            under_way = record.ranges_done + 1
            self._runtime.report(Stopping(job.name, record.id, under_way, record.phase))
