"""Several processes, a store, a target, a source and time, all moved by hand.

Each process runs the real core: a trigger, with its engine, its lease keeper and its renewal
thread. Each of its lines of execution is a fiber that parks at every named step and before
every request to store, target and source, so that who goes on, who is stopped and who dies
is decided between any two of them.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from reconcile.core import last_moment, renewal
from reconcile.core.config import (
    EntitlementsConfig,
    GuardsConfig,
    Job,
    LeaseConfig,
    SourceConfig,
    TargetConfig,
)
from reconcile.core.errors import ReconcileError, StoreUnreachable
from reconcile.core.events import RunReport
from reconcile.core.model import Outcome
from reconcile.core.operations.application import Application

from .fibers import Fiber
from .nights import NoThread
from .processes import Process, RenewalThread
from .promises import MAX_REVOKE, MAX_REVOKE_MIN, Promises, StoreStory
from .sides import JOB, TTL, Table

START = datetime(2026, 11, 28, 2, 30, tzinfo=UTC)
DAY = 86400.0
GOING_ON = {Outcome.COMPLETED, Outcome.NEEDS_APPROVAL, Outcome.FAILED, Outcome.INCOMPLETE}
"""After these a trigger may take another interval."""


def job(range_size: int) -> Job:
    """Nightly at half past two from `START` on."""
    guards = GuardsConfig(max_revoke=MAX_REVOKE, max_revoke_min=MAX_REVOKE_MIN, max_update=1.0)
    work = EntitlementsConfig(
        source=SourceConfig("csv", "/{date}.csv"),
        target=TargetConfig("sql", "sqlite:///app.db", JOB),
        guards=guards,
        range_size=range_size,
    )
    lease = LeaseConfig(ttl=TTL, progress_deadline=timedelta(seconds=150))
    return Job(JOB, Path("/reconcile.toml"), "30 2 * * *", work, start=START, lease=lease)


class WorldClock:
    """The time of the world, for one process or for a store. Whoever waits is a fiber."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> datetime:
        world = self._world
        return START + timedelta(seconds=world.boot - world.begun + world.stepped)

    def boot(self) -> float:
        return self._world.boot

    def wait(self, seconds: float, wake: Any) -> bool:
        until = self._world.boot + seconds
        fiber = Fiber.current()
        while not (wake.is_set() or self._world.boot >= until):
            fiber.park("wait", until, wake)
        return bool(wake.is_set())


