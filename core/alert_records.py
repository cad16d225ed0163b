"""Alerts as records: raised, cleared, sent to each channel. See `alerts.py` for what they mean."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from .alerts import (
    APPROVAL,
    CLAIM,
    FAILED,
    OVERDUE,
    STALLED,
    alert_key,
    is_overdue,
    is_stalled,
    waits_for_approval,
)
from .model import Append, Kind, Put, State, instant_key
from .record_fields import Fields
from .records import OPEN, IntervalRecord, from_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .alerts import Found
    from .config import Job
    from .model import JsonObject, Write
    from .ports import Reader
    from .records import JobRecord
    from .schedule import Schedule


@dataclass(frozen=True, slots=True)
class AlertRecord(Fields):
    """One alert. `sent` are the channels that know of it as it stands; `heard` those that were
    told when it was raised. `tries` counts failed deliveries since it changed."""

    kind: str
    id: str
    scheduled_at: datetime
    since_at: datetime
    text: str
    next: str
    number: int = 1
    cleared: bool = False
    sent: Sequence[str] = ()
    heard: Sequence[str] = ()
    tries: int = 0
    claimed_at: datetime | None = None

    @property
    def key(self) -> str:
        return alert_key(instant_key(self.scheduled_at), self.kind)

    @property
    def interval_key(self) -> str:
        return instant_key(self.scheduled_at)

    def tag(self, channels: Sequence[str]) -> str:
        """Alerts that stand, or that somebody must still hear of, are found without the rest."""
        return "" if self.cleared and not self.unsent(channels) else OPEN

    def unsent(self, channels: Sequence[str]) -> list[str]:
        """The channels that have to be told. An all-clear is for who has heard the alert."""
        wanted = [c for c in channels if c in self.heard] if self.cleared else channels
        return [channel for channel in wanted if channel not in self.sent]

    def is_claimed(self, now: datetime) -> bool:
        """Whether somebody is sending it at this moment."""
        at = self.claimed_at
        return at is not None and timedelta(0) <= now - at < CLAIM


# --- an interval that failed for good


def owed(reader: Reader, job: str, failed: Sequence[Put]) -> list[Write]:
    """The alert that goes into the batch which makes intervals fail: one for all of them, about
    the oldest. None where that one's stands already."""
    put = min(failed, key=lambda one: one.key)
    record = IntervalRecord.from_json(put.value)
    name = f"{job} {record.id}"
    others = len(failed) - 1 + sum(_spanned(one) for one in failed)
    failure = record.failure or {}
    text = f"{name} has failed for good ({record.reason}): {failure.get('text', 'no reason given')}"
    if failure.get("last"):
        text += f'; its last line: "{failure["last"]}"'
    shows = "logs" if failure.get("exit") == "command_failed" else "status"
    if others:
        text += f"; and so have {others} others"
    at = failure.get("at")
    alert = AlertRecord(
        kind=FAILED,
        id=record.id,
        scheduled_at=record.scheduled_at,
        since_at=from_text(at) if isinstance(at, str) else record.scheduled_at,
        text=text,
        next=f"reconcile {shows} {name}",
    )
    stored = reader.get(Kind.ALERT, job, alert.key)
    if stored is not None:
        before = AlertRecord.from_json(stored.value)
        if not before.cleared:
            return []
        alert = replace(alert, number=before.number + 1)
    return [
        Put(Kind.ALERT, job, alert.key, alert.to_json(), tag=OPEN),
        trail_event(job, alert),
    ]


def _spanned(put: Put) -> int:
    span = put.value.get("span", 1)
    return span - 1 if isinstance(span, int) else 0


# --- raising and clearing


def raised(found: Found, before: AlertRecord | None, now: datetime) -> AlertRecord:
    """The record of a condition that has just been noticed."""
    return AlertRecord(
        kind=found.kind,
        id=found.interval.id,
        scheduled_at=found.interval.scheduled_at,
        since_at=min(found.since, now),
        text=found.text,
        next=found.next,
        number=1 if before is None else before.number + 1,
    )


def is_over(
    alert: AlertRecord,
    job: Job,
    seen: JobRecord,
    schedule: Schedule | None,
    record: IntervalRecord | None,
    now: datetime,
    *,
    still_due: bool,
) -> str | None:
    """Why an alert's condition is over, for the all-clear; None while it stands.

    `record` is the interval's own, or the span that covers it; `still_due`: it has none, and a
    trigger would begin it.
    """
    if record is None:
        return None if still_due else "it is not owed any more"
    if alert.kind == FAILED:
        return _made_good(record)
    if record.state.is_final:
        return f"it ended as {record.state}" + (f" ({record.reason})" if record.reason else "")
    stands, over = {
        APPROVAL: (waits_for_approval(record), "it waits for no approval any more"),
        STALLED: (is_stalled(job, record), "it has got further"),
        OVERDUE: (
            is_overdue(job, seen, schedule, record, now),
            "its deadline is a later one now",
        ),
    }[alert.kind]
    return None if stands else over


def _made_good(record: IntervalRecord) -> str | None:
    """That another interval was completed since is nothing to this one."""
    if record.state in (State.COMPLETED, State.SKIPPED):
        return f"it ended as {record.state}"
    return "somebody has signed for it" if record.is_signed else None


def cleared(alert: AlertRecord, job: str, why: str) -> AlertRecord:
    """The all-clear: told to those who have heard the alert."""
    return replace(
        alert,
        cleared=True,
        text=f"{job} {alert.id} is no longer {_WORDS[alert.kind]}: {why}",
        heard=alert.sent,
        sent=(),
        tries=0,
        claimed_at=None,
    )


_WORDS = {
    OVERDUE: "past its deadline",
    FAILED: "failed",
    APPROVAL: "waiting for an approval",
    STALLED: "stalled",
}


def trail_event(job: str, alert: AlertRecord) -> Append:
    """What the interval's trail says of it."""
    state = "cleared" if alert.cleared else "raised"
    value: JsonObject = {"type": "alert", "kind": alert.kind, "state": state, "text": alert.text}
    return Append(Kind.EVENT, job, alert.interval_key, value)


def message(alert: AlertRecord, job: str, host: str, now: datetime) -> JsonObject:
    """What a channel gets. `id` stays the same from the alert to its all-clear."""
    number = f"/{alert.number}" if alert.number > 1 else ""
    return {
        "schema": 1,
        "id": f"{job}/{alert.id}/{alert.kind}{number}",
        "kind": alert.kind,
        "state": "cleared" if alert.cleared else "raised",
        "job": job,
        "interval": alert.id,
        "since": alert.since_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "age_seconds": max(0, int((now - alert.since_at).total_seconds())),
        "host": host,
        "text": alert.text,
        "next": alert.next,
    }
