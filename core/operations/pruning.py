"""Old intervals leave the store, and never come due again.

Due is the schedule minus the records, so a record that is dropped would make its interval due
once more. Therefore the job's horizon goes past it in the very batch that drops it: killed
before, all is there; killed after, nothing is missing. A batch takes a bounded number of
intervals, each with its runs, its trail, its plan and the plan's ranges.

An interval is dropped when it is final, was scheduled before `[store] keep`, and nobody has
written to it for as long; a backfill of last week keeps its trail, however old its nights are.
What stays: all that is unfinished, what somebody is still alerted of, and the newest completed
interval, which says what the target holds. Nothing is dropped at or after an instant that is not
yet decided about.

A holder does it once a day, when its work is done, a batch for each stay; `reconcile prune` does
all at once. A trigger whose clock is far ahead would take everything for old: it prunes only
where a trigger was there not long before it, so that a clock must be wrong for two of them.
"""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ..backfills import running
from ..config import DAY
from ..errors import StoreBusy, StoreUnreachable, WriteConflict
from ..model import Delete, Kind, Put, State, instant_key
from ..records import OPEN, IntervalRecord, JobRecord, PlanRecord, without_plan
from ..schedule import TICK
from .history import SECOND, newest
from .look import live_lease, look

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime, timedelta

    from ..config import Job
    from ..leasing import LeaseKeeper
    from ..model import Record, Write
    from ..ports import Store
    from .application import Application
    from .look import Look

BATCH = 100
"""So many intervals are dropped at once, or fewer where they have more ranges and events: a store
on a server does nothing else meanwhile."""
WRITES = 2000
READ = 500
"""So many records are looked at for them."""
EVERY = DAY
TRIES = 5
"""So often is a batch begun anew that somebody else's write came before."""


class Dropped(NamedTuple):
    """What is dropped: so many records, which stand for so many intervals, with their runs and
    events. `first` and `last` are ids, `until` where the last one ends."""

    records: int = 0
    intervals: int = 0
    runs: int = 0
    events: int = 0
    first: str | None = None
    last: str | None = None
    until: datetime | None = None

    def and_(self, more: Dropped) -> Dropped:
        """Both, the older ones first."""
        if not more.records:
            return self
        assert more.until is not None, "it has a record"
        return Dropped(
            self.records + more.records,
            self.intervals + more.intervals,
            self.runs + more.runs,
            self.events + more.events,
            self.first or more.first,
            more.last,
            more.until if self.until is None else max(self.until, more.until),
        )


class PruneReport(NamedTuple):
    """What `prune` did, or in a dry run would do, to one job. `busy`: somebody works it, and
    nothing was done."""

    job: str
    keep: timedelta
    dropped: Dropped = Dropped()
    busy: bool = False
    dry_run: bool = False


class Batch(NamedTuple):
    """What one transaction drops, and the job's record as it is then. `upto`: the last key that
    was looked at; `done`: nothing older is left to look at."""

    writes: Sequence[Write]
    record: JobRecord
    dropped: Dropped
    upto: str | None
    done: bool


def when_done(
    app: Application,
    store: Store,
    job: Job,
    seen: Look,
    looked_before: datetime | None,
    keeper: LeaseKeeper,
) -> None:
    """Once a day, when a holder has nothing else to do: drop a batch, under its lease.

    `looked_before`: when a trigger was here before this one. What goes wrong is left to another
    day: the work that the holder came for is done.
    """
    if not _is_time(seen, looked_before) or app.runtime.stop.reason is not None:
        return
    with suppress(WriteConflict, StoreBusy, StoreUnreachable):
        found = store.get(Kind.JOB, job.name, "")
        if found is not None:
            record = JobRecord.from_json(found.value)
            batch = _batch(store, job, seen, record, app.config.store.keep)
            keeper.commit([*batch.writes, _put(job, batch, found.version)])
            _drop_logs(app, job, seen.now)
            if batch.dropped.records:
                app.runtime.reached("pruned")


def _is_time(seen: Look, looked_before: datetime | None) -> bool:
    if looked_before is None:
        return False
    pruned_at = seen.job.pruned_at
    if pruned_at is not None and pruned_at <= seen.now < pruned_at + EVERY:
        return False
    period = (seen.schedule.period if seen.schedule is not None else None) or EVERY
    return seen.now - looked_before <= 2 * max(EVERY, period)


def prune(app: Application, job: str | None = None, *, dry_run: bool = False) -> list[PruneReport]:
    """`reconcile prune`: drop all that is old, of one job or of each. A job that is being worked
    is left alone: its holder prunes, too.

    Raises `UnknownJob`, `WriteConflict` where others keep writing, and errors of the store.
    """
    names = [job] if job is not None else sorted(app.config.jobs)
    with closing(app.open_store()) as store:
        reports = [_prune_job(app, store, app.job(name), dry_run=dry_run) for name in names]
        if not dry_run:
            now = store.facts().now
            for report in reports:
                if not report.busy:
                    _drop_logs(app, app.job(report.job), now)
    return reports


def _drop_logs(app: Application, job: Job, now: datetime) -> None:
    """The output that this host has kept for as long as records are kept."""
    if job.work.kind != "entitlements":
        from ..needs import logs
        from ..work.commands.logs import Logs

        Logs(logs(app.config)).drop_older(job.name, now - app.config.store.keep)


