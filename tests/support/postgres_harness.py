"""The Postgres store as its tests see it: in a schema of its own, by a clock that tests move."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from reconcile.stores.postgres import PostgresStore
from reconcile.stores.postgres_address import read_address

from .postgres_server import Server, fresh_name

if TYPE_CHECKING:
    from reconcile.core.model import JsonObject, Kind, LeaseKey
    from reconcile.stores.testing import MovedClock

PATIENCE = 5.0
CLOCK = """
CREATE SCHEMA {clock};
CREATE TABLE {clock}.moment (now timestamptz NOT NULL);
INSERT INTO {clock}.moment VALUES ('{now}');
CREATE FUNCTION {clock}.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql
  AS 'SELECT now FROM {clock}.moment';
"""


class PostgresHarness:
    """A schema of its own; on the sessions' search path a clock that stands before Postgres's."""

    store_class = PostgresStore

    def __init__(self, server: Server, clock: MovedClock) -> None:
        self.server, self.clock = server, clock
        self.step_wall_clock = clock.step
        self.schema, self._clock_schema = fresh_name("store"), fresh_name("clock")
        now = clock.now().isoformat()
        server.do(CLOCK.format(clock=self._clock_schema, now=now))
        path = f"-csearch_path={self._clock_schema},pg_catalog"
        self.url = server.url(self.schema, options=path)
        self.mutations: dict[str, tuple[str, str]] = {}
        self._opened: list[PostgresStore] = []

    def open(self, patience: float = PATIENCE, clock: Any = None) -> PostgresStore:
        address = read_address(self.url)
        store = self.store_class(address, clock=clock or self.clock, patience=patience)
        store._sql = dict(store._sql)
        for name, (old, new) in self.mutations.items():
            assert old in store._sql[name], (old, store._sql[name])
            store._sql[name] = store._sql[name].replace(old, new)
        self._opened.append(store)
        return store

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.server.do(
            f"UPDATE {self._clock_schema}.moment SET now = now + interval '{seconds} seconds'"
        )

    def peek_generation(self, key: LeaseKey) -> int | None:
        text = f"SELECT generation FROM {self.schema}.lease WHERE job = %s AND shard = %s"
        return self.server.ask(text, key.job, key.shard)

    def peek_record(self, kind: Kind, job: str, key: str) -> JsonObject | None:
        text = (
            f"SELECT value::text FROM {self.schema}.record"
            " WHERE kind = %s AND job = %s AND key = %s"
        )
        found = self.server.ask(text, str(kind), job, key)
        return None if found is None else json.loads(found)

    def close(self) -> None:
        for store in self._opened:
            store.close()
        self.server.drop(self.schema, self._clock_schema)
