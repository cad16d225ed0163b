"""`status`: how jobs and intervals stand, read from the store alone.

Nothing here needs a daemon, a lease or the endpoints, so any host that reaches the store
sees the same. Reads are bounded by what is shown, not by how long the history is.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from .. import planning
from ..checksum import Checksum
from ..config import sqlite_path
from ..errors import UsageError
from ..model import Kind, LeaseKey, State, instant_key
from ..records import IntervalRecord, RangeRecord, RunRecord, event_value
from ..status import EventView, IntervalStatus, IntervalView, JobStatus, StatusReport
from ..trail import given_up_by
from .history import completed, failures, newest, times
from .look import Look, find_instant, interval_at, live_lease, look, open_records, read_interval
from .problems import failed_for_good, overtaken, problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime, timedelta

    from ..config import Job
    from ..model import JsonObject, Lease
    from ..ports import Store
    from .application import Application

SHOWN = (
    *(state.value for state in State),
    "running",
    "fencing",
    "stalled",
    "retrying",
    "needs approval",
    "overdue",
)
"""What an interval can be shown as, and asked for by."""
BY_HAND = ("operator", "cancelled")
"""Why an interval is given up by `skip`: before, or after something was applied."""
OLDER = 1000
"""So many intervals beyond those shown are counted."""
PAGE = 1000


def status(
    app: Application,
    job: str | None = None,
    interval: str | None = None,
    *,
    limit: int = 8,
    since: timedelta | None = None,
    state: str | None = None,
) -> StatusReport:
    """All jobs, one job's intervals, or one interval with runs, ranges and trail.

    Raises `UnknownJob`, `UsageError` and errors of the store.
    """
    if state is not None and state not in SHOWN:
        raise UsageError(
            f"{state!r} is no state of an interval", hint=f"known are: {', '.join(SHOWN)}"
        )
    with closing(app.open_store()) as store:
        facts = store.facts()
        names = [job] if job is not None else sorted(app.config.jobs)
        jobs = [_job(app, store, app.job(n), facts.now, limit, since, state) for n in names]
        detail = None
        if job is not None and interval is not None:
            detail = _interval(app, store, app.job(job), facts.now, interval)
        return StatusReport(
            now=facts.now,
            jobs=jobs,
            config=str(app.config.path),
            store=facts.location,
            interval=detail,
        )


def _job(
    app: Application,
    store: Store,
    job: Job,
    now: datetime,
    limit: int,
    since: timedelta | None,
    state: str | None,
) -> JobStatus:
    seen = look(store, job, now)
    lease = _lease(app, store, job)
    live = lease if lease is not None and lease.live else None
    recent, older = _recent(store, job, seen, lease, limit, since, state)
    gone = {skip.interval.scheduled_at for skip in seen.decision.overtaken}
    unfinished = [
        _view(job, seen, record, lease)
        for record, _ in open_records(store, job.name)
        if record.scheduled_at <= now and record.scheduled_at not in gone
    ]
    due = [_pending(job, seen, d.interval.scheduled_at) for d in seen.decision.due if not d.record]
    waiting = sorted(unfinished + due, key=lambda view: view.record.scheduled_at)
    oldest = waiting[0] if waiting else None
    overdue = oldest is not None and oldest.deadline_at is not None and now > oldest.deadline_at
    done = completed(store, job.name, now)
    took = times(done)
    failed, more = failures(store, job.name, now)
    return JobStatus(
        job=job,
        state=_state(store, job, seen, live, unfinished, overdue=overdue, failed=bool(failed)),
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
            *overtaken(store, job, seen),
        ],
        usual_seconds=took.usual,
        slowest_seconds=took.slowest,
        timed=took.timed,
        older=older,
        dated=job.work.dated,
        source=job.work.source.path,
        target=_target(job),
        deadline=planning.deadline(job, seen.schedule),
    )


def _lease(app: Application, store: Store, job: Job) -> Lease | None:
    """The newest grant; one whose holder is provably dead is not live, whatever it says."""
    lease = store.lease(LeaseKey(job.name))
    if lease is None:
        return None
    return replace(lease, live=live_lease(app, store, job) is not None)


def _target(job: Job) -> str:
    target = job.work.target
    return f"sqlite {sqlite_path(target.url)}, table {target.table}"


def _recent(
    store: Store,
    job: Job,
    seen: Look,
    lease: Lease | None,
    limit: int,
    since: timedelta | None,
    state: str | None,
) -> tuple[list[IntervalView], int]:
    """The newest intervals first, those due without a record too; how many more there are."""
    views = [
        _pending(job, seen, due.interval.scheduled_at)
        for due in reversed(seen.decision.due)
        if due.record is None
    ]
    edge = instant_key(seen.now - since) if since is not None else ""
    for record in newest(store, job.name, after=edge):
        if record.state is State.PENDING and record.scheduled_at > seen.now:
            continue  # a clock ahead of now had begun it, and it is nobody's yet
        if len(views) >= limit + OLDER:
            break
        views.append(_view(job, seen, record, lease))
    views.sort(key=lambda view: view.record.scheduled_at, reverse=True)
    if state is not None:
        views = [view for view in views if state in (view.shows, view.record.state)]
    shown = views if since is not None else views[:limit]
    return [_signed(store, job, view) for view in shown], len(views) - len(shown)


def _signed(store: Store, job: Job, view: IntervalView) -> IntervalView:
    """With the name and the reason of whoever gave the interval up."""
    if view.record.reason not in BY_HAND:
        return view
    key = instant_key(view.record.scheduled_at)
    return replace(view, signed=given_up_by(store, job.name, key))


def _pending(job: Job, seen: Look, instant: datetime) -> IntervalView:
    interval = interval_at(seen, job.name, instant)
    record = IntervalRecord(id=interval.id, scheduled_at=interval.scheduled_at)
    return _view(job, seen, record, None)


def _view(job: Job, seen: Look, record: IntervalRecord, lease: Lease | None) -> IntervalView:
    deadline = planning.deadline_of(job, seen.schedule, record)
    retry = planning.retry_at(job, record)
    if record.state.is_final:
        return IntervalView(record, record.state, deadline)
    shows = _shows(record, lease, seen.now, deadline, retry)
    waits = retry is not None and retry > seen.now and shows in ("retrying", "overdue")
    return IntervalView(record, shows, deadline, retry if waits else None)


def _shows(
    record: IntervalRecord,
    lease: Lease | None,
    now: datetime,
    deadline: datetime,
    retry: datetime | None,
) -> str:
    """What an interval that is not final is shown as: it follows from lease and clock."""
    if (
        lease is not None
        and not lease.released
        and lease.interval == instant_key(record.scheduled_at)
    ):
        if not lease.live:
            return "stalled"
        run_is_open = record.runs > 0 and record.last_run_id == lease.fence.run
        return "running" if run_is_open else "fencing"
    if record.waiting is not None and record.approval is None:
        return "needs approval"
    if now > deadline:
        return "overdue"
    if retry is not None and retry > now:
        return "retrying"
    return record.state


def _state(
    store: Store,
    job: Job,
    seen: Look,
    lease: Lease | None,
    unfinished: Sequence[IntervalView],
    *,
    overdue: bool,
    failed: bool,
) -> str:
    """The most urgent of a job's states."""
    shown = {view.shows for view in unfinished}
    final = next((r for r in newest(store, job.name) if r.state.is_final), None)
    ranked = (
        ("overdue", overdue),
        ("needs approval", "needs approval" in shown),
        ("failed", failed),
        ("stalled", "stalled" in shown),
        ("running", lease is not None),
        ("waiting", bool(unfinished) or seen.decision.backlog > 0),
        ("paused", seen.job.pause is not None),
        ("new", final is None),
        ("on demand", job.schedule is None),
    )
    return next((name for name, holds in ranked if holds), "ok")


def _interval(app: Application, store: Store, job: Job, now: datetime, text: str) -> IntervalStatus:
    seen = look(store, job, now)
    instant = find_instant(store, seen, job.name, text)
    record, _ = read_interval(store, job.name, instant)
    lease = _lease(app, store, job)
    if record is None:
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
        view = _pending(job, seen, instant)
        return IntervalStatus(job, view, (), (), ())
    key = instant_key(instant)
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
        view=_view(job, seen, record, lease),
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
