"""Every intended interval has one record, one final state and a cause, whatever happened.

A job lives through random triggers: knocks after downtimes of minutes to days, killed at random
points; work that fails; pauses, reruns, backfills, intervals of now and skips by hand; schedules
and time zones that are edited. What was intended is found by code that shares nothing with the
project (`support/occurrences.py`), from what was configured when. In the end the records are
exactly that, span by span, and each has a cause that the log of what really happened bears out.

The suite lives through as many triggers as fit into a few seconds; RECONCILE_TEST_LONG=1 through
10,000 in each world.
"""

from __future__ import annotations

import os
import random
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.fakes import FakeClock, outside
from support.nights import Killed, NoThread
from support.occurrences import Plan, plan
from support.sides import JOB, MemoryStoreSide

from reconcile.core import last_moment, renewal
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
from reconcile.core.errors import ReconcileError, SourceUnreachable, SourceUnusable, UsageError
from reconcile.core.model import Kind, Proof, State, Trigger
from reconcile.core.operations.application import (
    ActRequest,
    Application,
    BackfillRequest,
    RunRequest,
)
from reconcile.core.operations.backfill import asking
from reconcile.core.operations.interventions import rerun, skip
from reconcile.core.operations.pausing import pause, unpause
from reconcile.core.operations.trigger import run
from reconcile.core.ports import Step
from reconcile.core.records import IntervalRecord, JobRecord, from_text
from reconcile.core.schedule import TICK

LONG = bool(os.environ.get("RECONCILE_TEST_LONG"))
TRIGGERS = int(os.environ.get("RECONCILE_TEST_TRIGGERS") or (10_000 if LONG else 240))
START = datetime(2026, 3, 20, tzinfo=UTC)
WINDOW = timedelta(days=2)
KEEP = timedelta(days=36500)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
PLANS = [
    plan("*/6", "0"),
    plan("2", "30"),
    plan("2", "30", "Europe/Berlin"),
    plan("*/3", "15,45", "America/New_York"),
    plan("*", "*/20", "Australia/Lord_Howe"),
    plan("1,2,3", "0,30", "Europe/London"),
]
REQUEST = ActRequest(JOB, "", "alice", "OPS-1")
CHANGING = {"acquire", "release", "commit", "note"}


@dataclass
class Pause:
    """As the test knows it: a time in which triggers start nothing."""

    at: datetime
    end: datetime | None
    catch_up: bool = False

    def lasts(self, now: datetime) -> bool:
        return self.end is None or self.end > now


class TrivialWork:
    """Two checkpoints, then done; or it fails. See `core.ports.Work`."""

    fenced = False

    def __init__(self, life: Life) -> None:
        self._life = life

    def floor(self, key: Any) -> None:
        """It keeps no fence."""

    def raise_fence(self, fence: Any, store_id: str) -> None:
        """It keeps no fence."""

    def steps(self, order: Any) -> Iterator[Step]:
        life, at = self._life, order.interval.scheduled_at
        life.log[at].append("begun")
        fault = life.fault()
        done = (order.record.cursor or {}).get("done", 0)
        for number in range(int(done), 2):
            if fault is not None and number == 1:
                life.log[at].append("failed" if isinstance(fault, SourceUnusable) else "away")
                raise fault
            order.progressed()
            yield Step({"done": number + 1}, [], {})
            life.log[at].append("saved")

    def prove(self, order: Any) -> Proof:
        return Proof(order.interval, order.record.rerun, Checksum(), Checksum())

    def complete(self, order: Any, proof: Proof) -> Sequence[Any]:
        self._life.log[order.interval.scheduled_at].append("done")
        return ()

    def changes(self, interval: Any, account: Any) -> Iterator[Any]:
        return iter(())

    def still_waits(self, interval: Any, waiting: Any) -> bool:
        return True

    def interrupt(self) -> None:
        """Nothing hangs."""

    close = interrupt


class Connection:
    """A connection to the store; before and after each change the process may be killed."""

    def __init__(self, life: Life, inner: Any) -> None:
        self._life = life
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name not in CHANGING:
            return method

        def request(*args: Any, **kwargs: Any) -> Any:
            self._life.reached("")
            answer = method(*args, **kwargs)
            self._life.reached("")
            return answer

        return request


