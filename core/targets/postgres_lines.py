"""What a PostgreSQL server says of a range, as canonical lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..canonical import float_text
from ..checksum import decode, encode
from ..rows import ColumnKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..rows import Schema


def lines_of(schema: Schema, count: int, data: bytes) -> list[bytes]:
    """The lines in a text, in which each but the last is followed by a line feed."""
    if not count:
        return []
    lines = data.split(b"\n")
    if len(lines) != count:  # a value has a line feed in it
        lines = _split(data, len(schema.columns))
    return mended(schema, lines)


def mended(schema: Schema, lines: list[bytes]) -> list[bytes]:
    """Lines with floats as we write them: the server's shortest text of a float is not always
    the one that Python finds, and may have an exponent."""
    floats = [i for i, column in enumerate(schema.columns) if column.kind is ColumnKind.FLOAT]
    return [_mend(line, floats) for line in lines] if floats else lines


def _mend(line: bytes, floats: Sequence[int]) -> bytes:
    row = list(decode(line))
    for i in floats:
        value = row[i]
        if value is not None:
            row[i] = float_text(float(value))
    return encode(row)


def _split(data: bytes, width: int) -> list[bytes]:
    """Lines by their netstrings."""
    lines = []
    start = at = 0
    while at < len(data):
        for _ in range(width):
            if data[at : at + 1] == b"-":
                at += 1
            else:
                colon = data.index(b":", at)
                at = colon + int(data[at:colon]) + 2
        lines.append(data[start:at])
        at += 1
        start = at
    return lines
