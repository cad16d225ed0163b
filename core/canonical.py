"""Canonical texts: one way to write each value, whatever wrote it first.

A source hands out text and a target stores typed values. Both sides are compared as the
texts that `rows.ColumnKind` states, so a field is converted once, where it is read, and
"007" and "7" of an integer column are one value on both sides.

A value that has no canonical text in the kind of its column is refused (`Unconvertible`),
never rounded, trimmed or guessed: its account is left alone and named.

What is accepted ::

    TEXT     everything, as it is
    INTEGER  optional sign and ASCII digits, within 64 bits
    DECIMAL  as INTEGER with a decimal point and an exponent, at most 400 digits long
    FLOAT    as DECIMAL; becomes the shortest text of the nearest 64-bit float, because that
             is all such a column can hold
    BOOLEAN  true t yes y 1, false f no n 0, in any case
    others   see `canonical_typed.py`

White space around a value is part of it. An empty field is the empty text in a TEXT
column and NULL in all others; a field listed in `null` is NULL in any.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .rows import ColumnKind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_INTEGER = re.compile(r"([+-]?)0*([0-9]+)", re.ASCII)
_DECIMAL = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,4}))?", re.ASCII)
_SMALLEST, _LARGEST = -(1 << 63), (1 << 63) - 1
_DIGITS_OF_64_BITS = 19
_LONGEST = 400
_BOOLEANS = dict.fromkeys(("true", "t", "yes", "y", "1"), "true") | dict.fromkeys(
    ("false", "f", "no", "n", "0"), "false"
)


class Unconvertible(ValueError):
    """A value has no canonical text in the kind of its column; says value and kind."""

    def __init__(self, value: str, kind: ColumnKind, why: str = "") -> None:
        shown = value if len(value) <= _SHOWN else value[:_SHOWN] + "…"
        super().__init__(f"{shown!r} is no {kind}" + (f": {why}" if why else ""))


_SHOWN = 40


def canonical(value: str, kind: ColumnKind) -> str:
    """The canonical text of a value that is not NULL; raises `Unconvertible`."""
    convert = _CONVERTERS.get(kind)
    return value if convert is None else convert(value)


def reader(kind: ColumnKind, null: Collection[str] = ()) -> Callable[[str], str | None] | None:
    """What turns a raw field into canonical text or NULL; None where fields stay as they are.

    The returned function raises `Unconvertible`.
    """
    convert = _CONVERTERS.get(kind)
    nulls = frozenset(null)
    if convert is None:
        return (lambda field: None if field in nulls else field) if nulls else None
    nulls |= {""}
    return lambda field: None if field in nulls else convert(field)


def float_text(value: float) -> str:
    """The shortest plain notation that reads back as this float; `inf` and `nan` as such."""
    text = repr(value)
    match = _DECIMAL.fullmatch(text)
    return text if match is None else _plain(match)


def _integer(value: str) -> str:
    match = _INTEGER.fullmatch(value) if len(value) <= _LONGEST else None
    if match is None:
        raise Unconvertible(value, ColumnKind.INTEGER)
    digits = match[2]
    if len(digits) > _DIGITS_OF_64_BITS:
        raise Unconvertible(value, ColumnKind.INTEGER, "it does not fit 64 bits")
    number = -int(digits) if match[1] == "-" else int(digits)
    if not _SMALLEST <= number <= _LARGEST:
        raise Unconvertible(value, ColumnKind.INTEGER, "it does not fit 64 bits")
    return str(number)


def _decimal(value: str) -> str:
    return _plain(_parsed(value, ColumnKind.DECIMAL))


def _float(value: str) -> str:
    _parsed(value, ColumnKind.FLOAT)
    number = float(value)
    if number in (float("inf"), float("-inf")):
        raise Unconvertible(value, ColumnKind.FLOAT, "it does not fit 64 bits")
    return float_text(number)


def _typed(kind: ColumnKind) -> Callable[[str], str]:
    """The converter of a kind that few tables have."""

    def convert(value: str) -> str:
        from .canonical_typed import CONVERTERS

        try:
            return CONVERTERS[kind](value)
        except ValueError as error:
            raise Unconvertible(value, kind, str(error)) from error

    return convert


def _boolean(value: str) -> str:
    found = _BOOLEANS.get(value.lower())
    if found is None:
        raise Unconvertible(value, ColumnKind.BOOLEAN)
    return found


def _parsed(value: str, kind: ColumnKind) -> re.Match[str]:
    match = _DECIMAL.fullmatch(value)
    if match is None or not (match[2] or match[3]):
        raise Unconvertible(value, kind)
    if len(value) + abs(int(match[4] or 0)) > _LONGEST:
        raise Unconvertible(value, kind, f"it has more than {_LONGEST} digits")
    return match


def _plain(match: re.Match[str]) -> str:
    whole, fraction = match[2], match[3] or ""
    shift = int(match[4] or 0)
    digits = whole + fraction
    point = len(whole) + shift
    if point <= 0:
        digits, point = "0" * (1 - point) + digits, 1
    digits = digits.ljust(point, "0")
    whole, fraction = digits[:point].lstrip("0"), digits[point:].rstrip("0")
    text = (whole or "0") + ("." + fraction if fraction else "")
    return "-" + text if match[1] == "-" and text != "0" else text


_CONVERTERS: dict[ColumnKind, Callable[[str], str]] = {
    ColumnKind.INTEGER: _integer,
    ColumnKind.DECIMAL: _decimal,
    ColumnKind.FLOAT: _float,
    ColumnKind.BOOLEAN: _boolean,
    **{
        kind: _typed(kind)
        for kind in (
            ColumnKind.DATE,
            ColumnKind.TIMESTAMP,
            ColumnKind.INSTANT,
            ColumnKind.UUID,
            ColumnKind.BYTES,
            ColumnKind.JSON,
        )
    },
}
