"""What is told of a trigger and its intervals, as values: from what was done, or from records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import FailedBefore, SourcePaused
from ..events import IntervalReport, RunReport
from ..model import Kind, Outcome, State, Trigger, instant_key
from ..records import GuardReport, IntervalRecord, figures, from_text
from .history import completed, times

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ..config import Job
    from ..events import DryRun
    from ..model import Interval, Lease
    from ..planning import Blocked, Due, Waiting
    from ..ports import Store
    from .backfill.turns import Turn
    from .look import Look


def trigger_report(
    store: Store,
    job: Job,
    seen: Look,
    worked: Sequence[IntervalReport],
    waiting: Sequence[IntervalReport],
    *,
    interrupted: bool = False,
    dry_run: DryRun | None = None,
) -> RunReport:
    """All that was worked, all that waits, and what decides the outcome: the oldest interval
    that did not complete. `interrupted`: by a signal, before anything due was begun."""
    every = [*worked, *waiting]
    short = [r for r in every if r.outcome is not Outcome.COMPLETED]
    if interrupted:
        outcome = Outcome.INTERRUPTED
    elif short:
        outcome = min(short, key=lambda r: r.scheduled_at).outcome
    else:
        outcome = Outcome.COMPLETED if every else Outcome.NOTHING_DUE
    last = next(iter(completed(store, job.name, seen.now, limit=1)), None)
    following = seen.decision.next_due
    return RunReport(
        job=job.name,
        outcome=outcome,
        at=seen.now,
        intervals=every,
        next_due=following.scheduled_at if following else None,
        next_interval=following.id if following else None,
        last_interval=last.id if last else None,
        last_completed_at=last.completed_at if last else None,
        new=last is None and not every,
        dry_run=dry_run,
        guard=next((r.guard for r in every if r.guard is not None), None),
    )


def paused_report(job: Job, seen: Look) -> RunReport:
    """That triggers start nothing, by whose word, and how long."""
    following = seen.decision.next_due
    return RunReport(
        job=job.name,
        outcome=Outcome.PAUSED,
        at=seen.now,
        next_due=following.scheduled_at if following else None,
        next_interval=following.id if following else None,
        pause=seen.decision.pause,
    )


def rate_report(
    report: RunReport,
    job: Job,
    left: Sequence[Due],
    until: datetime,
    seen: Look,
    own: Turn | None = None,
) -> RunReport:
    """The same, of a trigger that ends because its rate, or the backfill's `own`, lets nothing
    more begin until then. What did not complete still decides the outcome."""
    done = report.outcome in (Outcome.COMPLETED, Outcome.NOTHING_DUE)
    if own is not None:
        from .backfill.turns import left as left_of

        return report._replace(
            outcome=Outcome.WAITING if done else report.outcome,
            retry_at=until,
            rate=own.backfill.rate,
            waiting=left[0].interval.id,
            left=left_of(seen, own),
            backfill=own.backfill.record.number,
        )
    return report._replace(
        outcome=Outcome.WAITING if done else report.outcome,
        retry_at=until,
        rate=job.catch_up.rate,
        waiting=left[0].interval.id,
        waiting_seconds=(seen.now - left[0].interval.scheduled_at).total_seconds(),
        left=seen.decision.backlog,
    )


def cut_short(
    report: RunReport, seen: Look, following: Due, *, stopped: bool, late: bool
) -> RunReport:
    """The same, of a trigger that a signal, or its time, has kept from the next interval. What
    did not complete still decides the outcome."""
    if report.outcome is not Outcome.COMPLETED or not (stopped or late):
        return report
    return report._replace(
        outcome=Outcome.INTERRUPTED if stopped else Outcome.OUT_OF_TIME,
        waiting=following.interval.id,
        left=max(seen.decision.backlog, 1),
    )


def blocked_report(job: Job, blocked: Blocked, now: datetime) -> IntervalReport:
    """How an interval stands that failed for good, and holds up newer ones."""
    return report_of(job, blocked.record, now)._replace(blocks=len(blocked.held))


def waiting_reports(job: Job, seen: Look, worked: Sequence[IntervalReport]) -> list[IntervalReport]:
    """All that no trigger may touch yet, but for what was just worked; and what blocks others."""
    tried = {instant_key(one.scheduled_at) for one in worked}
    found = [
        waiting_report(job, one, seen.now)
        for one in seen.decision.waiting
        if one.interval.key not in tried
    ]
    blocked = seen.decision.blocked
    if blocked is not None and blocked.failed:
        found.append(blocked_report(job, blocked, seen.now))
    return found


def waiting_report(job: Job, waiting: Waiting, now: datetime) -> IntervalReport:
    """How an interval stands that no trigger may touch yet."""
    report = report_of(job, waiting.record, now)._replace(error=None)
    if waiting.why == "approval" and waiting.record.waiting is not None:
        guard = GuardReport.from_json(waiting.record.waiting)
        return report._replace(outcome=Outcome.NEEDS_APPROVAL, guard=guard, known_before=True)
    failure = waiting.record.failure or {}
    quiet = (Outcome.INCOMPLETE, Outcome.WAITING)
    outcome = next((one for one in quiet if failure.get("outcome") == one), Outcome.FAILED)
    text = str(failure.get("text", ""))
    paused = outcome is Outcome.WAITING
    return report._replace(
        outcome=outcome,
        failed_at=failed_at(waiting.record),
        error=SourcePaused(text, until=waiting.until or now) if paused else FailedBefore(text),
        retry_at=waiting.until,
        attempt=waiting.record.attempts,
        known_before=True,
    )


def report_of(job: Job, record: IntervalRecord, now: datetime) -> IntervalReport:
    """How an interval stands by its record alone."""
    outcomes = {
        State.COMPLETED: Outcome.COMPLETED,
        State.SKIPPED: Outcome.INCOMPLETE,
        State.FAILED: Outcome.INCOMPLETE,
    }
    count, checksum = figures(record)
    return IntervalReport(
        job=job.name,
        interval=record.id,
        scheduled_at=record.scheduled_at,
        outcome=outcomes.get(record.state, Outcome.FAILED),
        trigger=record.trigger or Trigger.SCHEDULE,
        generation=0,
        at=now,
        runs=record.runs,
        rerun=record.rerun,
        ranges_done=record.ranges_done,
        ranges_total=record.ranges_total,
        accounts=record.accounts,
        changes={"grant": record.grant, "revoke": record.revoke, "update": record.update},
        count=count,
        checksum=checksum,
        max_attempts=job.max_attempts,
        phase=record.phase,
        reason=record.reason,
        error=FailedBefore(str(record.failure.get("text", ""))) if record.failure else None,
        failed_at=failed_at(record),
        span=record.span,
        known_before=True,
        work=job.work.kind,
    )


def busy_report(
    store: Store, job: Job, lease: Lease, waits: Interval | None, now: datetime
) -> RunReport:
    """Who works, how far that is, how long it usually takes, and which interval waits for it.
    While a plan is made, the newest completed interval says how many ranges there may be."""
    found = store.get(Kind.INTERVAL, job.name, lease.interval)
    record = IntervalRecord.from_json(found.value) if found is not None else None
    last = completed(store, job.name, now)
    took = times(last)
    report = RunReport(
        job=job.name,
        outcome=Outcome.BUSY,
        at=now,
        lease=lease,
        waiting=waits.id if waits is not None else None,
        waiting_seconds=(now - waits.scheduled_at).total_seconds() if waits else 0.0,
        usual_seconds=took.usual,
        slowest_seconds=took.slowest,
    )
    if record is None:
        return report
    total = record.ranges_total or (last[0].ranges_total if last else None)
    return report._replace(
        lease_interval=record.id,
        lease_ranges=(record.ranges_done, total),
        lease_phase=record.phase,
    )


def failed_at(record: IntervalRecord) -> datetime | None:
    """When the last run failed."""
    at = (record.failure or {}).get("at")
    return from_text(at) if isinstance(at, str) else None


def as_run(report: IntervalReport, found: DryRun) -> IntervalReport:
    """A dry run ends as the run would that leaves accounts as they are; a guard goes first."""
    if not found.quarantined:
        return report
    completed_dry = report.outcome is Outcome.COMPLETED
    outcome = Outcome.INCOMPLETE if completed_dry else report.outcome
    return report._replace(outcome=outcome, quarantined=found.quarantined)
