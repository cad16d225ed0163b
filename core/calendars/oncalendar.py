"""Calendar events of systemd (OnCalendar), as systemd.time(7) has them.

The package oncalendar reads the fields; days are matched, and instants found and counted,
by `Pattern`, since the package only steps forwards and has clock changes its own way. What
it and systemd read differently is refused, so that a timer unit and a job with the same
expression never mean two things:

- a range counted from the end of the month with a repetition (`*-*~3..9/2`): the package
  counts the repetition from the far end;
- a range of one value with a repetition (`1..1/2`): the package goes on beyond the range;
- a repetition that is never reached (`0/90:00`): systemd refuses it, the package takes the
  first value alone.

Fractions of a second are refused too, since an interval has whole seconds; so are seconds
since 1970 (`@1395716396`), which are an instant and no schedule. Years end with 2199.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from ..errors import ConfigError
from . import MEND, UTC_NAME
from .pattern import Pattern, Times

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_SAME = {
    "biannually": "semiannually",
    "bi-annually": "semiannually",
    "semi-annually": "semiannually",
    "anually": "annually",
}
"""Other spellings that systemd takes."""
_WORDS = {"minutely", "hourly", "daily", "weekly", "monthly", "quarterly", "yearly", *_SAME} | set(
    _SAME.values()
)
_MARKS = frozenset(":-~")
"""A date or a time of day has one of them."""
_YEARS = range(1970, 2200)
_NAMES = "mon|tue|wed|thu|fri|sat|sun|monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_WEEKDAYS = re.compile(rf"(?:{_NAMES})(?:(?:,|-|\.\.)(?:{_NAMES})?)*", re.IGNORECASE)
_FRACTION = re.compile(r"\d\.\d")
_TERM = re.compile(r"(\d+)(?:\.\.(\d+))?/(\d+)", re.ASCII)
_LAST_OF_TIME = (23, 59, 59)
_LAST_OF_DATE = (_YEARS.stop - 1, 12, 31)
_CENTURY = 100
"""Smaller years are short for others, which the package knows."""


def oncalendar(text: str) -> Pattern:
    """The pattern of a calendar event without time zone. Raises `ConfigError`."""
    from oncalendar import BaseIterator, OnCalendarError

    _refuse_misread(text)
    try:
        read = BaseIterator(_SAME.get(text.lower(), text), datetime(2000, 1, 1, tzinfo=UTC))
    except OnCalendarError as error:
        if _MARKS.isdisjoint(text):
            why = "has neither the five fields of cron nor is it a calendar event"
            raise ConfigError(f"{text!r} {why}", hint=MEND) from None
        raise ConfigError(f"{text!r} is no schedule: {str(error).lower()}", hint=MEND) from None
    times = Times(read.hours, read.minutes, read.seconds)
    years = None if read.years.issuperset(_YEARS) else read.years
    return Pattern(text, times, _matcher(read.days, read.weekdays), read.months, years)


def without_zone(text: str) -> tuple[str, str | None]:
    """A calendar event and the time zone at its end, which may be any name here."""
    head, _, last = text.rpartition(" ")
    head = head.rstrip()
    if not last[:1].isalpha() or _WEEKDAYS.fullmatch(last) or not _is_event(head):
        return text, None
    return head, UTC_NAME if last.upper() == UTC_NAME else last


def _is_event(text: str) -> bool:
    """Whether this looks like a calendar event, so that a word after it is its zone."""
    words = text.lower() in _WORDS or _WEEKDAYS.fullmatch(text) is not None
    return words or not _MARKS.isdisjoint(text)


def _matcher(days: Collection[int], weekdays: Collection[int]) -> Callable[[date], bool]:
    """Whether a date is one of these days of its month, negative ones counted from its end,
    and of these days of the week, Monday being 0."""
    from_end = any(day < 0 for day in days)

    def match(day: date) -> bool:
        if day.weekday() not in weekdays:
            return False
        return day.day in days or (from_end and _from_end(day) in days)

    return match


def _from_end(day: date) -> int:
    """-1 for the last day of a month."""
    last = (day.replace(day=1) + timedelta(days=31)).replace(day=1) - timedelta(days=1)
    return day.day - last.day - 1


def _refuse_misread(text: str) -> None:
    """Raise `ConfigError` for what the package and systemd read differently."""
    for part in text.split():
        if ":" in part:
            if _FRACTION.search(part):
                raise ConfigError(
                    f"{text!r} has a fraction of a second", hint="write whole seconds"
                )
            fields = zip(part.split(":"), _LAST_OF_TIME, strict=False)
        else:
            pieces = part.replace("~", "-~").split("-")
            fields = zip(reversed(pieces), reversed(_LAST_OF_DATE), strict=False)
        for field, last in fields:
            for term in field.removeprefix("~").split(","):
                _refuse_term(text, term, last, from_end=field.startswith("~"))


def _refuse_term(text: str, term: str, last: int, *, from_end: bool) -> None:
    match = _TERM.fullmatch(term)
    if match is None:
        return
    first, end, step = int(match[1]), match[2], int(match[3])
    if end is not None:
        if from_end or first == int(end):
            raise ConfigError(
                f"{text!r} has a repetition in {term}, which cannot be told for sure",
                hint="write the values one by one, separated by commas",
            )
        return
    if last == _LAST_OF_DATE[0] and first < _CENTURY:
        return
    if (first - step < 1) if from_end else (first + step > last):
        raise ConfigError(
            f"{text!r} has a repetition in {term} that is never reached",
            hint="write the first value alone, or a smaller repetition",
        )
