"""What the contract suite asks of a store's test file, and the values it works with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from ..core.model import Holder, Kind, LeaseKey, Put, RunId

if TYPE_CHECKING:
    from collections.abc import Sequence
    from threading import Event

    from ..core.model import JsonObject, Lease, Record
    from ..core.ports import Store

KEY = LeaseKey("entitlements")
JOB = KEY.job
TTL = timedelta(seconds=60)
TONIGHT = "2026-11-30T02:30:00Z"
TOMORROW = "2026-12-01T02:30:00Z"


class MovedClock:
    """A `core.ports.Clock` that stands still until it is moved, for stores that take one."""

    def __init__(self) -> None:
        """Half past two in the night, sixteen minutes after boot."""
        self._wall = datetime(2026, 11, 30, 2, 30, 0, 250_000, tzinfo=UTC)
        self._boot = 1000.5

    def now(self) -> datetime:
        """See `Clock.now`."""
        return self._wall

    def boot(self) -> float:
        """See `Clock.boot`."""
        return self._boot

    def wait(self, seconds: float, wake: Event) -> bool:
        """Nobody waits: the time is over at once, unless somebody woke us."""
        if not wake.is_set():
            self.advance(seconds)
        return wake.is_set()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._boot += seconds
        self._wall += timedelta(seconds=seconds)

    def step(self, seconds: float) -> None:
        """Set the wall clock; no time passes."""
        self._wall += timedelta(seconds=seconds)


class Harness(Protocol):
    """One fresh store, seen from outside. Everything it opened is closed by its fixture."""

    def open(self) -> Store:
        """One more connection, as independent of the others as another process's."""
        ...

    def advance(self, seconds: float) -> None:
        """Let that much time pass on the store's clock."""
        ...

    def step_wall_clock(self, seconds: float) -> None:
        """Set the wall clock of the host that calls the store, forward or back. No time
        passes, and the store's opinion of expiry must not change."""
        ...

    def peek_generation(self, key: LeaseKey) -> int | None:
        """The stored generation, read behind the store's back."""
        ...

    def peek_record(self, kind: Kind, job: str, key: str) -> JsonObject | None:
        """The stored value, read behind the store's back."""
        ...


def holder(name: str) -> Holder:
    """One process start; another name, another process."""
    return Holder(
        host="web-2",
        machine_id="5f7c",
        boot_id="b001",
        pid_namespace="pid:[4026531836]",
        pid=4711,
        started=123456,
        token=name,
        user="ops",
    )


A, B, C = holder("a"), holder("b"), holder("c")


def grant(
    store: Store,
    run: str,
    by: Holder = A,
    *,
    interval: str = TONIGHT,
    above: int = 0,
    replaces: str | None = None,
    overlap: bool = False,
) -> Lease:
    """Acquire `KEY`, for the interval of tonight unless told otherwise."""
    return store.acquire(
        KEY,
        RunId(run),
        by,
        TTL,
        interval=interval,
        above=above,
        replaces=None if replaces is None else RunId(replaces),
        overlap=overlap,
    )


def cursor_at(position: int) -> Put:
    """A checkpoint, as small as it gets."""
    return Put(Kind.INTERVAL, JOB, TONIGHT, {"cursor": position})


def keys(records: Sequence[Record]) -> list[str]:
    """The keys of what a scan gave, in its order."""
    return [record.key for record in records]
