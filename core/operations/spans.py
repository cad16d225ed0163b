"""One interval of a span gets a record of its own, so that it can be worked: the span is divided.

A span is one record for many scheduled instants that nobody has worked. What lies before the one
stays with the span's record, what lies after gets a record that says from which it was taken. Both
have on their trail who divided them, and why: a record that somebody's act has changed is signed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ..model import ABSENT, Append, Kind, Put, instant_key
from ..records import IntervalRecord
from ..schedule import TICK
from .look import interval_at

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ..config import Job
    from ..model import JsonObject, Write
    from .look import Look


class Alone(NamedTuple):
    """The record of one instant, with the version to expect of it, and what must be written with
    it so that the rest of its span keeps what it was."""

    record: IntervalRecord
    version: int
    writes: Sequence[Write] = ()


def alone(
    job: Job,
    seen: Look,
    record: IntervalRecord,
    version: int,
    instant: datetime,
    *,
    actor: str,
    reason: str,
) -> Alone:
    """The instant's own record: the one given, or where that is a span, a part of it, which the
    actor wants worked."""
    if record.span == 1 or record.until_at is None or seen.schedule is None:
        return Alone(record, version)
    writes: list[Write] = []
    event: JsonObject = {"type": "divided", "of": record.id, "actor": actor, "reason": reason}
    before = seen.schedule.count(record.scheduled_at - TICK, instant - TICK)
    after = seen.schedule.next_after(instant)
    part = _part(job, seen, record, instant)
    own = replace(part, span=1, until_at=None, last_id=None, checksum=None, rerun=0)
    if before:
        last = seen.schedule.latest_until(instant - TICK, record.scheduled_at)
        head = _cut(record, before, last, None)
        writes += _put(job, head, version, event)
        version = ABSENT
    left = record.span - before - 1
    if left > 0 and after is not None and after <= record.until_at:
        tail = _cut(_part(job, seen, record, after), left, record.until_at, record.last_id)
        writes += _put(job, tail, ABSENT, event)
    elif record.last_id is not None:  # it is the last one, whose proof is the span's
        own = replace(own, id=record.last_id, checksum=record.checksum, rerun=record.rerun)
    return Alone(own, version, writes)


def _part(job: Job, seen: Look, record: IntervalRecord, instant: datetime) -> IntervalRecord:
    interval = interval_at(seen, job.name, instant)
    named = IntervalRecord.of(interval)
    return replace(record, id=named.id, scheduled_at=instant, timezone=named.timezone)


def _cut(
    record: IntervalRecord, span: int, until: datetime | None, last_id: str | None
) -> IntervalRecord:
    """The record for so many instants up to that one; only the whole span's end was proved."""
    single = span == 1
    proved = last_id is not None
    return replace(
        record,
        id=last_id if single and last_id is not None else record.id,
        span=span,
        until_at=None if single else until,
        last_id=None if single else last_id,
        rerun=record.rerun if proved else 0,
        checksum=record.checksum if proved else None,
    )


def _put(job: Job, record: IntervalRecord, version: int, event: JsonObject) -> list[Write]:
    key = instant_key(record.scheduled_at)
    return [
        Put(Kind.INTERVAL, job.name, key, record.to_json(), version, record.tag),
        Append(Kind.EVENT, job.name, key, {**event, "span": record.span}),
    ]
