"""A process whose request to the store does not come back is ended before its lease ends."""

from __future__ import annotations

import threading
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from support.fakes import Outside, eventually, outside

from reconcile.core.errors import FencedOut, StoreUnreachable
from reconcile.core.last_moment import LastMoment
from reconcile.core.leasing import LeaseKeeper, Terms
from reconcile.core.model import LeaseKey
from reconcile.stores.memory import MemoryServer

if TYPE_CHECKING:
    from collections.abc import Iterator

TERMS = Terms(ttl=timedelta(seconds=60), progress_deadline=timedelta(seconds=600))
LAST = 57.5
"""Seconds after the grant: three quarters of the margin, which begins after fifty."""


class Stuck:
    """A holder whose renewals arrive, or hang until they fail, as the test says."""

    def __init__(self, terms: Terms = TERMS) -> None:
        self.terms = terms
        self.out: Outside = outside()
        self.clock, self.aborted = self.out.clock, self.out.host.aborted
        server = MemoryServer(self.clock, "store-1")
        self.inner = server.connect()
        self.hangs = self.asked = 0
        self.fails = threading.Event()
        open_store: Any = lambda: SimpleNamespace(renew=self.renew, close=self.inner.close)  # noqa: E731
        key = LeaseKey("entitlements")
        self.keeper = LeaseKeeper(server.connect(), open_store, self.out.runtime, key, terms)
        self.begun = self.clock.boot()
        self.keeper.acquire("2026-11-30T02:30:00Z", overlap=False)
        eventually(lambda: len(self.clock.waiting_until) == 2, "both threads wait")

    def renew(self, *given: Any) -> object:
        self.asked += 1
        if self.hangs:
            self.fails.wait()
            raise StoreUnreachable("did not answer in time")
        return self.inner.renew(*given)

    def hang(self) -> None:
        """From now on no renewal comes back."""
        self.hangs, asked = 1, self.asked
        self.clock.advance(self.terms.renew_every)
        eventually(lambda: self.asked > asked, "it asks")

    def at(self, seconds: float) -> None:
        """So many seconds after the grant; who waits for an earlier moment has seen it."""
        self.clock.advance(self.begun + seconds - self.clock.boot())
        eventually(
            lambda: all(until > self.clock.boot() for until in self.clock.waiting_until), "seen"
        )


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    made = Stuck()
    yield made
    made.fails.set()
    made.keeper.abandon()


def test_a_request_that_does_not_come_back_does_not_keep_a_process_past_its_lease(
    stuck: Stuck,
) -> None:
    stuck.hang()
    stuck.at(LAST - 0.01)
    assert stuck.aborted == []
    stuck.at(LAST)
    eventually(lambda: bool(stuck.aborted), "it is ended")
    (error,) = stuck.aborted
    assert isinstance(error, StoreUnreachable)
    assert "lease of entitlements was nearly over" in str(error)
    assert error.hint


@pytest.mark.parametrize(
    ("ttl", "margin", "rest"),
    [(2, 2 / 3, 0.25), (3, 1, 0.25), (4, 1, 0.25), (6, 1, 0.25), (12, 2, 0.5), (180, 30, 7.5)],
)
def test_a_short_lease_leaves_time_enough_to_end_a_process(
    ttl: int, margin: float, rest: float
) -> None:
    terms = Terms(ttl=timedelta(seconds=ttl), progress_deadline=timedelta(seconds=600))
    trust: Any = SimpleNamespace(until=lambda: ttl - terms.margin)
    last = LastMoment(trust, terms, outside().runtime, threading.Event())
    assert terms.margin == pytest.approx(margin)
    assert ttl - last.at() == pytest.approx(rest)
    assert ttl - terms.margin > 3 * terms.renew_every


def test_each_renewal_moves_the_moment(stuck: Stuck) -> None:
    asked = stuck.asked
    stuck.clock.advance(TERMS.renew_every)
    eventually(lambda: stuck.asked > asked and len(stuck.clock.waiting_until) == 2, "it renewed")
    stuck.hang()
    stuck.at(LAST)
    stuck.at(LAST + TERMS.renew_every - 0.01)
    assert stuck.aborted == []
    stuck.at(LAST + TERMS.renew_every)
    eventually(lambda: bool(stuck.aborted), "it is ended")


def test_a_moment_that_was_slept_through_is_nothing_to_be_in_time_for(stuck: Stuck) -> None:
    stuck.hang()
    stuck.at(60)
    assert stuck.aborted == []


def test_who_has_given_the_lease_back_is_not_ended(stuck: Stuck) -> None:
    stuck.keeper.release(0)
    stuck.clock.advance(LAST)
    eventually(lambda: stuck.clock.waiting_until == [], "nobody waits")
    assert stuck.aborted == []


def test_who_has_come_back_and_has_not_ended_is_ended_all_the_same(stuck: Stuck) -> None:
    stuck.hang()
    stuck.at(50)
    stuck.fails.set()
    eventually(lambda: stuck.keeper._trust.lapse is not None, "the work is broken off")
    stuck.keeper.abandon()
    stuck.at(LAST - 0.01)
    assert stuck.aborted == []
    stuck.at(LAST)
    eventually(lambda: stuck.clock.waiting_until == [], "nobody waits")
    assert [str(error) for error in stuck.aborted] == ["did not answer in time"]


@pytest.mark.parametrize("back_at", [2.7, 2.8])
def test_a_moment_that_was_moved_since_is_not_the_last_of_who_has_come_back(back_at: float) -> None:
    stuck = Stuck(Terms(ttl=timedelta(seconds=3), progress_deadline=timedelta(seconds=600)))
    asked = stuck.asked
    stuck.at(0.6)
    eventually(lambda: stuck.asked > asked and len(stuck.clock.waiting_until) == 2, "it renewed")
    stuck.hang()
    stuck.at(2.6)
    stuck.fails.set()
    eventually(lambda: stuck.keeper._trust.lapse is not None, "the work is broken off")
    for moment in sorted((back_at, 2.75)):
        stuck.at(moment)  # at 2.75 was the last moment of the grant
        if moment == back_at:
            stuck.keeper.abandon()
    stuck.at(0.6 + 2.74)
    assert stuck.aborted == []
    stuck.at(0.6 + 2.75)
    eventually(lambda: stuck.clock.waiting_until == [], "nobody waits")
    assert len(stuck.aborted) == 1


def test_who_was_fenced_out_may_take_its_time_to_end(stuck: Stuck) -> None:
    stuck.keeper._trust.end(FencedOut("somebody else has it"))
    stuck.keeper.abandon()
    stuck.clock.advance(LAST)
    eventually(lambda: stuck.clock.waiting_until == [], "nobody waits")
    assert stuck.aborted == []


def test_renewal_that_has_given_up_ends_the_process_by_itself_and_once(stuck: Stuck) -> None:
    stuck.hang()
    stuck.at(55)
    stuck.fails.set()
    eventually(lambda: len(stuck.clock.waiting_until) == 2, "the work is broken off")
    stuck.clock.advance(TERMS.margin)
    eventually(lambda: stuck.clock.waiting_until == [], "both are done")
    assert [str(error) for error in stuck.aborted] == ["did not answer in time"]
