"""`status`: how jobs and intervals stand, read from the store alone.

Nothing here needs a daemon, a lease or the endpoints, so any host that reaches the store
sees the same. Reads are bounded by what is shown, not by how long the history is.
"""

from __future__ import annotations

import shlex
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from .. import planning
from ..checksum import Checksum
from ..config import CommandConfig, is_postgres, sqlite_path
from ..errors import UsageError
from ..masking import server_shown
from ..model import Kind, instant_key
from ..records import RangeRecord, RunRecord, event_value
from ..status import EventView, IntervalStatus, IntervalView, JobStatus, StatusReport
from ..trail import OF_JOB
from .audit import audit
from .doubts import doubts
from .history import History, times
from .look import Look, find_instant, find_record, look
from .problems import blocked, failed_for_good, overtaken, paused, problems
from .strip import strip
from .views import Choice, Viewer, check_state, newest_grant

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime, timedelta

    from ..backfills import BackfillView
    from ..config import Job
    from ..model import JsonObject, Lease
    from ..ports import Store
    from .application import Application

ACTS = 20
"""So many acts by hand about a whole job are shown."""
PAGE = 1000


def status(
    app: Application,
    job: str | None = None,
    interval: str | None = None,
    *,
    limit: int | None = 8,
    since: timedelta | None = None,
    state: str | None = None,
) -> StatusReport:
    """All jobs, one job's intervals, or one interval with runs, ranges and trail.

    Raises `UnknownJob`, `UsageError` and errors of the store.
    """
    check_state(state)
    with closing(app.open_store()) as store:
        choice = Choice(limit, since, state, older=job is not None)
        return read_status(app, store, job, interval, choice)


def read_status(
    app: Application, store: Store, job: str | None, interval: str | None, choice: Choice
) -> StatusReport:
    """The same, on a connection that the caller keeps."""
    facts = store.facts()
    names = [job] if job is not None else sorted(app.config.jobs)
    jobs = [_job(app, store, app.job(n), facts.now, choice) for n in names]
    if job is not None:
        jobs = [replace(one, acts=_acts(store, one.job)) for one in jobs]
    detail = None
    if job is not None and interval is not None:
        detail = _interval(app, store, app.job(job), facts.now, interval)
    return StatusReport(
        now=facts.now,
        jobs=jobs,
        config=str(app.config.path),
        store=facts.location,
        interval=detail,
        notes=list(doubts(facts, facts.now, app.runtime.clock.now())),
    )


def _job(app: Application, store: Store, job: Job, now: datetime, choice: Choice) -> JobStatus:
    seen = look(store, job, now)
    lease = newest_grant(app, store, job)
    live = lease if lease is not None and lease.live else None
    history = History(store, job.name, now, first=choice.limit or PAGE)
    viewer = Viewer(store, job, seen, lease)
    recent, older = viewer.chosen(history, choice)
    waiting = viewer.waiting()
    oldest = waiting[0] if waiting else None
    overdue = oldest is not None and oldest.deadline_at is not None and now > oldest.deadline_at
    done = history.completed()
    took = times(done)
    failed, more = history.failures()
    return JobStatus(
        job=job,
        state=_state(history, job, seen, live, waiting, overdue=overdue, failed=bool(failed)),
        next_due=seen.decision.next_due.scheduled_at if seen.decision.next_due else None,
        lease=live,
        backlog=seen.decision.backlog,
        oldest_unfinished=oldest,
        oldest_overdue=overdue,
        last_completed=done[0] if done else None,
        recent=recent,
        problems=[
            *problems(job, waiting, now),
            *failed_for_good(job, failed, more),
            *overtaken(history, job, seen),
            *blocked(job, seen),
            *paused(job, seen),
        ],
        usual_seconds=took.usual,
        slowest_seconds=took.slowest,
        timed=took.timed,
        older=older,
        dated=job.work.dated,
        source=_source(job),
        target=_target(job),
        deadline=planning.deadline(job, seen.schedule),
        pause=seen.decision.pause,
        audit=audit(seen, history) if choice.older else None,
        backfill=_backfill(store, job, seen, took.usual),
        strip=strip(viewer, seen, history, choice) if older else None,
        expected_ranges=done[0].ranges_total if done else None,
        worked=next((view.record for view in waiting if view.shows == "running"), None),
        window=planning.window(job, seen.schedule),
    )


