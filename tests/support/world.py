"""Several processes, a store, a target, a source and time, all moved by hand.

Each process runs the real core: a trigger, with its engine, its lease keeper and its renewal
thread. Each of its lines of execution is a fiber that parks at every named step and before
every request to store, target and source, so that who goes on, who is stopped and who dies
is decided between any two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from reconcile.core import leasing
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
from reconcile.core.errors import (
    ReconcileError,
    SourceUnreachable,
    SourceUnusable,
    StoreBusy,
    StoreUnreachable,
    TargetLocked,
    TargetUnreachable,
)
from reconcile.core.model import Holder, Interval
from reconcile.core.operations.application import Application
from reconcile.core.ports import Runtime
from reconcile.core.rows import Page, Schema
from reconcile.core.work.entitlements.work import EntitlementsWork

from .fibers import Fiber, Killed
from .promises import MAX_REVOKE, MAX_REVOKE_MIN, Promises, StoreStory
from .sides import JOB, Table

START = datetime(2026, 11, 28, 2, 30, tzinfo=UTC)
TTL = timedelta(seconds=60)
DAY = 86400.0
CHANGING = frozenset(
    {"acquire", "renew", "release", "commit", "note", "raise_fence", "complete", "ask_stop"}
)
FAULTS = {"store": StoreUnreachable, "target": TargetUnreachable, "source": SourceUnreachable}


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


class RenewalThread:
    """What the lease keeper takes for a thread."""

    def __init__(self, target: Callable[[], None], name: str, daemon: bool) -> None:
        self._process: Process = Fiber.current().owner
        self._fiber = Fiber(self._process, target)
        self._process.renewals.append(self._fiber)
        self._process.keepers.append(target.__self__)  # type: ignore[attr-defined]

    def start(self) -> None:
        self._fiber.resume()

    def join(self, timeout: float) -> None:
        while not self._fiber.done and not self._process.dead:
            self._fiber.resume()


class Process:
    """One process start: one trigger, from its first look to its end. See `ports.Host`,
    `ports.Entropy` and `ports.StopSignal`, which it is to its own runtime."""

    reason: str | None = None

    def __init__(
        self, world: World, number: int, act: Callable[[Application], Any], *, far: bool
    ) -> None:
        self.world = world
        self.name = f"p{number}"
        self.far = far
        self.me = Holder("far" if far else "near", "m", "b", "ns", number, 1, self.name)
        self.dead = self.stopped = False
        self.looked: dict[Any, Table] = {}
        self.proving = ""
        self.lineage = world.lineage
        self.fault = self.cut = ""
        self.renewal_faults: list[str] = []
        self.renewals: list[Fiber] = []
        self.keepers: list[Any] = []
        self._open: list[Any] = []
        self._numbers = count(1)
        runtime = Runtime(world.clock, self, self, self, self.reached, lambda _: None)
        config = Config(Path("/reconcile.toml"), StoreConfig("memory:"), {JOB: world.job})
        self.app = Application(config, runtime, self.open_store, self.build_work)
        self.main = Fiber(self, lambda: act(self.app))

    # --- what it is to its own core

    def holder(self) -> Holder:
        return self.me

    def is_dead(self, holder: Holder) -> bool:
        return holder.host == self.me.host and self.world.is_dead(holder.token)

    def kill(self, holder: Holder) -> bool:
        if holder.host != self.me.host:
            return False
        self.world.processes[holder.token].die()
        return True

    def abort(self, error: Exception) -> None:
        self.die()

    def token(self) -> str:
        return f"{self.name}-{next(self._numbers)}"

    def reached(self, step: str) -> None:
        Fiber.current().park(step)

    def open_store(self) -> Any:
        return Stepped(self, "store", self._connected(self.world.store.connect()))

    def build_work(self, its_job: Job) -> EntitlementsWork:
        target = self._connected(self.world.target.connect(self.world.clock))
        stepped = Stepped(self, "target", target)
        return EntitlementsWork(its_job, SteppedSource(self), stepped, TTL)  # type: ignore[arg-type]

    def _connected(self, connection: Any) -> Any:
        self._open.append(connection)
        return connection

    # --- how it ends

    @property
    def is_over(self) -> bool:
        return self.dead or self.main.done

    def die(self) -> None:
        """SIGKILL: nothing of it goes on. Its connections are closed by the kernel."""
        if self.dead:
            return
        self.dead = True
        fibers = [self.main, *self.renewals]
        ours = [fiber for fiber in fibers if fiber is Fiber.running()]
        for fiber in fibers:
            if fiber not in ours:
                fiber.kill()
        self.close()
        if ours:
            raise Killed

    def close(self) -> None:
        for connection in self._open:
            connection.close()
        self._open.clear()

    # --- going on

    def go(self, until: str, times: int = 1) -> None:
        """Let it work until it is parked at `until` for the `times`-th time, or has ended.

        `next` is the next place of any kind, `write` the next request that changes something.
        """
        fiber = self.main
        while not self.is_over:
            if not fiber.is_ready(self.world.boot):
                assert fiber.until is not None
                self.world.advance(fiber.until - self.world.boot)
                continue
            fiber.resume()
            if _is_at(fiber.at, until):
                times -= 1
                if times <= 0:
                    break
        self.world.check()

    def request(self, side: str, name: str, do: Callable[[], Any], late: Any) -> Any:
        """Park, then send a request, which the network may do something to."""
        fiber = Fiber.current()
        fiber.park(f"{side}.{name}")
        if fiber is self.main:
            fault, self.fault = self.fault, ""
        else:
            fault = self.renewal_faults.pop() if self.renewal_faults else ""
        if not fault:
            return do()
        self.world.promises.seen.add(f"{fault} {side}")
        if fault == "busy" and side == "store":
            raise StoreBusy("somebody has the lock")
        if fault == "doubled":
            do()
            return do()
        if fault == "late":
            self.world.late.append((self, side, name, late))
        elif fault == "answer lost":
            do()
        elif fault == "busy" and name == "raise_fence":
            raise TargetLocked("somebody has the lock")
        raise FAULTS[side](f"{name} was not answered")


def _is_at(at: str, until: str) -> bool:
    if until == "next":
        return True
    if until == "write":
        return at.rpartition(".")[2] in CHANGING
    return at == until


class Stepped:
    """A connection whose every method but `close` is a step of its process."""

    fenced = True

    def __init__(self, process: Process, side: str, inner: Any) -> None:
        self._process = process
        self._side = side
        self._inner = inner

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in ("close", "interrupt", "describe"):
            return getattr(self._inner, name)  # type: ignore[no-any-return]

        def method(*args: Any, **kwargs: Any) -> Any:
            process, world = self._process, self._process.world
            if name == "scan" and str(args[0]) == "range":
                process.proving = kwargs["prefix"].rstrip("/")

            def do() -> Any:
                return world.ask(process, self._side, self._inner, name, args, kwargs)

            return process.request(self._side, name, do, (args, kwargs))

        return method


class SteppedSource:
    """The nights' tables. See `core.endpoints.Source`."""

    dated = True

    def __init__(self, process: Process) -> None:
        self._process = process

    def describe(self, interval: Interval | None) -> str:
        return "nights"

    def open(self, interval: Interval, schema: Schema) -> NightReading:
        process = self._process

        def do() -> NightReading:
            fault, process.cut = process.cut, ""
            return NightReading(*process.world.newest(interval.id), fault)

        return process.request("source", "open", do, None)  # type: ignore[no-any-return]


