"""Canonical texts of dates, instants, UUIDs, bytes and JSON documents; see `canonical.py`.

What is accepted ::

    DATE       2026-11-30
    TIMESTAMP  2026-11-30T02:30:00.5, also with a blank for the T and without the seconds
    INSTANT    the same with Z or an offset: without one nobody knows which instant it is
    UUID       32 hex digits in any case, also with hyphens, in braces or after urn:uuid:
    BYTES      hex digits, two a byte, also after \\x or 0x
    JSON       one JSON document (RFC 8259)

A JSON document becomes what PostgreSQL's `jsonb` prints: keys by length and then by bytes,
the last of equal ones, one blank after colons and commas, numbers in plain notation with
the decimals they were written with. So `1.0` and `1.00` are two values here.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NoReturn

from .rows import ColumnKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})", re.ASCII)
_TIME = re.compile(
    r"[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,9}))?)?"
    r"(Z|z|[+-][0-9]{2}(?::?[0-9]{2})?)?",
    re.ASCII,
)
_UUID = re.compile(
    r"(?:urn:uuid:)?(\{)?([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?"
    r"([0-9a-f]{12})(?(1)\})",
    re.ASCII | re.IGNORECASE,
)
_BYTES = re.compile(r"(?:\\x|0x)?((?:[0-9a-f]{2})*)", re.ASCII | re.IGNORECASE)
_NUMBER = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]{1,5}))?", re.ASCII)
_LONGEST_NUMBER = 10_000


def date_text(value: str) -> str:
    """ValueError where it is no date."""
    match = _DATE.fullmatch(value)
    if match is None:
        raise ValueError("write it as 2026-11-30")
    return _day(match).isoformat()


def timestamp_text(value: str) -> str:
    """ValueError where it is no date with a time, or has an offset."""
    at = _moment(value)
    if at.tzinfo is not None:
        raise ValueError("the column has no time zone and it has an offset")
    return at.isoformat(timespec="microseconds")


def instant_text(value: str) -> str:
    """ValueError where it is no date with a time and an offset."""
    at = _moment(value)
    if at.tzinfo is None:
        raise ValueError("it has no offset from UTC, as Z or +01:00")
    try:
        at = at.astimezone(UTC)
    except OverflowError:
        raise ValueError("its year is not one from 1 to 9999") from None
    return at.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def uuid_text(value: str) -> str:
    """ValueError where it is no UUID."""
    match = _UUID.fullmatch(value)
    if match is None:
        raise ValueError("")
    return "-".join(match.groups()[1:]).lower()


def bytes_text(value: str) -> str:
    """ValueError where it is no hex digits."""
    match = _BYTES.fullmatch(value)
    if match is None:
        raise ValueError("write bytes as hex digits")
    return "\\x" + match[1].lower()


def json_text(value: str) -> str:
    """ValueError where it is no JSON document that PostgreSQL can keep."""
    try:
        return _printed(
            json.loads(value, parse_int=_Number, parse_float=_Number, parse_constant=_constant)
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


# --- parts


class _Number(str):
    """A number of a JSON document, as it is written."""

    __slots__ = ()


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _printed(value: Any) -> str:
    if isinstance(value, _Number):
        return _plain_number(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, dict):
        keys = sorted((key.encode("utf-8", "surrogatepass"), key) for key in value)
        keys.sort(key=lambda pair: len(pair[0]))
        return "{" + ", ".join(f"{_quoted(k)}: {_printed(value[k])}" for _, k in keys) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_printed, value)) + "]"
    return {None: "null", True: "true", False: "false"}[value]


def _quoted(value: str) -> str:
    if "\0" in value:
        raise ValueError("it has a NUL in a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("it has half of a surrogate pair") from None
    return json.dumps(value, ensure_ascii=False)


def _plain_number(value: str) -> str:
    match = _NUMBER.fullmatch(value)
    assert match is not None, value
    whole, fraction, shift = match[2], match[3] or "", int(match[4] or 0)
    if len(value) + abs(shift) > _LONGEST_NUMBER:
        raise ValueError("a number in it is too long")
    digits, point = whole + fraction, len(whole) + shift
    if point <= 0:
        digits, point = "0" * (1 - point) + digits, 1
    digits = digits.ljust(point, "0")
    text = digits[:point].lstrip("0") or "0"
    if point < len(digits):
        text += "." + digits[point:]
    return "-" + text if match[1] and text.strip("0.") else text


def _day(match: re.Match[str]) -> date:
    try:
        return date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        raise ValueError("there is no such day") from None


def _moment(value: str) -> datetime:
    day = _DATE.match(value)
    time = _TIME.fullmatch(value, day.end()) if day is not None else None
    if day is None or time is None:
        raise ValueError("write it as 2026-11-30T02:30:00Z")
    found, fraction = _day(day), (time[4] or "").ljust(6, "0")
    if fraction[6:].strip("0"):
        raise ValueError("it has more than microseconds")
    try:
        return datetime(
            *(found.year, found.month, found.day),
            *(int(time[1]), int(time[2]), int(time[3] or 0), int(fraction[:6])),
            tzinfo=_offset(time[5]),
        )
    except ValueError:
        raise ValueError("there is no such time") from None


def _offset(text: str | None) -> timezone | None:
    if text is None:
        return None
    if text in ("Z", "z"):
        return UTC
    sign, digits = text[0], text[1:].replace(":", "")
    by = timedelta(hours=int(digits[:2]), minutes=int(digits[2:] or 0))
    return timezone(-by if sign == "-" else by)


CONVERTERS: Mapping[ColumnKind, Callable[[str], str]] = {
    ColumnKind.DATE: date_text,
    ColumnKind.TIMESTAMP: timestamp_text,
    ColumnKind.INSTANT: instant_text,
    ColumnKind.UUID: uuid_text,
    ColumnKind.BYTES: bytes_text,
    ColumnKind.JSON: json_text,
}
