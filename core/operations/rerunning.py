"""`rerun`: a finished interval is worked again, from its first range, under the same identity.

Of several who ask at once each is carried out, one after the other, under a rerun number of its
own: who finds the interval at work, or another's rerun of it about to begin, stays for as long as
he said, and asks again when it is free. That he waits stands on the interval's trail from that
moment on, and that he was refused if it took too long, with who he is and why he asked, just as
what was done does.
"""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from threading import Event
from typing import TYPE_CHECKING, NamedTuple

from ..errors import LeaseBusy, OldOverNew, UsageError, WriteConflict
from ..events import RunReport, Waits
from ..model import Actor, Append, Kind, LeaseKey, Outcome, Trigger, instant_key
from ..schedule import instant_id
from .acting import named, refuse_while_worked, writes_of
from .giving_up import signed
from .look import look, note_act, read_interval
from .patience import until_free
from .recovery import reopened
from .reports import report_of
from .spans import alone
from .visit import Visit

if TYPE_CHECKING:
    from datetime import datetime

    from ..config import Job
    from ..errors import ReconcileError
    from ..model import Lease
    from ..ports import Store
    from ..records import IntervalRecord
    from .application import ActRequest, Application

SOON = 0.2
"""Seconds after which it is looked again whether another's rerun has begun."""


def rerun(app: Application, request: ActRequest) -> RunReport:
    """Work a finished interval again. With `request.patience` one that is being worked is waited
    for; each of two that ask at once so gets a rerun of its own.

    Raises `UsageError` for one that is not finished, `LeaseBusy` or `WriteConflict` where it is
    still another's when the time is over, and `OldOverNew` where it would undo newer truth.
    """
    job = app.job(request.job)
    patience = request.patience or timedelta()
    until = app.runtime.clock.boot() + patience.total_seconds()
    with closing(app.open_store()) as store:
        asking = _Asking(app, store, job, request, until)
        instant = _sign(asking)
        if instant is None:
            return RunReport(job.name, Outcome.INTERRUPTED, store.facts().now)
        return _work(asking, instant)


class _Asking(NamedTuple):
    """Somebody who asks for a rerun, and until when, by boot time, he stays for it."""

    app: Application
    store: Store
    job: Job
    request: ActRequest
    until: float

    @property
    def is_patient(self) -> bool:
        return self.app.runtime.clock.boot() < self.until

    @property
    def by(self) -> Actor:
        return Actor(self.request.actor, self.request.reason, self.store.facts().now)


def _sign(asking: _Asking) -> datetime | None:
    """Put the rerun on record, when nobody else is at that interval; None where a signal came
    first. Raises what is against it where that lasts too long."""
    waits: datetime | None = None
    while True:
        try:
            instant, against = _ask(asking)
        except (UsageError, OldOverNew) as error:
            if waits is not None:
                _put_on_trail(asking, waits, "rerun_refused", error)
            raise
        if against is None:
            return instant
        patient = asking.is_patient
        if patient and waits is None:
            waits = instant
            _put_on_trail(asking, instant, "rerun_waits", against)
            _tell(asking, against)
        if not patient or not _stay(asking, against):
            stopped = asking.app.runtime.stop.reason is not None
            _put_on_trail(asking, instant, "rerun_refused", None if stopped else against)
            if stopped:
                return None
            raise against
        # By the name that it had: what is the latest may have changed meanwhile.
        asking = asking._replace(request=asking.request._replace(interval=instant_id(instant)))


def _ask(asking: _Asking) -> tuple[datetime, ReconcileError | None]:
    """One try: the interval that is meant, and what is against it for the moment."""
    app, store, job, request, _ = asking
    by = asking.by
    instant, record, version = named(store, job, request.interval, by.at, spans=True)
    try:
        refuse_while_worked(app, store, job, instant)
    except LeaseBusy as busy:
        return instant, busy
    if record is None or not record.state.is_final:
        return instant, _not_begun(job, request, record)
    _refuse_old_over_new(app, job, instant, record)
    owner = {"actor": by.name, "reason": by.reason}
    found = alone(job, look(store, job, by.at), record, version, instant, **owner)
    again = reopened(found.record, by.name)
    proved = found.record.checksum  # what it had come to, beside what the rerun comes to
    event = signed(
        "rerun",
        by,
        rerun=again.rerun,
        was=record.state.value,
        checksum=None if proved is None else str(proved),
    )
    writes = [*found.writes, *writes_of(job, again, found.version, event)]
    try:
        note_act(store, job.name, again, writes)
    except WriteConflict as conflict:
        return instant, conflict
    return instant, None


