"""What `status` costs when the history is long, beside an empty store of the same kind.

    python benchmarks/status.py [--store URL --empty URL] [--intervals N] [--events N] [ROUNDS]

Fills a store with 100,000 intervals of a job and 1,000,000 events on their trails, and lets
each command run there and in an empty store by turns, so that a busy machine slows both.
Prints the medians and their ratios. Exit status 1 when one is above the budget.

Without addresses the stores are SQLite files. `--store` and `--empty` name two stores on a
server that nobody uses: `--store` is filled, which takes minutes, and left filled.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from reconcile.cli.environment import real_environment
from reconcile.core.checksum import Checksum
from reconcile.core.model import ABSENT, Append, Interval, Kind, Put, State, Trigger, Write
from reconcile.core.ports import Store
from reconcile.core.records import IntervalRecord, JobRecord, RunRecord, run_key, to_text
from reconcile.core.toml_endpoints import database_url
from reconcile.stores.registry import opener

BUDGET = 2.0
STEP = timedelta(minutes=5)
BATCH = 100
FAILED = 2000
PATIENCE = 60.0
"""Seconds that a server may take for a batch while it is filled."""
JOB = "entitlements"
CONFIG = """\
[store]
url = "{url}"

[jobs.entitlements]
schedule = "0 {hour} * * *"
source = "exports/{{date}}.csv"
target = "app.db"
"""
COMMANDS = (
    ("status",),
    ("status", "--json"),
    ("status", JOB),
    ("status", JOB, "-n", "30"),
    ("run", JOB),
)


def last(now: datetime) -> datetime:
    """The newest scheduled instant: about half a day ago, so that nothing becomes due soon."""
    at = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=12)
    return at.astimezone(UTC)


def fill(store: Store, newest: datetime, intervals: int, events: int) -> None:
    """Intervals every five minutes up to the newest, each with a run and its share of events.
    The last ones failed, so that whoever looks for a completed one has far to go."""
    oldest = newest - (intervals - 1) * STEP
    schedules = [
        [to_text(oldest), "*/5 * * * *", "UTC"],
        [to_text(newest), f"0 {newest.hour} * * *", "UTC"],
    ]
    job = JobRecord(oldest, schedules, settled_at=newest, looked_at=datetime.now(UTC))
    store.note([Put(Kind.JOB, JOB, "", job.to_json(), ABSENT)])
    each, more = divmod(events, intervals)
    for first in range(0, intervals, BATCH):
        writes: list[Write] = []
        for number in range(first, min(first + BATCH, intervals)):
            failed = number >= intervals - FAILED
            writes += night(oldest + number * STEP, each + (number < more), failed=failed)
        store.note(writes)


def night(at: datetime, events: int, *, failed: bool) -> list[Write]:
    """One interval, completed or given up after five attempts."""
    name = to_text(at)[:16] + "Z"
    key = Interval(JOB, at, name).key
    record = IntervalRecord(
        id=name,
        scheduled_at=at,
        state=State.COMPLETED,
        trigger=Trigger.SCHEDULE,
        runs=1,
        seconds=40.0,
        plan="0" * 32,
        started_at=at,
        last_checkpoint_at=at,
        completed_at=at + timedelta(seconds=40),
        cursor={"phase": "applying", "plan": "0" * 32, "range": 69, "generation": 9},
        ranges_done=69,
        ranges_total=69,
        accounts=68_824,
        grant=511,
        revoke=97,
        update=1,
        checksum=Checksum(170_964, 7),
        base=170_000,
        source_rows=170_964,
    )
    if failed:
        failure = {"text": "the provider answered 503", "exit": "source", "at": to_text(at)}
        record = replace(
            record,
            state=State.FAILED,
            reason="attempts",
            completed_at=None,
            checksum=None,
            attempts=5,
            failure=failure,
        )
    holder = {"host": "db1", "pid": 4711, "user": "svc-rec", "token": "0" * 32}
    run = RunRecord(1, "0" * 32, Trigger.SCHEDULE, 9, holder, at)
    event = {"type": "checkpoint", "run": 1, "range": 17, "upper": "acct-17000"}
    return [
        Put(Kind.INTERVAL, JOB, key, record.to_json(), ABSENT),
        Put(Kind.RUN, JOB, run_key(key, 1), run.to_json()),
        *(Append(Kind.EVENT, JOB, key, event) for _ in range(events)),
    ]


def seconds(argv: list[str], folder: Path) -> float:
    begun = time.perf_counter()
    subprocess.run(argv, cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - begun


def main(given: argparse.Namespace) -> int:
    reconcile = str(Path(sys.executable).with_name("reconcile"))
    newest = last(datetime.now(UTC))
    worst = 0.0
    with tempfile.TemporaryDirectory() as name:
        folders = {}
        for which, url in (("empty", given.empty), ("full", given.store)):
            folder = folders[which] = Path(name) / which
            folder.mkdir()
            config = CONFIG.format(url=url, hour=newest.hour)
            (folder / "reconcile.toml").write_text(config)
            if which == "full":
                env = real_environment()
                address = database_url(url, folder)
                outside = {"clock": env.clock, "host": env.host, "entropy": env.entropy}
                store = opener(address, **outside, patience=PATIENCE)()
                fill(store, newest, given.intervals, given.events)
                store.close()
            seconds([reconcile, "run", JOB], folder)  # the job is known from here on
        for words in COMMANDS:
            argv = [reconcile, *words]
            for folder in folders.values():
                seconds(argv, folder)
            pairs = [
                (seconds(argv, folders["empty"]), seconds(argv, folders["full"]))
                for _ in range(given.rounds)
            ]
            empty, full = (statistics.median(times) for times in zip(*pairs, strict=True))
            ratio = full / empty
            worst = max(worst, ratio)
            shown = " ".join(words)
            print(f"{shown:24} {empty * 1000:7.1f} ms {full * 1000:7.1f} ms  ratio {ratio:.2f}")
    print(f"worst ratio {worst:.2f} (budget {BUDGET}; medians of {given.rounds})")
    return int(worst > BUDGET)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("rounds", nargs="?", type=int, default=9)
    parser.add_argument("--store", default="reconcile.db")
    parser.add_argument("--empty", default="reconcile.db")
    parser.add_argument("--intervals", type=int, default=100_000)
    parser.add_argument("--events", type=int, default=1_000_000)
    sys.exit(main(parser.parse_args()))
