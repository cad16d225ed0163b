"""A job by the minute whose work takes no time, on any store, called by processes that may die.

Its source has a past, and each interval rows of its own, so that no order in time binds it: what
is looked at is which interval is begun when, by whom, and how often.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from reconcile.core.checksum import Checksum
from reconcile.core.config import (
    CatchUpConfig,
    Config,
    EntitlementsConfig,
    Job,
    SourceConfig,
    StoreConfig,
    TargetConfig,
)
from reconcile.core.errors import SourceUnreachable
from reconcile.core.events import RunReport
from reconcile.core.model import (
    Fence,
    FenceRow,
    Interval,
    JsonObject,
    Kind,
    LeaseKey,
    Newest,
    Proof,
    Write,
)
from reconcile.core.operations import rerunning, trigger
from reconcile.core.operations.application import (
    ActRequest,
    Application,
    BackfillRequest,
    RunRequest,
)
from reconcile.core.operations.backfill import asking, waiting
from reconcile.core.ports import Runtime
from reconcile.core.records import IntervalRecord
from reconcile.core.steps import Step
from reconcile.core.tallying import Tallying

from .fakes import Counting, FakeHost, NoSignal, holder

NAME = "usage"
NOW = datetime(2026, 11, 30, 2, 30, 0, 250_000, tzinfo=UTC)
"""What a `MovedClock` begins with."""
MINUTE = timedelta(minutes=1)
FOREVER = 20.0


def job(**fields: Any) -> Job:
    """By the minute; nothing is due for a month."""
    target = TargetConfig("sql", "sqlite:///x", "t", interval_column="as_of")
    work = EntitlementsConfig(SourceConfig("csv", "/{interval}.csv"), target)
    plain = Job(NAME, Path("/reconcile.toml"), "* * * * *", work, catch_up=CatchUpConfig("all"))
    later = NOW.replace(microsecond=0) + timedelta(days=30)
    return plain._replace(**{"start": later, **fields})


class Killed(BaseException):
    """A process is gone."""


@dataclass(frozen=True)
class Attempt:
    """One run, as it got to its work."""

    interval: str
    at: datetime
    trigger: str
    rerun: int


class Plain:
    """Work that is done in one step, or fails where it is told to."""

    def __init__(self, bed: Bed) -> None:
        self._bed = bed
        self.fenced = bed.job.work.overtakes

    def floor(self, key: LeaseKey) -> FenceRow | None:
        del key
        return self._bed.row

    def raise_fence(self, fence: Fence, store_id: str) -> FenceRow | None:
        if self.fenced:
            newest = self._bed.row.newest if self._bed.row is not None else None
            self._bed.row = FenceRow(store_id, fence.generation, fence.run, newest)
        return self._bed.row

    def steps(self, order: Any) -> Iterator[Step]:
        run = order.records.scan(Kind.RUN, NAME, prefix=f"{order.interval.key}/")[-1].value
        id_ = order.interval.id
        self._bed.attempts.append(
            Attempt(id_, order.now(), str(run["trigger"]), order.record.rerun)
        )
        self._bed.clock.takes(self._bed.takes)
        if id_ in self._bed.fails:
            raise SourceUnreachable(f"there is no {id_}")
        if id_ not in self._bed.applied:
            self._bed.applied.append(id_)
        yield Step({"phase": "applying"}, [], {"grant": 1})

    def prove(self, order: Any) -> Proof:
        return Proof(order.interval, order.record.rerun, Checksum(), Checksum())

    def complete(self, order: Any, proof: Proof) -> Sequence[Write]:
        if self.fenced:
            row, one = self._bed.row, order.interval
            newest = Newest(one.scheduled_at, one.id, proof.rerun, proof.observed)
            self._bed.row = row._replace(newest=newest)
        return ()

    def changes(self, interval: str | None, account: str | None) -> Iterator[Any]:
        del interval, account
        return iter(())

    def preview(self, *_: Any) -> None:
        return None

    def still_waits(self, interval: Interval, waiting: JsonObject) -> bool:
        del interval, waiting
        return True

    def interrupt(self) -> None:
        pass

    def trust(self, until: float) -> None:
        pass

    def close(self) -> None:
        pass


class BedClock:
    """The harness's clock, which passes while the main thread waits or works."""

    def __init__(self, harness: Any) -> None:
        self._harness = harness

    def now(self) -> datetime:
        return self._harness.clock.now()  # type: ignore[no-any-return]

    def boot(self) -> float:
        return self._harness.clock.boot()  # type: ignore[no-any-return]

    def takes(self, seconds: float) -> None:
        if seconds:
            self._harness.advance(seconds)

    def wait(self, seconds: float, wake: threading.Event) -> bool:
        if threading.current_thread() is threading.main_thread():
            self._harness.advance(seconds)
            return wake.is_set()
        return wake.wait(FOREVER)


