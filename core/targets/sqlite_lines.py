"""Rows of an SQLite query as canonical lines, many at once.

Formatting in Python is faster here than concatenation by SQLite, and safe for text with an
embedded NUL, at which SQLite's `printf` stops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

BytesRow = tuple[bytes | None, ...]


def lines_of(rows: Sequence[BytesRow]) -> list[bytes]:
    """`checksum.encode` of rows that came as the bytes of their canonical texts."""
    fast = _FAST.get(len(rows[0])) if rows else None
    if fast is None:
        return [_line(row) for row in rows]
    try:
        return fast(rows)
    except (TypeError, IndexError):  # a NULL or a long value
        if len(rows) <= _FEW:
            return [_line(row) for row in rows]
    middle = len(rows) // 2
    return lines_of(rows[:middle]) + lines_of(rows[middle:])


def _line(row: BytesRow) -> bytes:
    return b"".join([b"-" if v is None else b"%d:%b," % (len(v), v) for v in row])


def _lines_2(rows: Any) -> list[bytes]:
    p = _LENGTHS
    return [b"%b%b,%b%b," % (p[len(a)], a, p[len(b)], b) for a, b in rows]


def _lines_3(rows: Any) -> list[bytes]:
    p = _LENGTHS
    return [b"%b%b,%b%b,%b%b," % (p[len(a)], a, p[len(b)], b, p[len(c)], c) for a, b, c in rows]


def _lines_4(rows: Any) -> list[bytes]:
    p = _LENGTHS
    return [
        b"%b%b,%b%b,%b%b,%b%b," % (p[len(a)], a, p[len(b)], b, p[len(c)], c, p[len(d)], d)
        for a, b, c, d in rows
    ]


_FEW = 8
_LENGTHS = [b"%d:" % length for length in range(256)]
_FAST = {2: _lines_2, 3: _lines_3, 4: _lines_4}
