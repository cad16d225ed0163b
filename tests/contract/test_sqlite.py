"""The SQLite store keeps the contract, and what only it can promise."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from support.seeding import seeded

from reconcile.core.errors import LeaseBusy, StoreBusy, StoreUnreachable
from reconcile.core.model import Kind, Rate
from reconcile.stores import sqlite
from reconcile.stores.sqlite import SqliteStore
from reconcile.stores.sqlite_rows import SQL
from reconcile.stores.testing import StoreContract
from reconcile.stores.testing_support import JOB, KEY, TONIGHT, B, cursor_at, grant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reconcile.core.model import JsonObject, LeaseKey


class SqliteHarness:
    store_class = SqliteStore

    def __init__(self, path: Path, clock) -> None:
        self.advance = clock.advance
        self.step_wall_clock = clock.step
        self.boot_id = "b001"
        self.path, self._clock = path, clock
        self._opened: list[SqliteStore] = []

    def open(self, busy_wait: float = 5.0) -> SqliteStore:
        store = self.store_class(
            self.path,
            clock=self._clock,
            boot_id=self.boot_id,
            new_id=lambda: "5t0re",
            busy_wait=busy_wait,
        )
        self._opened.append(store)
        return store

    def close(self) -> None:
        for store in self._opened:
            store.close()

    def peek_generation(self, key: LeaseKey) -> int | None:
        sql = "SELECT generation FROM lease WHERE job = ? AND shard = ?"
        return self._peek(sql, key.job, key.shard)

    def peek_record(self, kind: Kind, job: str, key: str) -> JsonObject | None:
        sql = "SELECT value FROM record WHERE kind = ? AND job = ? AND key = ?"
        text = self._peek(sql, kind, job, key)
        return None if text is None else json.loads(text)

    def _peek(self, sql: str, *values: Any) -> Any:
        with closing(sqlite3.connect(self.path)) as db:
            row = db.execute(sql, values).fetchone()
        return None if row is None else row[0]


@pytest.fixture
def harness(tmp_path: Path, clock) -> Iterator[SqliteHarness]:
    harness = SqliteHarness(tmp_path / "state.db", clock)
    yield harness
    harness.close()


class TestSqliteStore(StoreContract):
    pass


# --- the suite notices what a store may get wrong

FENCE = "AND generation = :generation AND run = :run"
STATEMENTS = {
    "generation reset on release": (
        "release",
        ("SET released = 1", "SET generation = 0, released = 1"),
        "test_the_generation_is_kept_by_a_release",
    ),
    "renew without generation check": (
        "renew",
        (FENCE, ""),
        "test_a_renewal_after_a_takeover_is_fenced_out",
    ),
    "checkpoint accepted after takeover": (
        "advance",
        (FENCE, ""),
        "test_a_checkpoint_after_a_takeover_is_fenced_out",
    ),
    "release by an old holder": (
        "release",
        (FENCE, ""),
        "test_a_release_by_an_old_holder_does_not_end_a_newer_grant",
    ),
    "a late renewal revives a released lease": (
        "renew",
        ("AND NOT released", ""),
        "test_a_late_renewal_does_not_revive_a_released_lease",
    ),
    "a late checkpoint moves the cursor back": (
        "advance",
        ("AND seq < :seq", ""),
        "test_a_late_checkpoint_does_not_move_the_cursor_back",
    ),
    "an overlap noted after the last decision is lost": (
        "release",
        ("AND (:seen IS NULL OR overlaps <= :seen)", ""),
        "test_an_overlap_noted_after_the_last_decision_is_not_lost",
    ),
}
HELD = "if replaces != last.fence.run and (last.live or last.holder == holder):"
TEXTS = {
    "expiry from the caller's clock": (
        "self._clock.boot()",
        "self._clock.now().timestamp()",
        "test_a_stepped_wall_clock_ends_no_lease_and_prolongs_none",
    ),
    "two acquires granted": (HELD, "if False:", "test_one_of_many_who_ask_at_once_is_granted"),
    "a late acquire fences out its own holder": (
        HELD,
        HELD.replace("or last.holder ==", "and last.holder !="),
        "test_a_late_acquire_does_not_fence_out_its_own_holder",
    ),
}
NOTICED = (AssertionError, pytest.fail.Exception, LeaseBusy)


@pytest.mark.parametrize("bug", STATEMENTS)
def test_the_contract_notices_a_seeded_bug_in_a_statement(
    harness, monkeypatch: pytest.MonkeyPatch, bug: str
) -> None:
    statement, (right, wrong), name = STATEMENTS[bug]
    assert right in SQL[statement]
    monkeypatch.setitem(SQL, statement, SQL[statement].replace(right, wrong))
    with pytest.raises(NOTICED):
        getattr(StoreContract(), name)(harness)


@pytest.mark.parametrize("bug", TEXTS)
def test_the_contract_notices_a_seeded_bug(harness, bug: str) -> None:
    right, wrong, name = TEXTS[bug]
    steps = {"step": 86_400.0} if "stepped" in name else {}
    with seeded(sqlite, right, wrong) as module:
        harness.store_class = module.SqliteStore
        with pytest.raises(NOTICED):
            getattr(StoreContract(), name)(harness, **steps)


# --- what only it can promise


class TestHostOfSqliteStore:
    """Expiry is the running kernel's business."""

    def test_a_reboot_frees_the_lease_and_keeps_the_generation(self, harness) -> None:
        lease = grant(harness.open(), "r1")
        harness.boot_id = "b002"
        store = harness.open()
        seen = store.lease(KEY)
        assert seen is not None
        assert not seen.live
        second = grant(store, "r2", B)
        assert second.fence.generation == lease.fence.generation + 1
        assert second.live

    def test_a_reboot_does_not_refill_a_bucket(self, harness) -> None:
        rate = Rate(3, timedelta(seconds=6))
        assert harness.open().take("api", rate, 3) == 0
        harness.boot_id = "b002"
        store = harness.open()
        assert store.take("api", rate) == pytest.approx(2)
        harness.advance(2)
        assert store.take("api", rate) == 0
        assert store.take("api", rate) == pytest.approx(2)


