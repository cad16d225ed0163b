"""Names and values as they go to sqlite3 and come back: text as bytes where it is not ASCII."""

from __future__ import annotations

Bound = bytes | str | int | None
"""What sqlite3 is given for a value: bytes only for text that is not ASCII."""


def quoted(name: str) -> str:
    """An identifier in SQL."""
    return '"' + name.replace('"', '""') + '"'


def text(value: bytes) -> str:
    """A name that sqlite3 gave as bytes."""
    return value.decode("utf-8", "surrogateescape")


def bindable(value: str | None) -> Bound:
    """A text as sqlite3 takes it, whatever bytes it stands for; place it as CAST(? AS TEXT)."""
    if value is None or value.isascii():
        return value
    return value.encode("utf-8", "surrogateescape")
