"""What the core needs from outside, as Protocols. The consumer owns the interface.

Boundaries: `Store` holds no domain rule (a lease, fenced conditional batches, ordered
scans, a bucket: one transaction or one script each). The engine knows `Work` and never
accounts; the Protocols of sources and targets are in `core/endpoints.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime, timedelta
    from threading import Event

    from .events import DryRun, Report
    from .metrics import JobFigures
    from .model import (
        Fence,
        FenceRow,
        Holder,
        Interval,
        JsonObject,
        Kind,
        Lease,
        LeaseKey,
        Proof,
        Rate,
        Record,
        Reported,
        RunId,
        StoreFacts,
        Trigger,
        Unproved,
        Write,
    )
    from .records import IntervalRecord
    from .rows import Change
    from .steps import Step


# --- this process and its host


class Clock(Protocol):
    """The host's clock. It never decides expiry on a store shared by several hosts."""

    def now(self) -> datetime:
        """The wall clock, in UTC. For display and the warning about skew."""
        ...

    def boot(self) -> float:
        """`CLOCK_BOOTTIME` in seconds, less the time namespace's offset; counts suspend."""
        ...

    def wait(self, seconds: float, wake: Event) -> bool:
        """Sleep until `wake` is set (True) or the seconds are over (False)."""
        ...


class Host(Protocol):
    """What the operating system says of processes."""

    def holder(self) -> Holder:
        """This process start; the same value at each call."""
        ...

    def is_dead(self, holder: Holder) -> bool:
        """Whether that process is provably gone, with all commands that it ran. Any doubt is
        False."""
        ...

    def kill(self, holder: Holder) -> bool:
        """SIGKILL that very process, verified by pidfd and start time; False where it may not
        or cannot be verified."""
        ...

    def end_leftovers(self, holder: Holder, run: str) -> tuple[Sequence[str], Sequence[str]]:
        """End what commands of that holder's run have left on this host, when neither it nor
        their supervisor could. Who was ended, and who could not be, as texts for people."""
        ...

    def abort(self, error: Exception) -> None:
        """End this process now, saying why; the last resort against a thread that hangs."""
        ...


class Entropy(Protocol):
    """Randomness."""

    def token(self) -> str:
        """A fresh unguessable name: 32 hex digits."""
        ...


class StopSignal(Protocol):
    """Whether somebody asked this process to stop."""

    @property
    def reason(self) -> str | None:
        """`SIGTERM` or `SIGINT` once it came, else None."""
        ...


class Runtime(NamedTuple):
    """Everything that enters from outside the program, handed to those who need it.

    `reached` is called with the name of each step a trigger passes (see `core/engine.py`),
    `report` with what a user may want to see. `alive` is called by the thread that renews, each
    time that renewal's rule of progress holds; it must not wait.
    """

    clock: Clock
    host: Host
    entropy: Entropy
    stop: StopSignal
    reached: Callable[[str], None]
    report: Callable[[Report], None]
    alive: Callable[[], None] = lambda: None


class Notifier(Protocol):
    """Tells people and monitoring systems, over channels that have a name each."""

    @property
    def channels(self) -> Sequence[str]:
        """Who gets alerts; empty where only figures are wanted."""
        ...

    @property
    def wants_figures(self) -> bool: ...

    def send(self, channel: str, alert: JsonObject) -> None:
        """Deliver one alert within a bounded time. Raises `NotDelivered`."""
        ...

    def publish(self, figures: Sequence[JobFigures]) -> None:
        """Write down how all jobs stand, whole or not at all. Raises `NotDelivered`."""
        ...


# --- stores


class Reader(Protocol):
    """The part of a store that work may read."""

    def get(self, kind: Kind, job: str, key: str) -> Record | None:
        """One record."""
        ...

    def scan(
        self,
        kind: Kind,
        job: str,
        *,
        prefix: str = "",
        after: str = "",
        before: str = "",
        tag: str = "",
        limit: int = 1000,
        newest_first: bool = False,
    ) -> Sequence[Record]:
        """Records in order of key: those that start with `prefix`, lie strictly between
        `after` and `before` ("" is no bound) and have the tag ("" is any)."""
        ...


