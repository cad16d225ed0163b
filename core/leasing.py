"""How one process holds a lease: the whole protocol, and why each part is as it is.

Who decides
    The store does, in one atomic step under its own clock. This module only *believes*,
    for a bounded time, and asks again. A lease key has at most one live lease, and each
    grant has a **generation** greater than any before, never reset: not by release, not by
    expiry, not by a restart. A grant is for one run of one interval, named by a run id.

The lease, as the store has it::

      (unknown)                  renew, if nobody took it
          | acquire              +---------------------------+
          v                      v                           |
         LIVE ---- TTL over, or the host was booted ----> EXPIRED
          | ^                                                |
  release | +---- acquire by anybody: the next generation ---+
          v |
        RELEASED

    While it is LIVE the next generation goes only to its own holder, for the next interval
    or above a target's floor; to who proves that holder dead; and to `stop --force`.

The holder, as it sees itself::

                 acquire                     window over, no renewal succeeded
      (none) ------------> TRUSTED ------------------------------------------+
         ^                 |  ^  |                                           |
         |        renewed  |  |  | no progress / FencedOut                   v
         |                 +--+  +-------------------------------------> LAPSED
         |  release             regrant: the next generation,               |
         +-------- TRUSTED      same process, no release between            |
                                                    broken off, or the process is ended

The trust window
    A holder believes in its lease until `sent + ttl - margin`, where `sent` is the
    `CLOCK_BOOTTIME` reading *before* the request of the last successful acquire or renew
    was sent: the store counts from when it worked on the request, which may be long before
    the answer comes. The margin (a sixth of the TTL; more below six seconds, `Terms.margin`) is
    what is left for breaking off the work before the store could grant the lease to another;
    who has not come back after three quarters of it, or a quarter of a second before its end,
    is ended, whatever it waits for (`core/last_moment.py`).

Renewal (`core/renewal.py`)
    A thread with a connection of its own renews every fifth of the TTL. A renewal that fails
    without a definite refusal is *unknown*: the lease is neither kept nor lost, and the
    thread asks again, each time after half of what is left of the window. A definite refusal
    (`FencedOut`) is final. Renewal is a promise that something moves: when the progress
    counter has not moved for `progress_deadline`, it stops.

Fenced writes
    Every write names generation, run id and a sequence number that grows within the
    generation. A request whose answer was lost is sent again with the same number; the
    store applies each number once, so a late one moves nothing back.

Takeover
    New grant, then the target's fence (`core/fencing.py`), then the old run is closed and
    the interval taken on: what is reported closed can write nowhere any more.

What can go wrong, and what happens
    killed              The next trigger finds a live lease whose holder is provably dead
                        (`Host.is_dead`: same boot, machine and process namespace, no such
                        start time, less the time namespace's offset; and no supervisor or
                        descendant of its commands, see `core.work.commands.supervision`) and
                        takes the next generation at once. Any doubt is life: then it waits for
                        expiry.
    stopped (SIGSTOP)   The lease expires and another takes the next generation. Woken, the
                        old holder finds its window over; its next write, to the store or
                        to a fencing target, is refused.
    suspended, nobody   Woken, the window is over; one late renewal is tried first. It is
    took over           accepted for an expired lease that nobody took, and work goes on;
                        never for a released one.
    stopped in a write  Inside a transaction of an SQLite store a stopped holder keeps the
                        write lock. While its lease is live, triggers say busy; then they end
                        it (SIGKILL, verified by pidfd and start time) and take the lease. In
                        the target the same is done after `fence_wait`.
    stopped while it    While SQLite puts the log back at the last close, or is half way through
    keeps readers out   noting a commit, nobody can read whose lease it is. A process that has
                        the lock (/proc/locks) and is stopped leaves the files as a SIGKILL would:
                        a copy of them is asked. It is ended if it is a holder, stopped all the
                        while, with no time left on any lease; while there is time it is busy.
                        `stores/sqlite_blockers.py`. A target needs no copy: who may be in its
                        way is on record in the store.
    stopped, and never  A trigger stopped with a lock before it was granted anything stands in no
    granted anything    record, and could be any program: it is named, with what to type, and left
                        alone (`StoreBlocked`, 69). So is a holder that may not be ended from
                        here, and whoever is in the way of a command that only looks.
    hung work           No progress: renewal stops and the work is broken off, or the process
                        is ended. Slow work, and a starved processor, are left alone.
    lost answer         Of acquire: asked again with the same run id, the same grant comes
                        back. Of renew: unknown. Of commit: same number again. Of release:
                        asked again; released is released. Of a target's commit: its marker
                        says whether it was made.
    late request        An acquire that comes when its holder has a newer grant is busy, a
                        renewal, commit or release of an older grant is `FencedOut`.
    store away          Work goes on until the window is over, then it is broken off:
                        `StoreUnreachable`.
    turned-away trigger The store counts triggers that found the lease busy with another
                        interval. A release names the count its holder knew when it last
                        decided, and is refused when there are more: decide again.
    somebody between    A holder stopped between two grants while another came and went gets
    two grants          a grant that does not follow its own: it lets go, for what it had
                        decided is void.
    clock stepped       No wall clock decides: windows are boot time, which counts suspend; an
                        SQLite store's expiry is boot time and boot id, so a reboot frees it.
    store lost, or an   Generations begin at the clock in seconds, and go above the target's
    older copy of it    floor by a regrant; what the target has completed is `recovered`
                        (`core/operations/recovery.py`), the horizon with it. A holder of the
                        old store is fenced out.
    target restored     Its fence row is behind the records: `target_rewound`, worked again.
    two stores, one     The floor grows at each regrant: after three rounds `TwoStores`, which
    target              names both. On a network file system SQLite would be two stores: its
                        files must be on one kernel's file system, or `?single_host=yes`.
    stop                Left on the lease, seen at the next renewal, obeyed at the next
                        checkpoint. By force: a takeover of a live lease, which fences the
                        holder out; it learns that at its next request.
    skip, rerun         Refused (busy) for the interval of a live lease. A skip of one with an
                        open run is a takeover, as who left it may only be stopped.
    changed rows        Not the lease's: see `entitlements/apply.py`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from .errors import FencedOut, LeaseBusy, ReconcileError, StoreBusy, StoreUnreachable
from .model import RunId
from .renewal import RETRY_FLOOR, Renewal, unreachable
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
        self._runtime = runtime
        self._key = key
        self._terms = terms
        self.previous: Grant | None = None
        """The grant that was taken over from another process, None after a release."""
        self.break_off: Callable[[], None] = lambda: None
        self._trust = Trust(runtime.clock, terms)
        self._renewal = Renewal(self._trust, terms, runtime, open_store, self._broken_off)
        self._seq = 0

    def _broken_off(self) -> None:
        self.break_off()  # which is another for each interval

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
        self._renewal.begin()
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
        self._renewal.begin()
        return lease

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
        begun = self._renewal.has_begun
        patience = self._terms.ttl.total_seconds() if begun else FIRST_ANSWER
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

        sent, lease = self._insist(ask, limit, but=None if begun else StoreBusy)
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
        self._renewal.end(given_back=True)

    def abandon(self) -> None:
        """Stop renewing, and leave the lease to expire or to be found dead."""
        self._renewal.end()

    # --- working under it

    def progressed(self) -> None:
        """Note that something moved, and check that the lease may still be trusted.

        Raises what ended it: `FencedOut`, `LeaseLapsed` or `StoreUnreachable`.
        """
        if not self._trust.moved():
            self._renew_late()

    def check(self) -> None:
        """As `progressed`, where nothing moved."""
        if not self._trust.checked():
            self._renew_late()

    def tell_trust(self, told: Callable[[float], None]) -> None:
        """Call this with each new end of the window, from whatever thread hears of it."""
        self._trust.extended = told

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
                    raise unreachable(error) from error
                self._runtime.clock.wait(max(RETRY_FLOOR, min(left / 2, 1.0)), self._renewal.over)
