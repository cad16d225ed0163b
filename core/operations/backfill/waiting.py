"""A call of `reconcile backfill` that stays until the backfill is over.

It visits the job as a trigger does, so live intervals go first, and any trigger may do a part of
the work meanwhile. Between the visits it has no lease: while the rate lets nothing begin, or
somebody else works, it only waits, and looks again when there may be something to do.
"""

from __future__ import annotations

from datetime import timedelta
from threading import Event
from typing import TYPE_CHECKING

from ...backfills import BackfillReport
from ...events import BackfillWaits
from ...model import Kind, Outcome, Trigger
from ..look import live_lease, look
from ..visit import Visit
from .asking import standing
from .views import usual_seconds, view_of

if TYPE_CHECKING:
    from datetime import datetime

    from ...backfills import BackfillView
    from ...config import Job
    from ...events import RunReport
    from ...ports import Store
    from ..application import Application

AT_ONCE = 100
"""So many intervals does one visit take, as it reports each."""
SECOND = 1.0
LOOKS = 5
"""After so many seconds it is looked whether somebody has said something else."""
_ENDS = (Outcome.INTERRUPTED, Outcome.FENCED_OUT, Outcome.OUT_OF_TIME)


def wait_for(app: Application, store: Store, asked: BackfillReport) -> BackfillReport:
    """Work the backfill that runs until it is over, or only waits for a person or for a retry.

    Raises errors of the store; the backfill stays on record.
    """
    job = app.job(asked.job)._replace(max_intervals=AT_ONCE, max_wait=timedelta(0))
    view = asked.view
    assert view is not None, "one runs"
    number = view.backfill.record.number
    worst: RunReport | None = None
    while True:
        visit = Visit(app=app, job=job, store=store, facts=store.facts(), trigger=Trigger.SCHEDULE)
        visit.foreground = True
        run = visit.run()
        worst = _worse(worst, run)
        found = standing(store, job, number)
        ended = found is None or found.backfill.record.ended_at is not None
        if ended or app.runtime.stop.reason is not None or run.outcome in _ENDS:
            break
        assert found is not None, "it has not ended"
        if run.outcome is Outcome.BUSY:
            _until_free(app, store, job, found)
        elif _waits_for_rate(run):
            _until(app, store, job, run, found)
        elif found.backfill.paused or not any(one.run_id for one in run.intervals):
            break
        if app.runtime.stop.reason is not None:
            break
    did = "finished" if ended else "goes_on"
    stopped = app.runtime.stop.reason is not None and not ended
    if stopped and (worst is None or worst.outcome is not Outcome.INTERRUPTED):
        worst = run._replace(outcome=Outcome.INTERRUPTED, intervals=())
    return BackfillReport(job.name, store.facts().now, did, found, worst)


def _waits_for_rate(run: RunReport) -> bool:
    return run.backfill is not None and run.retry_at is not None


def _worse(worst: RunReport | None, run: RunReport) -> RunReport | None:
    """Of two visits the one whose oldest interval did not complete; one that was stopped goes
    before all."""
    if run.outcome in _ENDS:
        return run
    short = [one for one in run.intervals if one.outcome is not Outcome.COMPLETED]
    if not short:
        return worst
    kept = run._replace(intervals=short)
    if worst is None:
        return kept
    return min(worst, kept, key=lambda one: min(i.scheduled_at for i in one.intervals))


def _until(app: Application, store: Store, job: Job, run: RunReport, view: BackfillView) -> None:
    """Wait until the rate lets the next one begin, or a live one is due; a word of anybody about
    the job ends it."""
    assert run.retry_at is not None, "that is what it waits for"
    seen = look(store, job, store.facts().now)
    end = run.retry_at
    if seen.decision.next_due is not None and seen.decision.pause is None:
        end = min(end, seen.decision.next_due.scheduled_at)
    usual = usual_seconds(store, job, seen)
    _sleep(app, store, job, end, view_of(store, job, seen, usual) or view, seen.now)


def _sleep(
    app: Application, store: Store, job: Job, end: datetime, view: BackfillView, now: datetime
) -> None:
    clock, never = app.runtime.clock, Event()
    begun = clock.boot()
    wakes = begun + (end - now).total_seconds()
    version = _version(store, job)
    ticks = 0
    while (left := wakes - clock.boot()) > 0 and app.runtime.stop.reason is None:
        at = now + timedelta(seconds=clock.boot() - begun)
        app.runtime.report(BackfillWaits(job.name, view, at, end))
        clock.wait(min(SECOND, left), never)
        ticks += 1
        if ticks % LOOKS == 0 and _version(store, job) != version:
            return


def _version(store: Store, job: Job) -> int:
    found = store.get(Kind.JOB, job.name, "")
    return 0 if found is None else found.version


def _until_free(app: Application, store: Store, job: Job, view: BackfillView) -> None:
    """Wait until nobody else works."""
    clock, never = app.runtime.clock, Event()
    while app.runtime.stop.reason is None and live_lease(app, store, job) is not None:
        app.runtime.report(BackfillWaits(job.name, view, store.facts().now, None))
        clock.wait(SECOND, never)
