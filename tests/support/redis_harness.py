"""The Redis store as its tests see it: scripts whose clock stands still until it is moved.

The text of the scripts is the program's own, but for one thing: where they ask the server for
its TIME, they get the instant of a clock that tests move.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import redis

from reconcile.stores.encoding import to_micros
from reconcile.stores.redis import RedisStore
from reconcile.stores.redis_connection import RedisConnection
from reconcile.stores.redis_probe import Probe
from reconcile.stores.redis_rows import job_keys, lease_keys
from reconcile.stores.redis_scripts import script, texts
from reconcile.stores.redis_url import parse

if TYPE_CHECKING:
    from reconcile.core.model import JsonObject, Kind, LeaseKey
    from reconcile.stores.redis_scripts import Script
    from reconcile.stores.testing import MovedClock

TIME = "redis.call('TIME')"
TEXTS = texts()
Change = Callable[[str, str], str]
"""From a script's name and text to another text."""


class RedisHarness:
    """One fresh store on a server. `change` rewrites the text of each script."""

    def __init__(self, url: str, clock: MovedClock, change: Change = lambda _, text: text) -> None:
        self.address = parse(url)
        self.clock = clock
        self._change = change
        self._wall_at_start = clock.now()
        self._boot_at_start = clock.boot()
        self.scripts: dict[str, Script] = {}
        self.follow_the_clock()
        self._opened: list[RedisStore] = []
        self.raw = raw_client(self.address)

    def open(self, new_id: str = "5t0re", patience: float = 60) -> RedisStore:
        connection = RedisConnection(self.address, patience, self.clock)
        store = RedisStore(connection, self.scripts, Probe(False, ()), new_id=lambda: new_id)
        self._opened.append(store)
        return store

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.follow_the_clock()

    def step_wall_clock(self, seconds: float) -> None:
        self.clock.step(seconds)
        self.follow_the_clock()

    def follow_the_clock(self) -> None:
        """The server's clock is moved by what passes, and by nobody's wall clock."""
        passed = self.clock.boot() - self._boot_at_start
        server = to_micros(self._wall_at_start) + round(passed * 1_000_000)
        callers = to_micros(self.clock.now())
        for name, text in TEXTS.items():
            changed = self._change(name, text).replace("CALLERS_TIME", literal(callers))
            self.scripts[name] = script(changed.replace(TIME, literal(server)))

    def close(self) -> None:
        for store in self._opened:
            store.close()
        for key in self.raw.scan_iter(f"{self.address.prefix}:*", count=1000):
            self.raw.delete(key)
        self.raw.close()

    def peek_generation(self, key: LeaseKey) -> int | None:
        found = self.raw.hget(lease_keys(self.address.prefix, key)[1], "generation")
        return None if found is None else int(found)

    def peek_record(self, kind: Kind, job: str, key: str) -> JsonObject | None:
        records = job_keys(self.address.prefix, job)[2]
        found = self.raw.hget(records, f"{kind}/{key}")
        if found is None:
            return None
        length, _, rest = found.split(b" ", 3)[3].partition(b":")
        return json.loads(rest[int(length) :])


def literal(micros: int) -> str:
    """An answer to TIME."""
    return f"{{'{micros // 1_000_000}', '{micros % 1_000_000}'}}"


def raw_client(address: Any) -> redis.Redis:
    """A look behind the store's back."""
    if address.socket:
        return redis.Redis(unix_socket_path=address.socket, db=address.database)
    host, port = address.nodes[0]
    return redis.Redis(
        host=host,
        port=port,
        db=address.database,
        username=address.user,
        password=address.password,
        ssl=address.tls,
        ssl_ca_certs=address.ca,
    )
