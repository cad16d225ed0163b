"""What a command prints, passed on to whoever called: whole lines, safe to show.

A terminal obeys control characters and a mail reader chokes on them, so both get escapes in their
place, and of bytes that are no UTF-8 too. The run's log has everything as it came.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST = 1 << 16
"""A line that is longer is passed on in pieces."""


class Passing:
    """Takes bytes as they come and gives text to `write`."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._decoder = getincrementaldecoder("utf-8")("backslashreplace")
        self._rest = ""

    def feed(self, data: bytes) -> None:
        """What came next."""
        text = self._rest + self._decoder.decode(data)
        whole, line_end, self._rest = text.rpartition("\n")
        if len(self._rest) > _LONGEST:
            whole, line_end, self._rest = text, "\n", ""
        if line_end:
            self._write(safe(whole) + line_end)

    def end(self) -> None:
        """Nothing more comes: what lacks the end of its line gets one."""
        rest = self._rest + self._decoder.decode(b"", final=True)
        self._rest = ""
        self._decoder.reset()
        if rest:
            self._write(safe(rest) + "\n")


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
