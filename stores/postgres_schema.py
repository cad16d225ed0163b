"""The tables of a Postgres store: numbered migrations, and the rights that are needed.

`stores/sql/postgres/NNNN_*.sql` are applied in order, all that are pending in one
transaction that has an advisory lock (of the transaction, so that PgBouncer allows it):
many processes may come first at once, and one that is killed half way leaves nothing.

Rights. Whoever comes first makes the tables, if it may: it needs CREATE on the database, or
CREATE on a schema made for it. A role that only works needs no more than
`least_privileges` grants, and a store that an administrator has made is opened with those.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from psycopg import errors

from ..core.errors import StoreUnusable
from .named_sql import load
from .postgres_rows import Ask

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .postgres_address import Address
    from .postgres_connection import Transaction
    from .postgres_rows import Row

SCHEMA_VERSION = 1
OLDEST_SERVER = 13
_FOLDER = Path(__file__).parent / "sql" / "postgres"
_NAMESPACE = 0x7265636F
"""`reco` in ASCII, the first half of our advisory locks."""
_OURS = re.compile(r"'reconcile\.|\breconcile\.")


_LOCK = "SELECT pg_advisory_xact_lock(%(ours)s, %(schema)s)"
_SCHEMA_IS_THERE = "SELECT 1 FROM pg_namespace WHERE nspname = %(name)s"
_META_IS_THERE = """SELECT 1 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE n.nspname = %(name)s AND c.relname = 'meta'"""


class Schema(NamedTuple):
    """What the tables say of themselves."""

    version: int
    id: str

    @property
    def is_current(self) -> bool:
        """Whether no migration is pending."""
        return self.version == SCHEMA_VERSION


@cache
def statements(schema: str) -> dict[str, str]:
    """The store's statements by name, for its schema."""
    ours = schema.replace("%", "%%")  # values are filled in where a % stands
    return {name: _in_schema(text, ours) for name, text in load("postgres").items()}


def least_privileges(schema: str, role: str) -> str:
    """The grants that a role needs to work with a store whose tables are there."""
    text = (_FOLDER / "least_privileges.sql").read_text(encoding="utf-8")
    text = re.sub(r"SCHEMA reconcile\b", lambda _: f"SCHEMA {quoted(schema)}", text)
    return _in_schema(text, schema).replace("reconcile_role", quoted(role))


def script(url: str) -> str:
    """All that an administrator runs: schema, tables, and the rights of the role in the address
    (`reconcile_role` where it names none). Raises `ConfigError` for an address that is none."""
    from psycopg.conninfo import conninfo_to_dict

    from .postgres_address import read_address

    address = read_address(url)
    role = str(conninfo_to_dict(address.conninfo).get("user") or "reconcile_role")
    tables = (_in_schema(text, address.schema).strip() for text in _pending(0))
    return "\n\n".join(
        (
            f"CREATE SCHEMA IF NOT EXISTS {quoted(address.schema)};",
            *tables,
            least_privileges(address.schema, role),
        )
    )


def read_schema(db: Transaction, address: Address) -> Schema | None:
    """What is there; None for nothing. `StoreUnusable` for a newer version's tables, or
    others than ours."""
    try:
        found = db.run(_meta(address), last=True)[0].rows
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return None
    except errors.UndefinedColumn:
        raise _not_ours(address) from None
    return _checked(found, address)


def create_or_migrate(db: Transaction, address: Address) -> str:
    """Bring the tables up to date, or make them; the store's id."""
    name = {"name": address.schema}
    half = crc32(address.schema.encode()) - 2**31
    db.run(Ask(_LOCK, {"ours": _NAMESPACE, "schema": half}))
    if not db.run(Ask(_SCHEMA_IS_THERE, name))[0].rows:
        db.run(_plain(f"CREATE SCHEMA {quoted(address.schema)}"))
    version = 0
    if db.run(Ask(_META_IS_THERE, name))[0].rows:
        version = _checked(db.run(_meta(address))[0].rows, address).version
    for text in _pending(version):
        db.run(_plain(_in_schema(text, address.schema)))
    return _checked(db.run(_meta(address))[0].rows, address).id


def quoted(name: str) -> str:
    """A name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def _plain(text: str) -> Ask:
    """A statement without values."""
    return Ask(text.replace("%", "%%"), {})


def _meta(address: Address) -> Ask:
    return _plain(f"SELECT name, value FROM {quoted(address.schema)}.meta")


def _in_schema(text: str, schema: str) -> str:
    """The same in another schema, be it named as it is or in a text (`'reconcile.appended'`)."""
    name = quoted(schema) + "."
    in_text = "'" + name.replace("'", "''")
    return _OURS.sub(lambda found: in_text if found[0].startswith("'") else name, text)


def _pending(version: int) -> Iterator[str]:
    for file in sorted(_FOLDER.glob("[0-9]*_*.sql")):
        if int(file.name.partition("_")[0]) > version:
            yield file.read_text(encoding="utf-8")


def _checked(rows: Sequence[Row], address: Address) -> Schema:
    values: dict[str, str] = dict(rows)
    try:
        found = Schema(int(values["schema_version"]), values["id"])
    except (KeyError, ValueError):
        raise _not_ours(address) from None
    if found.version > SCHEMA_VERSION:
        raise StoreUnusable(
            f"the store {address.shown} has schema version {found.version}; this program knows "
            f"{SCHEMA_VERSION} at most",
            hint="upgrade reconcile on this host to the version that wrote the store",
        )
    return found


def _not_ours(address: Address) -> StoreUnusable:
    return StoreUnusable(
        f"the schema {address.schema} of {address.shown} holds tables that are not reconcile's",
        hint="name another schema in [store] url: ?schema=NAME",
    )
