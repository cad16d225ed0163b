"""What a run that takes over writes down about the one before it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .records import to_text

if TYPE_CHECKING:
    from datetime import datetime

    from .leasing import LeaseKeeper
    from .model import Json, JsonObject
    from .records import IntervalRecord


def takeover_facts(keeper: LeaseKeeper, record: IntervalRecord, now: datetime) -> dict[str, Json]:
    """Of whom, how long it was silent, and where it stood."""
    grant = keeper.previous
    upper = (record.cursor or {}).get("upper")
    facts: dict[str, Json] = {
        "generation": keeper.fence.generation,
        "phase": record.phase,
        "work": record.work,
        "after_range": record.ranges_done,
        "upper": upper if isinstance(upper, str) else None,
    }
    if grant is not None:
        facts["silent"] = round(max(0.0, (now - grant.progress_at).total_seconds()), 1)
        facts["lease"] = keeper.lease.ttl.total_seconds()
        facts["dead"] = now < grant.expires_at
        facts["holder"] = str(grant.holder)
    return facts


def killed_once_more(record: IntervalRecord, max_attempts: int, now: datetime) -> IntervalRecord:
    """Kills without a checkpoint between never fail an interval; they slow it down."""
    kills = record.kills + 1
    if kills % max_attempts:
        return replace(record, kills=kills)
    where = f" in range {record.ranges_done + 1} of {record.phase}"
    if record.work is not None:
        where = record.under_way
    failure: JsonObject = {
        "text": f"killed {kills} times{where}, without progress",
        "exit": "killed",
        "at": to_text(now),
    }
    return replace(record, kills=kills, failure=failure)
