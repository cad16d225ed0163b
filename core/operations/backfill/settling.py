"""What is written down of a backfill besides its runs, under the lease of its job."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from ...errors import OldOverNew
from ...fencing import raise_fence
from ...model import ABSENT, Actor, Append, Ending, Kind, Put, State, Trigger, instant_key
from ...planning import LONG_SKIP
from ...records import IntervalRecord, to_text
from ...schedule import TICK
from ...trail import OF_JOB
from ..giving_up import cancelled, closed_runs, signed, told
from ..look import find_record, interval_at, open_records
from .turns import between, end_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from ...backfills import BackfillRecord
    from ...config import Job
    from ...leasing import LeaseKeeper
    from ...model import JsonObject, Write
    from ...ports import Store
    from ..application import Application
    from ..look import Look
    from .turns import Turn

BATCH = 100
"""So many records are written at once."""


def settle(
    app: Application, store: Store, job: Job, seen: Look, found: Turn, keeper: LeaseKeeper
) -> bool:
    """Write down what has become of the backfill besides its runs. True where something was
    written, so that everything has to be decided again.

    Raises `WriteConflict` where somebody said something else of the job meanwhile.
    """
    record = found.backfill.record
    gives_up = found.backfill.cancelled
    if gives_up is not None:
        _give_up_open(app, store, job, found, gives_up, keeper)
        _give_up_rest(store, job, seen, record, keeper, _Skipped(gives_up, record), None)
    elif (
        seen.completed is not None
        and record.next_at is not None
        and (record.next_at < seen.completed)
    ):
        _give_up_rest(
            store, job, seen, record, keeper, _overtaken(job, seen, record), seen.completed
        )
        return True
    elif not found.is_over:
        keeper.commit([replace(record, next_at=found.next_at).put(job.name)])
        return found.more
    ended = replace(record, next_at=None, ended_at=keeper.now(), cancelled=gives_up is not None)
    event: JsonObject = {"type": "backfill_ended", "number": record.number}
    of_job = replace(seen.job, backfill=None)
    keeper.commit(
        [
            ended.put(job.name),
            Put(Kind.JOB, job.name, "", of_job.to_json(), expect=seen.version or ABSENT),
            Append(Kind.EVENT, job.name, OF_JOB, event),
        ]
    )
    app.runtime.reached("backfill_ended")
    return True


class _Skipped(NamedTuple):
    """How an interval of the rest ends that somebody gives up."""

    by: Actor
    backfill: BackfillRecord

    def record(self, record: IntervalRecord) -> IntervalRecord:
        """The record, ended so."""
        owner = self.by.name
        return replace(record, state=State.SKIPPED, reason="operator", repair_owner=owner)

    def event(self) -> JsonObject:
        """What its trail says of that."""
        return signed("skipped", self.by, state="skipped", why="operator")


class _Overtaken(NamedTuple):
    """How an interval of the rest ends that may not be applied any more."""

    text: str
    at: datetime
    backfill: BackfillRecord

    def record(self, record: IntervalRecord) -> IntervalRecord:
        """The record, ended so."""
        failure: JsonObject = {
            "text": self.text,
            "exit": OldOverNew.name,
            "at": to_text(self.at),
        }
        owner = self.backfill.actor
        return replace(
            record, state=State.FAILED, reason="overtaken", failure=failure, repair_owner=owner
        )

    def event(self) -> JsonObject:
        """What its trail says of that."""
        return {"type": "failed", "reason": "overtaken", "text": self.text}


def _overtaken(job: Job, seen: Look, record: BackfillRecord) -> _Overtaken:
    assert seen.completed is not None, "that is what they are overtaken by"
    newest = interval_at(seen, job.name, seen.completed).id
    text = f"the target has completed {newest}, whose truth an older one would undo"
    return _Overtaken(text, seen.now, record)


def _give_up_open(
    app: Application, store: Store, job: Job, found: Turn, by: Actor, keeper: LeaseKeeper
) -> None:
    """End those that were begun and not finished, as `skip` would: whoever left a run of one open
    is fenced out first."""
    number = found.backfill.record.number
    for record, version in list(open_records(store, job.name)):
        if record.backfill != number:
            continue
        key = record.interval(job.name).key
        with closing(app.build_work(job)) as work:
            runs: list[Put] = []
            if any(store.scan(Kind.RUN, job.name, prefix=f"{key}/")):
                raise_fence(keeper, work, store, store.facts().id, key, app.runtime)
                runs = list(closed_runs(store, job, Ending.ABANDONED, keeper.now()))
            after, event, revoked = cancelled(job, work, record, by)
        more = told(store, job, record, revoked, keeper.now(), runs)
        put = Put(Kind.INTERVAL, job.name, key, after.to_json(), version, after.tag)
        keeper.commit([*more, put, Append(Kind.EVENT, job.name, key, event)])
        app.runtime.reached("backfill_given_up")


def _give_up_rest(
    store: Store,
    job: Job,
    seen: Look,
    record: BackfillRecord,
    keeper: LeaseKeeper,
    end: _Skipped | _Overtaken,
    before: datetime | None,
) -> None:
    """A final record for each that nobody has begun, up to `before`, a batch at a time. Those at
    or after the horizon are due anyway, and left to that."""
    if record.next_at is None or seen.schedule is None:
        return
    last = record.last_at if before is None else min(record.last_at, before - TICK)
    edge = min(last, seen.job.horizon_at - TICK)
    batch: list[Write] = []
    for one in _stretches(store, job, seen, record.next_at, edge):
        ended = replace(end.record(one), trigger=Trigger.BACKFILL, backfill=record.number)
        key = instant_key(one.scheduled_at)
        batch.append(Put(Kind.INTERVAL, job.name, key, ended.to_json(), ABSENT, ended.tag))
        batch.append(Append(Kind.EVENT, job.name, key, {**end.event(), "span": one.span}))
        if len(batch) >= 2 * BATCH:
            moved = replace(record, next_at=seen.schedule.next_after(end_of(one)))
            keeper.commit([*batch, moved.put(job.name)])
            batch = []
    following = seen.schedule.next_after(last)
    left = following if following is not None and following <= record.last_at else None
    keeper.commit([*batch, replace(record, next_at=left).put(job.name)])


def _stretches(
    store: Store, job: Job, seen: Look, begin: datetime, until: datetime
) -> Iterator[IntervalRecord]:
    """Records for the scheduled instants from `begin` to `until` that have none: one each, or one
    span for many without a record between."""
    covers, _ = find_record(store, job.name, begin)
    after = begin - TICK if covers is None else end_of(covers)
    for found, _ in chain(between(store, job, begin, until), [(None, ABSENT)]):
        edge = until if found is None else found.scheduled_at - TICK
        if after < edge:
            yield from _bare(job, seen, after, edge)
        if found is not None:
            after = max(after, end_of(found))


def _bare(job: Job, seen: Look, after: datetime, until: datetime) -> Iterator[IntervalRecord]:
    assert seen.schedule is not None, "it has scheduled instants"
    count = seen.schedule.count(after, until)
    if count <= LONG_SKIP:
        for instant in seen.schedule.between(after, until):
            yield IntervalRecord.of(interval_at(seen, job.name, instant))
        return
    first, last = seen.schedule.next_after(after), seen.schedule.latest_until(until)
    assert first is not None
    assert last is not None
    one = IntervalRecord.of(interval_at(seen, job.name, first))
    yield replace(one, span=count, until_at=last)
