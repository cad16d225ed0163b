"""`reconcile run`: what cron, timers and people call. See `visit.py` for what it does."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..events import RunReport, Waits
from ..model import Actor, Outcome, Trigger
from .look import find_instant, find_record, look
from .reports import report_of
from .taking import of_this_second
from .visit import Visit

if TYPE_CHECKING:
    from ..config import Job
    from ..ports import Store
    from .application import Application, RunRequest


def run(app: Application, request: RunRequest) -> RunReport:
    """`reconcile run JOB`: work what is due, or the one interval asked for.

    A busy lease is waited for as long as `request.wait` says; then everything is decided
    anew, as by another trigger: what was due may be completed by now. Each try that finds
    the lease busy leaves its note with the holder (see `visit`), the last one included, so
    that giving up loses nothing.

    Raises `UnknownJob`, `UsageError` and errors of the store; everything else is in the
    report.
    """
    job = app.job(request.job)
    if request.dry_run and job.work.kind != "entitlements":
        raise UsageError(
            f"{job.name} runs a command, and nobody knows what it would do",
            hint=f"see what would be called, and when: reconcile config {job.name}",
        )
    clock = app.runtime.clock
    budget = _shorter(job.max_runtime, request.max_runtime)
    begun = clock.boot()
    patience = _shorter(request.wait, budget) if request.wait is not None else None
    until = begun if patience is None else begun + patience.total_seconds()
    with closing(app.open_store()) as store:
        while True:
            left = None
            if budget is not None:
                left = max(budget - timedelta(seconds=clock.boot() - begun), timedelta(0))
            report = _run(app, store, job, request, left)
            if report.outcome is not Outcome.BUSY or clock.boot() >= until:
                return report
            assert report.lease is not None
            ends = report.at + timedelta(seconds=until - clock.boot())
            app.runtime.report(Waits(job.name, report.lease, report.at, ends))
            from .patience import until_free

            if not until_free(app, store, job, report.lease, report.at, until):
                return report._replace(outcome=Outcome.INTERRUPTED)


def _run(
    app: Application,
    store: Store,
    job: Job,
    request: RunRequest,
    max_runtime: timedelta | None,
) -> RunReport:
    """One try."""
    visit = Visit(
        app=app,
        job=job,
        store=store,
        facts=store.facts(),
        trigger=Trigger.MANUAL if request.interval or request.now else Trigger.SCHEDULE,
        dry_run=request.dry_run,
        max_runtime=max_runtime,
    )
    if request.reason and visit.trigger is Trigger.MANUAL:
        visit.actor = Actor(request.actor, request.reason, visit.facts.now)
    if request.now:
        seen = look(store, job, visit.facts.now)
        visit.only = [of_this_second(store, job, seen)]
        return visit.run()
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
