"""The lines of an interval's audit trail, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.records import from_text
from . import words
from .reasons import reason_text

if TYPE_CHECKING:
    from datetime import datetime

    from ...core.model import Json, JsonObject
    from ...core.status import EventView


def event_at(event: EventView) -> datetime:
    """When it happened: an event that was written down later says so itself."""
    at = event.value.get("at")
    return from_text(at) if isinstance(at, str) else event.at


def event_text(event: EventView) -> str:
    """One line of the trail in words, whatever is in a reason that somebody gave; one of an
    unknown type shows its fields."""
    says = _EVENTS.get(str(event.value.get("type")))
    if says is not None:
        return words.shown(says(event.value))
    fields = [f"{k}={v}" for k, v in event.value.items() if k != "type"]
    return words.shown(" ".join([str(event.value.get("type", "event")), *fields]))


def _run_started(value: JsonObject) -> str:
    trigger = value.get("trigger")
    by = value.get("by") or ("hand" if trigger == "manual" else trigger)
    at = f" {_planning(value)}at range {value['at_range']}" if value.get("at_range") else ""
    if value.get("work") and value.get("at_range") == 1:
        at = " from its last checkpoint"
    return (
        f"run {value.get('run')} started by {by} on {value.get('host')}{at},"
        f" generation {value.get('generation')}"
    )


def _taken_over(value: JsonObject) -> str:
    gone, for_ = "was killed", ""
    silent = value.get("silent")
    if not value.get("dead"):
        gone = "went silent"
        if isinstance(silent, (int, float)):
            gone, for_ = "silent", f" for {words.age(silent)}"
    after = ""
    if value.get("after_range"):
        after = f" after {_planning(value)}range {value['after_range']}"
    fenced = "" if value.get("work") else "target fenced at "
    generation = f"{fenced or 'generation '}{value.get('generation')}"
    return (
        f"run {value.get('run')} {gone}{for_}{after}; {generation}, run {value.get('run')} closed"
    )


def _planning(value: JsonObject) -> str:
    """What ranges are counted in: those of the planning pass are told apart."""
    return "planning " if value.get("phase") == "planning" else ""


def _guard(value: JsonObject) -> str:
    judged = "update" if value.get("guard") == "max_update" else "revoke"
    number, base = value.get(judged), value.get("base")
    share = ""
    if isinstance(number, int) and isinstance(base, int) and base:
        share = f": {number:,} of {base:,} rows ({words.percent(number, base)})"
    return f"guard {value.get('guard')}{share}; plan {value.get('hash')} waits for approval"


def _approved(value: JsonObject) -> str:
    return f"{value.get('actor')} approved {value.get('hash')}{_quoted(value)}"


def _reopened(value: JsonObject) -> str:
    return f"{value.get('actor')} reopened it, failed before ({value.get('was')}){_quoted(value)}"


def _completed(value: JsonObject) -> str:
    if value.get("work"):
        count = value.get("count")
        counted = f", count {count:,}" if isinstance(count, int) else ""
        return f"its command ended well{counted}: completed"
    ranges, rows = _count(value.get("ranges"), "range"), _count(value.get("count"), "row")
    return f"{ranges} and their sums agree, {rows} proved equal: completed"


def _count(value: Json, noun: str) -> str:
    return words.count(value, noun) if isinstance(value, int) else f"{value} {noun}s"


def _run_ended(value: JsonObject) -> str:
    text = f": {value['text']}" if value.get("text") else ""
    return f"run {value.get('run')} {value.get('ending')}{text}"


def _failed(value: JsonObject) -> str:
    return f"failed ({reason_text(str(value.get('reason')))}): {value.get('text')}"


def _skipped(value: JsonObject) -> str:
    if not value.get("actor"):
        return f"skipped: {reason_text(str(value.get('reason')))}"
    if value.get("why") == "paused":
        return f"skipped: {value['actor']} had paused the job{_quoted(value)}"
    gave_up = f"{value['actor']} gave it up, {value.get('state')}"
    return f"{gave_up} ({value.get('why')}){_quoted(value)}"


def _signed_off(value: JsonObject) -> str:
    return f"{value.get('actor')} signed for it, failed ({value.get('why')}){_quoted(value)}"


def _rerun(value: JsonObject) -> str:
    return (
        f"{value.get('actor')} reran it as r{value.get('rerun')}, it was {value.get('was')}"
        f"{_quoted(value)}"
    )


def _rerun_waits(value: JsonObject) -> str:
    return f"{value.get('actor')} asked for a rerun and waits{_against(value)}{_quoted(value)}"


def _rerun_refused(value: JsonObject) -> str:
    ends = "gave it up" if value.get("why") == "interrupted" else "was refused"
    return f"{value.get('actor')} asked for a rerun and {ends}{_against(value)}{_quoted(value)}"


def _against(value: JsonObject) -> str:
    """Who worked the interval, or what else was against it."""
    if value.get("holder") is not None:
        return f" while {value['holder']} worked it"
    why = {
        "write_conflict": " for another act by hand",
        "usage": " for it is not finished",
        "old_over_new": " for a newer one is completed",
    }
    return why.get(str(value.get("why")), "")


def _stop_asked(value: JsonObject) -> str:
    asked = "fenced the holder out" if value.get("force") else "asked the holder to stop"
    return f"{value.get('actor')} {asked}{_quoted(value)}"


def _paused(value: JsonObject) -> str:
    until = value.get("until")
    end = f" until {words.moment(from_text(until))}" if isinstance(until, str) else ""
    return f"{value.get('actor')} paused it{end}{_quoted(value)}"


def _unpaused(value: JsonObject) -> str:
    left = ", all it missed left to the policy" if value.get("catch_up") else ""
    return f"{value.get('actor')} unpaused it{left}{_quoted(value)}"


def _recovered(value: JsonObject) -> str:
    span = value.get("span")
    rest = f"{_count(span, 'interval')} up to it count" if span != 1 else "it counts"
    return (
        f"its record was lost with a store; the target has completed {value.get('newest')},"
        f" so {rest} as completed"
    )


def _target_rewound(value: JsonObject) -> str:
    has = value.get("target_has")
    has = f"it has {has} as its newest" if has else "it has completed nothing"
    return (
        f"the target went back behind the store: {has}; to be done again as r{value.get('rerun')}"
    )


def _alert(value: JsonObject) -> str:
    return f"alert {value.get('state')}: {value.get('text')}"


def _quoted(value: JsonObject) -> str:
    return f': "{value["reason"]}"' if value.get("reason") else ""


def _backfill(value: JsonObject) -> str:
    rerun = f", as r{value['rerun']}" if value.get("rerun") else ""
    return f"{value.get('actor')} asked for it in backfill #{value.get('number')}{rerun}" + (
        _quoted(value)
    )


def _backfill_asked(value: JsonObject) -> str:
    rate = f" at {value['rate']}" if value.get("rate") else ""
    rerun = ", completed ones again" if value.get("rerun_completed") else ""
    return (
        f"{value.get('actor')} asked for backfill #{value.get('number')} from"
        f" {value.get('first')} to {value.get('last')}{rate}{rerun}{_quoted(value)}"
    )


def _backfill_changed(value: JsonObject) -> str:
    rate = value.get("rate")
    how = "paused" if rate == "0" else f"set the rate to {rate or 'none'} of"
    return f"{value.get('actor')} {how} backfill #{value.get('number')}{_quoted(value)}"


def _divided(value: JsonObject) -> str:
    by = f", which {value['actor']} divided{_quoted(value)}" if value.get("actor") else ""
    return f"was one of the span that began with {value.get('of')}{by}"


_EVENTS = {
    "backfill": _backfill,
    "backfill_asked": _backfill_asked,
    "backfill_changed": _backfill_changed,
    "backfill_cancelled": lambda value: (
        f"{value.get('actor')} gave up the rest of backfill #{value.get('number')}{_quoted(value)}"
    ),
    "backfill_ended": lambda value: f"backfill #{value.get('number')} is over",
    "divided": _divided,
    "alert": _alert,
    "due": lambda _: "due",
    "run_started": _run_started,
    "taken_over": _taken_over,
    "guard": _guard,
    "approved": _approved,
    "reopened": _reopened,
    "completed": _completed,
    "run_ended": _run_ended,
    "attempt_failed": lambda value: f"an attempt failed before its run began: {value.get('text')}",
    "failed": _failed,
    "signed_off": _signed_off,
    "skipped": _skipped,
    "often": lambda value: (
        f"warning: {value.get('runs')} runs of it, and max_attempts is {value.get('max_attempts')}"
    ),
    "rerun": _rerun,
    "rerun_waits": _rerun_waits,
    "rerun_refused": _rerun_refused,
    "stop_asked": _stop_asked,
    "asked": lambda value: f"{value.get('actor')} asked for it{_quoted(value)}",
    "paused": _paused,
    "unpaused": _unpaused,
    "recovered": _recovered,
    "target_rewound": _target_rewound,
}
