"""One process of a `World`: the real core, run in fibers that park at every named step and
before every request to store, target and source, so that a test decides between any two of
them who goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reconcile.core.config import Config, Job, StoreConfig
from reconcile.core.errors import (
    FencedOut,
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
from .sides import JOB, TTL, Table

if TYPE_CHECKING:
    from .world import World

CHANGING = frozenset(
    {"acquire", "renew", "release", "commit", "note", "raise_fence", "complete", "ask_stop"}
)
FINAL = frozenset({"acquire", "commit", "raise_fence", "complete"})
FAULTS = {"store": StoreUnreachable, "target": TargetUnreachable, "source": SourceUnreachable}


class RenewalThread:
    """What the lease keeper takes for a thread."""

    def __init__(self, target: Callable[[], None], name: str, daemon: bool) -> None:
        self._process: Process = Fiber.current().owner
        self._fiber = Fiber(self._process, target)
        self._process.renewals.append(self._fiber)
        self._process.keepings.append(target.__self__)  # type: ignore[attr-defined]

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
        self.is_knock = act.__name__ == "knock"
        self.by_hand = self.forces = self.was_busy = False
        self.me = Holder("far" if far else "near", "m", "b", "ns", number, 1, self.name)
        self.dead = self.stopped = False
        self.fenced_out = self.released_unseen = False
        self.looked: dict[Any, Table] = {}
        self.looked_at = 0
        self.proving = ""
        self.lineage = world.lineage
        self.fault = self.cut = ""
        self.renewal_faults: list[str] = []
        self.renewals: list[Fiber] = []
        self.keepings: list[Any] = []
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

    def _sent(self, name: str, do: Callable[[], Any]) -> Any:
        """One request of many; being fenced out is final."""
        if self.fenced_out and Fiber.current() is self.main:
            assert name not in FINAL, f"promise 8: {name} by one that was told to stop"
        try:
            return do()
        except FencedOut:
            self.fenced_out = self.fenced_out or Fiber.current() is self.main
            raise

    def request(self, side: str, name: str, do: Callable[[], Any], late: Any) -> Any:
        """Park, then send a request, which the network may do something to."""
        fiber = Fiber.current()
        fiber.park(f"{side}.{name}")
        if fiber is self.main:
            fault, self.fault = self.fault, ""
        else:
            fault = self.renewal_faults.pop() if self.renewal_faults else ""
        if not fault:
            return self._sent(name, do)
        self.world.promises.seen.add(f"{fault} {side}")
        if fault == "busy" and side == "store":
            self.was_busy = True
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

            answer = process.request(self._side, name, do, (args, kwargs))
            if name in ("acquire", "renew"):
                Fiber.current().park("answer")
            return answer

        return method


class SteppedSource:
    """The nights' tables. See `core.endpoints.Source`."""

    dated = True

    def __init__(self, process: Process) -> None:
        self._process = process

    def describe(self, interval: Interval | None) -> str:
        return "nights"

    def open(self, interval: Interval, schema: Schema, calls: object = None) -> NightReading:
        process = self._process

        def do() -> NightReading:
            fault, process.cut = process.cut, ""
            process.world.promises.cuts += fault == "cut"
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
