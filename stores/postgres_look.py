"""`doctor` on a Postgres store: looked at without making or migrating its tables."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import psycopg

from ..core.errors import ReconcileError
from ..core.findings import STORE, StoreLook, fail, ok, refused, size_text, warn
from ..core.postgres.errors import NoAnswer
from ..core.postgres.link import connect
from .postgres_address import read_address
from .postgres_connection import Transaction
from .postgres_errors import refusal
from .postgres_rows import Ask
from .postgres_schema import OLDEST_SERVER, SCHEMA_VERSION, quoted, read_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..core.findings import Finding
    from ..core.ports import Clock
    from .postgres_address import Address

SECONDS = 10.0
"""So long may all of it take, connecting included."""
_WANTED = (
    ("meta", ("SELECT",)),
    ("lease", ("SELECT", "INSERT", "UPDATE")),
    ("bucket", ("SELECT", "INSERT", "UPDATE")),
    ("record", ("SELECT", "INSERT", "UPDATE", "DELETE")),
)
_MEND = "reconcile doctor --ddl"
_SIZE = """SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint, current_user::text,
 pg_get_userbyid(n.nspowner)::text FROM pg_namespace AS n
 LEFT JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relkind = 'r'
 WHERE n.nspname = %(schema)s GROUP BY n.nspowner"""
_MAY_CREATE = """SELECT current_user::text, coalesce(
 (SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = %(schema)s),
 has_database_privilege(current_database(), 'CREATE'))"""


def look(url: str, clock: Clock) -> StoreLook:
    """Look at the store at `url`; a server that says nothing is waited for `SECONDS`."""
    address = read_address(url)
    try:
        with _looking(address, SECONDS, clock) as (db, version):
            found, ready = _look(db, address, version)
            return StoreLook(found, ready)
    except ReconcileError as error:
        return StoreLook([refused(STORE, error)], ready=False)


def is_made(url: str, seconds: float, clock: Clock) -> bool:
    """Whether the tables are there and current, asked for so long. False where nobody answers."""
    try:
        address = read_address(url)
        with _looking(address, seconds, clock) as (db, _):
            schema = read_schema(db, address)
            return schema is not None and schema.is_current
    except ReconcileError:
        return False


@contextmanager
def _looking(address: Address, seconds: float, clock: Clock) -> Iterator[tuple[Transaction, int]]:
    """A connection that only reads, and the server's major version. Errors are ours."""
    until = clock.boot() + seconds

    def watch() -> None:
        if clock.boot() >= until:
            raise NoAnswer

    try:
        with closing(connect(address, seconds, clock, watch)) as link:
            db = Transaction(link, lambda: until - clock.boot(), " READ ONLY")
            yield db, link.info.server_version // 10000
    except psycopg.Error as error:
        raise refusal(error, address) from error


def _look(db: Transaction, address: Address, server: int) -> tuple[list[Finding], bool]:
    if server < OLDEST_SERVER:
        text = f"the server of {address.shown} is PostgreSQL {server}; this needs {OLDEST_SERVER}"
        return [fail(STORE, text, "upgrade the server")], False
    ((role, may_create),) = db.run(Ask(_MAY_CREATE, {"schema": address.schema}))[0].rows
    db.commit()
    schema = read_schema(db, address)
    if schema is None:
        if may_create:
            text = f"postgres {address.shown}: no tables yet; the first run makes them"
            return [warn(STORE, text, "call a job: reconcile run JOB")], False
        text = f"postgres {address.shown} has no tables, and role {role} may not make them"
        return [fail(STORE, text, _MEND)], False
    ((size, _, owner),) = db.run(Ask(_SIZE, {"schema": address.schema}))[0].rows
    shown = (
        f"postgres {address.shown}, PostgreSQL {server}, {size_text(size)}, role {role}, owner"
        f" {owner}"
    )
    found = [ok(STORE, shown), *_rights(db, address, role)]
    if not schema.is_current:
        text = f"its tables are of version {schema.version}; the next run brings them to"
        found.append(warn(STORE, f"{text} {SCHEMA_VERSION}", "copy them first: pg_dump"))
    return found, schema.is_current


def _rights(db: Transaction, address: Address, role: str) -> Iterator[Finding]:
    schema = quoted(address.schema)
    asks = [
        (f"{right} on {name}", f"has_table_privilege('{_text(f'{schema}.{name}')}', '{right}')")
        for name, wanted in _WANTED
        for right in wanted
    ]
    asks.append(
        ("USAGE on appended", f"has_sequence_privilege('{_text(f'{schema}.appended')}', 'USAGE')")
    )
    columns = ", ".join(sql for _, sql in asks).replace("%", "%%")
    (answers,) = db.run(Ask(f"SELECT {columns}", {}))[0].rows
    lacks = [name for (name, _), has in zip(asks, answers, strict=True) if not has]
    if lacks:
        yield fail(STORE, f"role {role} lacks {', '.join(lacks)}", _MEND)


def _text(name: str) -> str:
    return name.replace("'", "''")
