"""`skip` on an interval that has failed by itself: somebody knows, and nobody need be told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import UsageError
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
    """The interval's record with the signature; it stays failed. Raises `UsageError` where it has
    one already."""
    name = f"{job.name} {record.id}"
    if record.signed_off is not None:
        raise UsageError(
            f"{name} has failed, and {record.signed_off.get('actor')} has signed for it",
            hint=f"see how it stands: reconcile status {name}",
        )
    signed = {"actor": request.actor, "reason": request.reason}
    after = replace(record, signed_off={**signed, "at": to_text(now)})
    key = instant_key(record.scheduled_at)
    event: JsonObject = {"type": "signed_off", "why": record.reason, **signed}
    put = Put(Kind.INTERVAL, job.name, key, after.to_json(), expect=version, tag=after.tag)
    note_act(store, job.name, record, [put, Append(Kind.EVENT, job.name, key, event)])
    return after
