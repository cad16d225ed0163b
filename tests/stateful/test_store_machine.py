"""Two holders, any old fence, any order: what a store must never do.

Each machine runs every step on the reference store in memory and on SQLite or Redis, by one
clock, so their answers must be equal to the last digit; and it keeps its own small account of
what was promised, so that a mistake made in both stores is seen too.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.redis_harness import RedisHarness
from support.valkey import fresh_url, shared_url

from reconcile.core.errors import FencedOut, LeaseBusy, OverlapIsNewer, ReconcileError
from reconcile.core.model import (
    Append,
    Delete,
    Fence,
    Kind,
    Lease,
    Put,
    Rate,
    RunId,
)
from reconcile.core.ports import Store
from reconcile.stores.memory import MemoryServer
from reconcile.stores.sqlite import SqliteStore
from reconcile.stores.testing import MovedClock
from reconcile.stores.testing_support import JOB, KEY, TOMORROW, TONIGHT, TTL, A, B

HOLDERS = st.sampled_from([A, B])
INTERVALS = st.sampled_from([TONIGHT, TOMORROW])
SEQUENCE = st.integers(1, 6)
ANY_FENCE = st.integers(0, 30)


class TwoStores(RuleBasedStateMachine):
    """Sends each request to both stores and compares the answers."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = self.make_clock()
        self.memory: Store = MemoryServer(self.clock, "5t0re").connect()
        self.second = self.open_second()

    def make_clock(self) -> MovedClock:
        return MovedClock()

    def open_second(self) -> Store:
        self.folder = tempfile.TemporaryDirectory()
        return SqliteStore(
            Path(self.folder.name) / "state.db",
            clock=self.clock,
            boot_id="b001",
            new_id=lambda: "5t0re",
        )

    def teardown(self) -> None:
        self.second.close()
        self.folder.cleanup()

    def ask(self, request: Callable[[Store], Any]) -> Any:
        """What both stores answer: a value, or an error to be looked at, never raised."""
        answers = [self._answer(store, request) for store in (self.memory, self.second)]
        assert _shape(answers[0]) == _shape(answers[1])
        return answers[0]

    @staticmethod
    def _answer(store: Store, request: Callable[[Store], Any]) -> Any:
        try:
            return request(store)
        except ReconcileError as error:
            return error


def _shape(answer: Any) -> Any:
    """An error by its kind and the lease it shows, seconds to the digits that all clocks have."""
    if isinstance(answer, float):
        return round(answer, 5)
    if isinstance(answer, LeaseBusy):
        return LeaseBusy, answer.lease
    if isinstance(answer, FencedOut):
        return FencedOut, answer.newer
    return type(answer) if isinstance(answer, Exception) else answer


