"""What a run reports of itself, made of its interval's record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .events import IntervalReport, Started
from .records import figures

if TYPE_CHECKING:
    from datetime import datetime

    from .assignment import Assignment
    from .leasing import LeaseKeeper
    from .model import Grant, Outcome
    from .records import IntervalRecord, RunRecord


def resumed_at(record: IntervalRecord) -> int | None:
    """The range at which a run goes on; None for one that begins."""
    if record.cursor is None:
        return None
    following, total = record.ranges_done + 1, record.ranges_total
    return following if total is None else min(following, total)


def started_report(
    task: Assignment,
    record: IntervalRecord,
    run: RunRecord,
    previous: RunRecord | None,
    grant: Grant | None,
) -> Started:
    """That a run was opened; after `previous`, whose grant was taken over, where there is one."""
    grant = grant if previous else None
    silent = (run.started_at - grant.progress_at).total_seconds() if grant else None
    return Started(
        job=task.job.name,
        interval=task.interval.id,
        trigger=task.trigger,
        generation=run.generation,
        at=run.started_at,
        at_range=resumed_at(record),
        total=record.ranges_total or task.expected_ranges,
        phase=record.phase,
        killed=grant.holder if grant else None,
        killed_generation=previous.generation if previous else None,
        silent=silent,
        dead=grant is not None and run.started_at < grant.expires_at,
        after_range=record.ranges_done or None,
        run_id=run.run_id,
        work=task.job.work.kind,
    )


def interval_report(
    task: Assignment,
    record: IntervalRecord,
    keeper: LeaseKeeper,
    outcome: Outcome,
    now: datetime,
    seconds: float,
) -> IntervalReport:
    """How the interval stands, for the user."""
    count, checksum = figures(record)
    return IntervalReport(
        job=task.job.name,
        interval=record.id,
        scheduled_at=record.scheduled_at,
        outcome=outcome,
        trigger=task.trigger,
        generation=keeper.fence.generation,
        at=now,
        runs=record.runs,
        rerun=record.rerun,
        ranges_done=record.ranges_done,
        ranges_total=record.ranges_total or task.expected_ranges,
        accounts=record.accounts,
        changes={"grant": record.grant, "revoke": record.revoke, "update": record.update},
        count=count,
        checksum=checksum,
        seconds=seconds,
        due_seconds=(now - record.scheduled_at).total_seconds(),
        max_attempts=task.job.max_attempts,
        phase=record.phase,
        reason=record.reason,
        run_id="" if task.dry_run else keeper.fence.run,
        backfill=task.backfill,
        work=task.job.work.kind,
    )
