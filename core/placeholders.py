"""Placeholders of an interval in a path: `exports/{date:%Y/%m/%d}.csv`.

``{interval}``   the interval id, or the scheduled instant under a strftime format
``{date}``       the scheduled date in the interval's time zone, `2026-11-30`, or under a format
``{yesterday}``  the day before the scheduled date, likewise

Only these three are placeholders. In a path any other brace is an error rather than text: with
a misspelt placeholder it would name the same missing file night after night. In the words of a
command (`fill_words`) other braces stay, for programs have uses of their own for them.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from .calendars import UTC_NAME
from .errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .model import Interval

NAMES = ("interval", "date", "yesterday")
_BRACES = re.compile(r"\{([^{}]*)\}|[{}]")
_OURS = re.compile(r"\{((?:interval|date|yesterday)(?::[^{}]*)?)\}")
_DIRECTIVES = frozenset("aAbBdHIjmMpSUwWyYGuVZz%")
_DATE = "%Y-%m-%d"


def is_dated(template: str) -> bool:
    """Whether the template names the interval it is filled for."""
    return _BRACES.search(template) is not None


def check(template: str) -> None:
    """Refuse (`ConfigError`) what `fill` could not fill for every interval."""
    for match in _BRACES.finditer(template):
        inside = match[1]
        if inside is None:
            raise ConfigError(
                f"there is a single brace in {template!r}",
                hint="write {interval}, {date} or {yesterday}; other braces cannot be used",
            )
        name, colon, pattern = inside.partition(":")
        if name not in NAMES:
            raise ConfigError(
                f"{match[0]} is no placeholder", hint="write {interval}, {date} or {yesterday}"
            )
        if colon:
            _check_pattern(match[0], pattern)


def fill(template: str, interval: Interval) -> str:
    """The template for one interval. `ConfigError` as `check`, and for an unknown time zone."""
    check(template)
    return _filled(_BRACES, template, interval)


def names_interval(word: str) -> bool:
    """Whether a word of a command names the interval it is called for."""
    return _OURS.search(word) is not None


def check_word(word: str) -> None:
    """Refuse (`ConfigError`) a word of a command with a pattern that is none."""
    for match in _OURS.finditer(word):
        _, colon, pattern = match[1].partition(":")
        if colon:
            _check_pattern(match[0], pattern)


def fill_words(words: Sequence[str], interval: Interval) -> list[str]:
    """The words of a command for one interval."""
    return [_filled(_OURS, word, interval) for word in words]


def _filled(braces: re.Pattern[str], template: str, interval: Interval) -> str:
    local = interval.scheduled_at.astimezone(UTC)
    if interval.timezone != UTC_NAME:
        from .calendars.zones import zone

        local = local.astimezone(zone(interval.timezone))

    def value(match: re.Match[str]) -> str:
        name, colon, pattern = match[1].partition(":")
        if name == "interval" and not colon:
            return interval.id
        when: datetime = local - timedelta(days=1) if name == "yesterday" else local
        return when.strftime(pattern if colon else _DATE)

    return braces.sub(value, template)


def _check_pattern(placeholder: str, pattern: str) -> None:
    marks = re.findall(r"%(.?)", pattern, re.DOTALL)
    bad = next((mark for mark in marks if mark not in _DIRECTIVES or not mark), None)
    if bad is not None:
        raise ConfigError(
            f"{placeholder} has an unknown strftime mark: %{bad}",
            hint="write for example {date:%Y/%m/%d}",
        )
    if not any(mark != "%" for mark in marks):
        raise ConfigError(
            f"{placeholder} has no strftime mark, so it would be the same for every interval",
            hint="write for example {date:%Y/%m/%d}",
        )
