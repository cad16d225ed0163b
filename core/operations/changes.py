"""`changes`: what was changed, from the target's own log, or what a plan would change."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from ..config import EntitlementsConfig
from ..errors import UsageError
from ..keys import normaliser
from ..model import Kind, State
from ..records import IntervalRecord, PlanRecord, from_text
from ..work.entitlements.judge import planned_changes
from .look import interval_at, is_pruned, look, named_instant, open_records, read_interval

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..config import Job
    from ..model import JsonObject
    from ..ports import Store
    from ..rows import Change
    from .application import Application


class ChangesRequest(NamedTuple):
    """`reconcile changes`. `interval` is an id, `latest` or `oldest`; None: all, or with
    `planned` the last dry run's plan where that is newer than what the oldest unfinished
    interval has. `plan`: that one."""

    job: str
    interval: str | None = None
    account: str | None = None
    since: timedelta | None = None
    planned: bool = False
    plan: str | None = None


class Found(NamedTuple):
    """One change. `facts` (interval, rerun, run, generation, at) are empty for a planned one;
    `key` holds the positions of the key in its rows."""

    facts: JsonObject
    change: Change
    key: Sequence[int]


def changes(app: Application, request: ChangesRequest) -> Iterator[Found]:
    """Logged changes oldest first, or planned ones in order of key; a page in memory.

    Raises `UnknownJob`, `UsageError`, and errors of store and target.
    """
    job = app.job(request.job)
    _refuse_without_log(job)
    with closing(app.open_store()) as store:
        now = store.facts().now
        record, interval = _asked(store, job, request, now)
        work = app.build_work(job)
        try:
            key = work.key()
            if request.planned:
                plan = request.plan or _plan(store, job, record)
                accounts = _spellings(job, request.account)
                for change in planned_changes(store, job.name, plan):
                    if not accounts or change.row[0] in accounts:
                        yield Found({}, change, key)
                return
            edge = now - request.since if request.since is not None else None
            for facts, change in work.changes(interval, request.account):
                if edge is None or from_text(str(facts["at"])) >= edge:
                    yield Found(facts, change, key)
        finally:
            work.close()


def _refuse_without_log(job: Job) -> None:
    if job.work.kind != "entitlements":
        raise UsageError(
            f"{job.name} runs a command, and only that knows what it changes",
            hint=f"see its output: reconcile logs {job.name}",
        )


def _spellings(job: Job, account: str | None) -> set[str]:
    """An account as it was asked for, and as the job's key policy has it; empty: all."""
    if account is None or not isinstance(job.work, EntitlementsConfig):
        return set()
    normalise = normaliser(job.work.key_policy)
    return {account, normalise(account) if normalise else account}


def _asked(
    store: Store, job: Job, request: ChangesRequest, now: datetime
) -> tuple[IntervalRecord | None, str | None]:
    """The record of the interval asked for, and its id: of one that was pruned, the id alone."""
    if request.interval is None:
        return None, None
    seen = look(store, job, now)
    instant = named_instant(store, seen, job.name, request.interval)
    record, _ = read_interval(store, job.name, instant)
    if record is not None:
        return record, record.id
    if is_pruned(seen, instant) and not request.planned:
        return None, interval_at(seen, job.name, instant).id
    raise UsageError(
        f"{job.name} {request.interval} was not begun: nothing was changed for it",
        hint=f"see what there is: reconcile status {job.name}",
    )


def _begun(store: Store, job: Job, plan: str) -> datetime:
    """When a plan was begun that an interval has; one that is gone by now, before all others."""
    found = store.get(Kind.PLAN, job.name, plan)
    if found is None:
        return datetime.min.replace(tzinfo=UTC)
    return PlanRecord.from_json(found.value).begun_at


def _plan(store: Store, job: Job, record: IntervalRecord | None) -> str:
    """The id of the plan meant. That of a completed interval is in the log, and no plan now."""
    if record is not None and record.state is State.COMPLETED:
        raise UsageError(
            f"{job.name} {record.id} is completed: its plan was carried out",
            hint=f"see what was changed: reconcile changes {job.name} {record.id}",
        )
    if record is not None:
        plans = [record.plan] if record.plan is not None else []
    else:
        plans = [one.plan for one, _ in open_records(store, job.name) if one.plan is not None]
        for found in store.scan(Kind.PLAN, job.name, tag="dry"):
            dry = PlanRecord.from_json(found.value)
            # Who has just looked means what was found then, and not what waits since before.
            at = 0 if plans and _begun(store, job, plans[0]) < dry.begun_at else len(plans)
            plans.insert(at, dry.id)
    if not plans:
        raise UsageError(
            f"{job.name} has no plan" + (f" for {record.id}" if record is not None else ""),
            hint=f"make one: reconcile run {job.name} --dry-run",
        )
    return plans[0]
