"""Keeping a lease: the trust window, renewal, lost answers, and what ends it."""

from __future__ import annotations

import threading
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from support.fakes import FakeClock, Outside, eventually, outside
from support.nights import NoThread

from reconcile.core import last_moment
from reconcile.core.errors import (
    FencedOut,
    LeaseBusy,
    LeaseLapsed,
    OverlapIsNewer,
    StoreUnreachable,
)
from reconcile.core.leasing import LeaseKeeper, Terms
from reconcile.core.model import Kind, LeaseKey, Put
from reconcile.stores.memory import MemoryServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reconcile.core.ports import Store

KEY = LeaseKey("entitlements")
TONIGHT = "2026-11-30T02:30:00Z"
TOMORROW = "2026-12-01T02:30:00Z"
TERMS = Terms(ttl=timedelta(seconds=60), progress_deadline=timedelta(seconds=600))


class Faulty:
    """A connection whose next calls of a method fail: before they apply, or after."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.lose_request: dict[str, int] = {}
        self.lose_answer: dict[str, int] = {}
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._inner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            if self.lose_request.get(name, 0) > 0:
                self.lose_request[name] -= 1
                raise StoreUnreachable(f"{name} did not arrive")
            answer = method(*args, **kwargs)
            if self.lose_answer.get(name, 0) > 0:
                self.lose_answer[name] -= 1
                raise StoreUnreachable(f"the answer of {name} was lost")
            return answer

        return call


class Desk:
    """One process with its keeper, on a clock and a server shared with others."""

    def __init__(self, name: str, clock: FakeClock, server: MemoryServer) -> None:
        self.out: Outside = outside(name, clock)
        self.main = Faulty(server.connect())
        self.renewing = Faulty(server.connect())
        self.broken_off: list[bool] = []
        self.keeper = LeaseKeeper(
            self.main,  # type: ignore[arg-type]
            lambda: self.renewing,  # type: ignore[arg-type,return-value]
            self.out.runtime,
            KEY,
            TERMS,
        )
        self.keeper.break_off = lambda: self.broken_off.append(True)

    def renewals(self) -> int:
        return self.renewing.calls.count("renew")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    # Who waits on it is the renewal thread alone; for the other see `test_last_moment.py`.
    monkeypatch.setattr(last_moment, "Thread", NoThread)
    return FakeClock()


@pytest.fixture
def server(clock: FakeClock) -> MemoryServer:
    return MemoryServer(clock, "store-1")


@pytest.fixture
def desk(clock: FakeClock, server: MemoryServer) -> Iterator[Desk]:
    one = Desk("a", clock, server)
    yield one
    one.keeper.abandon()


@pytest.fixture
def other(clock: FakeClock, server: MemoryServer) -> Iterator[Desk]:
    one = Desk("b", clock, server)
    yield one
    one.keeper.abandon()


def pass_time(desk: Desk, seconds: float) -> None:
    """Let time pass in steps that the renewal thread can follow, as a live process does."""
    clock = desk.out.clock
    step = 2.0
    for _ in range(int(seconds / step)):
        eventually(lambda: bool(clock.waiting_until), "the renewal thread waits")
        due = min(clock.waiting_until)
        renewals = desk.renewals()
        clock.advance(step)
        if clock.boot() >= due:
            eventually(
                lambda was=renewals: desk.renewals() > was or desk.keeper._trust.lapse is not None,
                "it renews when it is time",
            )


def test_a_holder_that_progresses_keeps_one_generation_for_a_hundred_times_the_ttl(
    desk: Desk, other: Desk
) -> None:
    lease = desk.keeper.acquire(TONIGHT, overlap=False)
    for _ in range(20):
        pass_time(desk, 300)
        desk.keeper.progressed()
    assert desk.keeper.fence == lease.fence
    with pytest.raises(LeaseBusy):
        other.keeper.acquire(TONIGHT, overlap=False)


def test_trust_counts_from_the_moment_the_request_was_sent(desk: Desk, clock: FakeClock) -> None:
    inner = desk.main._inner.acquire

    def slow(*args: Any, **kwargs: Any) -> Any:
        lease = inner(*args, **kwargs)
        clock.advance(40)
        return lease

    desk.main._inner.acquire = slow  # type: ignore[method-assign]
    sent = clock.boot()
    desk.keeper.acquire(TONIGHT, overlap=False)
    assert desk.keeper.trusted_until() == sent + 60 - TERMS.margin


def test_trust_counts_from_the_moment_a_renewal_was_sent(desk: Desk, clock: FakeClock) -> None:
    sent = slow_renewals(desk.renewing, clock)
    desk.keeper.acquire(TONIGHT, overlap=False)
    eventually(lambda: bool(clock.waiting_until), "the renewal thread waits")
    clock.advance(12)
    eventually(lambda: bool(sent) and clock.boot() >= sent[0] + 40, "the answer comes")
    eventually(
        lambda: bool(clock.waiting_until) and min(clock.waiting_until) > clock.boot(),
        "it is believed",
    )
    assert desk.keeper.trusted_until() == sent[0] + 60 - TERMS.margin


def test_trust_counts_from_the_moment_a_late_renewal_was_sent(desk: Desk, clock: FakeClock) -> None:
    desk.keeper.acquire(TONIGHT, overlap=False)
    desk.keeper.abandon()
    clock.advance(180)
    sent = slow_renewals(desk.main, clock)
    desk.keeper.progressed()
    assert desk.keeper.trusted_until() == sent[0] + 60 - TERMS.margin


def slow_renewals(connection: Faulty, clock: FakeClock) -> list[float]:
    """Let each answer to a renewal take 40 s from now on; when they were sent."""
    renew = connection._inner.renew
    sent: list[float] = []

    def slow(*args: Any) -> Any:
        sent.append(clock.boot())
        lease = renew(*args)
        clock.advance(40)
        return lease

    connection._inner.renew = slow  # type: ignore[method-assign]
    return sent


def test_nothing_is_committed_after_the_window_without_asking_first(
    desk: Desk, clock: FakeClock
) -> None:
    desk.keeper.acquire(TONIGHT, overlap=False)
    desk.keeper.abandon()
    desk.main.calls.clear()
    clock.advance(60 - TERMS.margin)
    desk.keeper.commit([Put(Kind.PLAN, KEY.job, "p", {})])
    desk.keeper.commit([Put(Kind.PLAN, KEY.job, "q", {})])
    assert desk.main.calls == ["renew", "commit", "commit"]


def test_one_lost_answer_of_a_renewal_never_loses_a_lease(desk: Desk) -> None:
    lease = desk.keeper.acquire(TONIGHT, overlap=False)
    desk.renewing.lose_answer["renew"] = 1
    pass_time(desk, 120)
    desk.keeper.progressed()
    assert desk.keeper.fence == lease.fence
    assert desk.renewals() > 2


def test_renewals_that_do_not_arrive_are_tried_again_inside_the_window(desk: Desk) -> None:
    desk.keeper.acquire(TONIGHT, overlap=False)
    desk.renewing.lose_request["renew"] = 3
    pass_time(desk, 56)
    desk.keeper.progressed()
    assert desk.renewals() >= 4
    assert desk.broken_off == []


def test_a_store_that_cannot_be_opened_for_renewal_is_tried_again_inside_the_window(
    desk: Desk, server: MemoryServer
) -> None:
    opened: list[bool] = []

    def open_store() -> Faulty:
        opened.append(len(opened) == 2)
        if not opened[-1]:
            desk.renewing.calls.append("renew")  # it tried to
            raise StoreUnreachable("nobody answers")
        return desk.renewing

    desk.keeper._renewal._open_store = open_store  # type: ignore[assignment]
    lease = desk.keeper.acquire(TONIGHT, overlap=False)
    pass_time(desk, 50)
    assert opened == [False, False, True]
    assert not desk.broken_off
    now = server.connect().lease(KEY)
    assert now is not None
    assert now.expires_at > lease.expires_at


def test_when_the_window_is_over_the_work_is_broken_off_before_the_lease_expires(
    desk: Desk, clock: FakeClock
) -> None:
    begun = clock.boot()
    desk.keeper.acquire(TONIGHT, overlap=False)
    desk.renewing.lose_request["renew"] = 10**6
    while not desk.broken_off and clock.boot() < begun + 200:
        clock.advance(0.25)
        eventually(
            lambda: (
                bool(desk.broken_off)
                or (bool(clock.waiting_until) and min(clock.waiting_until) > clock.boot())
            ),
            "the renewal thread keeps up",
        )
    assert begun + 50 <= clock.boot() <= begun + 52
    with pytest.raises(StoreUnreachable):
        desk.keeper.progressed()
    assert desk.out.host.aborted == []
    clock.advance(TERMS.margin / 2)
    eventually(lambda: bool(desk.out.host.aborted), "a thread that does not come back is ended")
    assert clock.boot() < begun + 60


def test_a_last_renewal_that_waits_in_vain_leaves_a_part_of_the_margin(
    desk: Desk, clock: FakeClock
) -> None:
    begun = clock.boot()
    desk.keeper.acquire(TONIGHT, overlap=False)
    hangs, in_vain = threading.Event(), threading.Event()

    def renew(*_: object) -> None:
        hangs.set()
        in_vain.wait()
        raise StoreUnreachable("did not answer in time")

    desk.renewing.renew = renew  # type: ignore[attr-defined]
    eventually(lambda: bool(clock.waiting_until), "the renewal thread waits")
    clock.advance(TERMS.renew_every)
    eventually(hangs.is_set, "it asks")
    clock.advance(begun + 50 + TERMS.patience - clock.boot())
    in_vain.set()
    eventually(lambda: bool(desk.broken_off and clock.waiting_until), "the work is broken off")
    assert max(clock.waiting_until) <= begun + 50 + 0.75 * TERMS.margin
    clock.advance(TERMS.margin / 4)
    eventually(lambda: bool(desk.out.host.aborted), "a thread that does not come back is ended")


def test_without_progress_renewal_stops_and_the_work_is_broken_off(
    desk: Desk, clock: FakeClock
) -> None:
    begun = clock.boot()
    desk.keeper.acquire(TONIGHT, overlap=False)
    while not desk.broken_off and clock.boot() < begun + 700:
        pass_time(desk, 2)
    assert begun + 600 <= clock.boot() <= begun + 604
    with pytest.raises(LeaseLapsed, match="no progress"):
        desk.keeper.progressed()


def test_a_watchdog_hears_of_work_for_as_long_as_it_progresses(
    desk: Desk, clock: FakeClock
) -> None:
    begun = clock.boot()
    desk.keeper.acquire(TONIGHT, overlap=False)
    pass_time(desk, 580)
    desk.keeper.progressed()
    moved = clock.boot()
    while not desk.broken_off and clock.boot() < begun + 1400:
        pass_time(desk, 2)
    signs = [begun, *desk.out.signs]
    assert moved + 580 <= signs[-1] <= moved + 600
    assert max(b - a for a, b in pairwise(signs)) <= TERMS.ttl.total_seconds() / 4


def test_progress_just_inside_the_deadline_is_left_alone(desk: Desk) -> None:
    desk.keeper.acquire(TONIGHT, overlap=False)
    for _ in range(5):
        pass_time(desk, 540)
        desk.keeper.progressed()
    assert desk.broken_off == []


def test_a_lost_answer_of_acquire_brings_the_same_grant(desk: Desk, server: MemoryServer) -> None:
    desk.main.lose_answer["acquire"] = 1
    desk.out.clock.wait = lambda seconds, wake: wake.wait(0)  # type: ignore[method-assign]
    lease = desk.keeper.acquire(TONIGHT, overlap=False)
    stored = server.connect().lease(KEY)
    assert stored is not None
    assert stored.fence == lease.fence
    assert desk.main.calls.count("acquire") == 2


def test_a_lost_answer_of_a_commit_is_asked_for_again_and_applied_once(
    desk: Desk, server: MemoryServer, clock: FakeClock
) -> None:
    desk.keeper.acquire(TONIGHT, overlap=False)
    desk.main.lose_answer["commit"] = 1
    clock.wait = lambda seconds, wake: wake.wait(0)  # type: ignore[method-assign]
    desk.keeper.commit([Put(Kind.PLAN, KEY.job, "p", {"n": 1})])
    found = server.connect().get(Kind.PLAN, KEY.job, "p")
    assert found is not None
    assert found.version == 1


def test_a_dead_holder_is_replaced_at_once_and_a_live_one_never(desk: Desk, other: Desk) -> None:
    first = desk.keeper.acquire(TONIGHT, overlap=False)
    with pytest.raises(LeaseBusy):
        other.keeper.acquire(TONIGHT, overlap=False)
    other.out.host.dead.add("a")
    second = other.keeper.acquire(TONIGHT, overlap=False)
    assert second.fence.generation > first.fence.generation
    assert second.previous is not None
    assert second.previous.fence == first.fence
    with pytest.raises(FencedOut) as refusal:
        desk.keeper.commit([Put(Kind.PLAN, KEY.job, "p", {})])
    assert refusal.value.newer is not None
    assert refusal.value.newer.fence == second.fence


def test_without_detection_a_dead_holder_is_waited_for(
    other: Desk, desk: Desk, clock: FakeClock
) -> None:
    desk.keeper.acquire(TONIGHT, overlap=False)
    desk.keeper.abandon()
    other.out.host.dead.add("a")
    other.keeper._terms = Terms(TERMS.ttl, TERMS.progress_deadline, detect_dead=False)
    with pytest.raises(LeaseBusy):
        other.keeper.acquire(TONIGHT, overlap=False)
    clock.advance(61)
    other.keeper.acquire(TONIGHT, overlap=False)


def test_after_a_stall_that_nobody_used_the_same_grant_goes_on(
    desk: Desk, clock: FakeClock
) -> None:
    lease = desk.keeper.acquire(TONIGHT, overlap=False)
    desk.keeper.abandon()  # the renewal thread sleeps with the process
    clock.advance(180)
    desk.keeper.commit([Put(Kind.PLAN, KEY.job, "p", {})])
    assert desk.keeper.fence == lease.fence


def test_after_a_stall_that_somebody_used_nothing_is_written(
    desk: Desk, other: Desk, clock: FakeClock, server: MemoryServer
) -> None:
    desk.keeper.acquire(TONIGHT, overlap=False)
    desk.keeper.abandon()
    clock.advance(61)
    other.keeper.acquire(TONIGHT, overlap=False)
    with pytest.raises(FencedOut):
        desk.keeper.commit([Put(Kind.PLAN, KEY.job, "p", {})])
    assert server.connect().get(Kind.PLAN, KEY.job, "p") is None


def test_after_a_stall_that_somebody_used_the_first_step_already_says_so(
    desk: Desk, other: Desk, clock: FakeClock
) -> None:
    desk.keeper.acquire(TONIGHT, overlap=False)
    desk.keeper.abandon()
    clock.advance(61)
    newer = other.keeper.acquire(TONIGHT, overlap=False)
    for _ in range(2):
        with pytest.raises(FencedOut) as refusal:
            desk.keeper.progressed()
        assert refusal.value.newer is not None
        assert refusal.value.newer.fence == newer.fence


def test_a_trigger_turned_away_for_another_interval_keeps_the_holder_from_leaving(
    desk: Desk, other: Desk
) -> None:
    desk.keeper.acquire(TONIGHT, overlap=False)
    with pytest.raises(LeaseBusy):
        other.keeper.acquire(TOMORROW, overlap=True)
    with pytest.raises(OverlapIsNewer):
        desk.keeper.release(0)
    desk.keeper.progressed()
    desk.keeper.release(1)
    other.keeper.acquire(TOMORROW, overlap=True)


def test_the_next_grant_comes_without_a_release_between(
    desk: Desk, other: Desk, server: MemoryServer
) -> None:
    first = desk.keeper.acquire(TONIGHT, overlap=False)
    second = desk.keeper.regrant(TOMORROW)
    assert second.fence.generation == first.fence.generation + 1
    with pytest.raises(LeaseBusy):
        other.keeper.acquire(TOMORROW, overlap=False)
    with pytest.raises(FencedOut):
        server.connect().renew(first.fence, 0)


@pytest.mark.parametrize("request_", ["acquire", "release"])
def test_a_renewal_that_learns_of_the_next_step_before_the_one_that_asked_for_it(
    desk: Desk, request_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.keeper.acquire(TONIGHT, overlap=False)
    do = getattr(desk.main._inner, request_)

    def answered_late(*args: Any, **kwargs: Any) -> Any:
        answer, renewals = do(*args, **kwargs), desk.renewals()
        pass_time(desk, 14)
        eventually(lambda: desk.renewals() > renewals, "the old grant is renewed")
        pass_time(desk, 2)
        return answer

    monkeypatch.setattr(desk.main._inner, request_, answered_late)
    if request_ == "release":
        desk.keeper.release(0)
    else:
        desk.keeper.regrant(TOMORROW)
        desk.keeper.commit([Put(Kind.JOB, KEY.job, "", {})])
    assert not desk.broken_off


def test_a_regrant_gets_above_a_targets_floor(desk: Desk) -> None:
    desk.keeper.acquire(TONIGHT, overlap=False)
    floor = desk.keeper.fence.generation + 1000
    assert desk.keeper.regrant(TONIGHT, above=floor).fence.generation > floor


def test_release_is_asked_for_again_when_its_answer_is_lost(
    desk: Desk, other: Desk, clock: FakeClock
) -> None:
    desk.keeper.acquire(TONIGHT, overlap=False)
    desk.main.lose_answer["release"] = 1
    clock.wait = lambda seconds, wake: wake.wait(0)  # type: ignore[method-assign]
    desk.keeper.release(0)
    other.keeper.acquire(TONIGHT, overlap=False)


def test_one_process_may_take_its_released_lease_again(
    desk: Desk, clock: FakeClock, server: MemoryServer
) -> None:
    first = desk.keeper.acquire(TONIGHT, overlap=False)
    desk.keeper.release(0)
    again = LeaseKeeper(server.connect(), server.connect, desk.out.runtime, KEY, TERMS)
    second = again.acquire(TOMORROW, overlap=False)
    again.abandon()
    assert second.fence.generation > first.fence.generation


def test_a_release_whose_answer_was_lost_while_another_took_the_lease_is_done(
    desk: Desk, other: Desk, clock: FakeClock
) -> None:
    desk.keeper.acquire(TONIGHT, overlap=False)
    desk.main.lose_answer["release"] = 1

    wait = clock.wait

    def meanwhile(seconds: float, wake: Any) -> bool:
        if threading.current_thread() is not threading.main_thread():
            return wait(seconds, wake)
        other.keeper.acquire(TOMORROW, overlap=False)
        return False

    clock.wait = meanwhile  # type: ignore[method-assign]
    desk.keeper.release(0)
    assert desk.main.calls.count("release") == 2


def test_a_signal_stops_the_work_and_not_the_renewal(desk: Desk, other: Desk) -> None:
    desk.keeper.acquire(TONIGHT, overlap=False)
    desk.out.stop.reason = "SIGTERM"
    pass_time(desk, 120)
    desk.keeper.progressed()
    with pytest.raises(LeaseBusy):
        other.keeper.acquire(TONIGHT, overlap=False)
    assert desk.renewals() >= 9


def test_the_wall_clock_may_be_stepped_as_it_likes(desk: Desk, clock: FakeClock) -> None:
    lease = desk.keeper.acquire(TONIGHT, overlap=False)
    for step in (timedelta(hours=1), timedelta(hours=-2), timedelta(days=3650)):
        clock.step_wall_clock(step)
        pass_time(desk, 120)
        desk.keeper.progressed()
    assert desk.keeper.fence == lease.fence
