"""Whole triggers in one process, one after the other, with everything outside in a test's hands.

`Nights` has a store, a target, a clock and the truth of each night. A trigger may be killed at
any named step and before or after any request that changes something, and somebody else may
write to the target at such a point. Unlike in `world.py` nothing runs side by side, so that a
thousand nights are a matter of seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from reconcile.core import last_moment, renewal
from reconcile.core.config import (
    Config,
    EntitlementsConfig,
    GuardsConfig,
    Job,
    LeaseConfig,
    SourceConfig,
    StoreConfig,
    TargetConfig,
)
from reconcile.core.errors import SourceUnreachable, SourceUnusable
from reconcile.core.model import Interval, Kind
from reconcile.core.operations.application import Application
from reconcile.core.records import IntervalRecord
from reconcile.core.rows import Page, Schema
from reconcile.core.work.entitlements.work import EntitlementsWork

from .fakes import FakeClock, Outside, outside
from .sides import JOB, TTL, Table

START = datetime(2026, 11, 28, 2, 30, tzinfo=UTC)
CHANGING = {"acquire", "release", "commit", "note", "raise_fence", "complete"}
PAGE = 3


class Killed(BaseException):
    """What ends a process at once; nobody may catch it."""


class NoThread:
    """Nobody needs a renewal while the clock stands still."""

    def __init__(self, **_: Any) -> None:
        """As a thread is made."""

    def start(self) -> None:
        """Nothing runs."""

    def join(self, timeout: float) -> None:
        """It is over."""


@dataclass
class Answer:
    """What a night's source says. `bad` accounts do not convert; with `fault` (`cut` or
    `broken`) it breaks off at a page, `times` often; `whole` counts complete readings."""

    name: str
    table: Table
    bad: frozenset[str] = frozenset()
    fault: str = ""
    page: int = 0
    times: int = 10**6
    whole: int = 0


@dataclass
class Point:
    """A point of a trigger, counted from its start, and what happens there: None is a kill,
    else somebody writes."""

    at: int
    write: tuple[tuple[str, str], str | None] | None = None


@dataclass
class Nights:
    """Everything there is; `truth` names the answer of each night by its date."""

    store_side: Any
    target_side: Any
    clock: FakeClock
    guards: GuardsConfig
    range_size: int = 3
    truth: Callable[[str], Answer] = field(default=lambda date: Answer(date, {}))
    started: int = 0
    point: Point | None = None
    passed: int = 0
    killed: bool = False
    watch: Callable[[str, Any, Any], None] = lambda name, args, answer: None

    @property
    def job(self) -> Job:
        work = EntitlementsConfig(
            source=SourceConfig("csv", "/{date}.csv"),
            target=TargetConfig("sql", "sqlite:///app.db", JOB),
            guards=self.guards,
            range_size=self.range_size,
        )
        lease = LeaseConfig(ttl=TTL)
        return Job(JOB, Path("/reconcile.toml"), "30 2 * * *", work, start=START, lease=lease)

    def call(self, act: Callable[[Application], Any], point: Point | None = None) -> Any:
        """One process from its start to its end; None where it was killed."""
        self.started += 1
        self.point, self.passed, self.killed = point, 0, False
        out = outside(f"p{self.started}", self.clock)
        out.host.dead |= {f"p{number}" for number in range(1, self.started)}
        threads = renewal.Thread, last_moment.Thread
        renewal.Thread = last_moment.Thread = NoThread  # type: ignore[misc,assignment]
        try:
            return act(self._application(out))
        except Killed:
            return None
        finally:
            renewal.Thread, last_moment.Thread = threads  # type: ignore[misc]
            self.point = None

    def _application(self, out: Outside) -> Application:
        runtime = out.runtime._replace(reached=lambda step: self.reached())
        config = Config(Path("/reconcile.toml"), StoreConfig("memory:"), {JOB: self.job})

        def work(job: Job) -> EntitlementsWork:
            target = Watched(self, self.target_side.connect(self.clock))
            return EntitlementsWork(job, NightSource(self), target, TTL)  # type: ignore[arg-type]

        return Application(config, runtime, lambda: Watched(self, self.store_side.connect()), work)  # type: ignore[arg-type,return-value]

    def reached(self) -> None:
        """A point is passed: something may happen there."""
        if self.killed:
            return  # the code unwinds
        self.passed += 1
        if self.point is None or self.passed != self.point.at:
            return
        if self.point.write is None:
            self.killed = True
            raise Killed
        self.target_side.write(*self.point.write)

    def record(self, date: str) -> IntervalRecord | None:
        """A night's record, read behind everybody's back."""
        found = self.store_side.peek().get(Kind.INTERVAL, JOB, f"{date}T02:30:00Z")
        return None if found is None else IntervalRecord.from_json(found.value)

    def records(self) -> list[IntervalRecord]:
        """All of them, oldest first."""
        found = self.store_side.peek().scan(Kind.INTERVAL, JOB)
        return [IntervalRecord.from_json(one.value) for one in found]


class Watched:
    """A connection; each request that changes something has a point before and after it. One
    of a process that was killed does nothing."""

    fenced = True

    def __init__(self, nights: Nights, inner: Any) -> None:
        self._nights = nights
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name not in CHANGING:
            return method
        nights = self._nights

        def request(*args: Any, **kwargs: Any) -> Any:
            if nights.killed:
                raise Killed
            nights.reached()
            answer = method(*args, **kwargs)
            nights.watch(name, args, answer)
            nights.reached()
            return answer

        return request


class NightSource:
    """See `core.endpoints.Source`."""

    dated = True

    def __init__(self, nights: Nights) -> None:
        self._nights = nights

    def describe(self, interval: Interval | None) -> str:
        return "nights"

    def open(self, interval: Interval, schema: Schema, calls: object = None) -> NightReading:
        answer = self._nights.truth(interval.id)
        if answer.fault == "missing" and answer.times > 0:
            answer.times -= 1
            raise SourceUnreachable(f"{interval.id}.csv does not exist")
        return NightReading(answer)


class NightReading:
    """See `core.endpoints.Reading`."""

    def __init__(self, answer: Answer) -> None:
        self.fingerprint = answer.name
        self._answer = answer

    def pages(self, after: str | None = None, resume: Any = None) -> Iterator[Page]:
        answer = self._answer
        rows = [(*key, level) for key, level in sorted(answer.table.items())]
        for at in range(resume or 0, len(rows), PAGE):
            self._break_off(at // PAGE)
            page = rows[at : at + PAGE]
            bad = {row[0]: "no number" for row in page if row[0] in answer.bad}
            good: Any = [row for row in page if row[0] not in answer.bad]
            yield Page(good, at, bad)
        self._break_off(len(rows) // PAGE + 1)
        answer.whole += 1

    def _break_off(self, page: int) -> None:
        answer = self._answer
        if answer.fault in ("", "missing") or page < answer.page or answer.times <= 0:
            return
        answer.times -= 1
        if answer.fault == "cut":
            raise SourceUnusable("the last line is cut")
        raise SourceUnreachable("connection reset")

    def close(self) -> None:
        """Nothing to free."""


def date_of(at: datetime) -> str:
    """The id of a night."""
    return at.strftime("%Y-%m-%d")


def later(clock: FakeClock, by: timedelta) -> None:
    """Let time pass."""
    clock.advance(by.total_seconds())
