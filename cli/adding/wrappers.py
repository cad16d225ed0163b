"""What stands before a command in a crontab, and is the lease's business now.

`flock` keeps two runs apart, and no more: a run that hangs keeps its lock for days, and nobody
is told what did not happen. Around a job it would only turn knocks away before they are counted.
So it is left out, whatever its options; who reads the notes can put it back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

FLOCK = "flock"
QUIETERS = ("chronic", "cronic")
_WITH_VALUE = frozenset({"-w", "--timeout", "--wait", "-E", "--conflict-exit-code"})
_COMMAND = ("-c", "--command")


class Flock(NamedTuple):
    """A call of flock. `words` are what it takes before the command; `line`: the command is the
    one word after them, which a shell reads."""

    words: int
    line: bool


def flock(words: Sequence[str]) -> Flock | None:
    """How flock(1) of util-linux would be called by these words; None where they call something
    else, or flock to hold a descriptor and no command."""
    if not words or words[0].rpartition("/")[2] != FLOCK:
        return None
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        at += 2 if _takes_next(words[at]) else 1
    if at < len(words) and words[at] == "--":
        at += 1
    at += 1  # the file
    if at < len(words) and words[at] in _COMMAND:
        return Flock(at + 1, line=True) if at + 2 == len(words) else None
    return Flock(at, line=False) if at < len(words) else None


def _takes_next(option: str) -> bool:
    """Whether an option's value is the next word: `-w 5` and `-nw 5`, not `-w5`."""
    if option.startswith("--"):
        return option in _WITH_VALUE
    return f"-{option[-1]}" in _WITH_VALUE and not any(
        f"-{letter}" in _WITH_VALUE for letter in option[1:-1]
    )


def quieter(words: Sequence[str]) -> str | None:
    """The program among those that mail only failures by which the words begin."""
    name = words[0].rpartition("/")[2] if words else ""
    return name if name in QUIETERS else None
