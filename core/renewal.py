"""The thread that renews a lease while another works under it.

It runs none of the work's code and has a connection of its own, so that work which hangs or
burns the processor cannot starve it. See `core/leasing.py` for the protocol.
"""

from __future__ import annotations

from threading import Event, Thread
from typing import TYPE_CHECKING

from .errors import FencedOut, ReconcileError, StoreBusy, StoreUnreachable
from .last_moment import LastMoment

if TYPE_CHECKING:
    from collections.abc import Callable

    from .model import Fence
    from .ports import Runtime, Store
    from .trust import Terms, Trust

RETRY_FLOOR = 0.05
"""Seconds; below this, halving what is left of the window would spin."""


class Renewal:
    """Renews what `trust` believes in, from `begin` to `end`.

    `break_off` is called when the lease is gone and must make the working thread come back
    soon; if it does not, the process is ended.
    """

    def __init__(
        self,
        trust: Trust,
        terms: Terms,
        runtime: Runtime,
        open_store: Callable[[], Store],
        break_off: Callable[[], None],
    ) -> None:
        self.trust = trust
        self._terms = terms
        self._runtime = runtime
        self._open_store = open_store
        self._break_off = break_off
        self.over = Event()
        """Set once the lease is given back, or left."""
        self._last_moment = LastMoment(trust, terms, runtime, self.over)
        self._wake = Event()
        self._store: Store | None = None
        self._thread: Thread | None = None

    @property
    def has_begun(self) -> bool:
        """Whether there was a first grant."""
        return self._thread is not None

    def begin(self) -> None:
        """Renew from now on."""
        self._thread = Thread(target=self._keep, name="lease-renewal", daemon=True)
        self._thread.start()
        self._last_moment.begin()

    def end(self, *, given_back: bool = False) -> None:
        """Renew no more; waits for a request under way. A lease that is not trusted any more, and
        was not `given_back`, must find this process ended when it is over."""
        self.over.set()
        self._wake.set()
        lapse, now, until = self.trust.lapse, self._runtime.clock.boot(), self.trust.until()
        is_trusted = lapse is None and now < until
        is_over = isinstance(lapse, FencedOut) or now >= until + self._terms.margin
        if given_back or is_trusted or is_over:
            self._last_moment.over.set()
        if self._thread is not None:
            self._thread.join(timeout=self._terms.ttl.total_seconds())

    # --- in the thread

    def _keep(self) -> None:
        try:
            while not self._runtime.clock.wait(self._until_next(), self._wake):
                self._renew(*self.trust.to_renew())
        except ReconcileError as error:
            self._give_up(error)
        finally:
            if self._store is not None:
                self._store.close()

    def _until_next(self) -> float:
        return max(RETRY_FLOOR, self.trust.next_wait())

    def _renew(self, fence: Fence, progress: int) -> None:
        """One request. Unknown is neither kept nor lost, until the window is over; so is a
        store that cannot be opened yet."""
        self._runtime.alive()
        try:
            if self._store is None:
                self._store = self._open_store()
            sent = self._runtime.clock.boot()
            self.trust.renewed(sent, self._store.renew(fence, progress))
        except FencedOut as error:
            ours = error.newer and error.newer.holder == self._runtime.host.holder()
            if ours or self.trust.lease.fence != fence or self.over.is_set():
                return  # this process went on, or released: it need not have heard so yet
            raise
        except (StoreUnreachable, StoreBusy):
            if self._runtime.clock.boot() >= self.trust.until():
                raise

    def _give_up(self, error: ReconcileError) -> None:
        """Make the working thread stop; end the process where it does not."""
        self._last_moment.taken.set()
        error = unreachable(error)
        self.trust.end(error)
        self._break_off()
        if not self._runtime.clock.wait(self._grace(), self.over):
            self._runtime.host.abort(error)

    def _grace(self) -> float:
        """Seconds for the working thread to come back. A last request that waited in vain has
        taken of the margin already, and something must be left of it when the process ends;
        past the margin, as after a stop, there is nothing to be in time for."""
        grace = self._terms.margin / 2
        if self._last_moment.is_now():
            return 0.0
        left = self._last_moment.at() - self._runtime.clock.boot()
        return min(grace, left) if left > 0 else grace


def unreachable(error: ReconcileError) -> ReconcileError:
    """A lock that was not had for a whole window is no passing moment any more."""
    return StoreUnreachable(str(error), hint=error.hint) if isinstance(error, StoreBusy) else error
