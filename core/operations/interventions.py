"""Acts by hand on one interval or on a running holder: `skip`, `stop`.

Each is signed: who, when and why stand on the interval's own trail. None of them is ever
needed after a crash.
"""

from __future__ import annotations

from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING

from ..errors import (
    ReconcileError,
    StoreBusy,
    StoreUnreachable,
)
from ..events import ActReport
from ..fencing import raise_fence
from ..leasing import LeaseKeeper
from ..model import (
    Actor,
    Append,
    Ending,
    Kind,
    LeaseKey,
    State,
    Trigger,
    instant_key,
)
from ..records import OPEN, IntervalRecord, to_text
from .acting import named, put_of, refuse_while_worked, writes_of
from .giving_up import cancelled, closed_runs, told
from .look import (
    interval_at,
    live_lease,
    look,
    note_act,
    read_interval,
)
from .signing import signed_off
from .visit import Visit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from ..config import Job
    from ..model import JsonObject, Lease, Write
    from ..ports import Store, Work
    from .application import ActRequest, Application

POLL_SECONDS = 0.25
OUTWAIT_SECONDS = 0.1


def skip(app: Application, request: ActRequest) -> ActReport:
    """Give an interval up: skipped, or failed where something was already applied. One that has
    failed by itself stays so, and nobody is told of it any more: somebody knows.

    Whoever left a run of it open may only be stopped, so he is fenced out first, as at any
    takeover. Raises `UsageError` for an interval that is finished, `LeaseBusy` while it is
    worked, or while such a run is open and another interval is worked.
    """
    job = app.job(request.job)
    with closing(app.open_store()) as store:
        now = store.facts().now
        by = Actor(request.actor, request.reason, now)
        instant, record, version = named(store, job, request.interval, now)
        refuse_while_worked(app, store, job, instant)
        if record is None:
            seen = look(store, job, now)
            record = IntervalRecord.of(interval_at(seen, job.name, instant))
        if record.state is State.FAILED and not record.is_signed:
            record = signed_off(store, job, record, version, request, now)
        elif any(store.scan(Kind.RUN, job.name, prefix=f"{instant_key(instant)}/", tag=OPEN)):
            record = _skip_abandoned(app, store, job, instant, by)
        else:
            work = app.build_work(job)
            with closing(work):
                after, event, revoked = cancelled(job, work, record, by)
            more = told(store, job, record, revoked, now, [])
            record = after
            note_act(store, job.name, record, [*more, *writes_of(job, record, version, event)])
        return ActReport(job.name, record.id, now, True, record.state.value, record.reason)


def _skip_abandoned(
    app: Application, store: Store, job: Job, instant: datetime, by: Actor
) -> IntervalRecord:
    key = instant_key(instant)
    with _fencing(app, store, job, key, lambda keeper: keeper.acquire(key, overlap=False)) as (
        keeper,
        work,
    ):
        before, version = read_interval(store, job.name, instant)
        assert before is not None, "it has a run"
        record, event, revoked = cancelled(job, work, before, by)
        now = keeper.now()
        runs = list(closed_runs(store, job, Ending.ABANDONED, now))
        more = told(store, job, before, revoked, now, runs)
        keeper.commit([*more, *writes_of(job, record, version, event)])
    return record


def stop(app: Application, request: ActRequest) -> ActReport:
    """Ask the holder, on any host, to stop at its next checkpoint; or fence it out.

    Without `force` the holder sees the request at its next renewal. With it, the holder's
    next write, to the store or to a fencing target, is refused, whatever it does.
    """
    job = app.job(request.job)
    with closing(app.open_store()) as store:
        now = store.facts().now
        lease = store.lease(LeaseKey(job.name))
        works = live_lease(app, store, job) is not None
        if lease is None or lease.released or not (works or request.force):
            return ActReport(job.name, None, now, True)
        event = _signed("stop_asked", request, force=request.force or None)
        sign = Append(Kind.EVENT, job.name, lease.interval, event)
        if request.force:
            return _fence_out(app, store, job, lease, sign, request.actor)
        asked: JsonObject = {
            "actor": request.actor,
            "reason": request.reason,
            "at": to_text(now),
        }
        # Signed before it is done: killed in between, it was asked for, and did nothing.
        store.note([sign])
        store.ask_stop(lease.fence.key, lease.fence.generation, asked)
        done = request.wait and _wait_for_end(app, store, job, lease)
        return _stop_report(store, job, lease, now, done=done)


