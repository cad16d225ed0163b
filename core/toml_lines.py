"""On which line of a TOML document each key stands, for messages.

tomllib gives values without places. `key_lines` walks a document that tomllib has read, so
it need not check anything again: it steps over values and notes where keys begin.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(r"""[ \t]*([A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')[ \t]*""")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"""+' r"|'''.*?'''+" r'|"(?:[^"\\\n]|\\.)*"' r"|'[^'\n]*'", re.DOTALL
)
_PLAIN = re.compile(r"[^,\]}#\n]*")


def key_lines(text: str) -> Mapping[tuple[str, ...], int]:
    """The line, counted from 1, of each key and table of a valid document.

    Where a key stands several times (the tables `[a.b]` and `[a.c]` both name `a`), the first
    place counts.
    """
    walk = _Walk(text)
    walk.document()
    return walk.lines


class _Walk:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line, self._counted = 1, 0
        self.lines: dict[tuple[str, ...], int] = {}

    def document(self) -> None:
        table: tuple[str, ...] = ()
        while self._space():
            if self._text[self._at] == "[":
                self._at += 2 if self._text.startswith("[[", self._at) else 1
                table = self._key(())
                self._at = self._text.index("]", self._at)
                self._at += 2 if self._text.startswith("]]", self._at) else 1
            else:
                self._pair(table)

    def _space(self) -> bool:
        """Step over white space and comments; whether there is anything after them."""
        match = _SPACE.match(self._text, self._at)
        assert match is not None
        self._at = match.end()
        return self._at < len(self._text)

    def _pair(self, table: tuple[str, ...]) -> None:
        key = self._key(table)
        self._at += 1  # the equals sign
        self._value(key)

    def _key(self, table: tuple[str, ...]) -> tuple[str, ...]:
        """Step over a dotted key, and note it and the tables it names."""
        key = table
        while True:
            match = _KEY.match(self._text, self._at)
            assert match is not None
            key = (*key, _unquoted(match[1]))
            self.lines.setdefault(key, self._line_of(match.start(1)))
            self._at = match.end()
            if not self._text.startswith(".", self._at):
                return key
            self._at += 1

    def _value(self, key: tuple[str, ...]) -> None:
        self._space()
        mark = self._text[self._at]
        if mark == "[":
            self._inside("]", lambda: self._value(key))
        elif mark == "{":
            self._inside("}", lambda: self._pair(key))
        else:
            match = (_STRING if mark in "\"'" else _PLAIN).match(self._text, self._at)
            assert match is not None
            self._at = match.end()

    def _inside(self, end: str, item: Callable[[], None]) -> None:
        self._at += 1
        while self._space() and self._text[self._at] != end:
            item()
            self._space()
            if self._text[self._at] == ",":
                self._at += 1
        self._at += 1

    def _line_of(self, at: int) -> int:
        self._line += self._text.count("\n", self._counted, at)
        self._counted = at
        return self._line


def _unquoted(key: str) -> str:
    if key[0] not in "\"'":
        return key
    return str(tomllib.loads(f"key = {key}")["key"])
