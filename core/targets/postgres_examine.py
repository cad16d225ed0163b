"""`doctor` on a target in PostgreSQL: whether this role may work in it, and how fast."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from ..findings import fail, ok
from ..postgres.address import PATIENT, read_address
from .looks import TargetLook
from .names import quoted
from .postgres_ddl import NAMES, ddl, rights
from .postgres_look import read_table
from .postgres_session import SETTING, Session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..config import TargetConfig
    from ..findings import Finding
    from ..ports import Clock
    from .postgres_table import Table

SECONDS = 10.0
"""So long may all of it take, connecting included."""
_WAIT = 5.0
_ON_TABLE = ("SELECT", "INSERT", "UPDATE", "DELETE")
_ON_OURS = (
    ("reconcile_fence", ("SELECT", "INSERT", "UPDATE")),
    ("reconcile_ranges", ("SELECT", "INSERT", "DELETE")),
    ("reconcile_changes", ("SELECT", "INSERT")),
)
_MEND = "reconcile doctor --ddl"


def examine(
    config: TargetConfig, job: str, clock: Clock, source_columns: Sequence[str] | None
) -> TargetLook:
    """Look at the table, its indexes and this role's rights. Raises what reading it raises."""
    session = Session(read_address(config.url, SETTING, PATIENT), clock)
    with closing(session), session.reading(_WAIT, SECONDS):
        table = read_table(session, config, source_columns)
        schema = config.schema or table.relation.schema
        found = [
            _table(session, table, job),
            _order(table, job),
            *_rights(session, table, job),
            *_ours(session, schema, table, job),
        ]
    return TargetLook(found, table.schema)


def script(config: TargetConfig, clock: Clock) -> str:
    """What an administrator has to run so that the job's role can work with least rights.
    Raises what reading the table raises."""
    session = Session(read_address(config.url, SETTING, PATIENT), clock)
    with closing(session), session.reading(_WAIT, SECONDS):
        from .postgres_catalog import find

        relation = find(session, config.table)
        schema = config.schema or relation.schema
        role = session.user
    return (
        f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)};\n\n"
        f"{ddl(schema)}\n{rights(schema, relation.quoted, role)}"
    )


def _table(session: Session, table: Table, job: str) -> Finding:
    ((rows, size),) = session.rows(
        "SELECT reltuples::bigint, pg_catalog.pg_table_size(oid)::bigint"
        " FROM pg_catalog.pg_class WHERE oid = %s",
        (table.relation.oid,),
    )
    from ..findings import size_text

    about = "never analysed" if rows < 0 else f"about {rows:,} rows"
    return ok(job, f"{session.shown} table {table.relation.shown}: {about}, {size_text(size)}")


def _order(table: Table, job: str) -> Finding:
    account = table.columns[0].name
    if table.ordered:
        return ok(job, f"an index has {account} in account order")
    return fail(
        job,
        f"table {table.relation.shown} has no index in account order: each run reads and sorts all"
        " of it",
        f'CREATE INDEX CONCURRENTLY ON {table.relation.quoted} ({quoted(account)} COLLATE "C");',
    )


def _rights(session: Session, table: Table, job: str) -> Iterator[Finding]:
    lacks = _lacking(session, table.relation.quoted, _ON_TABLE)
    if lacks:
        role = quoted(session.user)
        yield fail(
            job,
            f"role {session.user} lacks {', '.join(lacks)} on {table.relation.shown}",
            f"GRANT {', '.join(lacks)} ON {table.relation.quoted} TO {role};",
        )


def _ours(session: Session, schema: str, table: Table, job: str) -> Iterator[Finding]:
    """The tables that are kept beside it: there, and this role's; or for it to make."""
    ((found, usage, create),) = session.rows(
        "SELECT (SELECT count(*) FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid"
        "  AND c.relname = ANY(%s)), has_schema_privilege(n.oid, 'USAGE'),"
        " has_schema_privilege(n.oid, 'CREATE')"
        " FROM pg_catalog.pg_namespace n WHERE n.nspname = %s"
        " UNION ALL SELECT 0, false, has_database_privilege(current_database(), 'CREATE')"
        " LIMIT 1",
        (list(NAMES), schema),
    )
    if found < len(NAMES):
        if create:
            yield ok(job, f"fenced: the first run makes the reconcile_ tables in schema {schema}")
        else:
            yield fail(
                job,
                f"the reconcile_ tables are not in schema {schema}, and role {session.user} may"
                " not make them",
                _MEND,
            )
        return
    lacking = [
        f"{right} on {name}"
        for name, wanted in _ON_OURS
        for right in _lacking(session, f"{quoted(schema)}.{name}", wanted)
    ]
    if not usage:
        lacking.insert(0, f"USAGE on schema {schema}")
    if lacking:
        yield fail(job, f"role {session.user} lacks {', '.join(lacking)}", _MEND)
    else:
        yield ok(job, "fenced: fence row and change log are in the target")


def _lacking(session: Session, relation: str, wanted: Sequence[str]) -> list[str]:
    found = session.rows(
        "SELECT wanted FROM unnest(%s::text[]) WITH ORDINALITY AS w(wanted, at)"
        " WHERE NOT has_table_privilege(%s, wanted) ORDER BY at",
        (list(wanted), relation),
    )
    return [right for (right,) in found]
