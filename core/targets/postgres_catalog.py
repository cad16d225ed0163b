"""What a PostgreSQL database says of a table: its columns with their types, and its indexes.

A column is compared in its own type. Which types are understood is stated in `_KINDS`; a
domain is what it is based on, and an enumeration is text. All others are refused, arrays and
`char(n)` (which pads) and `citext` (which compares loosely) among them: a guess would be
wrong one night.

Text is ordered by code point where its collation is one of C, POSIX, `ucs_basic`, a builtin
one, or libc's C.UTF-8; every other order of words differs from that of the source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..errors import TargetUnusable
from ..rows import ColumnKind
from .names import quoted

if TYPE_CHECKING:
    from .postgres_session import Session

_KINDS = {
    "text": ColumnKind.TEXT,
    "varchar": ColumnKind.TEXT,
    "int2": ColumnKind.INTEGER,
    "int4": ColumnKind.INTEGER,
    "int8": ColumnKind.INTEGER,
    "numeric": ColumnKind.DECIMAL,
    "float4": ColumnKind.FLOAT,
    "float8": ColumnKind.FLOAT,
    "bool": ColumnKind.BOOLEAN,
    "date": ColumnKind.DATE,
    "timestamp": ColumnKind.TIMESTAMP,
    "timestamptz": ColumnKind.INSTANT,
    "uuid": ColumnKind.UUID,
    "bytea": ColumnKind.BYTES,
    "json": ColumnKind.JSON,
    "jsonb": ColumnKind.JSON,
}
_ENUM = "e"
_CODE_POINT = frozenset({"C", "POSIX", "C.UTF-8", "C.utf8"})


class PostgresColumn(NamedTuple):
    """One column as declared. `base` is its type without a domain or a length, as SQL has it;
    `known` the name of that type where it is the server's own, `enum` whether it is an
    enumeration. `code_point`: whether its own collation orders text by code point;
    `exact`: whether no two texts are equal there that differ."""

    name: str
    type: str
    base: str
    known: str | None
    enum: bool
    not_null: bool
    generated: bool
    code_point: bool
    exact: bool

    @property
    def kind(self) -> ColumnKind:
        """See `columns.Declared`."""
        found = ColumnKind.TEXT if self.enum else _KINDS.get(self.known or "")
        if found is None:
            raise TargetUnusable(
                f"column {self.name} is {self.type}, which is not compared",
                hint="leave it out of the target's columns, or give it a type as text, bigint,"
                " numeric, boolean, date, timestamp, timestamptz, uuid, bytea or jsonb",
            )
        return found


class Index(NamedTuple):
    """One index that is on columns alone, not on a part of the table; by name, each with the
    collation of the index as SQL has it ("" where it is the column's own)."""

    name: str
    unique: bool
    primary: bool
    columns: tuple[str, ...]
    collations: tuple[str, ...]
    code_point: tuple[bool, ...]
    ordered: bool
    """Whether it is kept in order (a B-tree)."""


class Relation(NamedTuple):
    """A table, found by its name."""

    oid: int
    schema: str
    name: str

    @property
    def quoted(self) -> str:
        """The table in SQL."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    @property
    def shown(self) -> str:
        """The table in messages, and in the fence row."""
        return f"{self.schema}.{self.name}"


def find(session: Session, name: str) -> Relation:
    """The table of a name, which may have a schema before a dot; `TargetUnusable` where it is
    none that can be kept in step."""
    schema, _, rest = name.partition(".")
    rows = session.rows(
        "SELECT c.oid::bigint, n.nspname, c.relname, c.relkind::text, row_security_active(c.oid),"
        " c.relkind = 'r' AND c.relhassubclass"
        " FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND (c.relname = %s AND"
        " pg_catalog.pg_table_is_visible(c.oid) OR n.nspname = %s AND c.relname = %s)"
        " ORDER BY c.relname = %s DESC LIMIT 1",
        (name, schema, rest, name),
    )
    if not rows:
        raise TargetUnusable(
            f"{session.shown} has no table {name}",
            hint="set the target's table, with its schema where that is not found by itself (table"
            ' = "app.entitlements"), or create it; reconcile never does',
        )
    oid, schema, relname, kind, secured, inherited = rows[0]
    found = Relation(oid, schema, relname)
    where = f"{found.shown} in {session.shown}"
    if kind not in ("r", "p"):
        what = {"v": "a view", "m": "a materialized view"}.get(kind, "a foreign table")
        raise TargetUnusable(f"{where} is {what}", hint="name a table")
    if secured:
        raise TargetUnusable(
            f"row security of table {where} hides rows from this role",
            hint="ALTER ROLE … BYPASSRLS, or use the table's owner: rows that are there and not"
            " seen would be granted again",
        )
    if inherited:
        raise TargetUnusable(
            f"other tables inherit from table {where}, whose rows its keys do not cover",
            hint="name one of them, or make it a partitioned table",
        )
    return found


def columns(session: Session, relation: Relation) -> dict[str, PostgresColumn]:
    """The columns by name, in their order."""
    rows = session.rows(
        "WITH RECURSIVE base(attnum, oid) AS ("
        " SELECT attnum, atttypid FROM pg_catalog.pg_attribute"
        "  WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped"
        " UNION ALL SELECT b.attnum, t.typbasetype FROM base b"
        "  JOIN pg_catalog.pg_type t ON t.oid = b.oid WHERE t.typtype = 'd')"
        " SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),"
        "  pg_catalog.format_type(t.oid, NULL),"
        "  CASE WHEN t.typnamespace = 'pg_catalog'::regnamespace THEN t.typname END,"
        "  t.typtype::text, a.attnotnull, a.attgenerated <> '' OR a.attidentity = 'a',"
        f"  {_code_point('a.attcollation')}, coalesce(l.collisdeterministic, true)"
        " FROM base b JOIN pg_catalog.pg_type t ON t.oid = b.oid AND t.typtype <> 'd'"
        " JOIN pg_catalog.pg_attribute a ON a.attrelid = %s AND a.attnum = b.attnum"
        " LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation ORDER BY a.attnum",
        (relation.oid, relation.oid),
    )
    found = [
        PostgresColumn(name, kind, base, known, typtype == _ENUM, *rest)
        for name, kind, base, known, typtype, *rest in rows
    ]
    return {column.name: column for column in found}


def indexes(session: Session, relation: Relation) -> list[Index]:
    """The table's indexes on columns alone. A deferrable one is not counted as unique: a row
    could not be told from its double while a transaction goes on."""
    rows = session.rows(
        "SELECT ic.relname, i.indisunique AND i.indimmediate, i.indisprimary, am.amname = 'btree',"
        " array_agg(a.attname::text ORDER BY k.at),"
        " array_agg(CASE WHEN k.loc IN (0, a.attcollation) THEN ''"
        "  ELSE quote_ident(ln.nspname) || '.' || quote_ident(l.collname) END ORDER BY k.at),"
        f" array_agg({_code_point('k.loc')} ORDER BY k.at)"
        " FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class ic ON ic.oid = i.indexrelid"
        " JOIN pg_catalog.pg_am am ON am.oid = ic.relam"
        " CROSS JOIN LATERAL unnest("
        "  string_to_array(i.indkey::text, ' ')::int2[],"
        "  string_to_array(i.indcollation::text, ' ')::oid[])"
        "  WITH ORDINALITY AS k(attnum, loc, at)"
        " JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum"
        " LEFT JOIN pg_catalog.pg_collation l ON l.oid = k.loc"
        " LEFT JOIN pg_catalog.pg_namespace ln ON ln.oid = l.collnamespace"
        " WHERE i.indrelid = %s AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL"
        "  AND k.at <= i.indnkeyatts"
        " GROUP BY ic.relname, i.indisunique, i.indimmediate, i.indisprimary, am.amname"
        " ORDER BY i.indisprimary DESC, ic.relname",
        (relation.oid,),
    )
    return [
        Index(name, unique, primary, tuple(of), tuple(collations), tuple(points), ordered)
        for name, unique, primary, ordered, of, collations, points in rows
    ]


def _code_point(oid: str) -> str:
    """Whether a collation is in order of code points; what has none is in its own order."""
    names = ", ".join(f"'{name}'" for name in sorted(_CODE_POINT))
    return (
        f"coalesce((SELECT CASE p.provider WHEN 'b' THEN true WHEN 'c' THEN p.name IN ({names})"
        " ELSE false END FROM (SELECT"
        " CASE lc.collprovider WHEN 'd' THEN coalesce(to_jsonb(d) ->> 'datlocprovider', 'c')"
        "  ELSE lc.collprovider::text END AS provider,"
        " CASE lc.collprovider WHEN 'd' THEN d.datcollate::text ELSE lc.collcollate::text END"
        "  AS name"
        " FROM pg_catalog.pg_collation lc, pg_catalog.pg_database d"
        f" WHERE lc.oid = {oid} AND d.datname = current_database()) p), true)"
    )
