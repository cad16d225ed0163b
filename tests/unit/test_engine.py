"""What a run is told when its lease ends while the target is being worked on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from support.fakes import FakeClock, Outside, outside

from reconcile.core.assignment import Assignment
from reconcile.core.engine import Engine
from reconcile.core.errors import FencedOut, LeaseLapsed, StoreUnreachable, TargetUnusable
from reconcile.core.leasing import LeaseKeeper, Terms
from reconcile.core.model import ABSENT, FenceRow, Interval, LeaseKey, Outcome, RunId, Trigger
from reconcile.core.records import IntervalRecord
from reconcile.stores.memory import MemoryServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reconcile.core.events import IntervalReport
    from reconcile.core.model import Fence

KEY = LeaseKey("entitlements")
AT = datetime(2026, 11, 30, tzinfo=UTC)
TONIGHT = Interval(KEY.job, AT, "2026-11-30")
TERMS = Terms(ttl=timedelta(seconds=60), progress_deadline=timedelta(seconds=600))


class Kind:
    kind = "entitlements"


@dataclass
class Target:
    """Work that gets as far as its target, where `happens` decides how it ends."""

    happens: Callable[[], Exception]
    row: FenceRow | None = None
    fenced: bool = True

    def raise_fence(self, fence: Fence, store_id: str) -> FenceRow:
        raise self.happens()

    def floor(self, key: LeaseKey) -> FenceRow | None:
        if self.row is None:
            raise TargetUnusable("it cannot be looked at")
        return self.row

    def interrupt(self) -> None:
        pass

    def trust(self, until: float) -> None:
        pass


class Desk:
    """One process that has the lease, and a server shared with others."""

    def __init__(self, name: str, clock: FakeClock, server: MemoryServer) -> None:
        self.out: Outside = outside(name, clock)
        self.store = server.connect()
        self.keeper = LeaseKeeper(self.store, server.connect, self.out.runtime, KEY, TERMS)

    def work(self, happens: Callable[[], Exception], row: FenceRow | None = None) -> IntervalReport:
        job: Any = type("Job", (), {"name": KEY.job, "max_attempts": 5, "work": Kind})
        record = IntervalRecord(id=TONIGHT.id, scheduled_at=AT)
        task = Assignment(job, TONIGHT, record, ABSENT, Trigger.SCHEDULE)
        work: Any = Target(happens, row)
        return Engine(self.store, "store-1", self.keeper, self.out.runtime, work, task).work()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def server(clock: FakeClock) -> MemoryServer:
    return MemoryServer(clock, "store-1")


@pytest.fixture
def desk(clock: FakeClock, server: MemoryServer) -> Iterator[Desk]:
    one = Desk("a", clock, server)
    one.keeper.acquire(TONIGHT.key, overlap=False)
    one.keeper._renewal._wake.set()  # its renewal sleeps with the process
    yield one
    one.keeper.abandon()


@pytest.fixture
def take_over(clock: FakeClock, server: MemoryServer) -> Iterator[Callable[[], None]]:
    other = Desk("b", clock, server)

    def take() -> None:
        clock.advance(61)
        other.keeper.acquire(TONIGHT.key, overlap=False)

    yield take
    other.keeper.abandon()


def test_who_was_broken_off_because_another_took_over_is_told_that_and_by_whom(
    desk: Desk, take_over: Callable[[], None]
) -> None:
    def broken_off() -> Exception:
        take_over()
        return LeaseLapsed("broken off")

    report = desk.work(broken_off)
    assert report.outcome is Outcome.FENCED_OUT
    assert report.newer is not None
    assert report.newer.holder.token == "b"


def test_who_was_broken_off_while_the_lease_is_still_its_own_failed(
    desk: Desk, clock: FakeClock
) -> None:
    def too_late() -> Exception:
        clock.advance(61)
        return LeaseLapsed("the lease's time was over before it could be committed")

    report = desk.work(too_late)
    assert report.outcome is Outcome.FAILED
    assert report.error is not None
    assert "could be committed" in str(report.error)


def test_why_a_lease_ended_is_told_and_not_that_the_target_was_broken_off(desk: Desk) -> None:
    def hung() -> Exception:
        desk.keeper._trust.end(LeaseLapsed("no progress"))
        return LeaseLapsed("broken off")

    assert str(desk.work(hung).error) == "no progress"


def test_who_made_no_progress_and_was_taken_over_meanwhile_is_told_by_whom(
    desk: Desk, take_over: Callable[[], None]
) -> None:
    def stopped_for_long() -> Exception:
        take_over()
        desk.keeper._trust.end(LeaseLapsed("no progress for 660s"))
        return LeaseLapsed("broken off")

    report = desk.work(stopped_for_long)
    assert report.outcome is Outcome.FENCED_OUT
    assert report.newer is not None
    assert report.newer.holder.token == "b"


def test_a_store_that_is_away_is_told_and_not_that_the_target_was_broken_off(desk: Desk) -> None:
    def away() -> Exception:
        desk.keeper._trust.end(StoreUnreachable("the store is away"))
        return LeaseLapsed("broken off")

    with pytest.raises(StoreUnreachable):
        desk.work(away)


def test_a_target_that_refuses_is_asked_whose_fence_it_keeps(
    desk: Desk, take_over: Callable[[], None]
) -> None:
    def refused() -> Exception:
        return FencedOut("it names another grant")

    other = FenceRow("store-2", 99, RunId("theirs"))
    error = desk.work(refused, other).error
    assert error is not None
    assert "store-1" in str(error)
    assert "store-2" in str(error)
    assert "only one" in error.hint
    assert str(desk.work(refused).error) == "it names another grant", "what cannot be looked at"
    take_over()
    report = desk.work(refused, other)
    assert report.newer is not None
    assert report.newer.holder.token == "b"
