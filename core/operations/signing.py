"""`skip` on an interval that has failed by itself: somebody knows, and nobody need be told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..model import Append, Kind, Put, instant_key
from ..records import to_text
from .look import note_act

if TYPE_CHECKING:
    from datetime import datetime

    from ..config import Job
    from ..model import JsonObject
    from ..ports import Store
    from ..records import IntervalRecord
    from .application import ActRequest


def signed_off(
    store: Store,
    job: Job,
    record: IntervalRecord,
    version: int,
    request: ActRequest,
    now: datetime,
) -> IntervalRecord:
    """The interval's record with the signature; it stays failed."""
    signed = {"actor": request.actor, "reason": request.reason}
    at = to_text(now)
    after = replace(record, signed_off={**signed, "at": at}, repair_owner=request.actor)
    key = instant_key(record.scheduled_at)
    event: JsonObject = {"type": "signed_off", "why": record.reason, **signed}
    put = Put(Kind.INTERVAL, job.name, key, after.to_json(), expect=version, tag=after.tag)
    note_act(store, job.name, record, [put, Append(Kind.EVENT, job.name, key, event)])
    return after
