"""The table a job works on: what its columns are to us, and the SQL that reads and changes it.

Kinds follow SQLite's own rules, by which a column's declared type gives its affinity:

    INT anywhere                    integer
    CHAR, CLOB, TEXT                text
    BLOB, or no type                text: what is written there is stored as given
    REAL, FLOA, DOUB                float
    all others store numbers as numbers and the rest as text; of these
      BOOL                          boolean, stored as 1 and 0
      NUM, DEC, MONEY               decimal
      DATE, TIME, UUID, JSON, ...   text

Order and bounds are by code point whatever the column's collation says: comparisons name
BINARY. Where the index that begins with the account has another collation, each range is a
scan of the table: slow, and right. Under a key policy other than `exact` both are of the
normalised account, which `sqlite_accounts.py` finds.

A row's before-image is compared as canonical bytes, so it does not matter in which of its
possible types SQLite stored a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ..canonical import Unconvertible, canonical
from ..errors import TargetUnusable
from ..keys import KeyPolicy
from ..rows import ColumnKind, Schema
from .columns import pick
from .names import Bound, bindable, quoted, text
from .sqlite_key import Exactness, check_unique, lookup_collation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..config import TargetConfig
    from ..rows import KeySpan, Row
    from .sqlite_database import Database

BoundRow = tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column as declared."""

    name: str
    type: str
    not_null: bool
    primary: int
    generated: bool

    @property
    def kind(self) -> ColumnKind:
        """See `kind_of`."""
        return kind_of(self.type)


class Own(NamedTuple):
    """Each interval has rows of its own: those with its id in the column. `id` None: whose rows
    are meant was not said, so that none are."""

    column: TableColumn
    id: str | None


