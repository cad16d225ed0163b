"""Ends the process before its lease ends, whatever a request to the store is waiting for.

The renewal thread breaks the work off when its last request has come back in vain. But a request
may take longer than what is left: with a short TTL a call has more patience than there is margin
(`Terms.patience`), a name may be looked up for longer than any call may take, and somebody
else's store may never answer. So one more thread waits, which asks nobody.
"""

from __future__ import annotations

from threading import Event, Thread
from typing import TYPE_CHECKING

from .errors import StoreUnreachable

if TYPE_CHECKING:
    from .ports import Runtime
    from .trust import Terms, Trust

SHARE = 0.75
"""By this share of the margin after the trust window a process that does not stop is ended,"""
LEAST = 0.25
"""or so many seconds before the lease ends, where a quarter of the margin is less."""


class LastMoment:
    """Waits for it from `begin` until `over` is set: the lease was given back, or is another's.

    It moves with each renewal. One that was slept through, as by a machine that was suspended,
    is nothing to be in time for any more: then renewal decides, which asks once. Work that was
    broken off is over before, and still the process has an end to report, which may take long
    on a busy machine; it is ended too, unless it is one of a caller in Python, which goes on.
    """

    def __init__(self, trust: Trust, terms: Terms, runtime: Runtime, came_back: Event) -> None:
        self._trust = trust
        self._terms = terms
        self._runtime = runtime
        self._came_back = came_back
        self.over = Event()
        self.taken = Event()
        """Set once renewal has given up: it ends the process itself, unless its work comes back."""

    def begin(self) -> None:
        """Wait from now on."""
        Thread(target=self._wait, name="lease-last-moment", daemon=True).start()

    def at(self) -> float:
        """A `CLOCK_BOOTTIME` reading in seconds."""
        return self._trust.until() + self._terms.margin - self._rest

    def is_now(self) -> bool:
        """Whether it has come, and the lease is not over yet."""
        late = self._runtime.clock.boot() - self.at()
        return 0 <= late < self._rest

    @property
    def _rest(self) -> float:
        """Seconds between it and the lease's end."""
        return max(LEAST, (1 - SHARE) * self._terms.margin)

    def _wait(self) -> None:
        clock = self._runtime.clock
        while True:
            left = self.at() - clock.boot()
            # Behind it, there is another once the lease is renewed or granted anew.
            if clock.wait(left if left > 0 else self._terms.renew_every, self.over):
                return
            if self.at() > clock.boot():
                continue  # it was moved meanwhile, whoever has come back or given up by now
            came_back, taken = self._came_back.is_set(), self.taken.is_set()
            if self.is_now() and (came_back or not taken):
                self._runtime.host.abort(self._trust.lapse or self._silent())
                return
            if came_back or taken:
                return

    def _silent(self) -> StoreUnreachable:
        job = self._trust.lease.fence.key.job
        return StoreUnreachable(
            f"the store did not answer before the lease of {job} was nearly over",
            hint="check the server and the network; the next trigger goes on from"
            " the last checkpoint",
        )