def _prune_job(app: Application, store: Store, job: Job, *, dry_run: bool) -> PruneReport:
    keep = app.config.store.keep
    if not dry_run and live_lease(app, store, job) is not None:
        return PruneReport(job.name, keep, busy=True)
    dropped = Dropped()
    after: str | None = None
    conflicts = 0
    while True:
        found = store.get(Kind.JOB, job.name, "")
        if found is None:
            return PruneReport(job.name, keep, dropped, dry_run=dry_run)
        record = replace(JobRecord.from_json(found.value), pruning_after=after)
        batch = _batch(store, job, look(store, job, store.facts().now), record, keep)
        if not dry_run:
            try:
                store.note([*batch.writes, _put(job, batch, found.version)])
            except WriteConflict:
                conflicts += 1
                if conflicts == TRIES:
                    raise
                continue
            app.runtime.reached("pruned")
        dropped, after = dropped.and_(batch.dropped), batch.upto
        if batch.done:
            return PruneReport(job.name, keep, dropped, dry_run=dry_run)


def _put(job: Job, batch: Batch, version: int) -> Put:
    return Put(Kind.JOB, job.name, "", batch.record.to_json(), expect=version)


def _batch(store: Store, job: Job, seen: Look, record: JobRecord, keep: timedelta) -> Batch:
    """The oldest intervals after `record.pruning_after` that are to go, in one transaction."""
    oldest = seen.now - keep
    edge = min(oldest, _decided(seen))
    backfill = running(store, job.name, record)
    if backfill is not None and backfill.record.next_at is not None:
        edge = min(edge, backfill.record.next_at)  # it has to see what was completed
    spared = _newest_completed(store, job, seen.now)
    page = store.scan(
        Kind.INTERVAL,
        job.name,
        after=record.pruning_after or "",
        before=instant_key(edge),
        limit=READ,
    )
    writes: list[Write] = []
    dropped, upto, done = Dropped(), record.pruning_after, len(page) < READ
    for found in page:
        interval = IntervalRecord.from_json(found.value)
        until = interval.until_at or interval.scheduled_at
        is_old = until < edge and found.at < oldest
        if (
            interval.state.is_final
            and is_old
            and found.key != spared
            and not any(_below(store, Kind.ALERT, job, found.key, tag=OPEN))
        ):
            if dropped.records == BATCH or len(writes) >= WRITES:
                done = False
                break
            more, runs, events = _drop(store, job, found, interval)
            writes += more
            one = Dropped(1, interval.span, runs, events, interval.id, interval.id, until)
            dropped = dropped.and_(one)
        upto = found.key
    record = replace(record, pruning_after=None if done else upto)
    if done:
        record = replace(record, pruned_at=seen.now)
    return Batch(writes, _past(record, dropped.until), dropped, upto, done)


def _past(record: JobRecord, until: datetime | None) -> JobRecord:
    """The job's record when all intervals up to that one are dropped."""
    if until is None:
        return record
    edge = until + TICK
    before = record.pruned_until_at
    return replace(
        record,
        horizon_at=max(record.horizon_at, edge),
        pruned_until_at=edge if before is None else max(before, edge),
    )


def _decided(seen: Look) -> datetime:
    """Every scheduled instant before this one has a record that stands."""
    unwritten = [*seen.decision.skips, *seen.decision.overtaken]
    open_ends = [skip.interval.scheduled_at for skip in unwritten if skip.record is None]
    open_ends += [void.record.scheduled_at for void in seen.void]
    return min([seen.decision.settled, *open_ends])


def _newest_completed(store: Store, job: Job, now: datetime) -> str | None:
    """The key of the newest completed interval, however far back it lies."""
    for record in newest(store, job.name, before=instant_key(now + SECOND), first=3):
        if record.state is State.COMPLETED or record.earlier is not None:
            return record.interval(job.name).key
    return None


def _drop(
    store: Store, job: Job, found: Record, record: IntervalRecord
) -> tuple[list[Write], int, int]:
    """What drops an interval; how many runs and events go with it.

    It is written under its version before it is deleted, so that nothing is dropped that
    somebody has reopened since it was read.
    """
    own: list[Write] = [
        Put(Kind.INTERVAL, job.name, found.key, found.value, expect=found.version),
        Delete(Kind.INTERVAL, job.name, found.key),
    ]
    runs = [Delete(Kind.RUN, job.name, key) for key in _below(store, Kind.RUN, job, found.key)]
    events = [Delete(Kind.EVENT, job.name, k) for k in _below(store, Kind.EVENT, job, found.key)]
    alerts = [Delete(Kind.ALERT, job.name, k) for k in _below(store, Kind.ALERT, job, found.key)]
    plans = _plans(store, job, record)
    return [*own, *runs, *events, *alerts, *plans], len(runs), len(events)


def _below(store: Store, kind: Kind, job: Job, key: str, tag: str = "") -> Iterator[str]:
    after = ""
    while True:
        page = store.scan(kind, job.name, prefix=f"{key}/", after=after, tag=tag, limit=READ)
        yield from (found.key for found in page)
        if len(page) < READ:
            return
        after = page[-1].key


def _plans(store: Store, job: Job, record: IntervalRecord) -> Iterator[Write]:
    found = None if record.plan is None else store.get(Kind.PLAN, job.name, record.plan)
    if found is not None:
        ranges = PlanRecord.from_json(found.value).ranges
        yield from without_plan(job.name, found.key, ranges)