@dataclass(frozen=True, slots=True)
class Table:
    """The table as it was when it was looked at; equal when nothing that matters changed."""

    name: str
    scope: str | None
    schema: Schema
    columns: tuple[TableColumn, ...]
    collation: str = "BINARY"
    """In which the account is looked up by an index, where one begins with it."""
    own: Own | None = None

    def select(self, span: KeySpan) -> tuple[str, list[Bound]]:
        """Canonical texts of the rows in scope of a span."""
        where, bounds = self._within(span)
        texts = ", ".join(self.text_of(i) for i in range(len(self.columns)))
        return f"SELECT {texts} FROM {self.quoted_name} WHERE {where}", bounds

    def select_bound(self, span: KeySpan, rows: int) -> tuple[str, list[Bound]]:
        """The account of the row after so many of a span, in order."""
        where, bounds = self._within(span)
        order = f"{self._order(self.columns[0])} COLLATE BINARY"
        return (
            f"SELECT {self.text_of(0)} FROM {self.quoted_name} WHERE {where}"
            f" ORDER BY {order} LIMIT 1 OFFSET {rows:d}",
            bounds,
        )

    def _within(self, span: KeySpan) -> tuple[str, list[Bound]]:
        """What is true of the rows in scope of a span."""
        order = self._order(self.columns[0])
        where = [self.in_scope()]
        bounds: list[Bound] = []
        for sign, bound in ((">", span.lower), ("<=", span.upper)):
            if bound is not None:
                where.append(f"{order} {sign} {_placed(self._kind(0))} COLLATE BINARY")
                bounds.append(_value(bound, self._kind(0)))
        return " AND ".join(where), bounds

    def select_odd_account(self, span: KeySpan) -> str | None:
        """Accounts that belong to no span, once for all spans: NULL, or no integer; under a key
        policy what is no text."""
        if span.lower is not None:
            return None
        account = self._quoted(self.columns[0])
        odd = f"{account} IS NULL"
        if self.schema.policy is not KeyPolicy.EXACT:
            odd = f"typeof({account}) <> 'text'"
        elif self.schema.account.kind is ColumnKind.INTEGER:
            odd += f" OR typeof({account}) <> 'integer'"
        elif self.columns[0].not_null:
            return None
        return (
            f"SELECT quote({account}) FROM {self.quoted_name} WHERE ({odd}) AND {self.in_scope()}"
        )

    def grant(self) -> str:
        """Insert one row; bound to `bind(after)`. Overrides what the table says of conflicts."""
        names = ", ".join(quoted(column.name) for column in self.columns)
        values = ", ".join(_placed(column.kind) for column in self.schema.columns)
        if self.own is not None:
            assert self.own.id is not None, "nothing is written before the interval is known"
            names += f", {quoted(self.own.column.name)}"
            values += f", {literal(self.own.id)}"
        return f"INSERT OR ABORT INTO {self.quoted_name} ({names}) VALUES ({values})"

    def revoke(self) -> str:
        """Delete one row as it was; bound to `bind_as_it_was`."""
        return f"DELETE FROM {self.quoted_name} WHERE {self._as_it_was()}"

    def update(self) -> str:
        """Set one row's other columns; bound to those of `bind`, then `bind_as_it_was`."""
        values = ", ".join(
            f"{quoted(self.columns[i].name)} = {_placed(self._kind(i))}" for i in self.others
        )
        return f"UPDATE OR ABORT {self.quoted_name} SET {values} WHERE {self._as_it_was()}"

    def count_as_it_was(self) -> str:
        """How many rows still are as they were; bound to `bind_as_it_was`."""
        return f"SELECT count(*) FROM {self.quoted_name} WHERE {self._as_it_was()}"

    def count_of_key(self) -> str:
        """How many rows have a key, and how many of them are in scope; bound to `bind_key`."""
        counts = f"count(*), total({self.in_scope()})"
        return f"SELECT {counts} FROM {self.quoted_name} WHERE {self._of_key()}"

    @property
    def others(self) -> list[int]:
        """Positions of the columns beside the key."""
        return [i for i in range(len(self.columns)) if i not in self.schema.key]

    def bind(self, rows: Sequence[Row], at: Sequence[int] | None = None) -> list[BoundRow]:
        """Rows, or the columns at some positions of them, as sqlite3 takes them."""
        if not rows:
            return []
        columns = list(zip(*rows, strict=True))
        parts: list[list[Bound]] = []
        for i in range(len(columns)) if at is None else at:
            kind = self._kind(i)
            if kind in _TYPED:
                parts.append([_value(value, kind) for value in columns[i]])
            else:
                parts.append([bindable(value) for value in columns[i]])
        return list(zip(*parts, strict=True)) if parts else [()] * len(rows)

    def bind_key(self, row: Row) -> BoundRow:
        """A row's key as sqlite3 takes it."""
        return self.bind([row], self.schema.key)[0]

    def bind_as_it_was(self, rows: Sequence[Row]) -> list[BoundRow]:
        """Before-images, each followed by its key, as sqlite3 takes them."""
        keys = self.bind(rows, self.schema.key)
        return [(*map(bindable, row), *key) for row, key in zip(rows, keys, strict=True)]

    # --- parts of statements

    @property
    def quoted_name(self) -> str:
        """The table in SQL."""
        return quoted(self.name)

    def named(self, at: int) -> str:
        """A column in SQL."""
        return self._quoted(self.columns[at])

    def _kind(self, at: int) -> ColumnKind:
        return self.schema.columns[at].kind

    def _quoted(self, column: TableColumn) -> str:
        # Qualified, because SQLite takes a lone "name" that is no column for a text.
        return f"{self.quoted_name}.{quoted(column.name)}"

    def in_scope(self) -> str:
        """The condition that a row is ours."""
        # On its own line, so that a comment at the end of the scope hides nothing.
        scope = f"({self.scope}\n)" if self.scope else "1"
        return f"{self._of_interval()} AND {scope}" if self.own is not None else scope

    def _of_interval(self) -> str:
        """The condition that a row is of the interval that is worked."""
        assert self.own is not None, "else a row is of no interval"
        if self.own.id is None:
            return "0"
        return f"{self._quoted(self.own.column)} = {literal(self.own.id)}"

    def _order(self, account: TableColumn) -> str:
        """What accounts are bounded by: the column itself where its type is that of its kind."""
        kind = self.schema.account.kind
        if kind is ColumnKind.INTEGER or (kind is ColumnKind.TEXT and is_text(account.type)):
            return self._quoted(account)
        return self.text_of(0)

    def text_of(self, at: int) -> str:
        """A column's canonical text."""
        column, kind = self.columns[at], self._kind(at)
        name = self._quoted(column)
        if kind is ColumnKind.TEXT and is_text(column.type):
            return name
        if kind is ColumnKind.BOOLEAN:
            return (
                f"CASE {name} WHEN 1 THEN 'true' WHEN 0 THEN 'false' ELSE CAST({name} AS TEXT) END"
            )
        if kind in (ColumnKind.FLOAT, ColumnKind.DECIMAL):
            return (
                f"CASE typeof({name}) WHEN 'real' THEN reconcile_float({name})"
                f" ELSE CAST({name} AS TEXT) END"
            )
        return f"CAST({name} AS TEXT)"

    def _of_key(self) -> str:
        """The row of a key, found by its index, so by the index's own collation."""
        terms = []
        for i in self.schema.key:
            sign = "=" if self.columns[i].not_null else "IS"
            terms.append(f"{self._quoted(self.columns[i])} {sign} {_placed(self._kind(i))}")
        if self.own is not None:
            terms.append(self._of_interval())
        return " AND ".join(terms)

    def _as_it_was(self) -> str:
        """The row of a before-image, in scope."""
        same = [
            f"CAST({self.text_of(i)} AS BLOB) IS CAST(? AS BLOB)" for i in range(len(self.columns))
        ]
        return " AND ".join([*same, self._of_key(), self.in_scope()])


