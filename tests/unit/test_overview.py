"""What `status` finds, and how little it reads for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.fakes import FakeClock, outside

from reconcile.core.config import Config, EntitlementsConfig, Job, SourceConfig, StoreConfig
from reconcile.core.config import TargetConfig as Target
from reconcile.core.model import Interval, Kind, Put, Record, State
from reconcile.core.operations.application import Application
from reconcile.core.operations.overview import status
from reconcile.core.records import IntervalRecord, JobRecord, to_text
from reconcile.core.status import JobStatus
from reconcile.stores.memory import MemoryServer, MemoryStore

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
NAME = "entitlements"
STEP = timedelta(minutes=5)
LONG = 2600


class CountingStore(MemoryStore):
    """Counts the records that it gives out."""

    read = 0

    def scan(self, kind: Kind, job: str, **asked: Any) -> Sequence[Record]:
        found = super().scan(kind, job, **asked)
        type(self).read += len(found)
        return found


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer(FakeClock(NOW), "store-1")


def job() -> Job:
    work = EntitlementsConfig(
        SourceConfig("csv", "exports/{date}.csv"), Target("sql", "sqlite:///app.db", NAME)
    )
    return Job(NAME, Path("reconcile.toml"), "*/5 * * * *", work)


def filled(server: MemoryServer, states: Sequence[State]) -> None:
    """A store with an interval for each state, the newest of which is of now."""
    horizon = NOW - len(states) * STEP
    record = JobRecord(horizon, [[to_text(horizon), "*/5 * * * *", "UTC"]], settled_at=NOW - STEP)
    writes: list[Put] = [Put(Kind.JOB, NAME, "", record.to_json())]
    for number, state in enumerate(reversed(states)):
        at = NOW - number * STEP
        one = IntervalRecord(f"{at:%Y-%m-%dT%H:%MZ}", at, state, runs=1, seconds=40.0)
        if state is State.COMPLETED:
            one = replace(one, completed_at=at + STEP)
        key = Interval(NAME, at, one.id).key
        writes.append(Put(Kind.INTERVAL, NAME, key, one.to_json(), tag=one.tag))
    server.connect().note(writes)


def seen(server: MemoryServer, **choice: Any) -> JobStatus:
    config = Config(Path("reconcile.toml"), StoreConfig("memory:"), {NAME: job()})
    CountingStore.read = 0
    runtime: Any = SimpleNamespace(clock=FakeClock(NOW))
    app = Application(config, runtime, lambda: CountingStore(server), None)  # type: ignore[arg-type]
    return status(app, **choice).jobs[0]


@pytest.mark.parametrize("state", [State.COMPLETED, State.SKIPPED, State.FAILED])
def test_however_long_the_history_only_the_newest_part_of_it_is_read(
    server: MemoryServer, state: State
) -> None:
    filled(server, [state] * LONG)
    seen(server, limit=14)
    most = 150 if state is State.COMPLETED else 2500
    assert CountingStore.read < most


def test_how_many_older_ones_there_are_is_counted_up_to_a_hundred(server: MemoryServer) -> None:
    filled(server, [State.COMPLETED] * 120)
    assert seen(server, job=NAME, limit=100).older == 20
    assert seen(server, job=NAME, limit=8).older == 100
    assert seen(server, job=NAME, since=50 * STEP, limit=8).older == 42


def test_all_of_the_time_asked_for_are_shown(server: MemoryServer) -> None:
    filled(server, [State.COMPLETED] * 1500)
    shown = seen(server, job=NAME, since=1400 * STEP, limit=None)
    assert (len(shown.recent), shown.older) == (1400, 0)


@pytest.mark.parametrize("state", ["skipped", "overdue"])
def test_a_state_is_found_however_far_back(server: MemoryServer, state: str) -> None:
    found = State.SKIPPED if state == "skipped" else State.UNFINISHED
    filled(server, [found, found, found, *([State.COMPLETED] * LONG)])
    shown = seen(server, job=NAME, state=state, limit=2)
    assert [view.shows for view in shown.recent] == [state, state]
    assert shown.recent[0].record.scheduled_at > shown.recent[1].record.scheduled_at
    assert shown.older == 1
    assert (CountingStore.read > LONG) == (state == "skipped")


def test_an_interval_within_a_span_is_answered_by_the_span(server: MemoryServer) -> None:
    filled(server, [State.COMPLETED] * 3)
    first = NOW - 12 * STEP
    span = IntervalRecord(
        f"{first:%Y-%m-%dT%H:%MZ}", first, State.SKIPPED, span=9, until_at=NOW - 4 * STEP
    )
    key = Interval(NAME, first, span.id).key
    server.connect().note([Put(Kind.INTERVAL, NAME, key, span.to_json())])
    config = Config(Path("reconcile.toml"), StoreConfig("memory:"), {NAME: job()})
    runtime = outside("a", FakeClock(NOW)).runtime
    app = Application(config, runtime, server.connect, None)  # type: ignore[arg-type]
    asked = f"{NOW - 6 * STEP:%Y-%m-%dT%H:%MZ}"
    found = status(app, NAME, asked).interval
    assert found is not None
    assert (found.view.record.span, found.view.shows) == (9, "skipped")
