"""What a durable checkpoint in Redis or Valkey costs, beside one bare conditional write.

    python benchmarks/checkpoint_redis.py [ROUNDS] [URL]

Both by the same client library, on the same server (the one at URL, or one of its own in a
temporary folder, which writes its append-only file to the disk before it answers), by turns,
so that a busy machine slows both. The bare one is what a script would do: one Lua script
that compares the generation, then sets cursor and time. The checkpoint is what a night writes
after each range: the records of interval (over the version expected), range and run, under
the fence. Exit status 1 when the ratio of the medians is above the budget.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import redis

from reconcile.cli.environment import SystemClock
from reconcile.core.model import Holder, Kind, LeaseKey, Put, RunId
from reconcile.stores.redis import connector
from reconcile.stores.redis_url import RedisAddress, parse

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

BUDGET = 1.3
BARE = """
if redis.call('HGET', KEYS[1], 'generation') ~= ARGV[1] then return 0 end
local time = redis.call('TIME')
redis.call('HSET', KEYS[1], 'cursor', ARGV[2], 'at', time[1])
return 1
"""
NIGHT = "2026-11-30T02:30:00Z"
RECORD = {
    "id": "2026-11-30",
    "scheduled_at": NIGHT,
    "state": "unfinished",
    "trigger": "schedule",
    "runs": 1,
    "plan": "0f" * 16,
    "last_run_id": "1e" * 16,
    "started_at": NIGHT,
    "last_checkpoint_at": NIGHT,
    "ranges_total": 200,
    "accounts": 1_000_000,
}
SUM = "sha256-sum:5000:" + "3d" * 16


class Checkpoints:
    """The store, as a night uses it."""

    def __init__(self, address: RedisAddress) -> None:
        self._store = connector(
            address, patience=15.0, clock=SystemClock(), new_id=lambda: "benchmark"
        )()
        holder = Holder("web-2", "5f7c", "b001", "pid", 1, 1, "token")
        key, ttl = LeaseKey("entitlements"), timedelta(minutes=3)
        self._fence = self._store.acquire(key, RunId("r"), holder, ttl, interval=NIGHT).fence
        self._seq = 0

    def once(self) -> None:
        self._seq += 1
        n = self._seq
        number = {"number": n, "desired": SUM, "observed": SUM, "applied": SUM, "grant": 7}
        record = {**RECORD, "cursor": {"phase": "applying", "range": n}, "ranges_done": n}
        run = {"number": 1, "run_id": "r", "started_at": NIGHT, "last_range": n}
        writes = [
            Put(Kind.INTERVAL, "entitlements", NIGHT, record, expect=n - 1, tag="open"),
            Put(Kind.RANGE, "entitlements", f"plan/{n % 200:08d}", number),
            Put(Kind.RUN, "entitlements", f"{NIGHT}/000001", run, tag="open"),
        ]
        assert self._store.commit(self._fence, n, writes)


class Bare:
    """One conditional write."""

    def __init__(self, address: RedisAddress, client: redis.Redis) -> None:
        self._key = f"{address.prefix}:bare"
        client.hset(self._key, "generation", 1)
        self._script = client.register_script(BARE)
        self._n = 0

    def once(self) -> None:
        self._n += 1
        cursor = json.dumps({**RECORD, "cursor": {"phase": "applying", "range": self._n}})
        assert self._script(keys=[self._key], args=[1, cursor]) == 1


def seconds(work: Bare | Checkpoints) -> float:
    begun = time.perf_counter()
    work.once()
    return time.perf_counter() - begun


def measure(address: RedisAddress, rounds: int) -> int:
    if address.socket:
        client = redis.Redis(unix_socket_path=address.socket, single_connection_client=True)
    else:
        host, port = address.nodes[0]
        client = redis.Redis(
            host=host,
            port=port,
            db=address.database,
            username=address.user,
            password=address.password,
            single_connection_client=True,
        )
    checkpoints, bare = Checkpoints(address), Bare(address, client)
    for work in (checkpoints, bare) * 50:
        work.once()
    pairs = [(seconds(bare), seconds(checkpoints)) for _ in range(rounds)]
    client.delete(*client.scan_iter(f"{address.prefix}:*"))
    one, ours = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = ours / one
    print(f"bare conditional script  {one * 1e6:6.0f} us  (median of {rounds})")
    print(f"durable checkpoint       {ours * 1e6:6.0f} us")
    print(f"ratio                    {ratio:6.2f}     (budget {BUDGET})")
    return int(ratio > BUDGET)


def main(rounds: int, url: str | None) -> int:
    from support.valkey import fresh_url, start, url_of

    if url is not None:
        return measure(parse(fresh_url(url)), rounds)
    with tempfile.TemporaryDirectory() as folder:
        server = start(Path(folder), tcp=True, appendfsync="always")
        try:
            return measure(parse(fresh_url(url_of(server))), rounds)
        finally:
            server.stop()


if __name__ == "__main__":
    argv = sys.argv[1:]
    sys.exit(main(int(argv[0]) if argv else 1000, argv[1] if len(argv) > 1 else None))
