"""The tables of the SQLite store, and how they came to be: numbered migrations.

Imported only when a store is created or migrated (sqlite-utils takes 60 ms to import).
All that is pending is applied in one transaction with the new `user_version`, so a
process killed half way leaves the old schema or none.

Layout. `lease` has one row per lease key, never deleted: it carries the generation.
`record` holds the small values clustered by (kind, job, key), so that a scan reads
neighbouring pages only. `blob` keeps what may be large apart from them.
`bucket` holds token buckets, `meta` the store's identity and the number of its appends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

_migrations = Migrations("reconcile.store")


@_migrations(name="0001_init")
def _init(db: Database) -> None:
    for statement in (
        """CREATE TABLE meta (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID""",
        """CREATE TABLE lease (
             job TEXT NOT NULL, shard INTEGER NOT NULL,
             generation INTEGER NOT NULL, run TEXT NOT NULL, holder TEXT NOT NULL,
             interval TEXT NOT NULL, ttl INTEGER NOT NULL,
             granted_at INTEGER NOT NULL, expires_at INTEGER NOT NULL,
             expires_boot REAL NOT NULL, boot_id TEXT NOT NULL,
             progress INTEGER NOT NULL, progress_at INTEGER NOT NULL,
             released INTEGER NOT NULL, overlaps INTEGER NOT NULL, stop TEXT,
             seq INTEGER NOT NULL, previous TEXT,
             PRIMARY KEY (job, shard)) WITHOUT ROWID""",
        """CREATE TABLE record (
             kind TEXT NOT NULL, job TEXT NOT NULL, key TEXT NOT NULL,
             version INTEGER NOT NULL, tag TEXT NOT NULL, at INTEGER NOT NULL,
             value TEXT NOT NULL, has_blob INTEGER NOT NULL,
             PRIMARY KEY (kind, job, key)) WITHOUT ROWID""",
        """CREATE INDEX record_by_tag ON record (kind, job, tag, key) WHERE tag <> ''""",
        """CREATE TABLE blob (
             kind TEXT NOT NULL, job TEXT NOT NULL, key TEXT NOT NULL, data BLOB NOT NULL,
             UNIQUE (kind, job, key))""",
        """CREATE TABLE bucket (
             name TEXT PRIMARY KEY, due REAL NOT NULL, boot_id TEXT NOT NULL) WITHOUT ROWID""",
        """INSERT INTO meta (name, value) VALUES ('appended', 0)""",
    ):
        db.conn.execute(statement)


def migrate(
    connection: sqlite3.Connection,
    version: int,
    application_id: int,
    new_id: Callable[[], str],
) -> None:
    """Bring the schema up to `version` in one transaction; gives a new store its id.

    The connection is in autocommit mode and its caller holds the creation lock.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        _migrations.apply(Database(connection, recursive_triggers=False, execute_plugins=False))
        connection.execute(
            "INSERT INTO meta (name, value) VALUES ('id', ?) ON CONFLICT (name) DO NOTHING",
            (new_id(),),
        )
        connection.execute(f"PRAGMA application_id = {application_id}")
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
