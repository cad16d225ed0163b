"""The table a job works on in PostgreSQL: the SQL that reads and changes it.

The server itself renders a row as its canonical line (`core/checksum.py`) and strings the
lines of a range together, so that a range travels as one text and is compared as bytes.

Order and bounds are by code point for text and by value for integers, whatever the collation
of the column says. Where no index begins with the account in that order, `ordered` is false,
and a range is a look at all rows: `postgres_stream.py` then reads the table once.

Changes are applied as sets: the values of all rows come as one array a column. A row's
before-image is compared in the types of the columns, NULL-safe; text by its bytes, a JSON
document by how it prints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..postgres.arrays import text_array
from ..rows import ColumnKind, KeySpan
from .names import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..rows import Row, Schema
    from .postgres_catalog import PostgresColumn, Relation

ACCOUNTS = {
    ColumnKind.TEXT: "text",
    ColumnKind.INTEGER: "bigint",
    ColumnKind.UUID: "uuid",
    ColumnKind.DATE: "date",
    ColumnKind.TIMESTAMP: "timestamp",
    ColumnKind.INSTANT: "timestamptz",
}
"""Kinds an account may be of, and the type its bounds are bound as."""
_SET = "reconcile_set"
_SURROGATES = range(0xD800, 0xE000)


class Table(NamedTuple):
    """The table as it was when it was looked at; equal when nothing that matters changed."""

    relation: Relation
    scope: str | None
    schema: Schema
    columns: tuple[PostgresColumn, ...]
    order: str
    """The account as SQL that is in order of accounts."""
    ordered: bool
    """Whether an index is in that order."""

    # --- reading

    def select_lines(self, span: KeySpan) -> tuple[str, list[object]]:
        """The number of rows in scope of a span, and their lines in order, each ended by a line
        feed but the last, as bytes."""
        where, bounds = self._within(span)
        return (
            "SELECT count(*), coalesce(convert_to(string_agg(reconcile_line, E'\\n'), 'UTF8'), '')"
            f" FROM (SELECT {self.line} AS reconcile_line FROM {self.quoted_name} WHERE {where}"
            f" ORDER BY {self._in_order}) AS reconcile_rows",
            bounds,
        )

    def select_all(self, lower: str | None) -> tuple[str, list[object]]:
        """Accounts and lines, as bytes, of all rows in scope above an account, in order."""
        where, bounds = self._within(KeySpan(lower, None))
        return (
            f"SELECT {self._text(0)}, convert_to({self.line}, 'UTF8') FROM {self.quoted_name}"
            f" WHERE {where} ORDER BY {self._in_order}",
            bounds,
        )

    def select_bound(self, span: KeySpan, rows: int) -> tuple[str, list[object]]:
        """The account of the row after so many of a span, in order."""
        where, bounds = self._within(span)
        return (
            f"SELECT {self._text(0)} FROM {self.quoted_name} WHERE {where}"
            f" ORDER BY {self.order} LIMIT 1 OFFSET {rows:d}",
            bounds,
        )

    def select_odd_account(self) -> str | None:
        """Rows whose account is in no span, or not in order of its text: NULL, and days of
        years that have not four digits. None where there can be none."""
        own, kind = self._own(0), self.schema.account.kind
        odd = [] if self.columns[0].not_null else [f"{own} IS NULL"]
        if kind in _YEARS:
            first, last = _YEARS[kind]
            odd.append(f"{own} < '{first}' OR {own} >= '{last}'")
        if not odd:
            return None
        return (
            f"SELECT coalesce({own}::text, 'NULL') FROM {self.quoted_name}"
            f" WHERE ({' OR '.join(odd)}) AND {self.in_scope} LIMIT 1"
        )

    # --- changing

    def revoke(self, befores: Sequence[Row]) -> tuple[str, list[object]]:
        """Delete rows as they were."""
        values, arrays = self._set(befores, range(len(self.columns)), "b")
        return f"DELETE FROM {self.quoted_name} USING {values} WHERE {self._as_it_was}", arrays

    def update(self, befores: Sequence[Row], afters: Sequence[Row]) -> tuple[str, list[object]]:
        """Set the columns beside the key of rows as they were."""
        others = [i for i in range(len(self.columns)) if i not in self.schema.key]
        was, arrays = self._arrays(befores, range(len(self.columns)), "b")
        now, more = self._arrays(afters, others, "a")
        values = _unnested([*was, *now])
        assigned = ", ".join(f"{self._named(i)} = {_at('a', i)}" for i in others)
        return (
            f"UPDATE {self.quoted_name} SET {assigned} FROM {values} WHERE {self._as_it_was}",
            arrays + more,
        )

    def grant(self, afters: Sequence[Row], *, tolerant: bool = True) -> tuple[str, list[object]]:
        """Insert rows; where `tolerant`, those whose key is taken are left out."""
        every = range(len(self.columns))
        values, arrays = self._set(afters, every, "a")
        names, of_set = ", ".join(map(self._named, every)), ", ".join(_at("a", i) for i in every)
        tail = " ON CONFLICT DO NOTHING" if tolerant else ""
        return (
            f"INSERT INTO {self.quoted_name} ({names}) SELECT {of_set} FROM {values}{tail}",
            arrays,
        )

    def changed(self, befores: Sequence[Row]) -> tuple[str, list[object]]:
        """Positions, from one, of those before-images that are not there (any more)."""
        values, arrays = self._set(befores, range(len(self.columns)), "b", numbered=True)
        return (
            f"SELECT {_SET}.reconcile_at FROM {values} WHERE NOT EXISTS"
            f" (SELECT 1 FROM {self.quoted_name} WHERE {self._as_it_was}) ORDER BY reconcile_at",
            arrays,
        )

    def taken(self, rows: Sequence[Row]) -> tuple[str, list[object]]:
        """Positions, from one, of those rows whose key is there, and whether it is in scope."""
        values, arrays = self._set(rows, self.schema.key, "b", numbered=True)
        return (
            f"SELECT reconcile_at, coalesce({self.in_scope}, false) FROM {values},"
            f" {self.quoted_name} WHERE {self._of_key} ORDER BY reconcile_at",
            arrays,
        )

    # --- parts of statements

    @property
    def quoted_name(self) -> str:
        """The table in SQL."""
        return percent(self.relation.quoted)

    @property
    def in_scope(self) -> str:
        """The condition that a row is ours."""
        # On its own line, so that a comment at the end of the scope hides nothing.
        return f"({percent(self.scope)}\n)" if self.scope else "true"

    @property
    def line(self) -> str:
        """A row as its canonical line."""
        return " || ".join(self._netstring(i) for i in range(len(self.columns)))

    def _netstring(self, at: int) -> str:
        text = self._text(at)
        whole = f"octet_length({text}) || ':' || {text} || ','"
        return whole if self.columns[at].not_null else f"coalesce({whole}, '-')"

    @property
    def _in_order(self) -> str:
        """All of the key, the account first, as a file is mostly sorted too."""
        others = [i for i in self.schema.key if i != 0]
        return ", ".join([self.order, *map(self._sorted, others)])

    def _sorted(self, at: int) -> str:
        column = self.columns[at]
        loose = column.kind is ColumnKind.TEXT and not column.enum and not column.code_point
        if column.kind is ColumnKind.JSON or column.enum:
            return f'{self._text(at)} COLLATE "C"'
        return f'{self._own(at)} COLLATE "C"' if loose else self._own(at)

    def _within(self, span: KeySpan) -> tuple[str, list[object]]:
        """What is true of the rows in scope of a span."""
        kind = ACCOUNTS[self.schema.account.kind]
        where = [self.in_scope]
        bounds: list[object] = []
        for signs, bound in (((">", ">="), span.lower), (("<=", "<"), span.upper)):
            if bound is not None:
                text, below = _storable(bound)
                where.append(f"{self.order} {signs[below]} %s::{kind}")
                bounds.append(text)
        return " AND ".join(where), bounds

    def _named(self, at: int) -> str:
        """The bare name of a column in SQL."""
        return percent(quoted(self.columns[at].name))

    def _own(self, at: int) -> str:
        """A column of the table in SQL."""
        return f"{self.quoted_name}.{self._named(at)}"

    def _text(self, at: int) -> str:
        """A column's canonical text. A float's is mended by `lines_of`."""
        column, own = self.columns[at], self._own(at)
        kind = column.kind
        if kind is ColumnKind.TEXT:
            return own if column.known == "text" and column.type == "text" else f"{own}::text"
        if kind is ColumnKind.DECIMAL:
            return f"trim_scale({own})::text"
        if kind is ColumnKind.BYTES:
            return f"('\\x' || encode({own}, 'hex'))"
        if kind is ColumnKind.JSON:
            return f"{own}::jsonb::text"
        if kind in _TIMES:
            shape, (first, last) = _TIMES[kind], _YEARS[kind]
            return (
                f"(CASE WHEN {own} >= '{first}' AND {own} < '{last}' THEN"
                f" to_char({own}, '{shape}') ELSE {own}::text END)"
            )
        return f"{own}::text"

    def _set(
        self, rows: Sequence[Row], at: Iterable[int], side: str, *, numbered: bool = False
    ) -> tuple[str, list[object]]:
        """Rows as a table of the statement, with columns called by side and position."""
        parts, arrays = self._arrays(rows, at, side)
        return _unnested(parts, numbered=numbered), arrays

    def _arrays(
        self, rows: Sequence[Row], at: Iterable[int], side: str
    ) -> tuple[list[tuple[str, str]], list[object]]:
        """Names and types of columns, and the values of all rows for each."""
        positions = list(at)
        parts = [(f"reconcile_{side}{i}", self._bound_as(i)) for i in positions]
        return parts, [text_array([row[i] for row in rows]) for i in positions]

    def _bound_as(self, at: int) -> str:
        column = self.columns[at]
        if column.kind is ColumnKind.INTEGER:
            return "bigint"  # what does not fit matches nothing, and is refused where it is written
        return percent(column.base)

    @property
    def _of_key(self) -> str:
        """The row of a key, found by its index."""
        return " AND ".join(self._equal(i, "b", by_index=True) for i in self.schema.key)

    @property
    def _as_it_was(self) -> str:
        """The row of a before-image, in scope."""
        others = [i for i in range(len(self.columns)) if i not in self.schema.key]
        return " AND ".join([self._of_key, *(self._equal(i, "b") for i in others), self.in_scope])

    def _equal(self, at: int, side: str, *, by_index: bool = False) -> str:
        own, value = self._own(at), _at(side, at)
        column = self.columns[at]
        if column.kind is ColumnKind.JSON:
            return f"{own}::jsonb::text IS NOT DISTINCT FROM {value}::jsonb::text"
        if by_index and column.not_null:
            return f"{own} = {value}"
        if column.kind is ColumnKind.TEXT and not column.enum:
            own = f'{own} COLLATE "C"'
        return f"{own} IS NOT DISTINCT FROM {value}"


_TIMES = {
    ColumnKind.TIMESTAMP: 'YYYY-MM-DD"T"HH24:MI:SS.US',
    ColumnKind.INSTANT: 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"',
}
"""Shapes of RFC 3339, for the years that it knows; others are as PostgreSQL shows them. The
session's time zone is UTC."""
_YEARS = {
    ColumnKind.DATE: ("0001-01-01", "10000-01-01"),
    ColumnKind.TIMESTAMP: ("0001-01-01 00:00:00", "10000-01-01 00:00:00"),
    ColumnKind.INSTANT: ("0001-01-01 00:00:00+00", "10000-01-01 00:00:00+00"),
}


def _at(side: str, at: int) -> str:
    return f"{_SET}.reconcile_{side}{at}"


def _unnested(parts: Sequence[tuple[str, str]], *, numbered: bool = False) -> str:
    names = ", ".join(name for name, _ in parts)
    arrays = ", ".join(f"%s::text[]::{kind}[]" for _, kind in parts)
    if numbered:
        return f"unnest({arrays}) WITH ORDINALITY AS {_SET}({names}, reconcile_at)"
    return f"unnest({arrays}) AS {_SET}({names})"


def percent(sql: str) -> str:
    """SQL that psycopg fills values into."""
    return sql.replace("%", "%%")


def _storable(bound: str) -> tuple[str, bool]:
    """A bound as a text that PostgreSQL can hold, and whether it stands for "below that text"
    and not for "up to it": among such texts both are the same bound."""
    for at, letter in enumerate(bound):
        if letter == "\0":
            return bound[:at], False
        if ord(letter) in _SURROGATES:
            return bound[:at] + chr(_SURROGATES.stop), True
    return bound, False
