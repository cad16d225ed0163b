"""What a command prints, passed on to whoever called: whole lines, safe to show.

A terminal obeys control characters and a mail reader chokes on them, so both get escapes in their
place, and of bytes that are no UTF-8 too. The run's log has everything as it came.
"""

from __future__ import annotations

import json
from codecs import getincrementaldecoder
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...core.operations.logs import FoundLog
    from ..options import Call

_LONGEST = 1 << 16
"""A line that is longer is passed on in pieces."""


class Passing:
    """Takes bytes as they come and gives whole lines to `write`. `exact`: where it is not shown,
    control characters stay."""

    def __init__(self, write: Callable[[str], None], *, exact: bool = False) -> None:
        self._write = write
        self._safe: Callable[[str], str] = str if exact else safe
        self._decoder = getincrementaldecoder("utf-8")("backslashreplace")
        self._rest = ""

    def feed(self, data: bytes) -> None:
        """What came next."""
        text = self._rest + self._decoder.decode(data)
        whole, line_end, self._rest = text.rpartition("\n")
        if len(self._rest) > _LONGEST:
            whole, line_end, self._rest = text, "\n", ""
        if line_end:
            self._write(self._safe(whole) + line_end)

    def end(self) -> None:
        """Nothing more comes: what lacks the end of its line gets one."""
        rest = self._rest + self._decoder.decode(b"", final=True)
        self._rest = ""
        self._decoder.reset()
        if rest:
            self._write(self._safe(rest) + "\n")


def safe(text: str) -> str:
    """Lines with escapes instead of control characters. Of a line that was written over by
    carriage returns, as progress bars are, only what stood there last."""
    return "\n".join(map(_safe_line, text.split("\n")))


def _safe_line(line: str) -> str:
    line = line.rstrip("\r").rpartition("\r")[2]
    if line.isprintable():
        return line
    return "".join(map(_safe_letter, line))


def _safe_letter(letter: str) -> str:
    if letter == "\t" or letter.isprintable():
        return letter
    return letter.encode("unicode_escape").decode()


class Shown(Protocol):
    """How a log is printed."""

    def feed(self, data: bytes) -> None:
        """What came next."""
        ...

    def cut(self, size: int) -> None:
        """So many bytes that were before what comes next are not kept."""
        ...

    def end(self) -> None:
        """Nothing more comes."""
        ...


class _Raw:
    """As it came, for programs and files."""

    def __init__(self, call: Call) -> None:
        self._env = call.env

    def feed(self, data: bytes) -> None:
        self._env.raw(data)

    def cut(self, size: int) -> None:
        self._env.words(f"({size:,} bytes that were printed before are not kept)\n")

    def end(self) -> None:
        pass


class _Lines(_Raw):
    """For a terminal."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._passing = Passing(call.env.data)

    def feed(self, data: bytes) -> None:
        self._passing.feed(data)

    def end(self) -> None:
        self._passing.end()


class _Objects(_Lines):
    """One object a line."""

    def __init__(self, call: Call, found: FoundLog) -> None:
        super().__init__(call)
        self._passing = Passing(self._each, exact=True)
        self._of = {"job": found.job.name, "interval": found.interval, "run": found.run}

    def cut(self, size: int) -> None:
        self._write({"cut": size})

    def _each(self, text: str) -> None:
        for line in text.split("\n")[:-1]:
            self._write({"line": line})

    def _write(self, what: dict[str, object]) -> None:
        self._env.data(json.dumps({"schema": 1, **self._of, **what}) + "\n")


def shown_log(call: Call, found: FoundLog) -> Shown:
    """How this call wants a log printed."""
    if call.options.json:
        return _Objects(call, found)
    return _Lines(call) if call.env.stdout_is_terminal else _Raw(call)