def read_table(
    database: Database,
    config: TargetConfig,
    source_columns: Sequence[str] | None,
    interval: str | None = None,
) -> Table:
    """Look at the table; `TargetUnusable` where it cannot serve. `interval` is the id of the one
    whose rows are meant, where each has its own."""
    found = database.rows(
        "SELECT name, type FROM sqlite_master WHERE name = ? COLLATE NOCASE"
        " AND type IN ('table', 'view')",
        (config.table,),
    )
    if not found:
        raise TargetUnusable(
            f"{database.path} has no table {config.table}",
            hint="set the target's table, or create it; reconcile never does",
        )
    name = text(found[0][0])
    if found[0][1] == b"view":
        raise TargetUnusable(f"{name} in {database.path} is a view", hint="name a table")
    declared = _declared(database, name)
    primary = sorted((c for c in declared.values() if c.primary), key=lambda c: c.primary)
    where = f"table {name} in {database.path}"
    columns, key, schema, of = pick(where, declared, primary, config, source_columns)
    account = columns[0]
    whole_key = key if of is None else (of, *key)
    check_unique(
        database,
        name,
        whole_key,
        Exactness(account.name, config.key_policy),
        is_primary=set(whole_key) == set(primary),
    )
    table = Table(
        name,
        config.scope,
        schema,
        columns,
        lookup_collation(database, name, account, of),
        None if of is None else Own(of, interval),
    )
    if config.scope:
        _check_scope(database, table)
    return table


def literal(value: str) -> str:
    """An interval's id in SQL: what reconcile spelled itself, and never a user's text."""
    return "'" + value.replace("'", "''") + "'"


def kind_of(declared: str) -> ColumnKind:
    """The kind of a column by its declared type."""
    name = declared.upper()
    if "INT" in name:
        return ColumnKind.INTEGER
    if is_text(name) or "BLOB" in name:
        return ColumnKind.TEXT
    for marks, kind in _KINDS:
        if any(mark in name for mark in marks):
            return kind
    return ColumnKind.TEXT


def is_text(declared: str) -> bool:
    """Whether SQLite gives the column TEXT affinity, so that it holds text (or blobs) only."""
    name = declared.upper()
    return "INT" not in name and any(mark in name for mark in ("CHAR", "CLOB", "TEXT"))


_KINDS = (
    (("REAL", "FLOA", "DOUB"), ColumnKind.FLOAT),
    (("BOOL",), ColumnKind.BOOLEAN),
    (("NUM", "DEC", "MONEY"), ColumnKind.DECIMAL),
)
_TYPED = (ColumnKind.INTEGER, ColumnKind.BOOLEAN)


def _declared(database: Database, name: str) -> dict[str, TableColumn]:
    rows = database.rows(
        'SELECT name, type, "notnull", pk, hidden FROM pragma_table_xinfo(?)', (name,)
    )
    columns = [
        TableColumn(text(n), text(kind), bool(not_null), pk, hidden != 0)
        for n, kind, not_null, pk, hidden in rows
    ]
    return {column.name: column for column in columns}


def _check_scope(database: Database, table: Table) -> None:
    name, scope = quoted(table.name), table.scope
    try:
        database.rows(f"EXPLAIN SELECT 1 FROM {name} WHERE {table.in_scope()}")
        # What closes the bracket around it, as "1) OR (1", is no condition here.
        database.rows(f"EXPLAIN SELECT coalesce({scope}\n, 0) FROM {name}")
    except TargetUnusable as error:
        raise TargetUnusable(
            f"scope {table.scope!r} cannot be used: {error.__cause__}",
            hint="write an SQL condition over the columns of the target's table",
        ) from error


def _placed(kind: ColumnKind) -> str:
    """The place of a bound value. A cast, because text that is not ASCII is bound as bytes."""
    return "?" if kind in _TYPED else "CAST(? AS TEXT)"


def _value(value: str | None, kind: ColumnKind) -> Bound:
    if kind is ColumnKind.BOOLEAN and value in _BOOLEANS:
        return _BOOLEANS[value]
    if kind is ColumnKind.INTEGER and value is not None and _is_integer(value):
        return int(value)
    return bindable(value)


def _is_integer(value: str) -> bool:
    try:
        return canonical(value, ColumnKind.INTEGER) == value
    except Unconvertible:
        return False


_BOOLEANS = {"true": 1, "false": 0}
