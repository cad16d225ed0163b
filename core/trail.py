"""What an interval's trail still tells of it, and where the job's own is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .model import Kind
from .records import GuardReport

if TYPE_CHECKING:
    from .ports import Reader

OF_JOB = "job"
"""Prefix of the events that are about a whole job; those of intervals begin with a year."""
LOOK_BACK = 200
"""So many of the newest events are searched."""


def changed_by(records: Reader, job: str, interval: str) -> str:
    """Who was the last to do something to an interval (its key): a person, or a run."""
    trail = records.scan(Kind.EVENT, job, prefix=f"{interval}/", limit=LOOK_BACK, newest_first=True)
    for value in (event.value for event in trail):
        if value.get("actor"):
            return f"{value['actor']} ({str(value.get('type')).replace('_', ' ')})"
        if value.get("run"):
            return f"run {value['run']}" + (f" of {value['by']}" if value.get("by") else "")
    return "somebody else"


def guard_told(records: Reader, job: str, interval: str, plan_hash: str) -> GuardReport | None:
    """What a guard said of a plan of the interval (its key), by the plan's hash."""
    trail = records.scan(Kind.EVENT, job, prefix=f"{interval}/", limit=LOOK_BACK, newest_first=True)
    for event in trail:
        if event.value.get("type") == "guard" and event.value.get("hash") == plan_hash:
            return GuardReport.from_json(event.value)
    return None


def given_up_by(records: Reader, job: str, interval: str) -> tuple[str, str] | None:
    """Who gave an interval (its key) up by hand, and with what reason; None where the trail does
    not tell any more."""
    trail = records.scan(Kind.EVENT, job, prefix=f"{interval}/", limit=LOOK_BACK, newest_first=True)
    for event in trail:
        if event.value.get("type") == "skipped" and event.value.get("actor"):
            return str(event.value["actor"]), str(event.value.get("reason", ""))
    return None
