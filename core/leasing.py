"""How one process holds a lease: the whole protocol, and why each part is as it is.

Who decides
    The store does, in one atomic step under its own clock. This module only *believes*,
    for a bounded time, and asks again. A lease key has at most one live lease, and each
    grant has a **generation** greater than any before, never reset: not by release, not by
    expiry, not by a restart. A grant is for one run of one interval, named by a run id.

The trust window
    A holder believes in its lease until `sent + ttl - margin`, where `sent` is the
    `CLOCK_BOOTTIME` reading *before* the request of the last successful acquire or renew
    was sent. Counting from the answer would be wrong: the store counts from when it worked
    on the request, which may be long before the answer comes. `CLOCK_BOOTTIME` counts the
    time a machine sleeps, so a laptop that wakes does not take an old window for a fresh
    one; the wall clock may be stepped as it likes. The margin (a sixth of the TTL) is what
    is left for breaking off the work before the store could grant the lease to another.

Renewal
    A thread of its own, with a connection of its own, renews every fifth of the TTL. It
    runs none of the work's code, so work that hangs or burns the processor cannot starve
    it. A renewal that fails without a definite refusal is *unknown*: the lease is neither
    kept nor lost, and the thread asks again, each time after half of what is left of the
    window, so that one lost answer never loses a lease. A definite refusal (`FencedOut`)
    is final.

Progress
    Renewal is a promise that something moves. When the progress counter has not moved for
    `progress_deadline`, renewal stops, the work is broken off and the process ends: a hung
    source must not keep everybody else away for ever.

Fenced writes
    Every write names generation, run id and a sequence number that grows within the
    generation. A request whose answer was lost is sent again with the same number; the
    store applies each number once.

States of a holder, as this module sees them::

                 acquire                     window over, no renewal succeeded
      (none) ------------> TRUSTED ------------------------------------------+
         ^                 |  ^  |                                           |
         |        renewed  |  |  | no progress / FencedOut                   v
         |                 +--+  +-------------------------------------> LAPSED
         |  release             regrant: the next generation,               |
         +-------- TRUSTED      same process, no release between            |
                                                    broken off, or the process is ended

What can go wrong, and what happens
    killed              The next trigger finds a live lease whose holder is provably dead
                        (`Host.is_dead`) and takes the next generation at once; on another
                        host it waits for expiry.
    stopped (SIGSTOP)   The lease expires and another takes the next generation. Woken, the
                        old holder finds its window over; its next write, to the store or
                        to a fencing target, is refused.
    suspended, nobody   Woken, the window is over; one late renewal is tried first. It is
    took over           accepted for an expired lease that nobody took, and work goes on.
    lost answer         Of acquire: asked again with the same run id, the same grant comes
                        back. Of renew: unknown, see above. Of commit: same number again.
                        Of release: asked again; released is released.
    stopped in a write  A holder stopped inside a transaction of an SQLite store keeps its write
                        lock. While its lease is live, triggers say busy; once it has
                        expired they end it (SIGKILL, verified by pidfd and start time) and
                        take the lease. In the target the same is done when the fence could
                        not be raised within `fence_wait`.
    store away          Work goes on until the window is over, then it is broken off:
                        `StoreUnreachable`.
    release too late    A release names generation and run; an old one changes nothing.
    turned-away trigger The store counts triggers that found the lease busy with another
                        interval. A release names the count its holder knew when it last
                        decided, and is refused when there are more: decide again. So no
                        trigger is lost between a holder's last look and its release.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, TypeVar

from .errors import FencedOut, LeaseBusy, ReconcileError, StoreBusy, StoreUnreachable
from .model import RunId
from .trust import Terms, Trust

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from .model import Fence, Grant, JsonObject, Lease, LeaseKey, Write
    from .ports import Runtime, Store

T = TypeVar("T")

__all__ = ["LeaseKeeper", "Terms"]

FIRST_ANSWER = 10.0
"""Seconds to insist on an answer of a store that has granted nothing yet."""
RETRY_FLOOR = 0.05
"""Seconds; below this, halving what is left of the window would spin."""


class LeaseKeeper:
    """Holds one lease key for this process, over as many grants as it takes.

    Used by one thread; its own renewal thread runs from the first grant to `release` or
    `abandon`. `break_off` is called from that thread when the lease is gone and must make
    the working thread come back soon; if it does not, the process is ended.
    """

    def __init__(
        self,
        store: Store,
        open_store: Callable[[], Store],
        runtime: Runtime,
        key: LeaseKey,
        terms: Terms,
    ) -> None:
        self._store = store
        self._open_store = open_store
        self._runtime = runtime
        self._key = key
        self._terms = terms
        self.previous: Grant | None = None
        """The grant that was taken over from another process, None after a release."""
        self.break_off: Callable[[], None] = lambda: None
        self._trust = Trust(runtime.clock, terms)
        self._wake = Event()
        self._gone = Event()
        self._thread: Thread | None = None
        self._seq = 0

    # --- what is known

    @property
    def fence(self) -> Fence:
        """The newest grant's fence."""
        return self.lease.fence

    @property
    def lease(self) -> Lease:
        """The newest grant as the store last answered."""
        return self._trust.lease

    @property
    def stop_request(self) -> JsonObject | None:
        """What `reconcile stop` asked for, as of the last renewal."""
        return self.lease.stop

    def now(self) -> datetime:
        """The store's clock: its last answer, plus what has passed here since."""
        return self._trust.now()

    def trusted_until(self) -> float:
        """End of the trust window, a `CLOCK_BOOTTIME` reading in seconds."""
        return self._trust.until()

    # --- getting and giving back

    def acquire(self, interval: str, *, overlap: bool) -> Lease:
        """Take the lease for an interval (its key).

        Raises `LeaseBusy`, having noted the overlap where asked to. A holder that is
        provably dead is replaced at once; a stopped one whose lease expired and that sits
        on the store's write lock is ended.
        """
        try:
            lease = self._grant(interval, overlap=overlap)
        except StoreBusy as error:
            self._end_stopped_writer(error)
            lease = self._grant(interval, overlap=overlap)
        except LeaseBusy as busy:
            if not self._may_replace(busy.lease):
                raise
            lease = self._grant(interval, replaces=busy.lease.fence.run, overlap=overlap)
        self._begin()
        return lease

    def _may_replace(self, other: Lease) -> bool:
        """A holder that is provably dead; or this very process, done with an earlier grant."""
        host = self._runtime.host
        if other.holder.token == host.holder().token:
            return not other.live
        return self._terms.detect_dead and host.is_dead(other.holder)

    def take_over(self, other: Lease) -> Lease:
        """Take the next generation from a holder that is to be fenced out, live or not.

        One that keeps the store locked, as if stopped in a write, is ended. Raises `LeaseBusy`
        when that grant is not the newest any more.
        """
        try:
            lease = self._grant(other.interval, replaces=other.fence.run)
        except StoreBusy:
            if not self._runtime.host.kill(other.holder):
                raise
            lease = self._grant(other.interval, replaces=other.fence.run)
        self._begin()
        return lease

    def _begin(self) -> None:
        self._thread = Thread(target=self._keep, name="lease-renewal", daemon=True)
        self._thread.start()

    def _end_stopped_writer(self, error: StoreBusy) -> None:
        """Who holds the write lock for so long? The holder itself, if it was stopped inside a
        transaction: while its lease is live it is busy, later it is ended."""
        lease = self._store.lease(self._key)
        if lease is not None and lease.live:
            raise LeaseBusy(lease) from error
        if lease is not None and not lease.released and self._runtime.host.kill(lease.holder):
            return
        raise StoreUnreachable(
            f"{error}, and it is not the last holder of {self._key.job}", hint=error.hint
        ) from error

    def regrant(self, interval: str, *, above: int = 0) -> Lease:
        """Take the next generation without a release between: for the next interval, or to
        get above a target's floor. Raises `FencedOut` when somebody else took it, be it that
        he let go of it since: what was decided before that is void."""
        was = self.fence
        try:
            lease = self._grant(interval, replaces=was.run, above=above)
        except LeaseBusy as busy:
            refusal = FencedOut(f"{self._key.job} is worked by {busy.lease.holder}")
            raise self.fenced_out(refusal) from busy
        if lease.previous is not None and lease.previous.fence == was:
            return lease
        with suppress(StoreUnreachable, StoreBusy):  # it expires, or is found dead
            self.release(None)
        other = lease.previous.holder if lease.previous else "another store"
        raise self.fenced_out(FencedOut(f"{self._key.job} was worked by {other} meanwhile"))

    def _grant(
        self,
        interval: str,
        *,
        replaces: RunId | None = None,
        above: int = 0,
        overlap: bool = False,
    ) -> Lease:
        run = RunId(self._runtime.entropy.token())
        holder = self._runtime.host.holder()
        # Before the first grant there is no window to stay in, and the next knock comes anyhow.
        patience = FIRST_ANSWER if self._thread is None else self._terms.ttl.total_seconds()
        limit = self._runtime.clock.boot() + patience

        def ask() -> tuple[float, Lease]:
            sent = self._runtime.clock.boot()
            return sent, self._store.acquire(
                self._key,
                run,
                holder,
                self._terms.ttl,
                interval=interval,
                above=above,
                replaces=replaces,
                overlap=overlap,
            )

        sent, lease = self._insist(ask, limit, but=StoreBusy if self._thread is None else None)
        self._seq = 0
        self._trust.granted(sent, lease)
        if not above:
            previous = lease.previous
            ours = previous is not None and previous.holder.token == holder.token
            self.previous = None if ours else previous
        return lease

    def release(self, overlaps_seen: int | None) -> None:
        """Give the lease back; renewal goes on until the store has said so.

        Raises `OverlapIsNewer`: decide again, the lease is still ours; `FencedOut`: it was not
        ours any more.
        """
        self._seq += 1
        asked = 0

        def ask() -> None:
            nonlocal asked
            asked += 1
            self._store.release(self.fence, self._seq, overlaps_seen)

        try:
            self._insist(ask, self.trusted_until())
        except FencedOut as error:
            if asked == 1:
                raise self.fenced_out(error) from error
            # An answer was lost; it was released, and somebody has it by now.
        self.abandon()

    def abandon(self) -> None:
        """Stop renewing, and leave the lease to expire or to be found dead."""
        self._gone.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=self._terms.ttl.total_seconds())

    # --- working under it

    def progressed(self) -> None:
        """Note that something moved, and check that the lease may still be trusted.

        Raises what ended it: `FencedOut`, `LeaseLapsed` or `StoreUnreachable`.
        """
        if not self._trust.moved():
            self._renew_late()

    def _renew_late(self) -> None:
        """The machine slept or this process was stopped: ask once before going on."""
        sent = self._runtime.clock.boot()
        fence, progress = self._trust.to_renew()
        try:
            self._trust.renewed(sent, self._store.renew(fence, progress))
        except FencedOut as error:
            raise self.fenced_out(error) from error

    def commit(self, writes: Sequence[Write]) -> None:
        """One fenced batch, sent again with the same number until its answer is known.

        Raises `FencedOut`, `WriteConflict`, and what `progressed` raises.
        """
        self.progressed()
        self._seq += 1
        try:
            self._insist(
                lambda: self._store.commit(self.fence, self._seq, writes),
                self.trusted_until(),
            )
        except FencedOut as error:
            raise self.fenced_out(error) from error

    def fenced_out(self, error: FencedOut) -> FencedOut:
        """The refusal, with the newer grant in it: the record is read once, then it is final."""
        newer = self._store.lease(self._key)
        if newer is not None and newer.fence == self.fence:
            newer = None
        final = FencedOut(str(error), newer=newer, hint=error.hint)
        self._trust.end(final)
        return final

    def _insist(
        self, ask: Callable[[], T], until: float, *, but: type[ReconcileError] | None = None
    ) -> T:
        """Ask until there is an answer, at most until a reading of `CLOCK_BOOTTIME`; an error
        of the kind `but` is an answer."""
        while True:
            try:
                return ask()
            except (StoreUnreachable, StoreBusy) as error:
                left = until - self._runtime.clock.boot()
                if but is not None and isinstance(error, but):
                    raise
                if left <= RETRY_FLOOR:
                    raise _unreachable(error) from error
                self._runtime.clock.wait(max(RETRY_FLOOR, min(left / 2, 1.0)), self._gone)

    # --- the renewal thread

    def _keep(self) -> None:
        store = None
        try:
            while not self._runtime.clock.wait(self._until_next(), self._wake):
                fence, progress = self._trust.to_renew()
                if store is None:
                    store = self._open_store()
                self._renew(store, fence, progress)
        except ReconcileError as error:
            self._end(error)
        finally:
            if store is not None:
                store.close()

    def _until_next(self) -> float:
        return max(RETRY_FLOOR, self._trust.next_wait())

    def _renew(self, store: Store, fence: Fence, progress: int) -> None:
        """One request. Unknown is neither kept nor lost, until the window is over."""
        sent = self._runtime.clock.boot()
        try:
            self._trust.renewed(sent, store.renew(fence, progress))
        except FencedOut:
            if self.fence != fence or self._gone.is_set():
                return  # it was this process that went on to the next grant, or released
            raise
        except (StoreUnreachable, StoreBusy):
            if self._runtime.clock.boot() >= self._trust.until():
                raise

    def _end(self, error: ReconcileError) -> None:
        """Make the working thread stop; end the process where it does not."""
        error = _unreachable(error)
        self._trust.end(error)
        self.break_off()
        if not self._runtime.clock.wait(self._terms.margin / 2, self._gone):
            self._runtime.host.abort(error)


def _unreachable(error: ReconcileError) -> ReconcileError:
    """A lock that was not had for a whole window is no passing moment any more."""
    return StoreUnreachable(str(error), hint=error.hint) if isinstance(error, StoreBusy) else error