class World:
    """Everything there is. Time only passes in `advance`."""

    begun = 1000.0

    def __init__(
        self,
        store_side: Callable[[WorldClock], Any],
        target_side: Callable[[], Any],
        range_size: int,
        nights: list[Table],
    ) -> None:
        self.boot = self.begun + 60
        self.stepped = self.lowest = 0.0
        self.clock = WorldClock(self)
        self.job = job(range_size)
        self.lineage = 0
        self.store = store_side(self.clock)
        self.target = target_side()
        self.promises = Promises(self)
        self.processes: dict[str, Process] = {}
        self.late: list[Any] = []
        self._nights = nights
        self._versions: dict[str, list[Table]] = {}
        self._thread_types = renewal.Thread, last_moment.Thread
        renewal.Thread = RenewalThread  # type: ignore[assignment,misc]
        # It would only end processes, which this world does at any time.
        last_moment.Thread = NoThread  # type: ignore[assignment,misc]

    def close(self) -> None:
        for process in self.processes.values():
            process.die()
        renewal.Thread, last_moment.Thread = self._thread_types  # type: ignore[misc]
        self.store.close()
        self.target.close()

    # --- truth

    def newest(self, interval: str) -> tuple[str, Table]:
        """Fingerprint and rows of an interval's truth, as it stands now."""
        versions = self._versions.get(interval)
        if versions is None:
            ago = (datetime.fromisoformat(interval).replace(tzinfo=UTC) - START).days + 1
            versions = self._versions[interval] = [self._nights[ago % len(self._nights)]]
        return f"{interval}#{len(versions) - 1}", versions[-1]

    def truth(self, fingerprint: str) -> Table:
        """The rows that a fingerprint stands for."""
        interval, _, version = fingerprint.partition("#")
        return self._versions[interval][int(version)]

    def rewrite(self, interval: str, table: Table) -> None:
        """The source of a night becomes another."""
        self.newest(interval)
        self._versions[interval].append(table)

    def somebody_writes(self, key: tuple[str, str], level: str | None) -> None:
        """Another program changes, adds or (None) deletes a row of the target's table."""
        self.promises.writes.append("somebody")
        self.target.write(key, level)

    def is_future(self, interval: str) -> bool:
        """Whether an interval is not due yet, by the clock at its lowest."""
        lowest = self.clock.now() + timedelta(seconds=self.lowest - self.stepped)
        return datetime.fromisoformat(self.key_of(interval)) > lowest

    def set_clock(self, stepped: float) -> None:
        """Somebody sets the wall clock to so many seconds after the true time."""
        self.stepped = stepped
        self.lowest = min(self.lowest, stepped)

    def key_of(self, interval: str) -> str:
        return f"{interval}T02:30:00Z"

    # --- requests

    def ask(
        self, process: Process, side: str, inner: Any, name: str, args: Any, kwargs: Any
    ) -> Any:
        """Carry a request out under the eyes of `Promises`."""

        def do() -> Any:
            if name == "note" and process.lineage != self.lineage:
                raise StoreUnreachable("the connection went with the store")
            return getattr(inner, name)(*args, **kwargs)

        if side == "store":
            if name == "acquire":
                _, run, holder, ttl = args
                call = {"run": run, "holder": holder, "ttl": ttl, **kwargs}
                call.setdefault("replaces", None)
                return self.promises.ask_store(do, name, (call,), process)
            return self.promises.ask_store(do, name, args, process)
        return self.promises.ask_target(do, name, args, process)

    def deliver(self, number: int) -> None:
        """A request that was late arrives, on a connection of its own."""
        process, side, name, late = self.late.pop(number % len(self.late))
        if side == "source":
            return
        inner = self.store.connect() if side == "store" else self.target.connect(self.clock)
        try:
            self.ask(process, side, inner, name, *late)
        except ReconcileError:
            self.promises.seen.add(f"late {side} refused")
        else:
            self.promises.seen.add(f"late {side} arrived")
        finally:
            inner.close()

    # --- processes and time

    def start(self, act: Callable[[Application], Any], *, far: bool = False) -> Process:
        number = len(self.processes) + 1
        process = Process(self, number, act, far=far)
        self.processes[process.name] = process
        return process

    def is_dead(self, token: str) -> bool:
        return self.processes[token].is_over

    def living(self) -> list[Process]:
        return [process for process in self.processes.values() if not process.is_over]

    def advance(self, seconds: float) -> None:
        """Let time pass; renewal threads of all that are not stopped run when it is time."""
        until = self.boot + seconds
        while True:
            due = [
                fiber
                for process in self.living()
                if not process.stopped
                for fiber in process.renewals
                if not fiber.done and fiber.is_ready(until)
            ]
            if not due:
                break
            fiber = min(due, key=lambda fiber: fiber.until or 0.0)
            if not fiber.is_ready(self.boot):
                self.boot = max(self.boot, fiber.until or 0.0)
            fiber.resume()
        self.boot = max(self.boot, until)
        self.check()

    def check(self) -> None:
        """Raise what a fiber met that is no refusal: a broken promise, or a defect."""
        for process in self.processes.values():
            for fiber in (process.main, *process.renewals):
                error, fiber.error = fiber.error, None
                if error is not None and not isinstance(error, ReconcileError):
                    raise error
                if error is not None:
                    fiber.result = error
            if process.main.done:
                process.close()
                self._looked_again(process)
        self.one_believer()

    @staticmethod
    def _looked_again(process: Process) -> None:
        """Who lets go without a look at who was turned away may not go on himself."""
        report = process.main.result
        if process.is_knock and process.released_unseen and isinstance(report, RunReport):
            outcomes = {interval.outcome for interval in report.intervals}
            assert outcomes - GOING_ON, "promise 5: a trigger that was turned away is lost"

    def one_believer(self) -> None:
        """Promise 1, seen by the holders: whoever trusts in its lease still has it."""
        story = self.promises.store
        if story.newest is None:
            return
        for process in self.living():
            if process.lineage != self.lineage or process.name in self.promises.forced:
                continue
            for keeping in process.keepings:
                trust = keeping.trust
                if keeping.over.is_set() or trust.lapse or self.boot >= trust.until():
                    continue
                taken = story.newest.generation > trust.lease.fence.generation
                assert not (taken and story.holder != process.name), "promise 1: one holder"

    # --- copies

    def copy(self, side: str) -> Any:
        """A copy of `store` or `target`, with what is known of it."""
        return getattr(self, side).snapshot(), deepcopy(getattr(self.promises, side))

    def put_back(self, side: str, copied: Any) -> None:
        """An older copy takes the place of what there is."""
        getattr(self, side).restore(copied[0])
        setattr(self.promises, side, deepcopy(copied[1]))
        if side == "store":
            self.lineage += 1
        else:
            self.promises.writes.append("somebody")

    def wipe_store(self) -> None:
        """The store is gone; the next who comes finds an empty one."""
        self.store.wipe()
        self.promises.store = StoreStory()
        self.lineage += 1
