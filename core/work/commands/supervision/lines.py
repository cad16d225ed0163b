"""Bytes of a pipe cut into lines, however they come, in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .events import LONGEST_LINE, ProgressLine

if TYPE_CHECKING:
    from collections.abc import Iterator


class Lines:
    """The lines of one pipe."""

    def __init__(self) -> None:
        self._begun = bytearray()
        self._is_cut = False

    def of(self, data: bytes) -> Iterator[ProgressLine]:
        """The lines that these bytes end."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._add(end)
            yield self._line()
        self._add(rest)

    def last(self) -> Iterator[ProgressLine]:
        """What came after the last line feed, once nothing more can come."""
        if self._begun:
            yield self._line()

    def _add(self, part: bytes) -> None:
        room = LONGEST_LINE - len(self._begun)
        self._begun += part[:room]
        self._is_cut = self._is_cut or len(part) > room

    def _line(self) -> ProgressLine:
        line = ProgressLine(bytes(self._begun), self._is_cut)
        self._begun.clear()
        self._is_cut = False
        return line
