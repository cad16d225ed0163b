"""systemd's timers, as far as who calls jobs: when they elapse, and what their service starts."""

from __future__ import annotations

import re
import shlex
from datetime import timedelta
from typing import TYPE_CHECKING

from .crontabs import called_by, called_by_words, longest_gap
from .premises import Call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from .crontabs import Read
    from .premises import Called, Timer

_AGAIN = ("OnUnitActiveSec", "OnUnitInactiveSec")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_UNITS = {
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec"), 0.001),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
    **dict.fromkeys(("w", "week", "weeks"), 604800.0),
}
_PREFIXES = "@-:+!|"
_SHELLS = frozenset({"sh", "bash", "dash"})


def calls_of(timer: Timer, read: Read, now: datetime) -> Iterator[Call]:
    """The calls of jobs by a timer."""
    gaps = [_clock_gap(value, now) for value in _values(timer.text, "OnCalendar")]
    gaps += [_span(value) for name in _AGAIN for value in _values(timer.text, name)]
    known = [gap for gap in gaps if gap is not None]
    off = ""
    manager = "systemctl --user" if timer.by_user else "systemctl"
    if not timer.enabled and timer.active is not True:
        off = f"{manager} enable --now {timer.name}"
    elif timer.active is False:
        off = f"{manager} start {timer.name}"
    for line in _values(timer.service, "ExecStart"):
        for called in _called(line, timer, read):
            yield Call(timer.name, called, min(known, default=None), off)


def _called(line: str, timer: Timer, read: Read) -> Iterator[Called]:
    bare = line.lstrip(_PREFIXES)
    for mark in ("%i", "%I"):
        bare = bare.replace(mark, timer.instance)
    bare = bare.replace("%%", "%").replace("$$", "$")
    try:
        words = shlex.split(bare)
    except ValueError:
        return
    if words and words[0].rpartition("/")[2] in _SHELLS and "-c" in words:
        yield from called_by(words[-1], read)
    else:
        yield from called_by_words(words, read)


def _values(text: str, name: str) -> list[str]:
    """What a unit says of a setting, in order; an empty one forgets what was said before."""
    found: list[str] = []
    for line in text.replace("\\\n", " ").splitlines():
        key, sign, value = line.strip().partition("=")
        if sign and key.strip() == name:
            found = [*found, value.strip()] if value.strip() else []
    return found


def _clock_gap(expression: str, now: datetime) -> timedelta | None:
    return longest_gap(expression, now)


def _span(text: str) -> timedelta | None:
    """A time span of systemd's: `10min`, `1h 30m`, bare seconds."""
    seconds = 0.0
    for number, unit in _SPAN.findall(text):
        if unit not in _UNITS:
            return None
        seconds += float(number) * _UNITS[unit]
    return timedelta(seconds=seconds) if seconds else None
