"""The statement that a source is read by, for one interval.

SQLAlchemy takes a word after a colon for a value, as in `:name`. Here only placeholders are values,
so every colon of the user's own (`'12:30'`, `x::text`) is escaped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, column, select, table, text
from sqlalchemy.sql import quoted_name
from sqlalchemy.types import NullType

from ...sql_text import bound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import TextClause

    from ...model import Interval
    from ...sql_config import SqlConfig

_NO_TYPE = NullType()
"""A value goes to the database as a text that has no type yet, so that it can be a date there."""


def statement(
    sql: SqlConfig, columns: Sequence[str], interval: Interval, *, quotes: bool = False
) -> Any:
    """What to execute; `columns` are those to ask a table for. With `quotes` every name stands in
    quotes, so that none is a word of the language, which SQLAlchemy knows in part only."""
    if sql.query is not None:
        return _text(sql.query.strip().removesuffix(";"), interval)
    schema, _, name = (sql.table or "").rpartition(".")

    def quoted(word: str) -> str:
        return quoted_name(word, True) if quotes else word

    found: Any = select(*(column(quoted(one)) for one in dict.fromkeys(columns)))
    found = found.select_from(table(quoted(name), schema=quoted(schema) if schema else None))
    if sql.scope is None:
        return found
    # On its own line, so that a comment at the end of the scope hides nothing.
    return found.where(_text(f"({sql.scope}\n)", interval))


def _text(words: str, interval: Interval) -> TextClause:
    parts: list[str] = []
    values: dict[str, str] = {}
    for piece, is_value in bound(words, interval):
        if is_value:
            name = f"reconcile_{len(values)}"
            values[name] = piece
            parts.append(f":{name}")
        else:
            parts.append(piece.replace(":", "\\:"))
    made = text("".join(parts))
    return made.bindparams(*(bindparam(n, value, _NO_TYPE) for n, value in values.items()))
