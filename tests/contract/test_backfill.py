"""A backfill in each kind of store, by the store's own clock, which is moved: three processes take
turns at it, and some are killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.backfills import MINUTE, Bed, minutes, most_in
from support.postgres_harness import PostgresHarness
from support.postgres_server import shared_server
from support.redis_harness import RedisHarness
from support.valkey import fresh_url, shared_url

from reconcile.stores.testing import MovedClock

HARNESSES: dict[str, Callable[[MovedClock], Any]] = {
    "postgres": lambda clock: PostgresHarness(shared_server(), clock),
    "valkey": lambda clock: RedisHarness(fresh_url(shared_url()), clock),
}


@pytest.fixture(params=HARNESSES)
def bed(request: pytest.FixtureRequest, clock: MovedClock) -> Iterator[Bed]:
    harness = HARNESSES[request.param](clock)
    yield Bed(harness)
    harness.close()


def test_a_hundred_intervals_at_ten_a_minute_by_three_processes(bed: Bed) -> None:
    bed.job = bed.job._replace(max_intervals=4)
    ids = minutes(0, 100)
    bed.ask(ids[0], ids[-1], "10/m")
    for number in range(1, 300):
        if bed.is_over():
            break
        bed.knock(kill_at=(0, 0, 9 + number % 11)[number % 3])
        bed.clock.takes(number % 5)
    assert bed.is_over()
    assert most_in(MINUTE, [one.at for one in bed.attempts]) == 10
    assert {record.state for record in bed.records().values()} == {"completed"}
    often = Counter(one.interval for one in bed.attempts)
    assert sorted(often) == ids
    assert sum(often.values()) - 100 <= len(bed.dead)
    assert bed.applied == ids
    assert len(bed.dead) > 5


def test_it_is_asked_for_once_changed_and_cancelled(bed: Bed) -> None:
    bed.job = bed.job._replace(max_intervals=2)
    ids = minutes(0, 150)
    assert bed.ask(ids[0], ids[-1]).view.left == 150
    bed.knock()
    assert bed.ask(ids[0], ids[-1]).view.backfill.record.number == 1
    bed.change("3/h")
    bed.knock(kill_at=9)
    bed.cancel()
    assert bed.is_over()
    found = bed.records()
    assert sum(record.span for record in found.values()) == 150
    assert sum(record.state == "skipped" for record in found.values()) <= 2
    assert bed.rerun(ids[100]).outcome == "completed"
    assert sum(record.span for record in bed.records().values()) == 150
