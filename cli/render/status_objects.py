"""`status --json`. `state` of an interval is the stored one, `shows` the displayed one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.records import figures
from .events import event_at
from .objects import lease, pause
from .trail import quarantined
from .words import rfc3339, seconds_between

if TYPE_CHECKING:
    from datetime import datetime

    from ...core.records import RangeRecord, RunRecord
    from ...core.status import EventView, IntervalStatus, IntervalView, JobStatus, StatusReport


def status(report: StatusReport, *, with_intervals: bool) -> dict[str, Any]:
    """All jobs; with a job its intervals; with an interval its runs, ranges and trail."""
    value: dict[str, Any] = {
        "now": rfc3339(report.now),
        "config": report.config,
        "store": report.store,
        "jobs": [_job(job, report.now) for job in report.jobs],
    }
    if report.interval is not None:
        value["intervals"] = [_interval(report.interval.view)]
        value.update(_details(report.interval))
    elif with_intervals:
        value["intervals"] = [_interval(view) for job in report.jobs for view in job.recent]
    for one, job in zip(value["jobs"], report.jobs, strict=True):
        if job.audit is not None:
            since = rfc3339(job.audit.since)
            one["recorded"] = {**job.audit._asdict(), "since": since}
        value["acts"] = [_event(event) for job in report.jobs for event in job.acts]
    return value


def _job(job: JobStatus, now: datetime) -> dict[str, Any]:
    oldest = job.oldest_unfinished
    last = job.last_completed
    return {
        "job": job.job.name,
        "state": job.state,
        "next_due": rfc3339(job.next_due),
        "lease": None if job.lease is None else lease(job.lease, _interval_id(job)),
        "backlog": job.backlog,
        "pause": pause(job.pause),
        "backfill": _backfill(job),
        "oldest_unfinished": None
        if oldest is None
        else {
            "interval": oldest.record.id,
            "age_seconds": round(seconds_between(oldest.record.scheduled_at, now), 3),
            "overdue": job.oldest_overdue,
        },
        "last_completed": None if last is None else last.id,
        "last_completed_at": None if last is None else rfc3339(last.completed_at),
        "problems": [
            {"text": one.text, "commands": list(one.commands)}
            for one in job.problems
            if one.sign == "!"  # what nobody can do anything about is in the intervals alone
        ],
    }


def _backfill(job: JobStatus) -> dict[str, Any] | None:
    if job.backfill is None:
        return None
    from .backfills import view_object

    return view_object(job.backfill)


def _interval_id(job: JobStatus) -> str | None:
    """How users spell the interval that the lease is for."""
    assert job.lease is not None
    for view in job.recent:
        if view.record.interval(job.job.name).key == job.lease.interval:
            return view.record.id
    return None


def _interval(view: IntervalView) -> dict[str, Any]:
    record = view.record
    count, checksum = figures(record)
    return {
        "interval": record.id,
        "scheduled_at": rfc3339(record.scheduled_at),
        "state": record.state.value,
        "shows": view.shows,
        "reason": record.reason,
        "signed": None
        if view.signed is None
        else dict(zip(("actor", "reason"), view.signed, strict=True)),
        "span": record.span,
        "trigger": None if record.trigger is None else record.trigger.value,
        "rerun": record.rerun,
        "started_at": rfc3339(record.started_at),
        "delayed_seconds": None
        if record.started_at is None
        else round(seconds_between(record.scheduled_at, record.started_at), 3),
        "last_checkpoint_at": rfc3339(record.last_checkpoint_at),
        "completed_at": rfc3339(record.completed_at),
        "repair_owner": record.repair_owner,
        "runs": record.runs,
        "seconds": round(record.seconds, 3),
        "ranges": {"done": record.ranges_done, "total": record.ranges_total},
        "phase": record.phase,
        "accounts": record.accounts,
        "count": count,
        "checksum": checksum,
        "changes": {"grant": record.grant, "revoke": record.revoke, "update": record.update},
        "deadline_at": rfc3339(view.deadline_at),
        "retry_at": rfc3339(view.retry_at),
        "failure": None if record.failure is None else dict(record.failure),
        "waiting": None if record.waiting is None else dict(record.waiting),
        "approval": None if record.approval is None else dict(record.approval),
    }


def _details(found: IntervalStatus) -> dict[str, Any]:
    return {
        "desired": found.desired,
        "observed": found.observed,
        "quarantined": quarantined(found.ranges),
        "runs": [_run(run) for run in found.runs],
        "ranges": [_range(one) for one in found.ranges],
        "events": [_event(event) for event in found.events],
    }


def _run(run: RunRecord) -> dict[str, Any]:
    return {
        "number": run.number,
        "run_id": run.run_id,
        "trigger": run.trigger.value,
        "generation": run.generation,
        "rerun": run.rerun,
        "holder": {name: run.holder.get(name) for name in ("host", "pid", "user", "token")},
        "started_at": rfc3339(run.started_at),
        "ended_at": rfc3339(run.ended_at),
        "ending": None if run.ending is None else run.ending.value,
        "detail": run.detail,
    }


def _range(one: RangeRecord) -> dict[str, Any]:
    return {
        "number": one.number,
        "lower": one.lower,
        "upper": one.upper,
        "accounts": one.accounts,
        "desired": str(one.desired),
        "observed": str(one.proved),
        "changes": {"grant": one.grant, "revoke": one.revoke, "update": one.update},
        "quarantined": dict(one.quarantined or {}),
    }


def _event(event: EventView) -> dict[str, Any]:
    rest = {name: value for name, value in event.value.items() if name != "at"}
    return {"at": rfc3339(event_at(event)), **rest}