class TestLocksOfSqliteStore:
    """A stuck writer costs a bounded wait, and reading none."""

    def test_a_stuck_writer_makes_writes_busy_and_hinders_no_read(self, harness) -> None:
        store = harness.open(busy_wait=0.05)
        lease = grant(store, "r1")
        with closing(sqlite3.connect(harness.path, isolation_level=None)) as stuck:
            stuck.execute("BEGIN IMMEDIATE")
            for write in (
                lambda: store.renew(lease.fence, 1),
                lambda: store.commit(lease.fence, 1, [cursor_at(1)]),
                lambda: store.take("api", Rate(1, timedelta(seconds=1))),
                lambda: grant(store, "r2", B),
            ):
                with pytest.raises(StoreBusy, match="locked"):
                    write()
            assert store.lease(KEY) == lease
            assert store.get(Kind.INTERVAL, JOB, TONIGHT) is None
            assert harness.open(busy_wait=0.05).lease(KEY) == lease
        assert store.renew(lease.fence, 1).live

    def test_a_store_replaced_while_open_is_refused(self, harness) -> None:
        store = harness.open()
        lease = grant(store, "r1")
        for suffix in ("", "-wal", "-shm"):
            harness.path.with_name("state.db" + suffix).rename(
                harness.path.with_name("moved.db" + suffix)
            )
        with pytest.raises(StoreUnreachable, match="moved away or replaced"):
            store.renew(lease.fence, 1)
        assert grant(harness.open(), "r2", B).live
        with pytest.raises(StoreUnreachable, match="moved away or replaced"):
            store.commit(lease.fence, 1, [cursor_at(1)])
        with pytest.raises(StoreUnreachable, match="moved away or replaced"):
            store.note([cursor_at(1)])

    def test_what_is_answered_is_synced_to_the_disk(self, harness) -> None:
        db = harness.open()._file._db
        assert db.execute("PRAGMA synchronous").fetchone() == (2,)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)

    def test_an_interrupt_inside_a_transaction_leaves_none_open(self, harness) -> None:
        store = harness.open()
        lease = grant(store, "r1")

        def interrupted(db: sqlite3.Connection) -> None:
            db.execute("UPDATE lease SET generation = 0")
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            store._file.write(interrupted)
        assert store.renew(lease.fence, 1).fence == lease.fence


class TestSpeedOfSqliteStore:
    """Reads seek by key, so their cost does not grow with the store."""

    @pytest.mark.parametrize("name", ["lease", "get", "scan", "scan_tag"])
    def test_no_read_walks_through_a_table(self, harness, name: str) -> None:
        harness.open()
        statement = SQL[name]
        orders = ("oldest_first", "newest_first") if name.startswith("scan") else ("",)
        for order in orders:
            text = statement + SQL.get(order, "")
            plan = self.plan(harness.path, text)
            assert all(step.startswith(("SEARCH", "CORRELATED")) for step in plan), plan
            if name == "scan_tag":
                assert "tag=? AND key>? AND key<?" in plan[0]
            elif name == "scan":
                assert "kind=? AND job=? AND key>? AND key<?" in plan[0]

    def plan(self, path: Path, statement: str) -> list[str]:
        values = dict.fromkeys(re.findall(r":(\w+)", statement), 1)
        with closing(sqlite3.connect(path)) as db:
            return [row[3] for row in db.execute("EXPLAIN QUERY PLAN " + statement, values)]
