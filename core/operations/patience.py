"""Whoever finds a lease busy, and has time, stays here until it is free."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING

from ..errors import StoreBusy, StoreUnreachable
from ..leasing import FIRST_ANSWER
from .look import live_lease

if TYPE_CHECKING:
    from datetime import datetime

    from ..config import Job
    from ..model import Lease
    from ..ports import Store
    from .application import Application

POLL_SECONDS = 1.0
"""How often somebody who waits asks the store whether the lease is free: it may be released."""

JUST_AFTER = 0.01
"""Seconds after the end of a lease at which it is asked whether it has ended."""


def until_free(
    app: Application, store: Store, job: Job, lease: Lease, at: datetime, until: float
) -> bool:
    """Wait until the lease, read at that time, is free or the time is over, at a boot time; False
    where a signal came first.

    A store that does not answer is asked again, as whoever acquires asks it again.
    """
    clock, never = app.runtime.clock, Event()
    answered = clock.boot()
    pause = _pause(lease, at)
    while app.runtime.stop.reason is None:
        left = until - clock.boot()
        if left <= 0:
            return True
        clock.wait(min(pause, left), never)
        pause = POLL_SECONDS
        try:
            newest = live_lease(app, store, job)
            if newest is None:
                return app.runtime.stop.reason is None
            pause = _pause(newest, store.facts().now)
            answered = clock.boot()
        except StoreBusy:  # somebody writes to it: no answer yet
            pass
        except StoreUnreachable:
            if clock.boot() - answered > FIRST_ANSWER:
                raise
    return False


def _pause(lease: Lease, now: datetime) -> float:
    """Seconds until somebody who waits looks again: when the lease ends, if that is sooner.

    It may have ended since it was read. By how much is bounded, because where the wall clock was
    put forward a lease seems to have ended long ago that lives on by boot time.
    """
    ends = (lease.expires_at - now).total_seconds()
    is_near = -POLL_SECONDS < ends < POLL_SECONDS
    return max(ends, 0.0) + JUST_AFTER if is_near else POLL_SECONDS
