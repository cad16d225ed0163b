"""`reconcile run`: what cron, timers and people call. See `visit.py` for what it does."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..events import RunReport
from ..model import Trigger
from .look import find_instant, find_record, look, report_of
from .visit import Visit

if TYPE_CHECKING:
    from datetime import timedelta

    from .application import Application, RunRequest


def run(app: Application, request: RunRequest) -> RunReport:
    """`reconcile run JOB`: work what is due, or the one interval asked for.

    Raises `UnknownJob`, `UsageError` and errors of the store; everything else is in the
    report.
    """
    job = app.job(request.job)
    with closing(app.open_store()) as store:
        visit = Visit(
            app=app,
            job=job,
            store=store,
            facts=store.facts(),
            trigger=Trigger.MANUAL if request.interval else Trigger.SCHEDULE,
            dry_run=request.dry_run,
            max_runtime=_shorter(job.max_runtime, request.max_runtime),
        )
        if request.interval is None:
            return visit.run()
        seen = look(store, job, visit.facts.now)
        instant = find_instant(store, seen, job.name, request.interval)
        if instant > visit.facts.now:
            raise UsageError(
                f"{job.name} {request.interval} lies in the future",
                hint=f"the newest interval is: reconcile run {job.name} --interval latest",
            )
        if job.start is not None and instant < job.start:
            raise UsageError(
                f"{job.name} {request.interval} lies before the job's start",
                hint=f"start is {job.start:%Y-%m-%dT%H:%MZ} in {job.origin}",
            )
        record, _ = find_record(store, job.name, instant)
        final = record is not None and record.state.is_final and not seen.is_void(record)
        if record is not None and final and not request.dry_run:
            report = report_of(job, record, visit.facts.now)
            return RunReport(job.name, report.outcome, visit.facts.now, [report])
        visit.only = [instant]
        return visit.run()


def _shorter(one: timedelta | None, other: timedelta | None) -> timedelta | None:
    given = [d for d in (one, other) if d is not None]
    return min(given) if given else None