def _backfill(store: Store, job: Job, seen: Look, usual: float | None) -> BackfillView | None:
    if seen.job.backfill is None:
        return None
    from .backfill.views import view_of

    return view_of(store, job, seen, usual)


def _acts(store: Store, job: Job) -> list[EventView]:
    found = store.scan(Kind.EVENT, job.name, prefix=f"{OF_JOB}/", limit=ACTS, newest_first=True)
    return [EventView(event.at, event_value(event.value)) for event in reversed(found)]


def _source(job: Job) -> str:
    """Where the truth comes from; of a command, what is called."""
    work = job.work
    if isinstance(work, CommandConfig):
        return work.python or shlex.join(work.command)
    return work.source.path


def _target(job: Job) -> str:
    if isinstance(job.work, CommandConfig):
        return ""
    target = job.work.target
    if is_postgres(target.url):
        return f"postgres {server_shown(target.url)}, table {target.table}"
    return f"sqlite {sqlite_path(target.url)}, table {target.table}"


def _state(
    history: History,
    job: Job,
    seen: Look,
    lease: Lease | None,
    waiting: Sequence[IntervalView],
    *,
    overdue: bool,
    failed: bool,
) -> str:
    """The most urgent of a job's states."""
    shown = {view.shows for view in waiting}
    final = next((record for record in history if record.state.is_final), None)
    ranked = (
        ("overdue", overdue),
        ("needs approval", "needs approval" in shown),
        ("failed", failed),
        ("stalled", "stalled" in shown),
        ("running", lease is not None),
        ("paused", seen.decision.pause is not None),
        ("waiting", bool(waiting) or seen.decision.backlog > 0),
        ("new", final is None),
        ("on demand", job.schedule is None),
    )
    return next((name for name, holds in ranked if holds), "ok")


def _interval(app: Application, store: Store, job: Job, now: datetime, text: str) -> IntervalStatus:
    seen = look(store, job, now)
    instant = find_instant(store, seen, job.name, text)
    record, _ = find_record(store, job.name, instant)
    lease = newest_grant(app, store, job)
    viewer = Viewer(store, job, seen, lease)
    if record is None:
        if instant < seen.job.horizon_at and text == "latest":  # else there were a record
            raise UsageError(
                f"{job.name} has no interval yet",
                hint=f"to work the newest one now: reconcile run {job.name} --interval latest",
            )
        if instant < seen.job.horizon_at:
            raise UsageError(
                f"{job.name} {text} lies before the job's first interval",
                hint=f"see what there is: reconcile status {job.name}",
            )
        if instant > now:
            raise UsageError(
                f"{job.name} {text} lies in the future",
                hint=f"see what there is: reconcile status {job.name}",
            )
        return IntervalStatus(job, viewer.pending(instant), (), (), ())
    key = instant_key(record.scheduled_at)
    runs = [RunRecord.from_json(value) for value, _ in _all(store, Kind.RUN, job.name, key)]
    trail = _all(store, Kind.EVENT, job.name, key)
    events = [EventView(at, event_value(value)) for value, at in trail]
    plan = record.plan
    ranges = [
        RangeRecord.from_json(value) for value, _ in _all(store, Kind.RANGE, job.name, str(plan))
    ]
    desired = sum((r.desired for r in ranges), Checksum())
    observed = sum((r.proved for r in ranges), Checksum())
    return IntervalStatus(
        job=job,
        view=viewer.signed(viewer.view(record)),
        runs=runs,
        ranges=ranges,
        events=events,
        lease=lease if lease is not None and lease.interval == key else None,
        desired=str(desired) if ranges else None,
        observed=str(observed) if ranges else None,
    )


def _all(store: Store, kind: Kind, job: str, prefix: str) -> Iterator[tuple[JsonObject, datetime]]:
    """All records below a prefix, in order of key."""
    after = ""
    while True:
        page = store.scan(kind, job, prefix=f"{prefix}/", after=after, limit=PAGE)
        for found in page:
            yield found.value, found.at
        if len(page) < PAGE:
            return
        after = page[-1].key