@dataclass
class Life:
    """A job, and what really happened to it."""

    rng: random.Random
    policy: str
    clock: FakeClock = field(default_factory=lambda: FakeClock(START))
    plan: Plan = PLANS[0]
    log: dict[datetime, list[str]] = field(default_factory=lambda: defaultdict(list))
    versions: list[tuple[datetime, Plan]] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)
    given_up: set[datetime] = field(default_factory=set)
    touched: set[datetime] = field(default_factory=set)
    """What a person named in an act of any kind."""
    filled: list[tuple[datetime, datetime]] = field(default_factory=list)
    """The bounds of what people asked backfills for."""
    seen: Counter[str] = field(default_factory=Counter)
    trouble: bool = True
    started: int = 0
    dies_at: int = 0
    passed: int = 0

    def __post_init__(self) -> None:
        self.side = MemoryStoreSide(self.clock)
        self.store = self.side.peek()

    # --- what is outside

    @property
    def now(self) -> datetime:
        return self.clock.now()

    @property
    def job(self) -> Job:
        source = SourceConfig("csv", "/{interval}.csv")
        target = TargetConfig("sql", "sqlite:///x.db", "t", interval_column="as_of")
        return Job(
            JOB, Path("/r.toml"), self.plan.cron, EntitlementsConfig(source, target),
            timezone=self.plan.zone, start=START, max_attempts=2,
            catch_up=CatchUpConfig(self.policy, WINDOW),
        )  # fmt: skip

    def fault(self) -> ReconcileError | None:
        if not self.trouble or self.rng.random() > 0.15:
            return None
        if self.rng.random() < 0.7:
            return SourceUnusable("cut")
        return SourceUnreachable("away")

    def reached(self, step: str) -> None:
        self.passed += 1
        if self.passed == self.dies_at:
            self.seen["kill"] += 1
            raise Killed

    def call(self, act: Callable[[Application], Any], *, dies: bool = False) -> Any:
        """One process from its start to its end; None where it was killed."""
        self.started += 1
        out = outside(f"p{self.started}", self.clock)
        out.host.dead |= {f"p{self.started - 1}"}
        self.passed, self.dies_at = 0, self.rng.randrange(1, 60) if dies else 0
        runtime = out.runtime._replace(reached=self.reached)
        config = Config(Path("/r.toml"), StoreConfig("memory:", KEEP), {JOB: self.job})
        app = Application(
            config, runtime, lambda: Connection(self, self.side.connect()),  # type: ignore[arg-type,return-value]
            lambda job: TrivialWork(self),  # type: ignore[arg-type,return-value]
        )  # fmt: skip
        threads = renewal.Thread, last_moment.Thread
        renewal.Thread = last_moment.Thread = NoThread  # type: ignore[misc,assignment]
        try:
            return act(app)
        except Killed:
            return None
        finally:
            renewal.Thread, last_moment.Thread = threads  # type: ignore[misc]
            self.dies_at = 0
            self.see_version()

    def see_version(self) -> None:
        """A configured plan holds from the instant on at which a process first wrote it down."""
        found = self.store.get(Kind.JOB, JOB, "")
        if found is None:
            return
        record = JobRecord.from_json(found.value)
        since, cron, zone, *_ = record.schedules[-1]
        assert len(record.schedules) - len(self.versions) in (0, 1)
        if len(record.schedules) > len(self.versions):
            assert (cron, zone) == (self.plan.cron, self.plan.zone)
            assert from_text(since) - (TICK if self.versions else timedelta()) == self.now
            self.versions.append((self.now, self.plan))

    # --- what may happen

    def live(self) -> None:
        """One more trigger, or something that a person does."""
        rng = self.rng
        lengths = [10 * MINUTE, HOUR * rng.random() * 12, DAY * rng.random() * 4]
        self.clock.advance(rng.choices(lengths, [70, 25, 5])[0].total_seconds())
        acts: dict[Callable[[], None], int] = {
            self.knock: 100, self.edit: 2, self.pause: 2, self.unpause: 8,
            self.rerun: 4, self.skip: 2, self.one_of_now: 2, self.named: 2, self.backfill: 3,
        }  # fmt: skip
        act = rng.choices([*acts], [*acts.values()])[0]
        try:
            act()
        except UsageError:
            self.seen["refused"] += 1
        else:
            self.seen[act.__name__] += 1

    def knock(self) -> None:
        before = sum(map(len, self.log.values()))
        self.call(lambda app: run(app, RunRequest(JOB)), dies=self.rng.random() < 0.2)
        if self.pauses and self.pauses[-1].lasts(self.now):
            assert sum(map(len, self.log.values())) == before, "it was paused"
            self.seen["held back"] += 1

    def edit(self) -> None:
        self.plan = self.rng.choice(PLANS)

    def pause(self) -> None:
        hours = self.rng.randrange(1, 72)
        until = self.now + hours * HOUR if self.rng.random() < 0.5 else None
        said = None if until is None else f"{hours}h"
        before = self.paused()
        self.call(lambda app: pause(app, REQUEST, until=said), dies=self.rng.random() < 0.2)
        if self.paused() == before:
            return
        if self.pauses and self.pauses[-1].lasts(self.now):
            self.pauses[-1].end = until
        else:
            self.pauses.append(Pause(self.now, until))

    def unpause(self) -> None:
        catch_up = self.rng.random() < 0.3
        before = self.paused()
        dies = self.rng.random() < 0.3
        self.call(lambda app: unpause(app, REQUEST, catch_up=catch_up), dies=dies)
        if self.paused() != before:
            self.pauses[-1].end, self.pauses[-1].catch_up = self.now, catch_up

    def paused(self) -> Any:
        """What is on record of the newest pause: a killed act was done, or it was not."""
        found = self.store.get(Kind.JOB, JOB, "")
        return None if found is None else found.value.get("pause")

    def rerun(self) -> None:
        record = self.some_record()
        if record is not None:
            self.touched.add(record.scheduled_at)
            self.call(lambda app: rerun(app, REQUEST._replace(interval=record.id)), dies=True)

    def skip(self) -> None:
        record = self.some_record()
        if record is not None:
            self.touched.add(record.scheduled_at)
            self.call(lambda app: skip(app, REQUEST._replace(interval=record.id)))
            self.given_up.add(record.scheduled_at)

    def one_of_now(self) -> None:
        request = RunRequest(JOB, now=True, actor="alice", reason="OPS-1")
        self.call(lambda app: run(app, request), dies=self.rng.random() < 0.3)

    def named(self) -> None:
        record = self.some_record()
        if record is not None:
            self.touched.add(record.scheduled_at)
            self.call(lambda app: run(app, RunRequest(JOB, record.id)), dies=True)

    def backfill(self) -> None:
        """Asked for, and left to the triggers that come; now and then the rest is given up."""
        if self.backfills() and self.rng.random() < 0.5:
            self.call(lambda app: asking.cancel(app, BackfillRequest(JOB, actor="alice")))
            self.seen["cancelled"] += 1
            return
        some = [record for record in (self.some_record(), self.some_record()) if record]
        if not some:
            return
        first, last = min(some, key=_at), max(some, key=_at)
        request = BackfillRequest(JOB, first.id, last.id, actor="alice", reason="OPS-1")
        self.filled.append((_at(first), _at(last)))

        def ask(app: Application) -> None:
            with closing(app.open_store()) as store:
                asking.ask(app, store, request)

        self.call(ask, dies=self.rng.random() < 0.3)

    def backfills(self) -> bool:
        """Whether one runs."""
        found = self.store.get(Kind.JOB, JOB, "")
        return found is not None and found.value.get("backfill") is not None

    def is_touched(self, at: datetime) -> bool:
        return at in self.touched or any(first <= at <= last for first, last in self.filled)

    def settle(self) -> None:
        """No more trouble: triggers come until nothing is left to do."""
        self.trouble = False
        while self.pauses and self.pauses[-1].lasts(self.now):
            self.unpause()
        for _ in range(100):
            self.clock.advance(HOUR.total_seconds())
            self.call(lambda app: run(app, RunRequest(JOB)))
            come = [record for record, _ in self.records() if record.scheduled_at <= self.now]
            if all(record.state.is_final for record in come) and not self.backfills():
                return
        raise AssertionError("something is never finished")

    # --- what is on record

    def records(self) -> list[tuple[IntervalRecord, datetime]]:
        """All, oldest first, each with when it was written."""
        found: list[Any] = []
        after = ""
        while page := self.store.scan(Kind.INTERVAL, JOB, after=after, limit=1000):
            found += [(IntervalRecord.from_json(one.value), one.at) for one in page]
            after = page[-1].key
        return found

    def was_asked_for(self, record: IntervalRecord) -> bool:
        """Whether a person wanted an interval of that instant; one that was killed early was
        opened again without the word of who had asked."""
        key = record.interval(JOB).key
        trail = self.store.scan(Kind.EVENT, JOB, prefix=f"{key}/")
        asked = [event for event in trail if event.value.get("type") == "asked"]
        return bool(asked) and {event.value["actor"] for event in asked} == {"alice"}

    def some_record(self) -> IntervalRecord | None:
        newest = self.store.scan(Kind.INTERVAL, JOB, limit=30, newest_first=True)
        return IntervalRecord.from_json(self.rng.choice(newest).value) if newest else None

    # --- what was intended

    def intended(self) -> list[datetime]:
        """From what was configured when: a plan holds until the next one was seen."""
        edges = [since for since, _ in self.versions[1:]] + [self.now]
        found: list[datetime] = []
        after = START - TICK
        for (_, held), until in zip(self.versions, edges, strict=True):
            found += held.between(after, until)
            after = until
        return found