class LeaseMachine(TwoStores):
    """Leases and fenced writes."""

    def __init__(self) -> None:
        super().__init__()
        self.grants: list[Fence] = []
        self.ends: dict[Fence, float] = {}
        self.released: set[Fence] = set()
        self.applied: dict[Fence, int] = {}
        self.turned_away: dict[Fence, int] = {}
        self.holders: dict[Fence, Any] = {}
        self.cursor: int | None = None
        self.written = 0

    def any_fence(self, n: int) -> Fence:
        """One of the grants so far, the newest as likely as all others together."""
        return self.grants[-1 - n % len(self.grants)] if n < 20 else self.grants[-1]

    def is_live(self, fence: Fence) -> bool:
        return (
            fence == self.grants[-1]
            and fence not in self.released
            and self.clock.boot() < self.ends[fence]
        )

    @rule(
        holder=HOLDERS,
        interval=INTERVALS,
        again=st.booleans(),
        replaces=st.one_of(st.none(), ANY_FENCE),
        n=ANY_FENCE,
        above=st.integers(-2, 3),
        overlap=st.booleans(),
    )
    def acquire(
        self,
        holder: Any,
        interval: str,
        again: bool,
        replaces: int | None,
        n: int,
        above: int,
        overlap: bool,
    ) -> None:
        newest = self.grants[-1] if self.grants else None
        run = RunId(f"r{len(self.grants)}-{holder.token}")
        if again and newest:
            run = self.any_fence(n).run
        named = self.any_fence(replaces).run if replaces is not None and newest else None
        floor = newest.generation + above if newest else 0
        answer = self.ask(
            lambda store: store.acquire(
                KEY, run, holder, TTL, interval=interval, above=floor, replaces=named,
                overlap=overlap,
            )
        )  # fmt: skip
        if isinstance(answer, LeaseBusy):
            assert newest is not None
            assert answer.lease.fence == newest
            assert self.is_live(newest) or self.holders[newest] == holder
            assert named != newest.run
            if overlap and answer.lease.interval != interval:
                self.turned_away[newest] += 1
            return
        assert isinstance(answer, Lease)
        if answer.fence in self.ends:
            assert run == newest.run == answer.fence.run  # type: ignore[union-attr]
            return
        self.granted(answer, named, floor)

    def granted(self, lease: Lease, named: RunId | None, floor: int) -> None:
        """The account of a fresh grant."""
        newest = self.grants[-1] if self.grants else None
        if newest is not None:
            assert not self.is_live(newest) or named == newest.run
            assert self.holders[newest] != lease.holder or named == newest.run
            assert lease.previous is not None
            assert lease.previous.fence == newest
        assert lease.live
        assert all(lease.fence.generation > old.generation for old in self.grants)
        assert lease.fence.generation > floor
        goes_on = newest and self.holders[newest] == lease.holder and newest not in self.released
        self.turned_away[lease.fence] = self.turned_away[newest] if newest and goes_on else 0
        self.grants.append(lease.fence)
        self.holders[lease.fence] = lease.holder
        self.ends[lease.fence] = self.clock.boot() + TTL.total_seconds()
        self.applied[lease.fence] = 0

    @precondition(lambda self: self.grants)
    @rule(n=ANY_FENCE, progress=st.integers(0, 5))
    def renew(self, n: int, progress: int) -> None:
        fence = self.any_fence(n)
        answer = self.ask(lambda store: store.renew(fence, progress))
        if fence != self.grants[-1] or fence in self.released:
            assert isinstance(answer, FencedOut)
        else:
            assert answer.live
            assert answer.progress >= progress
            assert answer.overlaps == self.turned_away[fence]
            self.ends[fence] = self.clock.boot() + TTL.total_seconds()

    @precondition(lambda self: self.grants)
    @rule(n=ANY_FENCE, seq=SEQUENCE, seen=st.one_of(st.none(), st.integers(0, 2)))
    def release(self, n: int, seq: int, seen: int | None) -> None:
        fence = self.any_fence(n)
        answer = self.ask(lambda store: store.release(fence, seq, seen))
        if fence != self.grants[-1]:
            assert isinstance(answer, FencedOut)
        elif fence in self.released or seq <= self.applied[fence]:
            assert answer is None
        elif seen is not None and seen < self.turned_away[fence]:
            assert isinstance(answer, OverlapIsNewer)
        else:
            assert answer is None
            self.released.add(fence)
            self.applied[fence] = seq

    @precondition(lambda self: self.grants)
    @rule(n=ANY_FENCE, seq=SEQUENCE)
    def commit(self, n: int, seq: int) -> None:
        fence = self.any_fence(n)
        self.written += 1
        writes = [Put(Kind.INTERVAL, JOB, TONIGHT, {"cursor": self.written})]
        answer = self.ask(lambda store: store.commit(fence, seq, writes))
        if fence != self.grants[-1]:
            assert isinstance(answer, FencedOut)
        elif seq <= self.applied[fence]:
            assert answer is False
        elif fence in self.released:
            assert isinstance(answer, FencedOut)
        else:
            assert answer is True
            self.applied[fence] = seq
            self.cursor = self.written

    @precondition(lambda self: self.grants)
    @rule(n=ANY_FENCE)
    def ask_stop(self, n: int) -> None:
        fence = self.any_fence(n)
        answer = self.ask(lambda store: store.ask_stop(KEY, fence.generation, {"n": n}))
        assert answer is self.is_live(fence)

    @rule(seconds=st.sampled_from([0.5, 20, 59.5, 60, 3600]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(seconds=st.sampled_from([-7200, -1, 1, 7200]))
    def somebody_sets_the_clock(self, seconds: float) -> None:
        self.clock.step(seconds)

    @invariant()
    def the_newest_grant_stands_and_is_live_while_promised(self) -> None:
        lease = self.ask(lambda store: store.lease(KEY))
        if not self.grants:
            assert lease is None
            return
        assert lease.fence == self.grants[-1]
        assert lease.live == self.is_live(lease.fence)
        assert lease.released == (lease.fence in self.released)

    @invariant()
    def the_cursor_is_that_of_the_last_accepted_write(self) -> None:
        record = self.ask(lambda store: store.get(Kind.INTERVAL, JOB, TONIGHT))
        assert (None if record is None else record.value["cursor"]) == self.cursor


KEYS = st.text(alphabet="a/b0\u00e9\ud7ff\ue000\U0001f30d", max_size=3)
KINDS = st.sampled_from([Kind.INTERVAL, Kind.RUN, Kind.EVENT])
TAGS = st.sampled_from(["", "", "open", "other"])
EXPECTED = st.sampled_from([-1, -1, 0, 1, 2])
BLOBS = st.sampled_from([None, b"", b"blob"])
PUTS = st.builds(
    lambda kind, key, n, expect, tag, blob: Put(kind, JOB, key, {"n": n}, expect, tag, blob),
    KINDS, KEYS, st.integers(), EXPECTED, TAGS, BLOBS,
)  # fmt: skip
DELETES = st.builds(lambda kind, key: Delete(kind, JOB, key), KINDS, KEYS)
APPENDS = st.builds(lambda key, n: Append(Kind.EVENT, JOB, key, {"n": n}), KEYS, st.integers())


class RecordMachine(TwoStores):
    """Batches, scans and buckets: the stores may not differ in anything."""

    @rule(writes=st.lists(st.one_of(PUTS, DELETES, APPENDS), max_size=4))
    def note(self, writes: Any) -> None:
        self.ask(lambda store: store.note(writes))

    @rule(
        kind=KINDS, prefix=KEYS, after=KEYS, before=KEYS, tag=TAGS,
        limit=st.integers(0, 5), newest_first=st.booleans(),
    )  # fmt: skip
    def scan(self, kind: Kind, **how: Any) -> None:
        found = self.ask(lambda store: store.scan(kind, JOB, **how))
        assert len(found) <= how["limit"]

    @rule(
        amount=st.integers(1, 3), per=st.integers(1, 5), n=st.integers(1, 3),
        seconds=st.sampled_from([0, 0.5, 3]),
    )  # fmt: skip
    def take(self, amount: int, per: int, n: int, seconds: float) -> None:
        self.clock.advance(seconds)
        rate = Rate(amount, timedelta(seconds=per))
        self.ask(lambda store: store.take("api", rate, min(n, amount)))

    @invariant()
    def all_records_are_equal(self) -> None:
        for kind in (Kind.INTERVAL, Kind.RUN, Kind.EVENT):
            found = self.ask(lambda store, kind=kind: store.scan(kind, JOB))
            assert [record.key for record in found] == sorted(record.key for record in found)


class ServersClock(MovedClock):
    """The clock of a server of several hosts: nobody's wall clock sets it."""

    follow: Callable[[], None] = staticmethod(lambda: None)

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        self.follow()

    def step(self, seconds: float) -> None:
        pass


class BesideRedis(TwoStores):
    """Redis is the second store."""

    def make_clock(self) -> MovedClock:
        return ServersClock()

    def open_second(self) -> Store:
        self.harness = RedisHarness(fresh_url(shared_url()), self.clock)
        self.clock.follow = self.harness.follow_the_clock
        return self.harness.open()

    def teardown(self) -> None:
        self.harness.close()


class RedisLeaseMachine(BesideRedis, LeaseMachine):
    pass


class RedisRecordMachine(BesideRedis, RecordMachine):
    pass


_SETTINGS = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestLeases = LeaseMachine.TestCase
TestLeases.settings = _SETTINGS
TestRecords = RecordMachine.TestCase
TestRecords.settings = _SETTINGS
TestRedisLeases = RedisLeaseMachine.TestCase
TestRedisLeases.settings = settings(_SETTINGS, max_examples=20)
TestRedisRecords = RedisRecordMachine.TestCase
TestRedisRecords.settings = settings(_SETTINGS, max_examples=20)
