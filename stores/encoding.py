"""How values become text, numbers and bounds, the same in every store.

JSON is lossless: what a caller may store is exactly what it gets back (a tuple as a
list). NaN, infinities, keys that are not text and objects that JSON does not know are
refused before anything is written. Text is written as ASCII with escapes, so that a lone
surrogate from an undecodable byte survives.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import TYPE_CHECKING, Any

from ..core.errors import StoreUnusable
from ..core.model import Fence, Grant, Holder, LeaseKey, RunId

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..core.model import Json, JsonObject, Rate, Write

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_write_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_SURROGATES = (0xD800, 0xDFFF)
_LAST = 0x10FFFF
_ROUNDING = 1e-6


# --- values


def to_json_text(value: JsonObject) -> str:
    """A JSON object as text. ValueError where reading it back would give another value."""
    return _write_json(_checked(value))


def from_json_text(text: str) -> Any:
    """Read what `to_json_text` wrote. `StoreUnusable` for anything else."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise damaged(f"{text[:40]!r} was stored as JSON and is none") from error


def damaged(what: str) -> StoreUnusable:
    """The refusal of a store in which that was found."""
    return StoreUnusable(
        f"the store is damaged: {what}",
        hint="restore it from a copy, or move it away: a new store is created and goes on "
        "from what the target knows",
    )


def refuse_several_jobs(writes: Iterable[Write], leased: str | None = None) -> None:
    """ValueError unless a batch is about one job, under a lease about that job. A cluster of
    servers keeps each job in one place, and only there is a batch one step."""
    jobs = {write.job for write in writes}
    if len(jobs) > 1:
        raise ValueError(f"a batch is about one job, and this one is about {sorted(jobs)}")
    if leased is not None and not jobs <= {leased}:
        raise ValueError(f"a batch under the lease of {leased} is about {jobs.pop()}")


def _checked(value: Any) -> Json:
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        if not isfinite(value):
            raise ValueError(f"{value} has no spelling in JSON")
        return value
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise ValueError(f"the key {name!r} of a JSON object must be text")
        return {name: _checked(part) for name, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_checked(part) for part in value]
    raise ValueError(f"{type(value).__name__} is not a JSON value: {value!r}")


# --- instants and durations


def to_micros(instant: datetime) -> int:
    """An aware instant as whole microseconds since 1970 in UTC, without rounding."""
    return (instant - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """Read what `to_micros` wrote; in UTC."""
    return _EPOCH + timedelta(microseconds=micros)


def duration_to_micros(duration: timedelta) -> int:
    """A duration as whole microseconds, without rounding."""
    return duration // _MICROSECOND


# --- holders and grants


def holder_to_text(holder: Holder) -> str:
    """A holder as JSON text; equal holders have equal text."""
    return _write_json(holder._asdict())


def holder_from_text(text: str) -> Holder:
    """Read what `holder_to_text` wrote."""
    return Holder(**from_json_text(text))


def grant_to_text(grant: Grant) -> str:
    """An earlier grant as JSON text, without its lease key, which the row has."""
    return _write_json(
        {
            "generation": grant.fence.generation,
            "run": grant.fence.run,
            "holder": grant.holder._asdict(),
            "interval": grant.interval,
            "progress_at": to_micros(grant.progress_at),
            "expires_at": to_micros(grant.expires_at),
            "released": grant.released,
        },
    )


def grant_from_text(key: LeaseKey, text: str) -> Grant:
    """Read what `grant_to_text` wrote."""
    value = from_json_text(text)
    return Grant(
        fence=Fence(key, value["generation"], RunId(value["run"])),
        holder=Holder(**value["holder"]),
        interval=value["interval"],
        progress_at=from_micros(value["progress_at"]),
        expires_at=from_micros(value["expires_at"]),
        released=value["released"],
    )


# --- bounds of a scan


def key_bounds(prefix: str, after: str, before: str) -> tuple[str, str | None]:
    """The half-open span ``[low, high)`` of keys that a scan asks for; None is no bound.

    Keys are ordered by code point, which is also the order of their UTF-8 bytes. The
    first key above `after` is `after` with U+0000 behind it.
    """
    low = max(prefix, after + "\0" if after else "")
    highs = [high for high in (before or None, _after_prefix(prefix)) if high is not None]
    return low, min(highs, default=None)


def _after_prefix(prefix: str) -> str | None:
    """The first key above all that start with `prefix`; None where there is none."""
    for at in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[at]) + 1
        if code == _SURROGATES[0]:
            code = _SURROGATES[1] + 1
        if code <= _LAST:
            return prefix[:at] + chr(code)
    return None


# --- buckets


def check_rate(rate: Rate, n: int) -> None:
    """ValueError where `n` calls could never be granted, so that nobody waits for ever."""
    if n < 1 or rate.amount < n or rate.per <= timedelta(0):
        raise ValueError(f"{n} calls at once cannot be had from {rate.amount} per {rate.per}")


def next_call(due: float, now: float, rate: Rate, n: int) -> tuple[float, float]:
    """Seconds to wait for n calls, and the bucket as it is to be kept: with them taken when
    there is nothing to wait for.

    A bucket is one number: the instant at which it will be full (`due`, on the clock of
    `now`, in seconds). Each call moves it on by ``per / amount``; a call is granted while
    that stays within `per` of now, so an idle bucket grants `amount` at once. A `due`
    further off than an empty bucket's comes from another rate and counts as empty; that is
    to be kept on refusal too, or the wait would begin anew each time.
    """
    per = rate.per.total_seconds()
    kept = min(due, now + per)
    taken = max(kept, now) + n * per / rate.amount
    wait = taken - now - per
    return (wait, kept) if wait > _ROUNDING else (0.0, taken)
