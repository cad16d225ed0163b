"""`--json`: one object a command, for programs. Fields are added, never renamed.

Times are RFC 3339 in UTC; spans are seconds. A fault of the source is an outcome of its
interval (`failed`, with its `error`), not an error object.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..exit_codes import ExitCode, exit_code_of_error
from .errors import error_fields
from .words import rfc3339

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.events import ActReport, DryRun, IntervalReport, PauseReport, RunReport
    from ...core.model import Lease
    from ...core.planning import Pause
    from ...core.records import GuardReport

SCHEMA = 1


def line(value: dict[str, Any]) -> str:
    """An object as one line of text."""
    return json.dumps({"schema": SCHEMA, **value}, ensure_ascii=True) + "\n"


def run(report: RunReport, code: int) -> dict[str, Any]:
    """What `run` or `resume` of one job achieved."""
    value: dict[str, Any] = {
        "job": report.job,
        "outcome": report.outcome.value,
        "exit": code,
        "intervals": [interval(one) for one in report.intervals],
    }
    if report.lease is not None:
        value["lease"] = lease(report.lease, report.lease_interval)
        value["waiting"] = report.waiting
    if report.next_due is not None:
        value["next_due"] = rfc3339(report.next_due)
    if report.retry_at is not None:
        value["retry_at"] = rfc3339(report.retry_at)
    if report.rate is not None:
        value["waiting"] = report.waiting
        value["backlog"] = report.left
    if report.backfill is not None:
        value["backfill"] = report.backfill
    if report.pause is not None:
        value["pause"] = pause(report.pause)
    if report.error is not None:
        value["error"] = error_fields(report.error, exit_code_of_error(report.error))
    if report.dry_run is not None:
        value["dry_run"] = dry_run(report.dry_run)
    if report.guard is not None:
        value["guard"] = guard(report.guard)
    return value


def runs(reports: Sequence[RunReport], codes: Sequence[int], code: int) -> dict[str, Any]:
    """What `resume` of all jobs achieved."""
    jobs = [run(one, its) for one, its in zip(reports, codes, strict=True)]
    return {"exit": code, "jobs": jobs}


def interval(report: IntervalReport) -> dict[str, Any]:
    """How one interval fared."""
    value: dict[str, Any] = {
        "interval": report.interval,
        "scheduled_at": rfc3339(report.scheduled_at),
        "outcome": report.outcome.value,
        "trigger": report.trigger.value,
        "generation": report.generation,
        "runs": report.runs,
        "rerun": report.rerun,
        "ranges": {"done": report.ranges_done, "total": report.ranges_total},
        "phase": report.phase,
        "accounts": report.accounts,
        "changes": dict(report.changes),
        "count": report.count,
        "checksum": report.checksum,
        "seconds": round(report.seconds, 3),
    }
    if report.error is not None:
        value["error"] = error_fields(report.error, exit_code_of_error(report.error))
        value["attempt"] = report.attempt
    if report.failed_at is not None:
        value["failed_at"] = rfc3339(report.failed_at)
    if report.retry_at is not None:
        value["retry_at"] = rfc3339(report.retry_at)
    if report.backfill is not None:
        value["backfill"] = report.backfill[0]
    if report.blocks:
        value["blocks"] = report.blocks
    if report.reason is not None:
        value["reason"] = report.reason
    if report.quarantined:
        value["quarantined"] = dict(report.quarantined)
    if report.guard is not None:
        value["guard"] = guard(report.guard)
    if report.signal is not None:
        value["signal"] = report.signal
    if report.newer is not None:
        value["newer"] = lease(report.newer)
    return value


def act(report: ActReport, code: int) -> dict[str, Any]:
    """What `skip` or `stop` achieved."""
    return {
        "job": report.job,
        "interval": report.interval,
        "exit": code,
        "done": report.done,
        "state": report.state,
        "reason": report.reason,
        "forced": report.forced,
        "generation": report.generation,
        "ranges": {"done": report.ranges_done, "total": report.ranges_total},
        "phase": report.phase,
        "lease": None if report.lease is None else lease(report.lease, report.interval),
    }


def pausing(report: PauseReport, code: int) -> dict[str, Any]:
    """What `pause` or `unpause` achieved."""
    return {
        "job": report.job,
        "exit": code,
        "pause": pause(report.pause),
        "was_paused": report.was_paused,
        "next_due": rfc3339(report.next_due),
        "due": report.due,
        "skipped": {"count": report.skipped_count, "intervals": list(report.skipped)},
        "left_to_policy": report.left_to_policy,
        "stopped": None
        if report.stopped is None
        else act(report.stopped, ExitCode.OK if report.stopped.done else ExitCode.BUSY),
    }


def pause(one: Pause | None) -> dict[str, Any] | None:
    """Who holds triggers back, since when, until when and why."""
    if one is None:
        return None
    return {
        "since": rfc3339(one.at),
        "until": rfc3339(one.until),
        "actor": one.actor,
        "reason": one.reason,
    }


def guard(report: GuardReport) -> dict[str, Any]:
    """Why a plan waits for somebody, and the hash that approves it."""
    return {
        "guard": report.guard,
        "limit": report.limit,
        "minimum": report.minimum,
        "base": report.base,
        "planned": {"grant": report.grant, "revoke": report.revoke, "update": report.update},
        "before": {"interval": report.spent, "others": report.others},
        "hash": report.hash,
        "losing_accounts": report.losing_accounts,
        "losing_names": list(report.losing_names),
        "most_revoked": [list(pair) for pair in report.most_revoked],
        "source": report.source,
        "source_rows": report.source_rows,
        "last_rows": report.last_rows,
        "missing": list(report.missing),
    }


def dry_run(found: DryRun) -> dict[str, Any]:
    """What a dry run found; the sample as before and after."""
    sample = [
        {"action": one.action.value, "before": one.before, "after": one.after}
        for one in found.sample
    ]
    return {
        "interval": found.interval,
        "changes": dict(found.changes),
        "quarantined": dict(found.quarantined),
        "sample": sample,
    }


def lease(held: Lease, interval_id: str | None = None) -> dict[str, Any]:
    """Who has a lease, and until when."""
    holder = held.holder
    return {
        "holder": f"{holder.host}:{holder.pid}:{holder.token}",
        "host": holder.host,
        "pid": holder.pid,
        "generation": held.fence.generation,
        "interval": interval_id or held.interval,
        "since": rfc3339(held.granted_at),
        "expires_at": rfc3339(held.expires_at),
        "progress_at": rfc3339(held.progress_at),
    }
