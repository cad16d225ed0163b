"""What one run writes down about its interval: the run, the cursor, the outcome, the trail.

Everything goes through fenced commits, each of which is whole: an interval's record, the
run's record and the event that explains them land together or not at all. The records are
written under the version they were read at, so that an act by hand in between (an approval,
a skip) is never overwritten unseen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .errors import (
    CommandFailed,
    CommandNotStarted,
    LeaseLapsed,
    NotProved,
    SourceUnreachable,
    StoreBusy,
    StoreUnreachable,
    TargetUnreachable,
)
from .masking import mask
from .model import ABSENT, Append, Ending, Kind, Outcome, Put, Reported, State, Trigger
from .rates import starts_of, with_start
from .records import OPEN, IntervalRecord, RunRecord, closed, figures, given_up, run_key, to_text
from .run_reports import interval_report, resumed_at, started_report
from .takeover import killed_once_more, takeover_facts
from .trail import guard_told

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from .assignment import Assignment
    from .errors import OldOverNew, ReconcileError, SourcePaused
    from .events import IntervalReport, Started
    from .leasing import LeaseKeeper
    from .model import Json, JsonObject, Proof, Rate, Unproved, Write
    from .ports import Runtime, Store
    from .records import GuardReport
    from .steps import Step

NO_ATTEMPT = (
    SourceUnreachable,
    TargetUnreachable,
    StoreUnreachable,
    StoreBusy,
    LeaseLapsed,
    CommandNotStarted,
)
"""Faults of the surroundings; they do not count towards `max_attempts`."""


class Journal:
    """Keeps the records of one run of one interval."""

    def __init__(
        self, store: Store, keeper: LeaseKeeper, runtime: Runtime, task: Assignment
    ) -> None:
        self._store = store
        self._keeper = keeper
        self._runtime = runtime
        self._task = task
        self._job = task.job
        self.record = task.record
        self._version = task.version
        self._run: RunRecord | None = None
        self._opening = task.opening
        self._begun_boot = runtime.clock.boot()
        self._has_saved = False

    # --- beginning

    def open_run(self) -> Started:
        """Open the run, and close what a dead or silent holder left open."""
        now = self._keeper.now()
        first = self.record.runs == 0
        writes: list[Write] = []
        previous = self._close_predecessors(now, writes)
        self._run = RunRecord(
            number=self.record.runs + 1,
            run_id=self._keeper.fence.run,
            trigger=self._task.trigger,
            generation=self._keeper.fence.generation,
            holder=_holder_json(self._runtime),
            started_at=now,
            rerun=self.record.rerun,
        )
        if first:
            writes.append(self._event("due", at=to_text(self.record.scheduled_at)))
        writes += self._opening
        actor = self._task.actor
        if actor is not None and actor.reason and self._task.trigger is Trigger.MANUAL:
            writes.append(self._event("asked", actor=actor.name, reason=actor.reason))
        writes.append(
            self._event(
                "run_started",
                run=self._run.number,
                trigger=self._run.trigger,
                generation=self._run.generation,
                host=self._runtime.host.holder().host,
                by=actor.name if actor else None,
                at_range=resumed_at(self.record),
                phase=self.record.phase,
                work=self._command,
            )
        )
        writes += self._too_often(self._run.number)
        record = replace(
            self.record,
            state=State.UNFINISHED,
            trigger=self.record.trigger or self._task.trigger,
            runs=self._run.number,
            last_run_id=self._run.run_id,
            started_at=self.record.started_at or now,
            waiting=None if self.record.approval else self.record.waiting,
            work=self._command,
        )
        if previous is not None:
            record = killed_once_more(record, self._job.max_attempts, now)
        writes += [self._put_run(self._run), self._put(record)]
        if self._task.replay is not None:
            writes.append(self._replayed(self._task.replay, now))
        self._keeper.commit(writes)
        self.record, self._version = record, self._version + 1
        return started_report(self._task, record, self._run, previous, self._keeper.previous)

    def _too_often(self, number: int) -> Iterator[Append]:
        """A warning on the trail, once a pass, where it takes more runs than there are attempts,
        however each of them ended: what is killed or out of time and gets further is no failure."""
        runs, most = number - self.record.runs_before, self._job.max_attempts
        if runs == most + 1:
            yield self._event("often", run=number, runs=runs, max_attempts=most)

    def _replayed(self, rate: Rate, now: datetime) -> Put:
        key = self._task.starts
        starts = with_start(starts_of(self._store, self._job.name, key), rate, now)
        value: JsonObject = {"starts": [to_text(start) for start in starts]}
        return Put(Kind.JOB, self._job.name, key, value)

    def _close_predecessors(self, now: datetime, writes: list[Write]) -> RunRecord | None:
        """Close what a dead or silent holder left open, of this interval or of another.

        Returns this interval's closed run, if there was one.
        """
        mine: RunRecord | None = None
        for found in self._store.scan(Kind.RUN, self._job.name, tag=OPEN):
            run = RunRecord.from_json(found.value)
            of_interval, _, _ = found.key.rpartition("/")
            run = closed(run, Ending.ABANDONED, now)
            writes.append(Put(Kind.RUN, self._job.name, found.key, run.to_json(), tag=run.tag))
            if of_interval == self._record_key:
                mine = run
                detail = takeover_facts(self._keeper, self.record, now)
                writes.append(self._event("taken_over", run=run.number, **detail))
        return mine

    # --- going on

    def save(self, step: Step) -> None:
        """Make a step durable: its records, the cursor, and what is shown, as one batch."""
        if self._task.dry_run:
            self._keeper.commit(step.writes)
            return
        assert self._run is not None
        now = self._keeper.now()
        show = dict(step.show)
        committed = show.pop("committed", None)
        record = replace(
            self.record,
            cursor=step.cursor,
            last_checkpoint_at=now,
            attempts=0,
            kills=0,
            failure=None,
            **show,  # type: ignore[arg-type]
        )
        writes = [self._put(record), *step.writes]
        run = self._run.having_revoked(record.spent_revoke - self.record.spent_revoke, now)
        if isinstance(committed, int):
            first = run.first_range or committed
            run = replace(run, first_range=first, last_range=committed)
        if run is not self._run:
            self._run = run
            writes.append(self._put_run(run))
        if step.event is not None:
            writes.append(Append(Kind.EVENT, self._job.name, self._record_key, step.event))
        self._keeper.commit(writes)
        self.record, self._version = record, self._version + 1
        self._has_saved = True

    # --- ending

    def completed(self, proof: Proof | Reported, obsolete: Sequence[Write]) -> IntervalReport:
        """Write down the proof; `obsolete` are writes that drop what is not needed any more."""
        now = self._keeper.now()
        record = replace(
            self.record,
            state=State.COMPLETED,
            reason=None,
            ranges_done=self.record.ranges_total or 0,
            completed_at=now,
            checksum=None if isinstance(proof, Reported) else proof.observed,
            reported=proof.to_json() if isinstance(proof, Reported) else None,
            waiting=None,
            failure=None,
            attempts=0,
            earlier=None,
        )
        count, checksum = figures(record)
        event = self._event(
            "completed",
            work=self._command,
            ranges=record.ranges_total,
            count=count,
            checksum=checksum,
            late=(now - record.scheduled_at).total_seconds(),
        )
        self._close(record, Ending.COMPLETED, now, None, [event, *obsolete])
        return self.report(Outcome.COMPLETED)

    def needs_approval(self, guard: GuardReport) -> IntervalReport:
        """A guard stopped the plan; nothing was changed."""
        known = (self.record.waiting or {}).get("hash") == guard.hash
        approved = (self.record.approval or {}).get("hash")
        if not self._task.dry_run:
            waiting = guard.to_json()
            record = replace(self.record, waiting=waiting, approval=None)
            event = self._event("guard", **waiting)
            self._close(record, Ending.NEEDS_APPROVAL, self._keeper.now(), guard.guard, [event])
        report = self.report(Outcome.NEEDS_APPROVAL)._replace(guard=guard, known_before=known)
        if not isinstance(approved, str):
            return report
        then = guard_told(self._store, self._job.name, self._record_key, approved)
        return report._replace(refused_hash=approved, refused_guard=then)

    def stopped(self, ending: Ending, outcome: Outcome, why: str) -> IntervalReport:
        """The run ends at its last checkpoint, because somebody or the clock asked for it."""
        if self._task.dry_run:
            return self.report(outcome)._replace(signal=why)
        record, events = self.record, [self._ended(ending, why)]
        if ending is Ending.OUT_OF_TIME and not self._has_saved:
            # Or what never gets to a checkpoint in its time would be begun anew for ever.
            record = replace(record, attempts=record.attempts + 1)
            if record.attempts >= self._job.max_attempts:
                record = given_up(record, "attempts")
                events.append(self._event("failed", reason="attempts", text=why))
        self._close(record, ending, self._keeper.now(), why, events)
        return self.report(outcome)._replace(signal=why)

    def paused(self, error: SourcePaused) -> IntervalReport:
        """The run ends because the source may not be asked before an instant: no attempt, and
        no fault."""
        until = to_text(error.until)
        if not self._task.dry_run:
            now = self._keeper.now()
            failure = {**_failure(error, now), "outcome": Outcome.WAITING, "until": until}
            record = replace(self.record, failure=failure)
            event = self._ended(Ending.WAITING, str(error))
            self._close(record, Ending.WAITING, now, str(error), [event])
        return self.report(Outcome.WAITING)._replace(error=error, retry_at=error.until)

    def unproved(self, unproved: Unproved) -> IntervalReport:
        """Something is missing: the next run plans anew, and nobody calls this completed."""
        error = NotProved(unproved.reason)
        if not unproved.accounts:
            return self.failed(error, forget_cursor=True)
        report = self.failed(error, Ending.INCOMPLETE, Outcome.INCOMPLETE, forget_cursor=True)
        return report._replace(quarantined=unproved.accounts)

    def overtaken(self, error: OldOverNew) -> IntervalReport:
        """Older than what the target has completed: it would undo newer truth."""
        now = self._keeper.now()
        failed = replace(self.record, waiting=None, failure=_failure(error, now))
        record = given_up(failed, "overtaken")
        event = self._event("failed", reason="overtaken", text=str(error))
        self._close(record, Ending.FAILED, now, str(error), [event])
        return self.report(Outcome.FAILED)._replace(error=error)

    def failed(
        self,
        error: ReconcileError,
        ending: Ending = Ending.FAILED,
        outcome: Outcome = Outcome.FAILED,
        *,
        forget_cursor: bool = False,
    ) -> IntervalReport:
        """The run ends with a fault; the next one goes on from the last checkpoint."""
        if self._task.dry_run:
            return self.report(outcome)._replace(error=error)
        self._keeper.progressed()
        now = self._keeper.now()
        earlier = self._task.record.failure or {}
        # Checkpoints that are thrown away were no progress.
        before = (self._task.record if forget_cursor else self.record).attempts
        if earlier.get("outcome") == Outcome.INCOMPLETE != outcome:
            before = 0  # those never add up to giving it up
        attempts = before + (not isinstance(error, NO_ATTEMPT))
        failure = {**_failure(error, now), "outcome": outcome}
        record = replace(self.record, attempts=attempts, failure=failure)
        if forget_cursor:
            record = replace(record, cursor=None)
        events = [self._ended(ending, str(error), **_facts(error))]
        if attempts >= self._job.max_attempts and outcome is not Outcome.INCOMPLETE:
            record = given_up(record, "attempts")
            events.append(self._event("failed", reason="attempts", text=str(error)))
        self._close(record, ending, now, str(error), events)
        known = earlier.get("text") == str(error)
        return self.report(outcome)._replace(error=error, attempt=attempts, known_before=known)

    def _close(
        self,
        record: IntervalRecord,
        ending: Ending,
        now: datetime,
        detail: str | None,
        writes: Sequence[Write],
    ) -> None:
        """The run's one ending and what it means for the interval, as one batch."""
        batch: list[Write] = []
        if self._run is None:
            # It failed before the run was opened: the record may be new, a run is not owed.
            if self._version == ABSENT:
                batch.append(self._event("due", at=to_text(record.scheduled_at)))
            batch += self._opening
            if not record.state.is_final:
                record = replace(record, state=State.UNFINISHED)
        else:
            took = self._runtime.clock.boot() - self._begun_boot
            run = replace(closed(self._run, ending, now, detail), seconds=took)
            record = replace(record, seconds=record.seconds + (run.seconds or 0.0))
            batch.append(self._put_run(run))
        self._keeper.commit([*batch, self._put(record), *writes])
        self.record, self._version = record, self._version + 1

    def _ended(self, ending: Ending, text: str, **facts: Json) -> Append:
        """How the run ended; an attempt may fail before there is one."""
        if self._run is None:
            return self._event("attempt_failed", text=text)
        number = self._run.number
        return self._event("run_ended", run=number, ending=ending, text=text, **facts)

    @property
    def _record_key(self) -> str:
        return self._task.interval.key

    @property
    def _command(self) -> str | None:
        """The kind of work, where it is not the usual one."""
        return None if self._job.work.kind == "entitlements" else self._job.work.kind

    def _put(self, record: IntervalRecord) -> Put:
        return Put(
            Kind.INTERVAL,
            self._job.name,
            self._record_key,
            record.to_json(),
            expect=self._version or ABSENT,
            tag=record.tag,
        )

    def _put_run(self, run: RunRecord) -> Put:
        key = run_key(self._record_key, run.number)
        return Put(Kind.RUN, self._job.name, key, run.to_json(), tag=run.tag)

    def _event(self, type_: str, **facts: Json) -> Append:
        value = {"type": type_, **{k: v for k, v in facts.items() if v is not None}}
        return Append(Kind.EVENT, self._job.name, self._record_key, value)

    def report(self, outcome: Outcome) -> IntervalReport:
        """How the interval stands, for the user."""
        seconds = self._runtime.clock.boot() - self._begun_boot
        now = self._keeper.now()
        return interval_report(self._task, self.record, self._keeper, outcome, now, seconds)


def _holder_json(runtime: Runtime) -> JsonObject:
    """All of it, so that the process can be told from any other if it has to be ended."""
    return runtime.host.holder()._asdict()


def _failure(error: ReconcileError, at: datetime) -> JsonObject:
    found: JsonObject = {"text": str(error), "exit": error.name, "at": to_text(at)}
    if isinstance(error, CommandFailed) and error.tail:
        found = {**found, "last": mask(error.tail[-1])}
    return found


def _facts(error: ReconcileError) -> Mapping[str, Json]:
    return error.facts if isinstance(error, CommandFailed) else {}
