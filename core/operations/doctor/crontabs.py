"""Crontabs, as far as who calls jobs: lines, how often they come round, what they call.

Debian's cron is meant: five fields or `@daily` and the like, a sixth word for the user in the
system's tables, `%` as the end of the command, `VARIABLE=value` lines. What a script behind a
line calls is not seen.
"""

from __future__ import annotations

import re
import shlex
from datetime import timedelta
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from ...errors import ReconcileError
from ...schedule import Schedule
from .premises import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from .premises import Called, Crontab

    Read = Callable[[Sequence[str]], Called | None]

_ASSIGNMENT = re.compile(r"\s*[A-Za-z_]\w*\s*=")
_FIELDS = 5
_OPERATORS = frozenset(";|&()<>")
_LOOKED_AHEAD = timedelta(days=32)
_MOST = 4000
_FEW = 3
PROGRAM = "reconcile"


def calls_of(table: Crontab, read: Read, now: datetime) -> Iterator[Call]:
    """The calls of jobs in a crontab."""
    for number, line in enumerate(table.text.splitlines(), 1):
        bare = line.strip()
        if not bare or bare.startswith("#") or _ASSIGNMENT.match(bare):
            continue
        expression, command = _parts(bare, with_user=table.user is None)
        for called in called_by(command, read):
            yield Call(f"{table.where} line {number}", called, longest_gap(expression, now))


def called_by(command: str, read: Read) -> Iterator[Called]:
    """What jobs a shell's command line calls."""
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        lexer.commenters = ""
        words = list(lexer)
    except ValueError:
        words = command.split()
    yield from called_by_words(words, read)


def called_by_words(words: Sequence[str], read: Read) -> Iterator[Called]:
    """The same of words."""
    for at, word in enumerate(words):
        module = word == "-m" and words[at + 1 : at + 2] in ([PROGRAM], [f"{PROGRAM}.cli.main"])
        if at and words[at - 1] == "-m":
            continue  # it was the module's name
        if module or word.rpartition("/")[2] == PROGRAM:
            rest = words[at + (2 if module else 1) :]
            end = next((n for n, one in enumerate(rest) if set(one) & _OPERATORS), len(rest))
            ours = rest[:end]
            if end < len(rest) and ours and ours[-1].isdecimal() and rest[end][0] in "<>":
                ours = ours[:-1]  # of `2>&1`
            called = read(ours)
            if called is not None:
                yield called


def longest_gap(expression: str, now: datetime, timezone: str = "UTC") -> timedelta | None:
    """The longest time between two instants of the coming month, or of the next three; None
    where nobody can tell."""
    try:
        schedule = Schedule(expression, timezone)
        instants = list(islice(schedule.between(now, now + _LOOKED_AHEAD), _MOST))
        if len(instants) < _FEW:
            instants, last = [], now
            while len(instants) < _FEW and (following := schedule.next_after(last)) is not None:
                instants.append(following)
                last = following
    except ReconcileError:
        return None
    return max((b - a for a, b in pairwise(instants)), default=None)


def _parts(line: str, *, with_user: bool) -> tuple[str, str]:
    """When, and the command as cron gives it to the shell."""
    fields = 1 if line.startswith("@") else _FIELDS
    words = line.split(None, fields + with_user)
    expression = " ".join(words[:fields])
    command = words[fields + with_user] if len(words) > fields + with_user else ""
    return expression, re.split(r"(?<!\\)%", command, maxsplit=1)[0].replace("\\%", "%")
