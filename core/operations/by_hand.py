"""What operators do by hand, signed on the interval's own trail: `resume` and approval."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import LeaseBusy, OldOverNew, UsageError
from ..events import RunReport
from ..model import Actor, Append, Kind, Outcome, Put, State, Trigger
from ..records import GuardReport, to_text
from ..trail import guard_told
from .look import (
    find_instant,
    interval_at,
    live_lease,
    look,
    note_act,
    open_records,
    read_interval,
)
from .reports import report_of
from .visit import Visit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ..config import Job
    from ..model import JsonObject, Write
    from ..ports import Store
    from ..records import IntervalRecord
    from .application import Application, ResumeRequest
    from .look import Look


def resume(app: Application, request: ResumeRequest) -> Sequence[RunReport]:
    """`reconcile resume`: finish what was begun; a report for each job that had something.

    Never starts a new interval. Raises `UnknownJob`, `UsageError`, `LeaseBusy` (an interval
    that is being worked cannot be approved) and errors of the store.
    """
    names = [request.job] if request.job is not None else sorted(app.config.jobs)
    reports = []
    with closing(app.open_store()) as store:
        for name in names:
            report = _resume_job(app, store, app.job(name), request)
            if report.outcome is not Outcome.NOTHING_DUE or request.job is not None:
                reports.append(report)
    return reports


def _resume_job(app: Application, store: Store, job: Job, request: ResumeRequest) -> RunReport:
    visit = Visit(app=app, job=job, store=store, facts=store.facts(), trigger=Trigger.RESUME)
    now = visit.facts.now
    visit.actor = Actor(request.actor, request.reason, now)
    if request.interval is None:
        if request.approve is not None:
            raise UsageError(
                "--approve needs the interval whose changes are approved",
                hint=f"see which waits: reconcile status {job.name}",
            )
        visit.only = [
            record.scheduled_at
            for record, _ in open_records(store, job.name)
            if record.runs and record.scheduled_at <= now
        ]
        return visit.run() if visit.only else RunReport(job.name, Outcome.NOTHING_DUE, now)
    seen = look(store, job, now)
    instant = find_instant(store, seen, job.name, request.interval)
    if instant > now:
        raise UsageError(
            f"{job.name} {request.interval} lies in the future",
            hint=f"see what there is: reconcile status {job.name}",
        )
    if seen.completed is not None and instant < seen.completed:
        _refuse_what_was_not_begun(store, job, seen, instant)
    refusal = _prepare(app, store, job, instant, request, visit.actor)
    if refusal is not None:
        return refusal
    visit.only = [instant]
    return visit.run()


def _refuse_what_was_not_begun(store: Store, job: Job, seen: Look, instant: datetime) -> None:
    """No command would lead on from an interval that is too old to be begun."""
    record, _ = read_interval(store, job.name, instant)
    if record is None or (not record.runs and not record.state.is_final):
        assert seen.completed is not None, "that is what it is older than"
        newest = interval_at(seen, job.name, seen.completed).id
        raise OldOverNew(
            f"{job.name} {interval_at(seen, job.name, instant).id} was not begun, and is older"
            f" than {newest}, which the target has completed: it would undo newer truth",
            hint=f'mend the target by the newest: reconcile rerun {job.name} {newest} -m "why"',
        )


def _prepare(
    app: Application,
    store: Store,
    job: Job,
    instant: datetime,
    request: ResumeRequest,
    actor: Actor,
) -> RunReport | None:
    """Reopen a failed interval, or approve what it waits for; a report where neither can be."""
    record, version = read_interval(store, job.name, instant)
    if record is None or (not record.runs and not record.state.is_final):
        raise UsageError(
            f"{job.name} {request.interval} was not begun: there is nothing to resume",
            hint=f"begin it: reconcile run {job.name} --interval {request.interval}",
        )
    if record.state in (State.COMPLETED, State.SKIPPED):
        report = report_of(job, record, actor.at)
        return RunReport(job.name, report.outcome, actor.at, [report])
    lease = live_lease(app, store, job)
    interval = record.interval(job.name)
    signed = {"actor": actor.name, "reason": actor.reason}
    if request.approve is not None:
        if lease is not None and lease.interval == interval.key:
            raise LeaseBusy(lease)
        waiting = record.waiting or {}
        if waiting.get("hash") != request.approve:
            return _not_that_plan(store, job, record, request.approve, actor.at)
        event: JsonObject = {"type": "approved", "hash": request.approve, **signed}
        approval = {"hash": request.approve, **signed, "at": to_text(actor.at)}
        record = replace(record, approval=approval, repair_owner=actor.name)
    elif record.state is State.FAILED:
        event = {"type": "reopened", "was": record.reason, **signed}
        record = replace(
            record,
            state=State.UNFINISHED,
            reason=None,
            attempts=0,
            kills=0,
            signed_off=None,
            repair_owner=actor.name,
        )
    else:
        return None
    put = Put(
        Kind.INTERVAL, job.name, interval.key, record.to_json(), expect=version, tag=record.tag
    )
    writes: list[Write] = [put, Append(Kind.EVENT, job.name, interval.key, event)]
    note_act(store, job.name, record, writes)
    return None


def _not_that_plan(
    store: Store, job: Job, record: IntervalRecord, approved: str, at: datetime
) -> RunReport:
    """Somebody approved other changes than those that wait now."""
    if record.waiting is None:
        raise UsageError(
            f"{job.name} {record.id} waits for no approval",
            hint=f"see how it stands: reconcile status {job.name} {record.id}",
        )
    guard = GuardReport.from_json(record.waiting)
    report = report_of(job, record, at)._replace(
        outcome=Outcome.NEEDS_APPROVAL,
        guard=guard,
        known_before=False,
        refused_hash=approved,
        refused_guard=guard_told(store, job.name, record.interval(job.name).key, approved),
    )
    return RunReport(job.name, Outcome.NEEDS_APPROVAL, at, [report], guard=guard)
