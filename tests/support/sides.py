"""The two sides a holder writes to, which a test may copy, put back and wipe, and look at
behind everybody's back: a store and a target, each in memory and as SQLite files."""

from __future__ import annotations

import hashlib
import sqlite3
from copy import copy
from datetime import timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from reconcile.core.config import TargetConfig, sqlite_url
from reconcile.core.ports import Clock, Store
from reconcile.core.rows import KeySpan
from reconcile.core.targets.sqlite import SqliteTarget
from reconcile.stores.memory import MemoryServer
from reconcile.stores.memory_records import Records
from reconcile.stores.sqlite import SqliteStore

Table: TypeAlias = "dict[tuple[str, str], str]"
"""Entitlements as (account, entitlement): level."""

JOB = "entitlements"
TTL = timedelta(seconds=60)
TABLE = (
    "CREATE TABLE entitlements (account_id TEXT NOT NULL, entitlement TEXT NOT NULL,"
    " level TEXT NOT NULL, PRIMARY KEY (account_id, entitlement))"
)


def scratch() -> TemporaryDirectory[str]:
    """A folder in memory where there is such a place: what is tested is not the disk."""
    memory = Path("/dev/shm")
    return TemporaryDirectory(dir=memory if memory.is_dir() else None)


def inside(table: Table, span: KeySpan) -> Table:
    """The part of a table that lies in a span."""
    return {
        key: level
        for key, level in table.items()
        if (span.lower is None or key[0] > span.lower)
        and (span.upper is None or key[0] <= span.upper)
    }


def recount(table: Table) -> str:
    """Count and sum of a table, with no code of the project."""
    total = 0
    for (account, name), level in table.items():
        line = "".join(f"{len(text)}:{text}," for text in (account, name, level))
        total += int(hashlib.sha256(line.encode()).hexdigest()[:32], 16)
    return f"sha256-sum:{len(table)}:{total % 2**128:032x}"


# --- stores


class MemoryStoreSide:
    """A server that several processes share; it is put back in place, under its connections."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._server = MemoryServer(clock, "store-1")
        self._made = 1

    def connect(self) -> Store:
        return self._server.connect()

    peek = connect

    def snapshot(self) -> Any:
        server = self._server
        leases = {key: copy(granted) for key, granted in server.leases.items()}
        return server.id, leases, server.records.copy(), server.appended

    def restore(self, snapshot: Any) -> None:
        server = self._server
        server.id, leases, records, server.appended = snapshot
        server.records = records.copy()
        server.leases = {key: copy(granted) for key, granted in leases.items()}

    def wipe(self) -> None:
        self._made += 1
        self.restore((f"store-{self._made}", {}, Records(), 0))

    def close(self) -> None:
        pass


@cache
def _store_file() -> bytes:
    """An empty store, made once."""

    class Still:
        boot = staticmethod(lambda: 1.0)

    with scratch() as folder:
        path = Path(folder) / "state.db"
        SqliteStore(path, clock=Still(), boot_id="b", new_id=lambda: "?").close()  # type: ignore[arg-type]
        db = sqlite3.connect(path)
        made = db.serialize()
        db.close()
        return made


class SqliteStoreSide:
    """A store file that is really replaced, while others have it open."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._folder = scratch()
        self._path = Path(self._folder.name) / "state.db"
        self._made = 0
        self._peek: SqliteStore | None = None
        self.wipe()

    def connect(self) -> SqliteStore:
        return SqliteStore(self._path, clock=self._clock, boot_id="b", new_id=lambda: "?")

    def peek(self) -> Store:
        if self._peek is None:
            self._peek = self.connect()
        return self._peek

    def snapshot(self) -> Any:
        db = sqlite3.connect(self._path)
        copied = db.serialize()
        db.close()
        return copied

    def restore(self, snapshot: Any) -> None:
        self.close_peek()
        new = self._path.with_suffix(".new")
        new.write_bytes(snapshot)
        self._replace(new)

    def _replace(self, new: Path) -> None:
        new.chmod(0o600)
        for ending in ("-wal", "-shm"):
            Path(f"{self._path}{ending}").unlink(missing_ok=True)
        new.replace(self._path)

    def wipe(self) -> None:
        self.close_peek()
        self._made += 1
        new = self._path.with_suffix(".new")
        new.write_bytes(_store_file())
        db = sqlite3.connect(new, isolation_level=None)
        db.execute("UPDATE meta SET value = ? WHERE name = 'id'", (f"store-{self._made}",))
        db.close()
        self._replace(new)

    def close_peek(self) -> None:
        if self._peek is not None:
            self._peek.close()
            self._peek = None

    def close(self) -> None:
        self.close_peek()
        self._folder.cleanup()


# --- targets


@cache
def _target_file() -> bytes:
    db = sqlite3.connect(":memory:")
    db.execute(TABLE)
    made = db.serialize()
    db.close()
    return made


class SqliteTargetSide:
    """A database with a table; put back in place, under its connections."""

    def __init__(self) -> None:
        self._folder = scratch()
        self._path = Path(self._folder.name) / "app.db"
        self._path.write_bytes(_target_file())
        self._config = TargetConfig("sql", sqlite_url(self._path), "entitlements")
        self._db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)

    def connect(self, clock: Clock) -> SqliteTarget:
        return SqliteTarget(self._config, JOB, clock)

    def rows(self) -> Table:
        found = self._db.execute("SELECT account_id, entitlement, level FROM entitlements")
        return {(account, name): level for account, name, level in found.fetchall()}

    def write(self, key: tuple[str, str], level: str | None) -> None:
        if level is None:
            self._db.execute(
                "DELETE FROM entitlements WHERE account_id = ? AND entitlement = ?", key
            )
        else:
            self._db.execute("INSERT OR REPLACE INTO entitlements VALUES (?, ?, ?)", (*key, level))

    def log(self, after: int) -> list[tuple[Any, ...]]:
        if not self._db.execute(
            "SELECT 1 FROM sqlite_master WHERE name = 'reconcile_changes'"
        ).fetchall():
            return []
        found = self._db.execute(
            "SELECT interval, rerun, run_id, generation,"
            " json_extract(key, '$[0]'), json_extract(key, '$[1]'),"
            " json_extract(before, '$.level'), json_extract(after, '$.level')"
            " FROM reconcile_changes WHERE id > ? ORDER BY id",
            (after,),
        ).fetchall()
        return [
            (
                *facts,
                None if before is None else (account, name, before),
                None if now is None else (account, name, now),
            )
            for *facts, account, name, before, now in found
        ]

    def snapshot(self) -> Any:
        return self._db.serialize()

    def restore(self, snapshot: Any) -> None:
        then = sqlite3.connect(":memory:")
        then.deserialize(snapshot)
        then.backup(self._db)
        then.close()

    def close(self) -> None:
        self._db.close()
        self._folder.cleanup()