def _at(record: IntervalRecord) -> datetime:
    return record.scheduled_at


def check(life: Life) -> None:
    """The records are what was intended, and each has its cause."""
    intended = life.intended()
    records = life.records()
    assert len({record.id for record, _ in records}) == len(records), "ids are unique"
    every, left = set(intended), set(intended)
    for record, written_at in records:
        at = record.scheduled_at
        assert record.state.is_final
        if record.span > 1:
            assert record.until_at is not None
            covered = {one for one in left if at <= one <= record.until_at}
            assert len(covered) == record.span, "a span stands for as many as it says"
            left -= covered
        elif at not in every:
            assert life.was_asked_for(record), f"{at} was never intended"
        else:
            assert at in left, f"{at} has two records"
            left.remove(at)
        for one in (at, *([record.until_at] if record.until_at else [])):
            bears_out(life, intended, record, one, written_at)
        life.seen[str(record.reason or record.state)] += 1
        life.seen["filled in"] += record.trigger is Trigger.BACKFILL
    assert left == set(), "an intended interval has no record"


def bears_out(
    life: Life, intended: list[datetime], record: IntervalRecord, at: datetime, written: datetime
) -> None:
    """Whether the cause on record is what really happened."""
    log, reason = life.log[at], record.reason
    fell = [pause for pause in life.pauses if pause.at < at <= (pause.end or life.now)]
    scheduled = at in intended[bisect_left(intended, at) :][:1]
    held = scheduled and any(not one.catch_up and at < newest_in(one, intended) for one in fell)
    assert reason == "paused" or not held or life.is_touched(at), "a pause leaves only its newest"
    if record.state is State.COMPLETED:
        assert "done" in log
        assert reason is None
    elif record.state is State.FAILED:
        assert reason == "attempts"
        assert log.count("failed") >= 2
        assert "done" not in log
    elif reason == "paused":
        assert log == []
        assert held
    elif reason == "superseded":
        assert life.policy == "latest"
        assert "saved" not in log, "one with a checkpoint is finished"
        assert any(at < newer <= written for newer in intended)
    elif reason == "catch_up_window":
        assert log == []
        assert at < written - WINDOW
    else:
        assert reason == "operator"
        assert at in life.given_up


