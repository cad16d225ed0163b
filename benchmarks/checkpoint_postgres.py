"""What a durable checkpoint costs, beside one bare conditional update and commit.

    python benchmarks/checkpoint_postgres.py [ROUNDS] [URL]

Both by the same client library, on the same server (the one at URL, or one of its own in a
temporary folder, with fsync) and in the same table layout, by turns, so that a busy machine
slows both. The bare one is what a script would do: begin, ``UPDATE … WHERE generation = …``,
commit. The checkpoint is what a night writes after each range: the records of interval (over
the version expected), range and run, under the fence.
Exit status 1 when the ratio of the medians is above the budget.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from reconcile.core.model import Holder, Kind, LeaseKey, Put, RunId
from reconcile.stores.postgres import PostgresStore
from reconcile.stores.postgres_address import read_address

if TYPE_CHECKING:
    from threading import Event

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

BUDGET = 1.3
TABLE = "CREATE TABLE bare (job text PRIMARY KEY, generation bigint, at timestamptz, cursor json)"
BARE = "UPDATE {} SET cursor = %s, at = clock_timestamp() WHERE job = %s AND generation = %s"
SCHEMA = "reconcile_benchmark"
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


class Clock:
    """The host's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def boot(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wait(self, seconds: float, wake: Event) -> bool:
        return wake.wait(seconds)


class Checkpoints:
    """The store, as a night uses it."""

    def __init__(self, url: str) -> None:
        address = read_address(f"{url}{'&' if '?' in url else '?'}schema={SCHEMA}")
        self._store = PostgresStore(address, clock=Clock(), patience=5.0)
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
    """One conditional update, committed."""

    def __init__(self, url: str) -> None:
        self._db = psycopg.connect(url)
        self._db.execute(f"SET search_path = {SCHEMA}")
        self._db.execute(TABLE)
        self._db.execute("INSERT INTO bare VALUES ('entitlements', 1, now(), '{}')")
        self._db.commit()
        self._text = BARE.format(f"{SCHEMA}.bare")
        self._n = 0

    def once(self) -> None:
        self._n += 1
        cursor = json.dumps({**RECORD, "cursor": {"phase": "applying", "range": self._n}})
        assert self._db.execute(self._text, (cursor, "entitlements", 1)).rowcount == 1
        self._db.commit()


def seconds(work: Bare | Checkpoints) -> float:
    begun = time.perf_counter()
    work.once()
    return time.perf_counter() - begun


def measure(url: str, rounds: int) -> int:
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
        checkpoints, bare = Checkpoints(url), Bare(url)
        for work in (checkpoints, bare) * 50:
            work.once()
        pairs = [(seconds(bare), seconds(checkpoints)) for _ in range(rounds)]
        del checkpoints, bare
        db.execute(f"DROP SCHEMA {SCHEMA} CASCADE")
    one, ours = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = ours / one
    print(f"bare update, commit  {one * 1e6:6.0f} us  (median of {rounds})")
    print(f"durable checkpoint   {ours * 1e6:6.0f} us")
    print(f"ratio                {ratio:6.2f}     (budget {BUDGET})")
    return int(ratio > BUDGET)


def main(rounds: int, url: str | None) -> int:
    if url is None:
        from support.postgres_server import own_server

        url = own_server().base
    return measure(url, rounds)


if __name__ == "__main__":
    argv = sys.argv[1:]
    sys.exit(main(int(argv[0]) if argv else 1000, argv[1] if len(argv) > 1 else None))
