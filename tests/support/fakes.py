"""Stand-ins for what enters from outside: a clock that the test moves, a host, randomness."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING

from reconcile.core.model import Holder
from reconcile.core.ports import Runtime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconcile.core.events import Report

PATIENCE = 20.0
"""Seconds of real time after which waiting for a condition is given up."""
LONG_GONE = 120.0
"""Seconds after which the test of a thread that still waits has ended, on any machine."""


class FakeClock:
    """Stands still until `advance`; those who wait on it are woken then."""

    def __init__(self, now: datetime = datetime(2026, 11, 30, 2, 30, tzinfo=UTC)) -> None:
        self._begun = now
        self._boot = 1000.0
        self._first = 1000.0
        self._changed = threading.Condition()
        self.waiting_until: list[float] = []

    def now(self) -> datetime:
        return self._begun + timedelta(seconds=self._boot - self._first)

    def boot(self) -> float:
        return self._boot

    def step_wall_clock(self, by: timedelta) -> None:
        self._begun += by

    def advance(self, seconds: float) -> None:
        with self._changed:
            self._boot += seconds
            self._changed.notify_all()

    def wait(self, seconds: float, wake: threading.Event) -> bool:
        until = self._boot + seconds
        is_main = threading.current_thread() is threading.main_thread()
        give_up = time.monotonic() + (PATIENCE if is_main else LONG_GONE)
        with self._changed:
            self.waiting_until.append(until)
            try:
                while not wake.is_set() and self._boot < until:
                    self._changed.wait(0.002 if is_main else 0.005)
                    assert not is_main or time.monotonic() < give_up, "nobody moved the clock"
                    if time.monotonic() > give_up:
                        return True  # to a thread of a test that has ended since
            finally:
                self.waiting_until.remove(until)
        return wake.is_set()


@dataclass
class FakeHost:
    """Says which holders are dead, and remembers whom it killed and why it was ended."""

    me: Holder
    dead: set[str] = field(default_factory=set)
    killed: list[Holder] = field(default_factory=list)
    aborted: list[Exception] = field(default_factory=list)

    def holder(self) -> Holder:
        return self.me

    def is_dead(self, holder: Holder) -> bool:
        return holder.token in self.dead

    def kill(self, holder: Holder) -> bool:
        self.killed.append(holder)
        self.dead.add(holder.token)
        return True

    def end_leftovers(self, holder: Holder, run: str) -> tuple[Sequence[str], Sequence[str]]:
        return (), ()

    def abort(self, error: Exception) -> None:
        self.aborted.append(error)


class Counting:
    """Randomness that a failing test can be read by."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._numbers = count(1)

    def token(self) -> str:
        return f"{self._name}-{next(self._numbers)}"


@dataclass
class NoSignal:
    """Nobody asks to stop, until the test does."""

    reason: str | None = None


def holder(name: str) -> Holder:
    """One process start on one host; another name, another process."""
    return Holder("db1", "m", "b", "pid:[1]", 4711, 1, name, "svc-rec")


@dataclass
class Outside:
    """A whole runtime with all its parts at hand."""

    clock: FakeClock
    host: FakeHost
    stop: NoSignal
    steps: list[str]
    reports: list[Report]
    runtime: Runtime
    signs: list[float]
    """Boot times at which renewal was found to be right."""


def outside(name: str = "a", clock: FakeClock | None = None) -> Outside:
    """A runtime of its own, on a clock that may be shared with others."""
    clock = clock or FakeClock()
    host = FakeHost(holder(name))
    stop = NoSignal()
    steps: list[str] = []
    reports: list[Report] = []
    signs: list[float] = []
    runtime = Runtime(
        clock,
        host,
        Counting(name),
        stop,
        steps.append,
        reports.append,
        alive=lambda: signs.append(clock.boot()),
    )
    return Outside(clock, host, stop, steps, reports, runtime, signs)


def eventually(condition: object, what: str, patience: float = PATIENCE) -> None:
    """Poll until the condition (a callable) holds; fail with `what` when it never does.

    What is so at once is seen after 2 ms, and what takes seconds 20 ms late: looking costs.
    """
    assert callable(condition)
    step = 0.002
    give_up = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < give_up, f"never: {what}"
        time.sleep(step)
        step = min(step * 1.1, 0.02)
