"""What acts by hand on one interval have in common: which one is meant, whether it is being worked,
and what is written of it with the signature."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import LeaseBusy, UsageError
from ..model import ABSENT, Append, Kind, Put, instant_key
from .look import find_instant, find_record, live_lease, look

if TYPE_CHECKING:
    from datetime import datetime

    from ..config import Job
    from ..model import JsonObject, Write
    from ..ports import Store
    from ..records import IntervalRecord
    from .application import Application


def named(
    store: Store, job: Job, text: str, now: datetime, *, spans: bool = False
) -> tuple[datetime, IntervalRecord | None, int]:
    """The interval that somebody names: its instant, and its record with the version to expect,
    which with `spans` may be that of a span. Raises `UsageError` for one that is still to come."""
    seen = look(store, job, now)
    instant = find_instant(store, seen, job.name, text)
    if instant > now:
        raise UsageError(
            f"{job.name} {text} lies in the future",
            hint=f"see what there is: reconcile status {job.name}",
        )
    record, version = find_record(store, job.name, instant)
    if record is not None and record.span > 1 and not spans:
        raise UsageError(
            f"{job.name} {text} is one of {record.span} intervals that are"
            f" {record.state} ({record.reason}) as one",
            hint=f"see the span: reconcile status {job.name} {record.id}",
        )
    return instant, record, version


def refuse_while_worked(app: Application, store: Store, job: Job, instant: datetime) -> None:
    """Raise `LeaseBusy` where it is, also while it has no record yet, as its holder is about to
    open its run."""
    lease = live_lease(app, store, job)
    if lease is not None and lease.interval == instant_key(instant):
        raise LeaseBusy(lease)


def writes_of(job: Job, record: IntervalRecord, version: int, event: JsonObject) -> list[Write]:
    """The record as it is now, where it has that version, and what its trail says of it."""
    key = record.interval(job.name).key
    return [
        put_of(job, key, record, version or ABSENT),
        Append(Kind.EVENT, job.name, key, event),
    ]


def put_of(job: Job, key: str, record: IntervalRecord, version: int) -> Put:
    """The record as it is now, where it has that version."""
    return Put(Kind.INTERVAL, job.name, key, record.to_json(), expect=version, tag=record.tag)