class Store(Reader, Protocol):
    """One connection to a store. All instants in it are the store's own.

    A fenced write names the exact generation and run id; check and write are one step, and
    a mismatch raises `FencedOut` having written nothing. It carries a sequence number that
    grows within its generation: one not above the last applied changes nothing, so a late
    or doubled request is harmless.

    All methods raise `StoreUnreachable`, `StoreBusy` or `StoreUnusable`.
    """

    def facts(self) -> StoreFacts:
        """Identity, clock and traits."""
        ...

    def acquire(
        self,
        key: LeaseKey,
        run: RunId,
        holder: Holder,
        ttl: timedelta,
        *,
        interval: str,
        above: int = 0,
        replaces: RunId | None = None,
        overlap: bool = False,
    ) -> Lease:
        """Grant the next generation, greater than any before and than `above`.

        Granted when there is no lease, it was released, it expired, or `replaces` names the
        run that has it (the caller's own, or one whose holder it proved dead). The first
        generation of an unknown key is the store's clock in whole seconds. Asked again for
        the run that has the lease, or had it last, it answers with that grant as it stands
        and grants nothing. While the last grant is of this same holder, only its run or
        `replaces` naming it is accepted: anything else is a late request, and busy.

        What was counted and asked for (`overlaps`, `stop`) stays with a holder that regrants
        an unreleased lease; any other grant begins without.

        Raises `LeaseBusy` with the lease; where `overlap` is set and the lease is for another
        interval, that is counted in `Lease.overlaps` in the same step.
        """
        ...

    def renew(self, fence: Fence, progress: int) -> Lease:
        """Push the expiry out by the TTL from now. Accepted for an expired lease that nobody
        took, never for a released one (`FencedOut`)."""
        ...

    def release(self, fence: Fence, seq: int, overlaps_seen: int | None) -> None:
        """End the lease. Refused with `OverlapIsNewer` when more overlaps were counted than
        `overlaps_seen` (None: release whatever was counted). A no-op once released."""
        ...

    def ask_stop(self, key: LeaseKey, generation: int, request: JsonObject) -> bool:
        """Leave a request on the live lease of that generation; False when it has ended."""
        ...

    def commit(self, fence: Fence, seq: int, writes: Sequence[Write]) -> bool:
        """Write the batch under the fence; False when `seq` was applied before. All of a
        batch is about one job, that of the fence; ValueError otherwise.

        Raises `WriteConflict` where a record is not of the version expected.
        """
        ...

    def note(self, writes: Sequence[Write]) -> None:
        """Write a batch about one job without a fence: acts by hand. `WriteConflict` and
        ValueError as above.

        Versions begin anew in another store, so where the store was wiped or replaced since
        this connection was opened, nothing is written: `StoreUnreachable`.
        """
        ...

    def lease(self, key: LeaseKey) -> Lease | None:
        """The newest grant, live or not."""
        ...

    def take(self, bucket: str, rate: Rate, n: int = 1) -> float:
        """Take n calls from a bucket; 0: go, else seconds to wait, and nothing was taken.

        An idle bucket gives its whole amount at once and refills meanwhile, so that a time as
        long as the rate's may see nearly twice the amount: right for calls that come and go,
        not for what is promised of each window (see `rates`).
        """
        ...

    def close(self) -> None:
        """Give the connection back. Releases no lease."""
        ...


# --- work


class Work(Protocol):
    """What is done for one interval: entitlements, or a command."""

    fenced: bool
    """Whether what it works on keeps a fence, and so knows what was completed last."""

    def floor(self, key: LeaseKey) -> FenceRow | None:
        """The target's fence row as it stands; None where there is none. See `Target.floor`."""
        ...

    def raise_fence(self, fence: Fence, store_id: str) -> FenceRow | None:
        """Fence the target; None when there is nothing to fence. See `Target.raise_fence`."""
        ...

    def steps(self, order: WorkOrder) -> Iterator[Step]:
        """Do the work. After each step yielded the engine makes it durable, and may not come
        back; the next run then goes on from the last cursor. Raises `endpoints.BrokenOff`
        where the work itself has stopped what it began."""
        ...

    def prove(self, order: WorkOrder) -> Proof | Reported | Unproved:
        """Check that all is done, and say what is missing where it is not."""
        ...

    def complete(self, order: WorkOrder, proof: Proof | Reported) -> Sequence[Write]:
        """Record completion on the target's side, before the store's; what the store need
        not keep any longer."""
        ...

    def key(self) -> Sequence[int]:
        """Positions of the key in the rows of changes."""
        ...

    def changes(
        self, interval: str | None, account: str | None
    ) -> Iterator[tuple[JsonObject, Change]]:
        """The log of changes, oldest first. See `endpoints.Target.changes`."""
        ...

    def preview(self, records: Reader, interval: Interval, limit: int) -> DryRun | None:
        """What the plan just made would change, with its first changes."""
        ...

    def still_waits(self, interval: Interval, waiting: JsonObject) -> bool:
        """Whether a guard that stopped an interval would see the very same source and
        settings, so that there is nothing to judge again."""
        ...

    def interrupt(self) -> None:
        """Break off what is being done, from another thread: the lease is gone."""
        ...

    def trust(self, until: float) -> None:
        """The lease was granted or renewed: the trust window ends at this `CLOCK_BOOTTIME`
        reading now. From any thread; does not wait."""
        ...

    def close(self) -> None:
        """Free what the work holds, and end what it has begun."""
        ...


class WorkOrder(Protocol):
    """What the engine gives to work, for one run."""

    @property
    def fence(self) -> Fence: ...
    @property
    def interval(self) -> Interval: ...
    @property
    def record(self) -> IntervalRecord:
        """The interval's record as it stands: its cursor (None at the beginning), and what was
        applied so far."""
        ...

    @property
    def approval(self) -> str | None:
        """The hash of the plan that somebody approved."""
        ...

    @property
    def dry_run(self) -> bool: ...
    @property
    def trigger(self) -> Trigger: ...
    @property
    def records(self) -> Reader: ...

    def now(self) -> datetime:
        """The store's clock."""
        ...

    def trusted_until(self) -> float:
        """End of the trust window, a `CLOCK_BOOTTIME` reading."""
        ...

    def take(self, bucket: str, rate: Rate) -> float:
        """See `endpoints.Calls`, which an order is for a source on a network."""
        ...

    def wait(self, seconds: float) -> None:
        """See `endpoints.Calls`."""
        ...

    def go_on(self) -> None:
        """See `endpoints.Calls`."""
        ...

    def progressed(self) -> None:
        """Something moved: a page read, a range compared, changes applied. Raises `LeaseLapsed`
        or `FencedOut` when the lease may no longer be trusted."""
        ...

    def check(self) -> None:
        """As `progressed`, where nothing moved."""
        ...

    def stop_asked(self) -> bool:
        """Whether a signal, `reconcile stop` or the end of the time asks the run to end."""
        ...

    def new_id(self) -> str:
        """A fresh unguessable name."""
        ...

    def reached(self, step: str) -> None:
        """Name a step passed, for those who watch (and kill) at exact points."""
        ...

    def report(self, report: Report) -> None:
        """Tell a user something that is no checkpoint."""
        ...
