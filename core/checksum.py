"""The reconciliation checksum: proof that two sets of rows are the same set.

A row is encoded as one *line*: a netstring (``5:hello,``) of UTF-8 bytes per column in
declared order, or ``-`` for NULL. The length prefix keeps ``("x0", "y")`` apart from
``("x", "0y")``, and NULL, the empty text (``0:,``) and the text NULL (``4:NULL,``) differ.
Values are in a canonical text that `model.ColumnKind` states for each kind of column, so
no two different rows share a line and no row has two lines.

The checksum of a set is the sum modulo 2**128 of the first 16 bytes of SHA-256 over each
line, read as a big-endian number, together with the count of lines. A sum, not an
exclusive-or: a row that is there twice changes it. It does not depend on the order of
rows nor on where ranges are cut, and the checksums of parts add up to that of the whole.

Golden values ::

    no rows                          sha256-sum:0:00000000000000000000000000000000
    ("a", "x", "")                   line b"1:a,1:x,0:,"
    ("a", "x", None)                 line b"1:a,1:x,-"

    {("a", "x", "")}                 see tests/unit/test_checksum.py, which fixes the digits
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from .rows import Row

MODULUS = 1 << 128
_TEXT = re.compile(r"sha256-sum:(0|[1-9][0-9]*):([0-9a-f]{32})")


@dataclass(frozen=True, slots=True)
class Checksum:
    """Count and sum of a set of lines; adds up over parts."""

    count: int = 0
    total: int = 0

    def __add__(self, other: Checksum) -> Checksum:
        return Checksum(self.count + other.count, (self.total + other.total) % MODULUS)

    def __sub__(self, other: Checksum) -> Checksum:
        return Checksum(self.count - other.count, (self.total - other.total) % MODULUS)

    def __str__(self) -> str:
        return f"sha256-sum:{self.count}:{self.total:032x}"

    @classmethod
    def parse(cls, text: str) -> Checksum:
        """Read what `str()` wrote; ValueError for anything else."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"not a reconciliation checksum: {text!r}")
        return cls(int(match[1]), int(match[2], 16))


def checksum(lines: Iterable[bytes]) -> Checksum:
    """Count and sum up canonical lines; holds 16 bytes of each until it has them all."""
    from hashlib import sha256  # OpenSSL takes milliseconds that a trigger with nothing due lacks

    number = int.from_bytes
    numbers = [number(sha256(line).digest()[:16], "big") for line in lines]
    return Checksum(len(numbers), sum(numbers) % MODULUS)


def encode(row: Sequence[str | None]) -> bytes:
    """Write a row of canonical texts as its line."""
    parts = []
    for value in row:
        if value is None:
            parts.append(b"-")
        else:
            data = value.encode("utf-8", "surrogateescape")
            parts.append(b"%d:%b," % (len(data), data))
    return b"".join(parts)


def encode_rows(rows: Sequence[Row]) -> list[bytes]:
    """`encode` of each row, about four times as fast where values are short ASCII texts.

    Rows of one call must be equally wide.
    """
    fast = _FAST.get(len(rows[0])) if rows else None
    if fast is None:
        return [encode(row) for row in rows]
    return _encode_ascii(fast, rows)


def _encode_ascii(fast: Callable[[Sequence[Row]], list[bytes]], rows: Sequence[Row]) -> list[bytes]:
    # A NULL, a long value and one outside ASCII make `fast` stop there at once, so halving
    # costs little where they are many and leaves few rows to `encode` where they are few.
    try:
        return fast(rows)
    except (TypeError, IndexError, UnicodeEncodeError):
        if len(rows) <= _FEW:
            return [encode(row) for row in rows]
    middle = len(rows) // 2
    return _encode_ascii(fast, rows[:middle]) + _encode_ascii(fast, rows[middle:])


def _encode_2(rows: Sequence[Row]) -> list[bytes]:
    p: Any = _LENGTHS
    return [f"{p[len(a)]}{a},{p[len(b)]}{b},".encode("ascii") for a, b in cast("Any", rows)]


def _encode_3(rows: Sequence[Row]) -> list[bytes]:
    p: Any = _LENGTHS
    return [
        f"{p[len(a)]}{a},{p[len(b)]}{b},{p[len(c)]}{c},".encode("ascii")
        for a, b, c in cast("Any", rows)
    ]


def _encode_4(rows: Sequence[Row]) -> list[bytes]:
    p: Any = _LENGTHS
    return [
        f"{p[len(a)]}{a},{p[len(b)]}{b},{p[len(c)]}{c},{p[len(d)]}{d},".encode("ascii")
        for a, b, c, d in cast("Any", rows)
    ]


_FEW = 8
_LENGTHS = [f"{length}:" for length in range(256)]
_FAST = {2: _encode_2, 3: _encode_3, 4: _encode_4}


def without(lines: Sequence[bytes], accounts: Collection[str]) -> list[bytes]:
    """The lines of all other accounts."""
    return [line for line in lines if decode(line)[0] not in accounts]


def decode(line: bytes) -> Row:
    """Read a line back into its row; ValueError where it is not one."""
    row: list[str | None] = []
    at = 0
    while at < len(line):
        if line[at : at + 1] == b"-":
            row.append(None)
            at += 1
            continue
        colon = line.index(b":", at)
        end = colon + 1 + int(line[at:colon])
        if line[end : end + 1] != b",":
            raise ValueError("not a canonical line")
        row.append(line[colon + 1 : end].decode("utf-8", "surrogateescape"))
        at = end + 1
    return tuple(row)
