"""How long, and in what, this process believes: the state that working and renewal share.

See `core/leasing.py` for the protocol. Everything here is behind one lock, because two
threads use it: the one that works and the one that renews.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING

from .errors import LeaseLapsed

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from .errors import ReconcileError
    from .model import Fence, Lease
    from .ports import Clock

RENEWALS_PER_TTL = 5
MARGIN_PER_TTL = 6
MOST_MARGIN_PER_TTL = 3
LEAST_MARGIN = 1.0
"""Seconds, where a third of the TTL has them: to end a process on a busy machine takes as long
whatever its lease is."""
MOST_PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class Terms:
    """How a job wants its lease kept."""

    ttl: timedelta
    progress_deadline: timedelta
    detect_dead: bool = True

    @property
    def margin(self) -> float:
        """Seconds by which trust ends before the lease does: a sixth of the TTL; below six
        seconds one, or a third."""
        ttl = self.ttl.total_seconds()
        return max(ttl / MARGIN_PER_TTL, min(LEAST_MARGIN, ttl / MOST_MARGIN_PER_TTL))

    @property
    def patience(self) -> float:
        """Seconds that one call to the store may wait, so that a renewal which waits in vain
        comes back in time to break off the work. A TTL below 12 s cannot have that in full:
        less than a second would take every busy moment for a fault. Then `last_moment` ends it."""
        return min(MOST_PATIENCE, max(1.0, self.margin / 2))

    @property
    def renew_every(self) -> float:
        """Seconds between renewals."""
        return self.ttl.total_seconds() / RENEWALS_PER_TTL


class Trust:
    """What the store last said of the lease, when it was asked, and whether work moves."""

    def __init__(self, clock: Clock, terms: Terms) -> None:
        self._clock = clock
        self._terms = terms
        self._lock = Lock()
        self._lease: Lease | None = None
        self._until = 0.0
        self._said: datetime | None = None
        self._said_boot = 0.0
        self._progress = 0
        self._moved_boot = 0.0
        self._lapse: ReconcileError | None = None
        self.extended: Callable[[float], None] = lambda until: None
        """Called with each new end of the window, by the thread that asked the store."""

    @property
    def lease(self) -> Lease:
        """The newest grant as the store last answered."""
        assert self._lease is not None, "a grant comes first"
        return self._lease

    @property
    def lapse(self) -> ReconcileError | None:
        """What ended the trust for good."""
        return self._lapse

    def until(self) -> float:
        """End of the trust window, a `CLOCK_BOOTTIME` reading in seconds."""
        with self._lock:
            return self._until

    def now(self) -> datetime:
        """The store's clock: its last answer, plus what has passed here since."""
        with self._lock:
            assert self._said is not None, "a grant comes first"
            return self._said + timedelta(seconds=self._clock.boot() - self._said_boot)

    def granted(self, sent: float, lease: Lease) -> None:
        """A new grant, asked for at the boot time `sent`; the progress deadline begins anew."""
        with self._lock:
            self._believe(sent, lease)
            self._moved_boot = self._clock.boot()
            until = self._until
        self.extended(until)

    def renewed(self, sent: float, lease: Lease) -> None:
        """The answer to a renewal; one that comes after the next grant says nothing of it."""
        with self._lock:
            if self.lease.fence != lease.fence:
                return
            self._believe(sent, lease)
            until = self._until
        self.extended(until)

    def _believe(self, sent: float, lease: Lease) -> None:
        self._lease = lease
        self._until = sent + self._terms.ttl.total_seconds() - self._terms.margin
        self._said = lease.expires_at - lease.ttl
        self._said_boot = sent

    def moved(self) -> bool:
        """Note progress; whether the window is still open. Raises what ended the trust."""
        with self._lock:
            if self._lapse is not None:
                raise self._lapse
            self._progress += 1
            self._moved_boot = self._clock.boot()
            return self._moved_boot < self._until

    def checked(self) -> bool:
        """As `moved`, where nothing did."""
        with self._lock:
            if self._lapse is not None:
                raise self._lapse
            return self._clock.boot() < self._until

    def to_renew(self) -> tuple[Fence, int]:
        """What a renewal names. Raises `LeaseLapsed` when nothing moved for too long."""
        deadline = self._terms.progress_deadline.total_seconds()
        with self._lock:
            still = self._clock.boot() - self._moved_boot
            fence, progress = self.lease.fence, self._progress
        if still <= deadline:
            return fence, progress
        raise LeaseLapsed(
            f"{fence.key.job} made no progress for {still:.0f}s"
            f" (lease.progress_deadline is {deadline:.0f}s)",
            hint="the next trigger goes on from the last checkpoint; if one range or step really"
            " takes that long, raise lease.progress_deadline, or make it smaller (range_size)",
        )

    def next_wait(self) -> float:
        """Seconds until the next renewal: a fifth of the TTL, but after a failed one half of
        what is left of the window, and never past the progress deadline."""
        now = self._clock.boot()
        with self._lock:
            window = self._until - now
            deadline = self._moved_boot + self._terms.progress_deadline.total_seconds() - now
        return min(self._terms.renew_every, window / 2, deadline)

    def end(self, error: ReconcileError) -> None:
        """The lease is gone; the first reason stands."""
        with self._lock:
            self._lapse = self._lapse or error
