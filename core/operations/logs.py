"""`logs`: where the output of a command is, and whether more of it is to come."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..errors import UsageError
from ..model import Kind, instant_key
from ..needs import logs
from ..records import RunRecord, run_key
from ..work.commands.logs import Logs, parts
from .history import newest
from .look import find_instant, live_lease, look, read_interval

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from ..config import Job
    from ..ports import Store
    from ..records import IntervalRecord
    from .application import Application


class LogsRequest(NamedTuple):
    """`reconcile logs`. `interval` None: the newest that has a run; `run` None: its last."""

    job: str
    interval: str | None = None
    run: int | None = None


class FoundLog(NamedTuple):
    """The log of one run, which is kept in the parts that `core.work.commands.logs` reads."""

    job: Job
    interval: str
    interval_key: str
    run: int
    path: Path


def find_log(app: Application, store: Store, request: LogsRequest) -> FoundLog:
    """The log that is asked for. Raises `UnknownJob`, and `UsageError` where there is none."""
    job = app.job(request.job)
    if job.work.kind == "entitlements":
        raise UsageError(
            f"{job.name} runs no command, so it has no output",
            hint=f"see what became of it: reconcile status {job.name} latest",
        )
    record = _record(store, job, request.interval, store.facts().now)
    number = record.runs if request.run is None else request.run
    name = f"{job.name} {record.id}"
    if not 1 <= number <= record.runs:
        has = f"only {record.runs}" if record.runs else "none"
        raise UsageError(
            f"{name} has no run {number or ''}".rstrip(),
            hint=f"it has {has}: reconcile status {name}",
        )
    interval = record.interval(job.name)
    path = Logs(logs(app.config)).path(interval, number)
    found = FoundLog(job, record.id, interval.key, number, path)
    if not parts(path) and is_over(app, store, found):
        raise UsageError(
            f"the output of {name}, run {number}, is not here", hint=_where(app, store, found)
        )
    return found


def is_over(app: Application, store: Store, log: FoundLog) -> bool:
    """Whether nothing more comes: the run is closed, or whoever worked it is gone."""
    run = _run(store, log)
    if run is None or run.ended_at is not None:
        return True
    lease = live_lease(app, store, log.job)
    return lease is None or lease.fence.run != run.run_id


def _record(store: Store, job: Job, text: str | None, now: datetime) -> IntervalRecord:
    if text is not None:
        instant = find_instant(store, look(store, job, now), job.name, text)
        record, _ = read_interval(store, job.name, instant)
        if record is not None:
            return record
        raise UsageError(
            f"{job.name} {text} was not begun: it has no output",
            hint=f"see what there is: reconcile status {job.name}",
        )
    edge = instant_key(now.replace(year=now.year + 1, day=1))
    for record in newest(store, job.name, before=edge, first=10):
        if record.runs:
            return record
    raise UsageError(
        f"{job.name} has not run yet", hint=f"see when it will: reconcile status {job.name}"
    )


def _run(store: Store, log: FoundLog) -> RunRecord | None:
    found = store.get(Kind.RUN, log.job.name, run_key(log.interval_key, log.run))
    return None if found is None else RunRecord.from_json(found.value)


def _where(app: Application, store: Store, log: FoundLog) -> str:
    """Why a log may be missing: it is on another host, was pruned, or was never begun."""
    run = _run(store, log)
    host = None if run is None else run.holder.get("host")
    if host is not None and host != app.runtime.host.holder().host:
        return f"it ran on {host}, which has it in {log.path.parent}, or where its store is"
    return f"it is not in {log.path.parent}: it printed nothing, was pruned, or was moved"
