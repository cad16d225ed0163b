"""A SQLite table, jobs that work on it as a target, and somebody else who writes to it."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from reconcile.core.checksum import Checksum, checksum, encode_rows
from reconcile.core.config import TargetConfig, sqlite_url
from reconcile.core.endpoints import Committed, Target
from reconcile.core.model import Fence, Interval, LeaseKey, PlanId, Proof, RunId
from reconcile.core.rows import Change, KeySpan, RangeChanges, Row
from reconcile.core.targets.sqlite import SqliteTarget

EVERYTHING = KeySpan()
TABLE = """CREATE TABLE entitlements (
  account_id TEXT NOT NULL, entitlement TEXT NOT NULL, level TEXT,
  PRIMARY KEY (account_id, entitlement))"""


class RealClock:
    """The host's time, for tests in which somebody really waits."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def boot(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wait(self, seconds: float, wake: threading.Event) -> bool:
        return wake.wait(seconds)


def fence(generation: int, run: str | None = None, job: str = "job") -> Fence:
    return Fence(LeaseKey(job), generation, RunId(run or f"run-{generation}"))


def proof(day: int = 30, rerun: int = 0, job: str = "job") -> Proof:
    at = datetime(2026, 11, day, 2, 30, tzinfo=UTC)
    total = Checksum(day, rerun)
    return Proof(Interval(job, at, f"2026-11-{day:02}"), rerun, total, total)


class Bed:
    """One database file; `other` is somebody else who writes there."""

    odd = ("a\0b", 'é\U0001f600"\\', "\udcff")
    """A row of texts that are hard to carry."""

    def __init__(self, folder: Path, ddl: str = TABLE, *, wal: bool = False) -> None:
        self.path = folder / "app.db"
        self.other = sqlite3.connect(self.path, isolation_level=None, timeout=0)
        self.other.execute(f"PRAGMA journal_mode={'wal' if wal else 'delete'}")
        self.other.executescript(ddl)
        self._targets: list[SqliteTarget] = []

    def target(self, job: str = "job", clock: Any = None, **options: Any) -> SqliteTarget:
        table = options.pop("table", "entitlements")
        config = TargetConfig("sql", sqlite_url(self.path), table, **options)
        made = SqliteTarget(config, job, clock or RealClock())
        self._targets.append(made)
        return made

    def fenced(self, generation: int = 1, **options: Any) -> SqliteTarget:
        made = self.target(**options)
        made.raise_fence(fence(generation), "store", timedelta(0))
        return made

    def insert(self, *rows: tuple[Any, ...]) -> None:
        places = ", ".join("?" * len(rows[0]))
        self.other.executemany(f"INSERT INTO entitlements VALUES ({places})", rows)

    def rows(self, table: str = "entitlements", order: str = "1, 2") -> list[tuple[Any, ...]]:
        return self.other.execute(f"SELECT * FROM {table} ORDER BY {order}").fetchall()

    def tables(self) -> set[str]:
        found = self.other.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {name for (name,) in found}

    def do(self, *statements: str) -> None:
        for statement in statements:
            self.other.execute(statement)

    def log(self) -> list[tuple[Any, ...]]:
        return self.other.execute(
            'SELECT action, account, "key", "before", "after" FROM reconcile_changes ORDER BY id'
        ).fetchall()

    def count(self, table: str) -> int:
        return int(self.other.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    def close(self) -> None:
        for target in self._targets:
            target.close()
        self.other.close()


def grant(*row: str | None) -> Change:
    return Change(None, row)


def revoke(*row: str | None) -> Change:
    return Change(row, None)


def update(before: Row, after: Row) -> Change:
    return Change(before, after)


def part(
    changes: Iterable[Change],
    holds: Iterable[Row],
    *,
    number: int = 1,
    plan: str = "plan",
    span: KeySpan = EVERYTHING,
    interval: str = "2026-11-30",
) -> RangeChanges:
    """Changes after which the span holds some rows."""
    expected = checksum(encode_rows(list(holds)))
    return RangeChanges("job", interval, 0, PlanId(plan), number, span, list(changes), expected)


def commit(
    target: Target, changes: Iterable[Change], holds: Iterable[Row], **options: Any
) -> Committed:
    """Commit changes as generation 1, with plenty of time."""
    by = RealClock().boot() + options.pop("time", 20.0)
    generation = options.pop("generation", 1)
    return target.commit(fence(generation), part(changes, holds, **options), by)