def newest_in(pause: Pause, intended: list[datetime]) -> datetime:
    assert pause.end is not None
    return max(one for one in intended if pause.at < one <= pause.end)


KNOCKS = 1000 if LONG else 60


@pytest.mark.parametrize("seed", range(3 if LONG else 1))
def test_days_of_calls_a_little_early_or_late_are_days_each_worked_once(seed: int) -> None:
    life = Life(random.Random(seed), "latest", trouble=False)
    life.plan = PLANS[1]
    life.clock.advance(2.5 * 3600 + 30)
    for day in range(KNOCKS):
        due = START + day * DAY + timedelta(hours=2.5)
        at = due + timedelta(seconds=life.rng.uniform(-1, 90))
        life.clock.advance(max(0.0, (at - life.now).total_seconds()))
        life.call(lambda app: run(app, RunRequest(JOB)))
        life.clock.advance(600)
        life.call(lambda app: run(app, RunRequest(JOB)))
    check(life)
    assert [log.count("done") for log in life.log.values()] == [1] * KNOCKS


@pytest.mark.parametrize("kills", [0.0, 0.2])
@pytest.mark.parametrize("seed", range(20 if LONG else 1))
def test_a_clock_that_is_put_back_by_minutes_repeats_and_loses_nothing(
    seed: int, kills: float
) -> None:
    life = Life(random.Random(seed), "all", trouble=False)
    life.plan = PLANS[4]
    for _ in range(KNOCKS // 2):
        life.clock.advance(life.rng.randrange(5, 25) * 60)
        life.call(lambda app: run(app, RunRequest(JOB)), dies=life.rng.random() < kills)
        if life.rng.random() < 0.6:
            life.clock.step_wall_clock(-5 * MINUTE)
            life.call(lambda app: run(app, RunRequest(JOB)))
    life.clock.advance(600)
    life.settle()
    check(life)
    again = sum(log.count("begun") - 1 for log in life.log.values())
    assert again <= life.seen["kill"], "kills alone repeat"


@pytest.mark.parametrize("policy", ["all", "latest"])
@pytest.mark.parametrize("seed", range(10 if LONG else 1))
def test_a_clock_that_was_far_ahead_once_claims_and_poisons_nothing(seed: int, policy: str) -> None:
    life = Life(random.Random(seed), policy, trouble=False)
    for _ in range(20):
        life.clock.advance(3600 * life.rng.randrange(1, 20))
        life.knock()
    before = life.log.copy()
    life.clock.step_wall_clock(300 * DAY)
    life.call(lambda app: run(app, RunRequest(JOB)), dies=life.rng.random() < 0.5)
    life.clock.step_wall_clock(-300 * DAY)
    ahead = life.log.keys() - before.keys()
    for _ in range(20):
        life.clock.advance(3600 * life.rng.randrange(1, 20))
        life.knock()
    life.settle()
    records = [pair for pair in life.records() if pair[0].scheduled_at <= life.now]
    later = [record for record, _ in life.records() if record.scheduled_at > life.now]
    assert {record.state for record in later} <= {State.PENDING}
    life.records = lambda: records  # type: ignore[method-assign]
    check(life)
    assert all(at > life.now or life.log[at].count("done") == 1 for at in ahead)


SEED = os.environ.get("RECONCILE_TEST_SEED")


@pytest.mark.timeout(3 * 3600 if LONG else 600)
@pytest.mark.parametrize(("policy", "seed"), [("all", SEED or 9), ("latest", SEED or 8)])
def test_the_records_are_the_intended_intervals_each_with_its_cause(
    policy: str, seed: int | str
) -> None:
    life = Life(random.Random(int(seed)), policy)
    for _ in range(TRIGGERS):
        life.live()
    life.settle()
    check(life)
    expected = {
        "held back",
        "completed",
        "paused",
        "kill",
        "knock",
        "edit",
        "rerun",
        "backfill",
        "cancelled",
        "filled in",
        "one_of_now",
        "named",
    }
    expected.add("superseded" if policy == "latest" else "catch_up_window")
    assert expected <= (+life.seen).keys(), life.seen
