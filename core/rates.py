"""So many per time: how a rate is spelled, and what it lets pass.

The promise is a sliding window: no span of time as long as the rate's, wherever it begins, holds
more than its amount. A store's bucket (`Store.take`) is not enough for that: one that is idle
gives all it has at once and refills meanwhile, so that a window can hold nearly twice the amount.
What is counted here is the starts themselves: the newest `amount` of them are kept, and another
may follow once the oldest of these is a whole window ago. Only the holder of the job's lease
starts intervals, so the list is written under its fence, together with the run that it counts:
no process, host or restart can pass it by, and a kill between the two cannot part them.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from .errors import ConfigError
from .model import Kind, Rate
from .record_fields import from_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from .ports import Reader

STARTS = "catch_up"
"""Key of the record, beside the job's own, that has the newest starts of replays."""
NEARLY = timedelta(minutes=1)
"""No clock that is right differs by so much."""
_UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_RATE = re.compile(r"([1-9]\d{0,5})/([smhd])", re.ASCII)


def parse_rate(text: str) -> Rate:
    """`100/s`, `30/m`, `4/h`, `1/d`. Raises `ConfigError`."""
    match = _RATE.fullmatch(text)
    if match is None:
        raise ConfigError(f"{text!r} is not a rate", hint='write for example "30/m" or "4/h"')
    return Rate(int(match[1]), _UNITS[match[2]])


def show_rate(rate: Rate) -> str:
    """As `parse_rate` reads it."""
    unit = next(unit for unit, per in _UNITS.items() if per == rate.per)
    return f"{rate.amount}/{unit}"


def may_start_at(starts: Sequence[datetime], rate: Rate, now: datetime) -> datetime:
    """From when on another may start; `now` or earlier where it may at once. `starts` are the
    newest ones. Those that a clock ahead of now has noted are void."""
    past = _until(starts, now)
    if len(past) < rate.amount:
        return now
    return past[-rate.amount] + rate.per


def with_start(starts: Sequence[datetime], rate: Rate, now: datetime) -> list[datetime]:
    """The newest starts with one more, as many as the next question needs."""
    return sorted([*_until(starts, now), now])[-rate.amount :]


def _until(starts: Sequence[datetime], now: datetime) -> list[datetime]:
    """Clocks differ a little, also those that two looks at one store's are reckoned from, so a
    start counts that seems to be about to come."""
    return sorted(start for start in starts if start <= now + NEARLY)


def starts_of(records: Reader, job: str, key: str = STARTS) -> list[datetime]:
    """The newest starts of replays, or of what else has a key for them; oldest first."""
    found = records.get(Kind.JOB, job, key)
    starts = found.value.get("starts") if found is not None else ()
    assert isinstance(starts, (list, tuple)), "that is what is written"
    return [from_text(str(start)) for start in starts]
