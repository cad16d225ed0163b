"""The Postgres store keeps the contract, and what only it can promise."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from support.fakes import eventually
from support.postgres_harness import PATIENCE, PostgresHarness
from support.postgres_server import fresh_name, shared_server

from reconcile.cli.environment import SystemClock
from reconcile.core.errors import (
    ConfigError,
    LeaseBusy,
    ReconcileError,
    StoreBusy,
    StoreUnreachable,
    StoreUnusable,
    WriteConflict,
)
from reconcile.core.model import ABSENT, Append, Delete, Kind, Put, Rate
from reconcile.core.postgres.link import Link
from reconcile.stores.postgres import PostgresStore, least_privileges
from reconcile.stores.postgres_address import read_address
from reconcile.stores.postgres_rows import Ask
from reconcile.stores.testing import StoreContract
from reconcile.stores.testing_support import JOB, KEY, TONIGHT, B, cursor_at, grant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.postgres_server import Server

    from reconcile.core.model import Lease, LeaseKey

RATE = Rate(1, timedelta(seconds=1))


@pytest.fixture
def harness(clock) -> Iterator[PostgresHarness]:
    harness = PostgresHarness(shared_server(), clock)
    yield harness
    harness.close()


class TestPostgresStore(StoreContract):
    pass


# --- the suite notices what a store may get wrong


class CallersClockStore(PostgresStore):
    """Expiry is judged by the host that asks."""

    def lease(self, key: LeaseKey) -> Lease | None:
        return self._judged(super().lease(key))

    def _locked(self, db: Any, key: LeaseKey) -> Any:
        lease, now = super()._locked(db, key)
        return self._judged(lease), now

    def _judged(self, lease: Lease | None) -> Lease | None:
        here = self._server._clock.now()
        return lease and replace(lease, live=here < lease.expires_at)


class OwnHolderStore(PostgresStore):
    """Whoever has the lease may have it again, whichever run asks."""

    def acquire(self, *args: Any, **kwargs: Any) -> Any:
        self._asking = args[2]
        return super().acquire(*args, **kwargs)

    def _locked(self, db: Any, key: LeaseKey) -> Any:
        lease, now = super()._locked(db, key)
        if lease is not None and lease.holder == self._asking:
            other = lease.holder._replace(token="other")
            lease = replace(lease, live=False, holder=other)
        return lease, now


FENCE = "AND generation = %(generation)s AND run = %(run)s"
SEEDED: dict[str, tuple[type[PostgresStore], dict[str, tuple[str, str]], str]] = {
    "generation reset on release": (
        PostgresStore,
        {"release": ("SET released", "SET generation = 0, released")},
        "test_the_generation_is_kept_by_a_release",
    ),
    "renew without generation check": (
        PostgresStore,
        {"renew": ("AND l.generation = %(generation)s AND l.run = %(run)s", "")},
        "test_a_renewal_after_a_takeover_is_fenced_out",
    ),
    "checkpoint accepted after takeover": (
        PostgresStore,
        {"advance": (FENCE, "")},
        "test_a_checkpoint_after_a_takeover_is_fenced_out",
    ),
    "release by an old holder": (
        PostgresStore,
        {"release": (FENCE, "")},
        "test_a_release_by_an_old_holder_does_not_end_a_newer_grant",
    ),
    "two acquires granted": (
        PostgresStore,
        {"first_grant": ("DO NOTHING", "DO UPDATE SET run = excluded.run")},
        "test_one_of_many_who_ask_at_once_is_granted",
    ),
    "a late renewal revives a released lease": (
        PostgresStore,
        {"renew": (" AND NOT l.released", "")},
        "test_a_late_renewal_does_not_revive_a_released_lease",
    ),
    "a late checkpoint moves the cursor back": (
        PostgresStore,
        {"advance": (" AND seq < %(seq)s", "")},
        "test_a_late_checkpoint_does_not_move_the_cursor_back",
    ),
    "an overlap noted after the last decision is lost": (
        PostgresStore,
        {"release": ('OR "overlaps" <= %(seen)s', "OR true")},
        "test_an_overlap_noted_after_the_last_decision_is_not_lost",
    ),
    "expiry from the caller's clock": (
        CallersClockStore,
        {},
        "test_a_stepped_wall_clock_ends_no_lease_and_prolongs_none",
    ),
    "a late acquire fences out its own holder": (
        OwnHolderStore,
        {},
        "test_a_late_acquire_does_not_fence_out_its_own_holder",
    ),
}


@pytest.mark.parametrize("bug", SEEDED)
def test_the_contract_notices_a_seeded_bug(harness, bug: str) -> None:
    harness.store_class, harness.mutations, name = SEEDED[bug]
    steps = {"step": 86_400.0} if "stepped" in name else {}
    with pytest.raises((AssertionError, ReconcileError, pytest.fail.Exception)):
        getattr(StoreContract(), name)(harness, **steps)


# --- what it says of itself


@pytest.mark.parametrize(
    ("fsync", "commit", "durable", "says"),
    [
        ("on", "on", True, []),
        ("on", "local", True, []),
        ("on", "off", False, ["answers before a write is on a disk"]),
        ("off", "on", False, ["never makes sure that a write is on its disk"]),
        ("off", "off", False, ["never makes sure", "answers before a write"]),
    ],
)
def test_what_a_server_keeps_on_its_disk_is_told(
    harness, fsync: str, commit: str, durable: bool, says: list[str]
) -> None:
    store = harness.open()
    # No session may set fsync, so the store is asked as if the server had said so.
    facts, setting = store._sql["facts"], "current_setting('fsync')"
    assert setting in facts
    store._sql["facts"] = facts.replace(setting, f"'{fsync}'")
    store._server._link.execute(f"SET synchronous_commit = {commit}".encode())
    told = store.facts()
    assert told.durable is durable
    assert len(told.warnings) == len(says)
    for words, warning in zip(says, told.warnings, strict=True):
        assert words in warning
        assert told.location in warning


# --- transactions


class TestLimitsOfPostgresStore:
    """No wait is without end, on either side, and nothing is left in a session."""

    def test_a_row_that_somebody_keeps_makes_writes_busy_and_hinders_no_read(self, harness) -> None:
        store = harness.open(patience=0.3)
        lease = grant(store, "r1")
        with psycopg.connect(harness.server.base) as stuck:
            stuck.execute(f"SELECT 1 FROM {harness.schema}.lease FOR UPDATE".encode())
            for write in (
                lambda: store.renew(lease.fence, 1),
                lambda: store.commit(lease.fence, 1, [cursor_at(1)]),
                lambda: grant(store, "r2", B, replaces="r1"),
            ):
                with pytest.raises(StoreBusy, match="locked"):
                    write()
            assert store.lease(KEY) == lease
        assert store.renew(lease.fence, 1).live

    def test_one_that_stops_inside_a_transaction_is_undone_by_the_server(self, harness) -> None:
        stopped, other = harness.open(patience=0.3), harness.open()
        lease = grant(other, "r1")
        inside, go_on = Event(), Event()

        def work(db: Any) -> None:
            db.run(Ask(f"UPDATE {harness.schema}.lease SET generation = 0", {}))
            inside.set()
            go_on.wait(PATIENCE)

        def stop() -> None:
            with pytest.raises(ReconcileError):
                stopped._server.write(work, again=False)

        thread = Thread(target=stop)
        thread.start()
        assert inside.wait(PATIENCE)
        assert other.renew(lease.fence, 1).fence == lease.fence
        go_on.set()
        thread.join()
        assert stopped.lease(KEY).fence == lease.fence

    def test_a_server_that_does_not_answer_is_not_waited_for(self, harness) -> None:
        store = harness.open(patience=0.3, clock=SystemClock())
        with pytest.raises(StoreUnreachable, match="did not answer in time"):
            # More than the server is told to allow, and not interrupted by it.
            store._server.read(
                Ask("SELECT set_config('statement_timeout', '0', true)", {}),
                Ask("SELECT pg_sleep(30)", {}),
            )
        assert store.lease(KEY) is None

    def test_a_transaction_leaves_nothing_in_its_session(self, harness) -> None:
        store = harness.open()
        shown = "SELECT name, setting FROM pg_settings WHERE name LIKE '%timeout'"
        link = store._server._link
        before = link.execute(shown).fetchall()
        lease = grant(store, "r1")
        inside = store._server.write(
            lambda db: db.run(
                Ask("SELECT current_setting('idle_in_transaction_session_timeout')", {})
            )
        )
        assert inside[0].rows == [("4s",)]
        store.commit(lease.fence, 1, [cursor_at(1)])
        store.take("api", RATE)
        assert store._server._link is link
        assert link.execute(shown).fetchall() == before
        assert link.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)

    def test_limits_of_a_role_that_nothing_could_keep_to_are_not_ours(self, harness) -> None:
        with short_lived_role(harness.server) as role:
            url = harness.server.url(harness.schema, user=role)
            store = PostgresStore(read_address(url), clock=SystemClock(), patience=PATIENCE)
            everything(store)
            store.close()

    def test_a_role_whose_transactions_end_before_they_begin_is_a_wrong_one(
        self, harness, monkeypatch
    ) -> None:
        store = harness.open()
        monkeypatch.setattr(Link, "lift", "SELECT pg_sleep(1);\n")
        with short_lived_role(harness.server) as role:
            url = harness.server.url(harness.schema, user=role)
            with pytest.raises(ConfigError, match="transaction_timeout") as refused:
                PostgresStore(read_address(url), clock=SystemClock(), patience=PATIENCE)
            assert "ALTER ROLE … RESET transaction_timeout" in refused.value.hint
        assert store.facts().id

    def test_an_interrupt_inside_a_transaction_leaves_none_open(self, harness) -> None:
        store = harness.open()
        lease = grant(store, "r1")

        def interrupted(db: Any) -> None:
            db.run(Ask(f"UPDATE {harness.schema}.lease SET generation = 0", {}))
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            store._server.write(interrupted)
        assert store.renew(lease.fence, 1).fence == lease.fence

    def test_two_batches_that_lock_each_other_both_land(self, harness) -> None:
        first, second, keys = harness.open(), harness.open(), ["a", "b"]
        first.note([Put(Kind.PLAN, JOB, key, {}) for key in keys])
        inside, go_on = Event(), Event()
        update = f"UPDATE {harness.schema}.record SET version = 7 WHERE key = %(key)s"

        def slow(db: Any) -> None:
            db.run(Ask(update, {"key": "a"}))
            inside.set()
            go_on.wait(PATIENCE)
            db.run(Ask(update, {"key": "b"}))

        def waits() -> bool:
            text = "SELECT wait_event_type FROM pg_stat_activity WHERE pid = %s"
            pid = second._server._link.info.backend_pid
            return harness.server.ask(text, pid) == "Lock"

        batch = [Put(Kind.PLAN, JOB, key, {}) for key in reversed(keys)]
        threads = [
            Thread(target=first._server.write, args=(slow,)),
            Thread(target=second.note, args=(batch,)),
        ]
        threads[0].start()
        assert inside.wait(PATIENCE)
        threads[1].start()
        eventually(waits, "the second waits for the first")
        go_on.set()
        for thread in threads:
            thread.join()
        versions = {first.get(Kind.PLAN, JOB, key).version for key in keys}
        assert versions in ({7}, {8})


# --- tables


class TestTablesOfPostgresStore:
    """Who makes them, who may use them, and what else may stand there."""

    def test_many_may_come_first_at_once(self, harness) -> None:
        ids: list[str] = []
        threads = [Thread(target=lambda: ids.append(harness.open().facts().id)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(ids) == 8
        assert len(set(ids)) == 1

    def test_a_newer_schema_is_refused(self, harness) -> None:
        harness.open()
        meta = f"UPDATE {harness.schema}.meta SET value = '2' WHERE name = 'schema_version'"
        harness.server.do(meta)
        with pytest.raises(StoreUnusable, match="schema version 2; this program knows 1"):
            harness.open()

    @pytest.mark.parametrize("columns", ["name text, value text", "id int"])
    def test_tables_of_somebody_else_are_refused(self, harness, columns: str) -> None:
        schema = harness.schema
        harness.server.do(f"CREATE SCHEMA {schema}", f"CREATE TABLE {schema}.meta ({columns})")
        with pytest.raises(StoreUnusable, match="not reconcile's"):
            harness.open()

    @pytest.mark.parametrize("schema", ['Odd "name" 50%', "5%(job)s %(", "ż" * 20, "ops's"])
    def test_any_name_may_be_a_schemas(self, harness, schema: str) -> None:
        from urllib.parse import quote

        url = harness.server.url() + "&schema=" + quote(schema)
        store = PostgresStore(read_address(url), clock=harness.clock, patience=PATIENCE)
        try:
            lease = grant(store, "r1")
            assert store.commit(lease.fence, 1, [cursor_at(1), Append(Kind.EVENT, JOB, "x", {})])
            assert store.scan(Kind.EVENT, JOB)
        finally:
            store.close()
            harness.server.drop(schema)

    def test_a_role_with_the_least_privileges_does_everything(self, harness) -> None:
        owner, role = harness.open(), fresh_name("worker")
        harness.server.do(f"CREATE ROLE {role} LOGIN")
        try:
            harness.server.do(least_privileges(harness.schema, role))
            url = harness.server.url(harness.schema, user=role)
            store = PostgresStore(read_address(url), clock=harness.clock, patience=PATIENCE)
            everything(store)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                store._server._link.execute(f"DELETE FROM {harness.schema}.lease".encode())
            store.close()
        finally:
            harness.server.do(f"DROP OWNED BY {role}", f"DROP ROLE {role}")
        assert owner.lease(KEY) is not None

    def test_tables_dropped_in_mid_run_are_missed_with_what_to_do(self, harness) -> None:
        store = harness.open()
        lease = grant(store, "r1")
        harness.server.drop(harness.schema)
        for ask in (
            lambda: store.renew(lease.fence, 1),
            lambda: store.commit(lease.fence, 1, [cursor_at(1)]),
            lambda: store.get(Kind.INTERVAL, JOB, TONIGHT),
            lambda: store.facts() and grant(store, "r2", B),
        ):
            with pytest.raises(StoreUnreachable, match="are gone") as refused:
                ask()
            assert "next run makes new ones" in refused.value.hint

    def test_other_tables_in_their_place_take_nothing(self, harness) -> None:
        store = harness.open()
        harness.server.drop(harness.schema)
        harness.open()
        for ask in (lambda: grant(store, "r1"), lambda: store.note([cursor_at(1)])):
            with pytest.raises(StoreUnreachable, match="wiped or replaced"):
                ask()
        assert store.get(Kind.INTERVAL, JOB, TONIGHT) is None

    @pytest.mark.parametrize(
        ("change", "ask"),
        [
            ("lease SET holder = '[1]'", lambda store: store.lease(KEY)),
            ("lease SET previous = '{}'", lambda store: grant(store, "r1")),
            ("record SET value = '3'", lambda store: store.get(Kind.INTERVAL, JOB, TONIGHT)),
            ("lease SET expires_at = 'infinity'", lambda store: store.lease(KEY)),
        ],
    )
    def test_what_nobody_wrote_is_called_damage(self, harness, change: str, ask: Any) -> None:
        store = harness.open()
        store.commit(grant(store, "r1").fence, 1, [cursor_at(1)])
        harness.server.do(f"UPDATE {harness.schema}.{change}")
        with pytest.raises(StoreUnusable, match="damaged"):
            ask(store)


@contextmanager
def short_lived_role(server: Server) -> Iterator[str]:
    """A role whose own limits are milliseconds; but for that of a session between two questions,
    which a busy machine may well take longer to ask, and which ends a session, not a question."""
    role = fresh_name("hasty")
    limits = ("transaction", "statement", "idle_in_transaction_session", "lock")
    server.do(f"CREATE ROLE {role} LOGIN SUPERUSER")
    server.do(*(f"ALTER ROLE {role} SET {limit}_timeout = 5" for limit in limits))
    server.do(f"ALTER ROLE {role} SET transaction_timeout = 2")
    try:
        yield role
    finally:
        server.do(f"REASSIGN OWNED BY {role} TO CURRENT_USER", f"DROP ROLE {role}")


def everything(store: PostgresStore) -> None:
    """Each method once."""
    assert store.facts().id
    lease = grant(store, "r1")
    with pytest.raises(LeaseBusy):
        grant(store, "r2", B, interval="other", overlap=True)
    store.renew(lease.fence, 1)
    writes = [cursor_at(1), Append(Kind.EVENT, JOB, TONIGHT, {}), Put(Kind.PLAN, JOB, "p", {})]
    assert store.commit(lease.fence, 1, writes)
    store.note([Put(Kind.JOB, JOB, "", {}, expect=ABSENT)])
    with pytest.raises(WriteConflict):
        store.note([Put(Kind.JOB, JOB, "", {}, expect=ABSENT)])
    assert store.ask_stop(KEY, lease.fence.generation, {})
    assert store.scan(Kind.EVENT, JOB)
    assert store.get(Kind.PLAN, JOB, "p") is not None
    assert store.take("api", RATE) == 0
    store.note([Delete(Kind.PLAN, JOB, "p")])
    store.release(lease.fence, 2, None)


class TestSpeedOfPostgresStore:
    """Reads seek by key, so their cost does not grow with the store."""

    @pytest.mark.parametrize(
        ("names", "bounds"),
        [
            (("lease",), "(job = 'x'::text) AND (shard = 1)"),
            (("get",), "(kind = 'x'::text) AND (job = 'x'::text) AND (key = 'x'::text)"),
            (("scan", "scan_below", "oldest_first"), "(key >= 'x'::text) AND (key < 'x'::text)"),
            (("scan", "scan_after", "newest_first"), "(key > 'x'::text)"),
            (("scan", "scan_below", "scan_tag", "oldest_first"), "(tag = 'x'::text)"),
        ],
    )
    def test_no_read_walks_through_a_table(self, harness, names: Any, bounds: str) -> None:
        store = harness.open()
        values = dict.fromkeys(("job", "key", "kind", "low", "high", "tag"), "x")
        text = "EXPLAIN " + "".join(store._sql[name] for name in names)
        explain = Ask(text, {**values, "shard": 1, "limit": 1})
        off = Ask("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off", {})

        def work(db: Any) -> list[str]:
            db.run(off)
            return [row[0] for row in db.run(explain)[0].rows]

        plan = [line.replace(' COLLATE "C"', "") for line in store._server.write(work)]
        assert any("Index Cond" in line and bounds in line for line in plan), plan
        assert not any("Sort" in line or "Filter" in line for line in plan), plan