class NightReading:
    """One night, in pages of two rows; cut short after one page where there is a fault."""

    def __init__(self, fingerprint: str, table: Table, fault: str) -> None:
        self.fingerprint = fingerprint
        self._rows = [(*key, level) for key, level in sorted(table.items())]
        self._fault = fault

    def pages(self, after: str | None = None, resume: Any = None) -> Iterator[Page]:
        for at in range(resume or 0, len(self._rows), 2):
            yield Page(self._rows[at : at + 2], at)  # type: ignore[arg-type]
            if self._fault:
                break
        if self._fault == "cut":
            raise SourceUnusable("the last line is cut")
        if self._fault == "broken":
            raise SourceUnreachable("connection reset")

    def close(self) -> None:
        pass


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
        self.stepped = 0.0
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
        self._thread_type = leasing.Thread
        leasing.Thread = RenewalThread  # type: ignore[assignment,misc]

    def close(self) -> None:
        for process in self.processes.values():
            process.die()
        leasing.Thread = self._thread_type  # type: ignore[misc]
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

    def key_of(self, interval: str) -> str:
        return f"{interval}T02:30:00Z"

    # --- requests

    def ask(
        self, process: Process, side: str, inner: Any, name: str, args: Any, kwargs: Any
    ) -> Any:
        """Carry a request out under the eyes of `Promises`."""

        def do() -> Any:
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
        self.one_believer()

    def one_believer(self) -> None:
        """Promise 1, seen by the holders: whoever trusts in its lease still has it."""
        story = self.promises.store
        if story.newest is None:
            return
        for process in self.living():
            for keeper in process.keepers:
                trusts = not keeper._gone.is_set() and self.boot < keeper.trusted_until()
                if not trusts or keeper._trust.lapse or process.lineage != self.lineage:
                    continue
                taken = story.newest.generation > keeper.fence.generation
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
