"""Values as drivers give them, as canonical texts of the target's kinds.

Nothing is rounded: integers and decimals of any length keep their digits, and what a kind
cannot hold is refused, as it is of a file (`core/canonical.py`). Where drivers differ about one
value they are understood alike ::

    boolean    0 or 1 where the column is a number
    number     an integer where it has no fraction and the column is one
    timestamp  with a time zone it is an instant, without one it is none; a day where the column
               is one and the time is midnight
    bytes      as they are, and a UUID where there are sixteen; never text
    JSON       the text that the database has

A text is read as a field of a file is.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ...canonical import Unconvertible, float_text, reader
from ...rows import ColumnKind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_NUMBERS = (ColumnKind.INTEGER, ColumnKind.DECIMAL, ColumnKind.FLOAT)
_BYTES_OF_A_UUID = 16
_OF_DATABASES = ("UUID", "IPv4Address", "IPv6Address", "IPv4Interface", "IPv6Interface")
"""Types by whose text a database knows a value."""


def value_reader(kind: ColumnKind, null: Collection[str]) -> Callable[[Any], str | None]:
    """What turns a driver's value into canonical text or NULL, or raises `Unconvertible`."""
    read = reader(kind, null)
    plain = {} if null else {of: text for (of, to), text in _PLAIN.items() if to is kind}

    def convert(value: Any) -> str | None:
        if value is None:
            return None
        if type(value) is not str:
            known = plain.get(type(value))
            found = None if known is None else known(value)
            if found is not None:
                return found
            value = _text(value, kind)
        return value if read is None else read(value)

    return convert


def _text(value: Any, kind: ColumnKind) -> str:
    for of, convert in _TEXTS:
        if isinstance(value, of):
            return convert(value, kind)
    what = type(value).__name__
    if what in _OF_DATABASES:
        return str(value)
    raise Unconvertible(str(value), kind, f"it comes as {what}: cast it to text in the query")


def _boolean(value: bool, kind: ColumnKind) -> str:
    if kind in _NUMBERS:
        return "1" if value else "0"
    return "true" if value else "false"


def _integer(value: int, kind: ColumnKind) -> str:
    return str(value)


def _float(value: float, kind: ColumnKind) -> str:
    if kind is ColumnKind.INTEGER and value.is_integer():
        return str(int(value))
    return float_text(value)


def _decimal(value: Decimal, kind: ColumnKind) -> str:
    if not value.is_finite():
        return str(value)
    if kind is ColumnKind.INTEGER and value == value.to_integral_value():
        return str(int(value))
    return format(value, "f")


def _moment(value: datetime, kind: ColumnKind) -> str:
    if value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    if kind is ColumnKind.DATE and value.time() == time():
        return value.date().isoformat()
    return value.isoformat(timespec="microseconds")


def _day(value: date, kind: ColumnKind) -> str:
    return value.isoformat()


def _time(value: time, kind: ColumnKind) -> str:
    return value.isoformat()


def _bytes(value: bytes | bytearray | memoryview, kind: ColumnKind) -> str:
    data = bytes(value)
    if kind is ColumnKind.UUID and len(data) == _BYTES_OF_A_UUID:
        return data.hex()
    text = f"\\x{data.hex()}"
    if kind is ColumnKind.BYTES:
        return text
    raise Unconvertible(text, kind, "it is bytes")


def _small(value: int) -> str | None:
    return str(value) if _SMALLEST <= value <= _LARGEST else None


def _local(value: datetime) -> str | None:
    return value.isoformat(timespec="microseconds") if value.tzinfo is None else None


def _instant(value: datetime) -> str | None:
    return None if value.tzinfo is None else _moment(value, ColumnKind.INSTANT)


_SMALLEST, _LARGEST = -(1 << 63), (1 << 63) - 1
_PLAIN: dict[tuple[type, ColumnKind], Callable[[Any], str | None]] = {
    (bool, ColumnKind.BOOLEAN): lambda value: "true" if value else "false",
    (int, ColumnKind.INTEGER): _small,
    (date, ColumnKind.DATE): date.isoformat,
    (datetime, ColumnKind.TIMESTAMP): _local,
    (datetime, ColumnKind.INSTANT): _instant,
    (bytes, ColumnKind.BYTES): lambda value: f"\\x{value.hex()}",
}
"""Values whose text is canonical as it is made, so that it need not be read again: most of them.
None where that is not so."""

_TEXTS: tuple[tuple[Any, Callable[[Any, ColumnKind], str]], ...] = (
    (bool, _boolean),
    (int, _integer),
    (float, _float),
    (Decimal, _decimal),
    (datetime, _moment),
    (date, _day),
    (time, _time),
    ((bytes, bytearray, memoryview), _bytes),
)
"""In this order: a boolean is an integer too, and a moment a day."""
