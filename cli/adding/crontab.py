"""A line of a crontab as cron reads it, after crontab(5)."""

from __future__ import annotations

import re
from typing import NamedTuple

from ...core.errors import UsageError

_FIELD = re.compile(r"[0-9A-Za-z*,/~-]+", re.ASCII)
_FIELDS = 5
_AT_START = "@reboot"
_SUPERUSER = "root"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class CrontabLine(NamedTuple):
    """When, and the line that cron hands to the shell. `user` is whom a system crontab names."""

    schedule: str
    command: str
    user: str | None = None


def crontab_line(text: str) -> CrontabLine | None:
    """What a pasted line says; None where it is no line of a crontab, but a command.

    Raises `UsageError` for one that says what a job cannot.
    """
    words = text.strip().split(None, _FIELDS)
    if words and words[0].startswith("@"):
        words = text.strip().split(None, 1)
        schedule = words[0]
    elif len(words) <= _FIELDS or not all(map(_is_field, words[:_FIELDS])):
        return None
    else:
        schedule = " ".join(words[:_FIELDS])
    if schedule == _AT_START:
        raise UsageError(
            "@reboot is no time, and a job without one is on demand",
            hint="leave that line to cron, and have it call a job on demand: reconcile run JOB",
        )
    command = words[-1].strip() if len(words) > 1 else ""
    user = None
    if command.split(None, 1)[:1] == [_SUPERUSER]:
        user, _, command = command.partition(" ")
    if not command.strip():
        raise UsageError(f"{text.strip()!r} says when, but not what", hint="add the command to it")
    return CrontabLine(schedule, _unescaped(command.strip()), user)


def _is_field(word: str) -> bool:
    """`*/5`, `1,15`, `MON-FRI`; but no word of a command: those have letters before digits."""
    starts = word[0].isdigit() or word[0] in "*~" or word[:3].lower() in _MONTHS + _DAYS
    return starts and _FIELD.fullmatch(word) is not None


def _unescaped(command: str) -> str:
    r"""The command without the backslashes that keep `%` from ending it."""
    if re.search(r"(?<!\\)%", command):
        raise UsageError(
            "a % without a backslash ends the command there, and what follows is its input",
            hint=r"write \% where it is meant as it stands; give input in a script",
        )
    return command.replace("\\%", "%")
