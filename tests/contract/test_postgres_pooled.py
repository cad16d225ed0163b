"""The Postgres store keeps the contract behind PgBouncer in transaction mode, where each
transaction may go to another session, with SCRAM and TLS on the way.

The suite asks there for leases and batches; `RECONCILE_TEST_LONG=1` for the whole contract.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import psycopg
import pytest
from support.pgbouncer import Bouncer, own_bouncer, shared_bouncer
from support.postgres_server import fresh_name, shared_server

from reconcile.cli.environment import SystemClock
from reconcile.core.errors import AccessDenied, ConfigError
from reconcile.core.model import Kind
from reconcile.stores.postgres import PostgresStore
from reconcile.stores.postgres_address import read_address
from reconcile.stores.postgres_rows import Ask
from reconcile.stores.testing import (
    BatchContract,
    CrowdContract,
    GrantContract,
    KeepContract,
    StoreContract,
)
from reconcile.stores.testing_support import JOB, cursor_at, grant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconcile.core.model import JsonObject, LeaseKey
    from reconcile.stores.testing import MovedClock

CLOCK = """
DELETE FROM {role}.moment;
INSERT INTO {role}.moment VALUES ('{now}');
"""


class PooledHarness:
    """A schema of its own; the clock is the role's, because sessions are anybody's."""

    def __init__(self, bouncer: Bouncer, clock: MovedClock) -> None:
        self._bouncer, self._clock = bouncer, clock
        self._server = shared_server()
        self.schema = fresh_name("pooled")
        self.step_wall_clock = clock.step
        self._server.do(CLOCK.format(role=bouncer.role, now=clock.now().isoformat()))
        self._opened: list[PostgresStore] = []

    def open(self) -> PostgresStore:
        address = read_address(self._bouncer.url(self.schema))
        store = PostgresStore(address, clock=self._clock, patience=10)
        self._opened.append(store)
        return store

    def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)
        moment = f"UPDATE {self._bouncer.role}.moment SET now = now"
        self._server.do(f"{moment} + interval '{seconds} seconds'")

    def peek_generation(self, key: LeaseKey) -> int | None:
        text = f"SELECT generation FROM {self.schema}.lease WHERE job = %s AND shard = %s"
        return self._server.ask(text, key.job, key.shard)  # type: ignore[no-any-return]

    def peek_record(self, kind: Kind, job: str, key: str) -> JsonObject | None:
        text = f"SELECT value::text FROM {self.schema}.record WHERE kind = %s"
        found = self._server.ask(f"{text} AND job = %s AND key = %s", str(kind), job, key)
        return None if found is None else json.loads(found)

    def close(self) -> None:
        self._server.do(f"DELETE FROM {self._bouncer.role}.moment")
        for store in self._opened:
            store.close()
        self._server.drop(self.schema)


@pytest.fixture
def harness(clock) -> Iterator[PooledHarness]:
    harness = PooledHarness(shared_bouncer(), clock)
    yield harness
    harness.close()


class LeasesAndBatches(GrantContract, KeepContract, CrowdContract, BatchContract):
    """Whatever is written under a lease."""


Asked: type = StoreContract if os.environ.get("RECONCILE_TEST_LONG") else LeasesAndBatches


class TestPooledPostgresStore(Asked):
    pass


def test_a_connection_is_served_by_several_sessions(harness) -> None:
    stores = [harness.open() for _ in range(3)]
    grant(stores[0], "r1")
    sessions = set()
    pid = Ask("SELECT pg_backend_pid()", {})

    def hold(db) -> None:
        sessions.add(db.run(pid)[0].rows[0][0])
        sessions.add(stores[0]._server.read(pid)[0].rows[0][0])
        stores[0].get(Kind.JOB, JOB, "")

    stores[1]._server.write(hold)
    assert len(sessions) == 2


def test_a_roles_own_limits_are_neither_kept_to_nor_changed_for_others(clock) -> None:
    bouncer, limits = own_bouncer(), ("transaction", "statement", "idle_in_transaction_session")
    set_limit = f"ALTER ROLE {bouncer.role} SET {{}}_timeout = 5"
    shared_server().do(*map(set_limit.format, limits))
    address = read_address(bouncer.url(fresh_name("pooled")))
    store = PostgresStore(address, clock=clock, patience=10)
    try:
        assert store.commit(grant(store, "r1").fence, 1, [cursor_at(1)])
        with psycopg.connect(address.conninfo, autocommit=True) as other:
            shown = [other.execute(f"SHOW {limit}_timeout".encode()).fetchone() for limit in limits]
        assert shown == [("5ms",)] * 3
    finally:
        store.close()
        bouncer.stop()
        shared_server().drop(address.schema)


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"password": "wrong-s3cr3t"}, AccessDenied),
        ({"host": "127.0.0.1"}, ConfigError),  # which its certificate does not name
    ],
)
def test_who_is_not_who_it_says_is_refused(harness, how, error) -> None:
    url = shared_bouncer().url(harness.schema, **how)
    with pytest.raises(error) as refused:
        PostgresStore(read_address(url), clock=SystemClock(), patience=10)
    assert "s3cr3t" not in str(refused.value) + refused.value.hint