def _not_begun(job: Job, request: ActRequest, record: IntervalRecord | None) -> UsageError:
    """Another's rerun that is about to begin; raised where the interval was never finished."""
    if record is None or not record.rerun or record.started_at is not None:
        raise UsageError(
            f"{job.name} {request.interval} is not finished: there is nothing to rerun",
            hint=f"finish it: reconcile resume {job.name} {request.interval}",
        )
    return UsageError(
        f"{job.name} {record.id} is about to be worked as rerun {record.rerun}, which"
        f" {record.repair_owner} asked for",
        hint=f"begin that: reconcile resume {job.name} {record.id}",
    )


def _stay(asking: _Asking, against: ReconcileError) -> bool:
    """Wait until it may be asked again; False where a signal came first."""
    runtime = asking.app.runtime
    if isinstance(against, LeaseBusy):
        now = asking.store.facts().now
        return until_free(asking.app, asking.store, asking.job, against.lease, now, asking.until)
    if not isinstance(against, WriteConflict):
        left = asking.until - runtime.clock.boot()
        runtime.clock.wait(max(0.0, min(SOON, left)), Event())
    return runtime.stop.reason is None


def _put_on_trail(
    asking: _Asking, instant: datetime, type_: str, against: ReconcileError | None
) -> None:
    """Who asked, and why, and what was against it; None: a signal."""
    lease = against.lease if isinstance(against, LeaseBusy) else None
    event = signed(
        type_,
        asking.by,
        why="interrupted" if against is None else against.name,
        holder=None if lease is None else str(lease.holder),
        generation=None if lease is None else lease.fence.generation,
    )
    key = instant_key(instant)
    asking.store.note([Append(Kind.EVENT, asking.job.name, key, event)])


def _tell(asking: _Asking, against: ReconcileError) -> None:
    if isinstance(against, LeaseBusy):
        _say_it_waits(asking, against.lease, asking.store.facts().now)


def _say_it_waits(asking: _Asking, lease: Lease, now: datetime) -> None:
    runtime = asking.app.runtime
    ends = now + timedelta(seconds=asking.until - runtime.clock.boot())
    runtime.report(Waits(asking.job.name, lease, now, ends))


def _work(asking: _Asking, instant: datetime) -> RunReport:
    """What was signed is worked; while another interval is, that is waited for, too."""
    app, store, job, _, _ = asking
    while True:
        visit = Visit(app=app, job=job, store=store, facts=store.facts(), trigger=Trigger.RERUN)
        visit.actor, visit.only = asking.by, [instant]
        report = visit.run()
        if report.outcome is not Outcome.BUSY or not asking.is_patient:
            return report
        assert report.lease is not None
        _say_it_waits(asking, report.lease, report.at)
        if not until_free(app, store, job, report.lease, report.at, asking.until):
            return report._replace(outcome=Outcome.INTERRUPTED)
        record, _ = read_interval(store, job.name, instant)
        if record is not None and record.state.is_final:  # by a trigger that came between
            done = report_of(job, record, store.facts().now)
            return RunReport(job.name, done.outcome, store.facts().now, [done])


def _refuse_old_over_new(
    app: Application, job: Job, instant: datetime, record: IntervalRecord
) -> None:
    work = app.build_work(job)
    try:
        row = work.floor(LeaseKey(job.name)) if work.fenced and job.work.overtakes else None
    finally:
        work.close()
    if row is not None and row.newest is not None and row.newest.scheduled_at > instant:
        raise OldOverNew(
            f"{job.name} {record.id} is older than {row.newest.interval}, which the target has"
            " completed: it would undo newer truth",
            hint="mend the target by the newest:"
            f' reconcile rerun {job.name} {row.newest.interval} -m "why"',
        )
