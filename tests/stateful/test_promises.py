"""The promises, held against everything that a store, a target, a source, the clock, a kill or
a stop can do to several real triggers at once.

A Hypothesis machine decides what happens between any two steps of any process (see
`support/world.py`); `support/promises.py` keeps a plain account of what was promised and looks
at every request. In the end all faults stop, one healthy process works until nothing is due,
those that were stopped wake up, and the target must hold the newest truth.

`RECONCILE_TEST_LONG=1` runs 10,000 examples with each pair of sides.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from support.memory_target import MemoryTargetSide
from support.promises import Promises
from support.settling import (
    approve,
    each_due_interval_has_one_record,
    knock,
    operator,
    the_next_night,
    waiting,
    work_off,
)
from support.sides import (
    JOB,
    MemoryStoreSide,
    SqliteStoreSide,
    SqliteTargetSide,
    Table,
)
from support.world import DAY, START, Process, World

from reconcile.core.checksum import Checksum
from reconcile.core.errors import FencedOut
from reconcile.core.model import Append, Interval, Kind, PlanId, Proof
from reconcile.core.records import OPEN
from reconcile.core.rows import Change, KeySpan, RangeChanges

LONG = bool(os.environ.get("RECONCILE_TEST_LONG"))
ACCOUNTS = "abcdef"
HOLDINGS: list[dict[str, str]] = [
    {},
    {"x": "1"},
    {"x": "2"},
    {"x": "1", "y": "1"},
    {"y": "1"},
    {"x": "2", "y": "2"},
]
TABLES = st.lists(st.sampled_from(range(len(HOLDINGS))), min_size=6, max_size=6)
WHO = st.integers(0, 2)
WHERE = st.sampled_from(
    [
        "write", "next", "end", "store.commit", "target.lines", "checkpoint_saved",
        "target.commit", "range_committed", "fence_raised", "run_opened", "judged",
        "target.complete", "target_completed", "interval_completed", "store.release", "decided",
        "source.open", "range_planned", "recovered", "answer",
    ]
)  # fmt: skip
NIGHTS = [(START + timedelta(days=night)).strftime("%Y-%m-%d") for night in range(4)]
FAULTS = st.sampled_from(["request lost", "answer lost", "late", "doubled", "busy"])


def table(holdings: list[int]) -> Table:
    """Accounts a to f, each with one of the `HOLDINGS`."""
    return {
        (account, name): level
        for account, number in zip(ACCOUNTS, holdings, strict=True)
        for name, level in HOLDINGS[number].items()
    }


class PromiseMachine(RuleBasedStateMachine):
    """Rules are what may happen; most promises are checked by `Promises` at each request."""

    store_side: Any = MemoryStoreSide
    target_side: Any = MemoryTargetSide
    world: World

    @initialize(
        nights=st.lists(TABLES, min_size=3, max_size=3),
        range_size=st.sampled_from([2, 1]),
        missed=st.integers(0, 2),
    )
    def begin(self, nights: list[list[int]], range_size: int, missed: int) -> None:
        self.world = World(
            self.store_side, self.target_side, range_size, [table(night) for night in nights]
        )
        self.world.advance(missed * DAY)
        self.copies: dict[str, list[Any]] = {"store": [], "target": []}

    @property
    def promises(self) -> Promises:
        return self.world.promises

    def running(self) -> list[Process]:
        return [process for process in self.world.living() if not process.stopped]

    # --- triggers

    @precondition(lambda self: len(self.world.living()) < 3)
    @rule(where=WHERE, far=st.booleans(), after=st.sampled_from([DAY, 0.0, 61.0]))
    def a_trigger_comes(self, where: str, far: bool, after: float) -> None:
        self.world.advance(after)
        self.world.start(knock, far=far).go(where)

    def one_of_them(self, who: int) -> Process:
        running = self.running()
        return running[who % len(running)]

    @precondition(lambda self: self.running())
    @rule(who=WHO, where=WHERE, times=st.integers(1, 3))
    def one_goes_on(self, who: int, where: str, times: int) -> None:
        self.one_of_them(who).go(where, times)

    @precondition(lambda self: self.running())
    @rule(who=WHO, where=WHERE, fault=FAULTS)
    def a_request_fails(self, who: int, where: str, fault: str) -> None:
        process = self.one_of_them(who)
        process.go(where)
        process.fault = fault
        while process.fault and not process.is_over:
            process.go("next")

    @precondition(lambda self: self.running())
    @rule(who=WHO, where=WHERE, fault=st.sampled_from(["cut", "broken"]))
    def its_source_is_cut_short(self, who: int, where: str, fault: str) -> None:
        process = self.one_of_them(who)
        process.cut = fault
        process.go(where)

    @precondition(lambda self: self.running())
    @rule(who=WHO, fault=FAULTS, times=st.integers(1, 5), seconds=st.sampled_from([13.0, 61.0]))
    def its_renewals_fail(self, who: int, fault: str, times: int, seconds: float) -> None:
        self.one_of_them(who).renewal_faults += [fault] * times
        self.world.advance(seconds)

    @precondition(lambda self: self.running())
    @rule(who=WHO, where=WHERE)
    def one_is_killed(self, who: int, where: str) -> None:
        process = self.one_of_them(who)
        process.go(where)
        process.die()

    @precondition(lambda self: self.running())
    @rule(who=WHO, where=WHERE)
    def one_is_stopped(self, who: int, where: str) -> None:
        process = self.one_of_them(who)
        process.go(where)
        process.stopped = True

    @precondition(lambda self: any(p.stopped for p in self.world.living()))
    @rule(where=WHERE)
    def one_is_woken(self, where: str) -> None:
        process = next(p for p in self.world.living() if p.stopped)
        process.stopped = False
        process.go(where)

    # --- the world

    @rule(seconds=st.sampled_from([1.0, 13.0, 61.0, 61.0, 305.0, 3601.0, DAY]))
    def time_passes(self, seconds: float) -> None:
        self.world.advance(seconds)

    @rule(seconds=st.sampled_from([0.0, 3600.0, -3600.0, 2 * DAY]))
    def somebody_sets_the_clock(self, seconds: float) -> None:
        self.world.set_clock(seconds)

    @rule(night=st.integers(0, 2), holdings=TABLES)
    def a_night_is_exported_again(self, night: int, holdings: list[int]) -> None:
        at = START + timedelta(days=night)
        self.world.rewrite(at.strftime("%Y-%m-%d"), table(holdings))

    @rule(
        account=st.sampled_from(ACCOUNTS),
        name=st.sampled_from("xy"),
        level=st.sampled_from([None, "1", "3"]),
    )
    def somebody_writes_to_the_target(self, account: str, name: str, level: str | None) -> None:
        self.world.somebody_writes((account, name), level)

    @rule(side=st.sampled_from(["store", "target"]))
    def a_copy_is_made(self, side: str) -> None:
        copies = self.copies[side]
        copies[1:] = [self.world.copy(side)]

    @precondition(lambda self: any(self.copies.values()))
    @rule(side=st.sampled_from(["store", "target"]), which=st.integers(0, 1))
    def a_copy_is_put_back(self, side: str, which: int) -> None:
        copies = self.copies[side]
        if copies:
            self.world.put_back(side, copies[which % len(copies)])

    @rule()
    def the_store_is_lost(self) -> None:
        self.world.wipe_store()

    @precondition(lambda self: self.world.late)
    @rule(which=st.integers(0, 3))
    def a_late_request_arrives(self, which: int) -> None:
        self.world.deliver(which)
        self.world.check()

    @precondition(lambda self: self.promises.fences)
    @rule(which=st.integers(0, 9))
    def an_old_fence_is_used_again(self, which: int) -> None:
        fence = self.promises.fences[which % len(self.promises.fences)]
        event = Append(Kind.EVENT, JOB, "2026-11-28T02:30:00Z", {"type": "old"})
        if fence != self.promises.store.newest:
            for name, args in (
                ("commit", (fence, 1000, [event])),
                ("renew", (fence, 1000)),
                ("release", (fence, 1000, None)),
            ):
                self.refused("store", name, args)
        if fence != self.promises.target.fence:
            span = KeySpan("z", None)
            change = Change(None, ("zz", "x", "1"))
            part = RangeChanges(JOB, "2026-11-28", 0, PlanId("old"), 1, span, [change], Checksum())
            proof = Proof(Interval(JOB, START, "2026-11-28"), 0, Checksum(), Checksum())
            self.refused("target", "commit", (fence, part, self.world.boot + 60))
            self.refused("target", "complete", (fence, proof))

    def refused(self, side: str, name: str, args: Any) -> None:
        """An old fence is shown, and refused."""
        world = self.world
        inner = world.store.connect() if side == "store" else world.target.connect(world.clock)
        try:
            world.ask(None, side, inner, name, args, {})  # type: ignore[arg-type]
        except FencedOut:
            self.promises.seen.add(f"old fence refused by {side}")
        else:
            raise AssertionError(f"promise 2: {side}.{name} took {args}")
        finally:
            inner.close()

    @precondition(lambda self: waiting(self.world))
    @rule(where=WHERE)
    def somebody_approves(self, where: str) -> None:
        interval, plan = waiting(self.world)[0]
        approve(self.world, interval, plan).go(where)

    @precondition(lambda self: len(self.world.living()) < 4)
    @rule(
        verb=st.sampled_from(["skip", "rerun", "resume"]),
        interval=st.sampled_from(["oldest", "latest", *NIGHTS]),
        where=WHERE,
        far=st.booleans(),
        after=st.sampled_from([61.0, 0.0]),
    )
    def an_operator_acts(
        self, verb: str, interval: str, where: str, far: bool, after: float
    ) -> None:
        self.world.advance(after)
        operator(self.world, verb, interval, far=far).go(where)

    @precondition(lambda self: self.running() and len(self.world.living()) < 4)
    @rule(where=WHERE, far=st.booleans(), force=st.booleans())
    def an_operator_stops_it(self, where: str, far: bool, force: bool) -> None:
        operator(self.world, "stop", None, far=far, force=force).go(where)

    # --- in the end

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            if sys.exc_info()[0] is None:
                self.settle()
        finally:
            self.world.close()

    def settle(self) -> None:
        """All faults stop, and what was promised for then holds."""
        world = self.world
        world.set_clock(0.0)
        for process in world.living():
            process.fault = process.cut = ""
            process.renewal_faults.clear()
            if not process.stopped:
                process.go("end")
        world.advance(61)
        work_off(world)
        each_due_interval_has_one_record(world)
        rows = world.target.rows()
        stopped = world.living()
        for process in [process for process in stopped if self.lost_its_lease(process)]:
            process.stopped = False
            process.go("end")
        assert world.target.rows() == rows, "promise 2: one that was fenced out wrote"
        while world.late:
            world.deliver(0)
        for process in stopped:  # those whose lease nobody took, or that had not asked for it
            process.stopped = False
            process.go("end")
        newest = the_next_night(world)
        work_off(world)
        each_due_interval_has_one_record(world)
        truth = world.newest(newest)[1]
        assert world.target.rows() == truth, "promise 5: the newest truth was not reached"
        assert not world.store.peek().scan(Kind.RUN, JOB, tag=OPEN), "a run was left open"

    def lost_its_lease(self, process: Process) -> bool:
        """Whether it had the lease and another has had it since."""
        return bool(process.keepings) and self.promises.store.holder != process.name


class SqlitePromiseMachine(PromiseMachine):
    """The same with files: a store that is replaced on the disk, and a real table."""

    store_side = SqliteStoreSide
    target_side = SqliteTargetSide


def _settings(examples: int) -> settings:
    """The suite runs the same examples each time, so that it tells of a change and not of luck;
    new ones are searched for by the long profile."""
    return settings(
        derandomize=not LONG,
        max_examples=int(os.environ.get("RECONCILE_TEST_EXAMPLES", 10_000 if LONG else examples)),
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


if LONG:
    pytestmark = pytest.mark.timeout(6 * 3600)
TestPromises = PromiseMachine.TestCase
TestPromises.settings = _settings(150)
TestPromisesOnSqlite = SqlitePromiseMachine.TestCase
TestPromisesOnSqlite.settings = _settings(30)