@dataclass
class Bed:
    """The job, its store, and all that became of it. `takes`: seconds that an interval takes;
    `fails`: ids of those that do."""

    harness: Any
    job: Job = field(default_factory=job)
    takes: float = 0.0
    keep: timedelta = timedelta(days=400)
    fails: set[str] = field(default_factory=set)
    attempts: list[Attempt] = field(default_factory=list)
    applied: list[str] = field(default_factory=list)
    row: FenceRow | None = None
    dead: set[str] = field(default_factory=set)
    steps: list[str] = field(default_factory=list)
    calls: int = 0

    def __post_init__(self) -> None:
        self.clock = BedClock(self.harness)

    def app(self, kill_at: int = 0, signal_at: int = 0) -> Application:
        """A new process; it dies at the n-th step it passes, or gets SIGTERM there."""
        self.calls += 1
        me = holder(f"p{self.calls}")
        stop, passed = NoSignal(), 0

        def reached(step: str) -> None:
            nonlocal passed
            passed += 1
            self.steps.append(step)
            if passed == kill_at:
                self.dead.add(me.token)
                raise Killed(step)
            if passed == signal_at:
                stop.reason = "SIGINT"

        def opened() -> Any:
            return Tallying(self.harness.open())

        host = FakeHost(me, dead=self.dead)
        runtime = Runtime(self.clock, host, Counting(me.token), stop, reached, lambda report: None)
        config = Config(
            Path("/reconcile.toml"), StoreConfig("memory:", self.keep), {NAME: self.job}
        )
        build: Callable[[Job], Any] = lambda job: Plain(self)  # noqa: E731
        return Application(config, runtime, opened, build)

    # --- what people and cron do

    def knock(self, **options: Any) -> RunReport | None:
        """What cron calls; None where it died."""
        try:
            return trigger.run(self.app(**options), RunRequest(NAME))
        except Killed:
            return None

    def ask(self, first: str, last: str, rate: str | None = None, **fields: Any) -> Any:
        """Put a backfill on record, and leave it to others."""
        app = self.app()
        request = BackfillRequest(NAME, first, last, rate, actor="alice", reason="x", **fields)
        store = app.open_store()
        try:
            return asking.ask(app, store, request)
        finally:
            store.close()

    def stay(self, first: str, last: str, rate: str | None = None, **options: Any) -> Any:
        """Ask for it, and wait until it is over; None where the process died."""
        app = self.app(**options)
        request = BackfillRequest(NAME, first, last, rate, actor="alice", reason="x")
        store = app.open_store()
        try:
            report = asking.ask(app, store, request)
            return waiting.wait_for(app, store, report) if report.did == "goes_on" else report
        except Killed:
            return None
        finally:
            store.close()

    def change(self, rate: str) -> Any:
        app = self.app()
        store = app.open_store()
        try:
            request = BackfillRequest(NAME, rate=rate, actor="bob", reason="y")
            return asking.change(app, store, request)
        finally:
            store.close()

    def cancel(self, **options: Any) -> Any:
        request = BackfillRequest(NAME, actor="bob", reason="enough")
        try:
            return asking.cancel(self.app(**options), request)
        except Killed:
            return None

    def rerun(self, interval: str) -> RunReport:
        return rerunning.rerun(self.app(), ActRequest(NAME, interval, "bob", "again"))

    # --- what became of it

    def records(self) -> dict[str, IntervalRecord]:
        store = self.harness.open()
        try:
            found = store.scan(Kind.INTERVAL, NAME, limit=100_000)
            records = [IntervalRecord.from_json(one.value) for one in found]
            return {record.id: record for record in records}
        finally:
            store.close()

    def events(self, interval: str) -> list[JsonObject]:
        store = self.harness.open()
        try:
            key = self.records()[interval].interval(NAME).key
            return [one.value for one in store.scan(Kind.EVENT, NAME, prefix=f"{key}/")]
        finally:
            store.close()

    def completions(self, interval: str) -> int:
        """How many runs of it have ended as completed."""
        store = self.harness.open()
        try:
            key = self.records()[interval].interval(NAME).key
            runs = store.scan(Kind.RUN, NAME, prefix=f"{key}/")
            return sum(one.value.get("ending") == "completed" for one in runs)
        finally:
            store.close()

    def is_over(self) -> bool:
        """Whether no backfill runs."""
        store = self.harness.open()
        try:
            found = store.get(Kind.JOB, NAME, "")
            return found is None or found.value.get("backfill") is None
        finally:
            store.close()


def minutes(first: int, number: int) -> list[str]:
    """Ids of so many minutes of the hour before two."""
    begin = datetime(2026, 11, 30, 0, 0, tzinfo=UTC) + first * MINUTE
    return [f"{begin + at * MINUTE:%Y-%m-%dT%H:%MZ}" for at in range(number)]


def most_in(window: timedelta, at: Sequence[datetime]) -> int:
    """The most of these instants that any window of that length has."""
    ordered = sorted(at)
    return max(
        (sum(first <= one < first + window for one in ordered) for first in ordered), default=0
    )
