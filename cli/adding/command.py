"""The words of a job's command, from what somebody typed or pasted."""

from __future__ import annotations

import shlex
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ...core.errors import ConfigError, UsageError
from ...core.toml_commands import split_plainly
from .wrappers import FLOCK, flock, quieter

if TYPE_CHECKING:
    from collections.abc import Sequence

SHELL = ("sh", "-c")
_NOWHERE = ">/dev/null"


class Adopted(NamedTuple):
    """The command, what was left out of it, and what a person should know of either."""

    command: tuple[str, ...]
    dropped: str | None
    notes: tuple[str, ...]


def adopted(given: Sequence[str]) -> Adopted:
    """What these words of a command line are as a job's command. One word with a space in it is
    a line for a shell, as a crontab has it. Raises `UsageError` where it is neither."""
    if len(given) == 1 and " " in given[0].strip():
        return _of_line(given[0].strip())
    return _of_words(tuple(given), ())


def _of_words(words: tuple[str, ...], notes: tuple[str, ...]) -> Adopted:
    found = flock(words)
    dropped = None
    if found is not None:
        dropped = shlex.join(words[: found.words])
        rest = words[found.words :]
        if found.line:
            inner = _of_line(rest[0])
            return inner._replace(dropped=dropped, notes=notes + inner.notes)
        words = rest
    name = quieter(words)
    if name is not None:
        notes += (
            f"{name} is left where it is; without it reconcile logs keeps all output, and cron"
            " mails the end of it when a night fails",
        )
    return Adopted(words, dropped, notes)


def _of_line(line: str) -> Adopted:
    """A line for a shell. Where it needs one, the shell gets it as it stands, but for flock."""
    try:
        words = split_plainly(line)
        if words is not None:
            return _of_words(words, ())
        dropped, line = _without_flock(line)
    except ConfigError as error:
        raise UsageError(f"{line!r} {error}", hint=error.hint) from error
    words = split_plainly(line)
    if words is not None:
        return _of_words(words, ())._replace(dropped=dropped)
    notes: tuple[str, ...] = ("it needs a shell, and has one: sh -c",)
    if dropped is None and line.split(None, 1)[0].rpartition("/")[2] == FLOCK:
        notes += ("flock is left in, for only the shell knows its file; the lease does without",)
    if _NOWHERE in line.replace(" ", ""):
        notes += (
            "it throws output away; without that reconcile logs keeps it, and cron mails the end"
            " of it when a night fails",
        )
    return Adopted((*SHELL, line), dropped, notes)


def _without_flock(line: str) -> tuple[str | None, str]:
    """A call of flock at the beginning of a line, and the line without it. What follows stands as
    it is written, whatever a shell makes of it."""
    ends = _ends(line)
    words = [shlex.split(line[at:end])[0] for at, end in pairwise([0, *ends])]
    found = flock(words)
    if found is None:
        return None, line
    end = ends[found.words - 1]
    if not found.line:
        return line[:end].strip(), line[end:].strip()
    rest = line[ends[found.words] :]
    return line[:end].strip(), f"{shlex.join([*SHELL, words[found.words]])}{rest}"


def _ends(line: str) -> list[int]:
    """Where the words of a line end, up to its first word that is more than a word."""
    found, at = [], 0
    while at < len(line):
        end = _end(line, at)
        if end is None or split_plainly(line[at:end]) is None:
            break
        found.append(end)
        at = end
    return found


def _end(line: str, at: int) -> int | None:
    """Where the word ends that begins at or after a place."""
    while at < len(line) and line[at].isspace():
        at += 1
    for end in range(at + 1, len(line) + 1):
        if end < len(line) and not line[end].isspace():
            continue
        try:
            if len(shlex.split(line[at:end])) == 1:
                return end
        except ValueError:  # within quotes
            continue
    return None
