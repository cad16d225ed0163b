"""Times in which triggers start nothing, because somebody said so.

A pause is kept in the job's record and ends by hand, or by itself at `until`; nobody has to
write that down, it follows from the clock. What came due in a pause that is over goes by one
rule, however it ended: the newest instant is due, as if it had been scheduled for the end of
the pause, and older ones are skipped (`paused`), whatever the catch-up policy says of misses.
Where a person unpaused with `catch_up`, they are misses like any other. While a pause lasts
nothing is decided about its instants, so they are neither due nor late.

Pauses that are over stay in the record, so that each decision about their instants is the same
one again; only the newest `KEPT` do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ..records import from_text, to_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ..model import Actor, JsonObject
    from ..records import JobRecord

KEPT = 20
"""So many pauses that are over are kept; a longer list would grow with each knock's reading."""


class Pause(NamedTuple):
    """From `at` on, exclusive, triggers start nothing: to `until` (None: open) or, where somebody
    unpaused, to `ended`. `actor` is who paused, and why."""

    at: datetime
    until: datetime | None
    actor: str
    reason: str
    ended: datetime | None = None
    catch_up: bool = False

    @property
    def over_at(self) -> datetime | None:
        """When it is over; None where nobody knows yet."""
        known = [end for end in (self.until, self.ended) if end is not None]
        return min(known, default=None)

    def is_over(self, now: datetime) -> bool:
        """Whether triggers go on. What a person ended is over, even by a clock put back since."""
        return self.ended is not None or (self.until is not None and self.until <= now)


def pauses_of(record: JobRecord) -> list[Pause]:
    """All pauses that are known, oldest first."""
    stored = [*(record.pauses or ()), *([record.pause] if record.pause is not None else ())]
    return [_read(one) for one in stored]


def in_force(pauses: Sequence[Pause], now: datetime) -> Pause | None:
    """The pause that holds triggers back now."""
    return next((one for one in reversed(pauses) if not one.is_over(now)), None)


def paused(record: JobRecord, by: Actor, until: datetime | None) -> JobRecord:
    """The job's record with a pause from now on. One that is in force already begins when it
    began, and goes by the new word from now on."""
    newest = _read(record.pause) if record.pause is not None else None
    earlier = list(record.pauses or ())
    at = by.at
    if newest is not None and newest.is_over(by.at):
        earlier.append(_written(newest))
    elif newest is not None:
        at = newest.at
    pause = Pause(at, until, by.name, by.reason)
    return replace(record, pause=_written(pause), pauses=earlier[-KEPT:] or None)


def unpaused(record: JobRecord, now: datetime, *, catch_up: bool) -> JobRecord:
    """The job's record with its pause ended now."""
    assert record.pause is not None, "it is in force"
    ended = _read(record.pause)._replace(ended=now, catch_up=catch_up)
    earlier = [*(record.pauses or ()), _written(ended)]
    return replace(record, pause=None, pauses=earlier[-KEPT:])


def _read(value: JsonObject) -> Pause:
    until, ended = value.get("until"), value.get("ended")
    return Pause(
        at=from_text(str(value["at"])),
        until=None if until is None else from_text(str(until)),
        actor=str(value.get("actor", "")),
        reason=str(value.get("reason", "")),
        ended=None if ended is None else from_text(str(ended)),
        catch_up=value.get("catch_up") is True,
    )


def _written(pause: Pause) -> JsonObject:
    value: dict[str, str | bool] = {
        "at": to_text(pause.at),
        "actor": pause.actor,
        "reason": pause.reason,
    }
    if pause.until is not None:
        value["until"] = to_text(pause.until)
    if pause.ended is not None:
        value.update(ended=to_text(pause.ended), catch_up=pause.catch_up)
    return value
