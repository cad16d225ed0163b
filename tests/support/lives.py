"""A job that lives through random triggers, and what really happened to it.

The work is trivial; the processes are killed at random points, and people pause, edit, rerun, skip
and ask for backfills. What was intended is said by `Life.scheduled`, which shares nothing with
the project but the times at which an edit was first seen.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

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
from reconcile.core.errors import (
    OldOverNew,
    ReconcileError,
    SourceUnreachable,
    SourceUnusable,
    UsageError,
)
from reconcile.core.model import FenceRow, Kind, Newest, Proof
from reconcile.core.operations.application import ActRequest, Application, RunRequest
from reconcile.core.operations.interventions import skip
from reconcile.core.operations.pausing import pause, unpause
from reconcile.core.operations.rerunning import rerun
from reconcile.core.operations.trigger import run
from reconcile.core.records import IntervalRecord, JobRecord, from_text
from reconcile.core.schedule import TICK
from reconcile.core.steps import Step

from .fakes import FakeClock, outside
from .nights import Killed, NoThread
from .occurrences import Plan, plan
from .sides import JOB, MemoryStoreSide

START = datetime(2026, 3, 20, tzinfo=UTC)
WINDOW = timedelta(days=2)
ATTEMPTS = 2
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
    again: datetime | None = None
    """When somebody last said so again."""
    catch_up: bool = False

    def lasts(self, now: datetime) -> bool:
        return self.end is None or self.end > now


class Worked(NamedTuple):
    """What was `begun`, `saved` or `done` of one interval, or has `failed` or found the source
    `away`: by which process, and as what."""

    what: str
    process: int
    rerun: int
    backfill: int | None
    at: datetime


class LifeClock(FakeClock):
    """Whoever waits on it waits at least so long: the machine may be suspended meanwhile."""

    rng: random.Random

    def wait(self, seconds: float, wake: Any) -> bool:
        self.advance(seconds * self.rng.choice([1, 1, 30, 600]))
        return False


class TrivialWork:
    """Two checkpoints, then done; or it fails. A target with one truth for all intervals has a
    fence, which knows the newest. See `core.ports.Work`."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self.fenced = life.job.work.overtakes

    def floor(self, key: Any) -> FenceRow | None:
        return self._life.row

    def raise_fence(self, fence: Any, store_id: str) -> FenceRow | None:
        if self.fenced:
            newest = self._life.row.newest if self._life.row is not None else None
            self._life.row = FenceRow(store_id, fence.generation, fence.run, newest)
        return self._life.row

    def steps(self, order: Any) -> Iterator[Step]:
        life, at = self._life, order.interval.scheduled_at
        newest = life.row.newest if self.fenced and life.row is not None else None
        if newest is not None and newest.scheduled_at > at:
            raise OldOverNew(f"{newest.interval} is completed")
        life.log[at].append("begun")
        life.note("begun", order)
        fault = life.fault()
        done = (order.record.cursor or {}).get("done", 0)
        for number in range(int(done), 2):
            if fault is not None and number == 1:
                what = "failed" if isinstance(fault, SourceUnusable) else "away"
                life.log[at].append(what)
                life.note(what, order)
                raise fault
            order.progressed()
            yield Step({"done": number + 1}, [], {})
            life.log[at].append("saved")
            life.note("saved", order)

    def prove(self, order: Any) -> Proof:
        return Proof(order.interval, order.record.rerun, Checksum(), Checksum())

    def complete(self, order: Any, proof: Proof) -> Sequence[Any]:
        life, one = self._life, order.interval
        life.log[one.scheduled_at].append("done")
        life.note("done", order)
        life.done.append(one.scheduled_at)
        if self.fenced:
            assert life.row is not None, "it was raised"
            newest = Newest(one.scheduled_at, one.id, proof.rerun, proof.observed)
            life.row = life.row._replace(newest=newest)
        return ()

    def changes(self, interval: Any, account: Any) -> Iterator[Any]:
        return iter(())

    def still_waits(self, interval: Any, waiting: Any) -> bool:
        return True

    def interrupt(self) -> None:
        """Nothing hangs."""

    def trust(self, until: float) -> None:
        """Nor is anything left to itself."""

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
    """A job, and what really happened to it.

    `truth` is `own` where each interval has rows of its own, `one` where the target has one truth
    and an older interval would undo it, `live` where the source tells that of now.
    """

    rng: random.Random
    policy: str
    truth: str = "own"
    plans: Sequence[Plan] = tuple(PLANS)
    window: timedelta = WINDOW
    clock: LifeClock = field(default_factory=lambda: LifeClock(START))
    row: FenceRow | None = None
    """That of the target."""
    done: list[datetime] = field(default_factory=list)
    """What was completed, in the order in which it was."""
    log: dict[datetime, list[str]] = field(default_factory=lambda: defaultdict(list))
    versions: list[tuple[datetime, Plan]] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)
    given_up: set[datetime] = field(default_factory=set)
    touched: set[datetime] = field(default_factory=set)
    """What a person named in an act of any kind."""
    works: dict[datetime, list[Worked]] = field(default_factory=lambda: defaultdict(list))
    died: set[int] = field(default_factory=set)
    """Numbers of the processes that were killed."""
    more: dict[Callable[[], None], int] = field(default_factory=dict)
    """What else may happen, and how often."""
    seen: Counter[str] = field(default_factory=Counter)
    trouble: bool = True
    started: int = 0
    dies_at: int = 0
    passed: int = 0

    def __post_init__(self) -> None:
        self.plan = self.plans[0]
        self.clock.rng = self.rng
        self.side = MemoryStoreSide(self.clock)
        self.store = self.side.peek()

    # --- what is outside

    @property
    def now(self) -> datetime:
        return self.clock.now()

    @property
    def job(self) -> Job:
        source = SourceConfig("csv", "/x.csv" if self.truth == "live" else "/{interval}.csv")
        column = "night" if self.truth == "own" else None
        target = TargetConfig("sql", "sqlite:///x.db", "t", interval_column=column)
        return Job(
            JOB, Path("/r.toml"), self.plan.cron, EntitlementsConfig(source, target),
            timezone=self.plan.zone, start=START, max_attempts=ATTEMPTS, max_wait=timedelta(),
            catch_up=CatchUpConfig(self.policy, self.window),
        )  # fmt: skip

    def fault(self) -> ReconcileError | None:
        if not self.trouble or self.rng.random() > 0.15:
            return None
        if self.rng.random() < 0.7:
            return SourceUnusable("cut")
        return SourceUnreachable("away")

    def note(self, what: str, order: Any) -> None:
        record = order.record
        worked = Worked(what, self.started, record.rerun, record.backfill, self.now)
        self.works[order.interval.scheduled_at].append(worked)

    def reached(self, step: str) -> None:
        self.passed += 1
        if self.passed == self.dies_at:
            self.seen["kill"] += 1
            self.died.add(self.started)
            raise Killed

    def call(
        self, act: Callable[[Application], Any], *, dies: bool = False, within: int = 60
    ) -> Any:
        """One process from its start to its end; None where it was killed, which it is within so
        many steps."""
        self.started += 1
        began = self.now
        out = outside(f"p{self.started}", self.clock)
        out.host.dead |= {f"p{self.started - 1}"}
        self.passed, self.dies_at = 0, self.rng.randrange(1, within) if dies else 0
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
            self.see_version(began)

    def see_version(self, began: datetime) -> None:
        """A configured plan holds from the instant on at which a process first wrote it down."""
        found = self.store.get(Kind.JOB, JOB, "")
        if found is None:
            return
        record = JobRecord.from_json(found.value)
        since, cron, zone, *_ = record.schedules[-1]
        assert len(record.schedules) - len(self.versions) in (0, 1)
        if len(record.schedules) > len(self.versions):
            assert (cron, zone) == (self.plan.cron, self.plan.zone)
            seen = from_text(since) - (TICK if self.versions else timedelta())
            assert began <= seen <= self.now
            self.versions.append((seen, self.plan))

    # --- what may happen

    def live(self) -> None:
        """One more trigger, or something that a person does."""
        rng = self.rng
        lengths = [10 * MINUTE, HOUR * rng.random() * 12, DAY * rng.random() * 4]
        self.clock.advance(rng.choices(lengths, [70, 25, 5])[0].total_seconds())
        acts: dict[Callable[[], None], int] = {
            self.knock: 100, self.edit: 2, self.pause: 2, self.unpause: 8,
            self.rerun: 4, self.skip: 2, self.one_of_now: 2, self.named: 2,
            **self.more,
        }  # fmt: skip
        act = rng.choices([*acts], [*acts.values()])[0]
        try:
            act()
        except (UsageError, OldOverNew) as error:
            self.seen["refused"] += 1
            self.seen[error.name] += 1
        else:
            self.seen[act.__name__] += 1

    def knock(self) -> None:
        before = sum(map(len, self.log.values()))
        self.call(lambda app: run(app, RunRequest(JOB)), dies=self.rng.random() < 0.2)
        if self.pauses and self.pauses[-1].lasts(self.now):
            assert sum(map(len, self.log.values())) == before, "it was paused"
            self.seen["held back"] += 1

    def edit(self) -> None:
        self.plan = self.rng.choice(self.plans)

    def pause(self) -> None:
        hours = self.rng.randrange(1, 72)
        until = self.now + hours * HOUR if self.rng.random() < 0.5 else None
        said = None if until is None else f"{hours}h"
        before = self.paused()
        self.call(lambda app: pause(app, REQUEST, until=said), dies=self.rng.random() < 0.2)
        if self.paused() == before:
            return
        if self.pauses and self.pauses[-1].lasts(self.now):
            self.pauses[-1].end, self.pauses[-1].again = until, self.now
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

    def settle(self) -> None:
        """No more trouble: triggers come until nothing is left to do."""
        self.trouble = False
        while self.pauses and self.pauses[-1].lasts(self.now):
            self.unpause()
        for _ in range(100):
            self.clock.advance(HOUR.total_seconds())
            self.call(lambda app: run(app, RunRequest(JOB)))
            come = [record for record, _ in self.records() if record.scheduled_at <= self.now]
            if all(record.state.is_final for record in come):
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

    def is_overtaken(self, at: datetime, by: datetime) -> bool:
        """Whether the target, which has one truth, had completed something newer by then."""
        if self.truth != "one":
            return False
        works = (one for newer in self.works if newer > at for one in self.works[newer])
        return any(one.what == "done" and one.at <= by for one in works)

    # --- what was intended

    def intended(self) -> list[datetime]:
        """All that came round since the job's start."""
        return list(self.scheduled(START - TICK, self.now))

    def scheduled(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """What comes round in ``(after, until]``, from what was configured when: a plan holds until
        the next one was seen, and the first one held ever before."""
        edges = [since for since, _ in self.versions[1:]] + [until]
        for (_, held), edge in zip(self.versions, edges, strict=True):
            end = min(edge, until)
            if after < end:
                yield from held.between(after, end)
                after = end
