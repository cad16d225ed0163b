"""`doctor` on a target in SQLite: whether this user may work in it, and how fast."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from ..config import single_host, sqlite_path
from ..findings import fail, ok, size_text, space, warn
from ..keys import KeyPolicy
from ..rows import ColumnKind
from .looks import COUNTED, TargetLook, rows_text
from .names import quoted, text
from .sqlite_accounts import functions
from .sqlite_books import SqliteBooks
from .sqlite_database import Database
from .sqlite_table import read_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..config import TargetConfig
    from ..findings import Finding
    from ..ports import Clock
    from .sqlite_table import Table

WAIT = 5.0
"""Seconds that another's lock is waited for."""


def examine(
    config: TargetConfig, job: str, clock: Clock, source_columns: Sequence[str] | None
) -> TargetLook:
    """Look at the file and the table. Raises what reading the table raises."""
    path = sqlite_path(config.url)
    database = Database(
        path,
        clock,
        functions(config.key_policy),
        single_host=bool(single_host(config.url)),
    )
    with closing(database), database.reading(WAIT):
        table = read_table(database, config, source_columns)
        found = [
            _table(database, table, job),
            *_order(database, table, job),
            *_fence(database, job),
        ]
    return TargetLook([*found, *_rights(path, job), *_space(path, job)], table.schema)


def _table(database: Database, table: Table, job: str) -> Finding:
    (((rows),),) = (
        database.rows(
            f"SELECT count(*) FROM (SELECT 1 FROM {table.quoted_name}"
            f" WHERE {'1' if table.own is not None else table.in_scope()} LIMIT {COUNTED + 1})"
        ),
    )
    within = " in scope" if table.scope and table.own is None else ""
    size = size_text(database.path.stat().st_size)
    return ok(
        job,
        f"{database.path} table {table.name}: {rows_text(rows[0])}{within}; the file has {size}",
    )


def _order(database: Database, table: Table, job: str) -> Iterator[Finding]:
    """Whether an index has the accounts in the order in which they are compared."""
    account = table.columns[0]
    if table.schema.policy is not KeyPolicy.EXACT:
        yield ok(job, f"accounts are compared as {table.schema.policy}: no index is in that order")
        return
    if (
        account.primary
        and table.schema.account.kind is ColumnKind.INTEGER
        and _is_row_id(database, table)
    ):
        yield ok(job, f"key in account order: {account.name} is the row's number")
        return
    before = [] if table.own is None else [table.own.column.name]
    for (name,) in database.rows(
        "SELECT name FROM pragma_index_list(?) WHERE NOT partial", (table.name,)
    ):
        of = [
            (None if column is None else text(column), text(collation).upper())
            for column, collation in database.rows(
                'SELECT name, coll FROM pragma_index_xinfo(?) WHERE "key" ORDER BY seqno',
                (text(name),),
            )
        ]
        if [column for column, _ in of[: len(before)]] == before:
            of = of[len(before) :]
        if of and of[0] == (account.name, "BINARY"):
            yield ok(job, f"index {text(name)} is in account order")
            return
    columns = ", ".join([*map(quoted, before), f"{quoted(account.name)} COLLATE BINARY"])
    yield fail(
        job,
        f"table {table.name} has no index in account order: each range reads all of it",
        f"CREATE INDEX {quoted(f'{table.name}_by_{account.name}')} ON {table.quoted_name}"
        f" ({columns});",
    )


def _is_row_id(database: Database, table: Table) -> bool:
    """Whether the primary key is the row's number: then it has no index, and needs none."""
    found = database.rows(
        "SELECT count(*) FROM pragma_index_list(?) WHERE origin = 'pk'", (table.name,)
    )
    return not found[0][0]


def _fence(database: Database, job: str) -> Iterator[Finding]:
    if SqliteBooks(database).has_tables():
        yield ok(job, "fenced: fence row and change log are in the target")
    else:
        yield ok(job, "fenced: the first run makes the reconcile_ tables in the target")


def _rights(path: Path, job: str) -> Iterator[Finding]:
    """A write-ahead log or a journal is a file beside the database."""
    for what, where in (("file", path), ("folder", path.parent)):
        if not os.access(where, os.W_OK, effective_ids=True):
            yield fail(
                job,
                f"this user may not write the {what} {where}",
                f"let the job's user write it: ls -ld {where}",
            )


def _space(path: Path, job: str) -> Iterator[Finding]:
    disk = os.statvfs(path.parent)
    if disk.f_flag & os.ST_RDONLY:
        yield fail(
            job,
            f"{path} lies on a file system that is mounted read-only",
            f"mount it for writing, see: findmnt --target {path.parent}",
        )
    else:
        yield from space(job, str(path.parent), disk.f_bavail * disk.f_frsize)
    journal = Path(f"{path}-journal")
    if journal.exists():
        yield warn(
            job,
            f"{journal} is there: somebody is writing, or was killed while writing",
            f"it goes away with the next who opens it; see who has it open: fuser -v {path}",
        )