def _fence_out(
    app: Application, store: Store, job: Job, lease: Lease, sign: Append, actor: str
) -> ActReport:
    """Take the next generation, raise the target's fence, close the old run, release."""
    writes: list[Write] = []
    try:
        store.note([sign])
    except StoreBusy:  # by the holder, stopped in a write: taking the lease ends him
        writes.append(sign)
    with _fencing(app, store, job, lease.interval, lambda keeper: keeper.take_over(lease)) as (
        keeper,
        _,
    ):
        now = keeper.now()
        writes += closed_runs(store, job, Ending.FENCED_OUT, now, "stop --force")
        found = store.get(Kind.INTERVAL, job.name, lease.interval)
        record = IntervalRecord.from_json(found.value) if found is not None else None
        if found is not None and record is not None and not record.state.is_final:
            record = replace(record, repair_owner=actor)
            writes.append(put_of(job, found.key, record, found.version))
        keeper.commit(writes)
        generation = keeper.fence.generation
    report = _stop_report(store, job, lease, now, done=True)
    return report._replace(forced=True, generation=generation)


@contextmanager
def _fencing(
    app: Application,
    store: Store,
    job: Job,
    interval: str,
    take: Callable[[LeaseKeeper], object],
) -> Iterator[tuple[LeaseKeeper, Work]]:
    """The lease, taken for an act by hand, with the target fenced; released in the end."""
    visit = Visit(app=app, job=job, store=store, facts=store.facts(), trigger=Trigger.MANUAL)
    keeper = LeaseKeeper(store, app.open_store, app.runtime, LeaseKey(job.name), visit.terms())
    work = app.build_work(job)
    try:
        take(keeper)
        if not work.fenced:
            _outwait(app, keeper)
        try:
            raise_fence(keeper, work, store, visit.facts.id, interval, app.runtime)
            yield keeper, work
        except ReconcileError:
            with suppress(ReconcileError):  # what went wrong first is what is said
                keeper.release(None)
            raise
        with suppress(StoreUnreachable, StoreBusy):  # it is done, and the lease expires
            keeper.release(None)
    finally:
        work.close()
        keeper.abandon()


def _outwait(app: Application, keeper: LeaseKeeper) -> None:
    """What keeps no fence cannot refuse the old holder: wait until its lease, and with it all that
    it had begun, is over."""
    before, never = keeper.previous, Event()
    while before is not None and not before.released and keeper.now() < before.expires_at:
        if app.runtime.host.is_dead(before.holder):
            return
        keeper.progressed()
        app.runtime.clock.wait(OUTWAIT_SECONDS, never)


def _wait_for_end(app: Application, store: Store, job: Job, lease: Lease) -> bool:
    """Whether the holder let go within one TTL."""
    clock = app.runtime.clock
    until = clock.boot() + lease.ttl.total_seconds()
    never = Event()
    while clock.boot() < until and app.runtime.stop.reason is None:
        newest = live_lease(app, store, job)
        if newest is None or newest.fence != lease.fence:
            return True
        clock.wait(POLL_SECONDS, never)
    return False


def _stop_report(store: Store, job: Job, lease: Lease, now: datetime, *, done: bool) -> ActReport:
    found = store.get(Kind.INTERVAL, job.name, lease.interval)
    record = IntervalRecord.from_json(found.value) if found is not None else None
    return ActReport(
        job=job.name,
        interval=record.id if record is not None else lease.interval,
        at=now,
        done=done,
        state=record.state.value if record is not None else None,
        lease=lease,
        ranges_done=record.ranges_done if record is not None else 0,
        ranges_total=record.ranges_total if record is not None else None,
        phase=record.phase if record is not None else "planning",
    )


def _signed(type_: str, request: ActRequest, **facts: object) -> JsonObject:
    value = {"type": type_, "actor": request.actor, "reason": request.reason, **facts}
    return {k: v for k, v in value.items() if v is not None}  # type: ignore[misc]
