"""Names and values as they go to a database and come back.

sqlite3 gives texts as bytes, because a column may hold what is no UTF-8, and takes such
texts as bytes; psycopg knows texts only.
"""

from __future__ import annotations

Bound = bytes | str | int | None
"""What sqlite3 is given for a value: bytes only for text that is not ASCII."""


def quoted(name: str) -> str:
    """An identifier in SQL."""
    return '"' + name.replace('"', '""') + '"'


def text(value: bytes | str) -> str:
    """A text that a database gave. AttributeError for what is neither bytes nor text."""
    return value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")


def bindable(value: str | None) -> Bound:
    """A text as sqlite3 takes it, whatever bytes it stands for; place it as CAST(? AS TEXT)."""
    if value is None or value.isascii():
        return value
    return value.encode("utf-8", "surrogateescape")
