"""When the next missed interval may be begun: `catch_up.rate`, and sleeping until then.

What counts is a *replay*: a new interval that triggers begin late, because a newer one is
scheduled by now. The newest is live and waits for no rate; but it keeps its place, for the order
of work is that of time.
"""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING

from ..model import Trigger
from ..rates import may_start_at, starts_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ..config import Job
    from ..leasing import LeaseKeeper
    from ..model import Rate
    from ..planning import Due
    from ..ports import Reader, Runtime
    from .backfill.turns import Turn
    from .look import Look

STEP_SECONDS = 1.0
_BY_HAND = (Trigger.RERUN, Trigger.BACKFILL, Trigger.MANUAL)


class Pace:
    """What the rates of a job, and of its backfill, let one trigger begin, which sleeps `max_wait`
    in all at most. `own` is the backfill where the next place is its own."""

    def __init__(self, runtime: Runtime, records: Reader, job: Job) -> None:
        self._runtime = runtime
        self._records = records
        self._job = job
        self._rate = job.catch_up.rate
        self._sleep_left = job.max_wait.total_seconds()

    def rate_of(self, seen: Look, due: Due) -> Rate | None:
        """The rate that the start of this one counts towards; None where it is no replay."""
        record = due.record
        if seen.schedule is None or self._rate is None:
            return None
        if record is not None and (record.runs or record.rerun or record.trigger in _BY_HAND):
            return None
        newest = seen.schedule.latest_until(seen.now)
        late = newest is not None and due.interval.scheduled_at < newest
        return self._rate if late else None

    def waits(self, seen: Look, due: Sequence[Due], own: Turn | None) -> datetime | None:
        """When the next of these may be begun; None where it may be at once."""
        if not due:
            return None
        if own is not None:
            from .backfill.turns import begins_at

            at = begins_at(self._records, self._job, own, seen.now)
        else:
            rate = self.rate_of(seen, due[0])
            if rate is None:
                return None
            at = may_start_at(starts_of(self._records, self._job.name), rate, seen.now)
        return at if at > seen.now else None

    def sleeps(
        self, keeper: LeaseKeeper, at: datetime, seen: Look, end: float | None, own: Turn | None
    ) -> bool:
        """Sleep until then, or until an interval is live that is to wait for no backfill; False, at
        once, where that is longer than may be slept, or than `end` (a reading of the boot clock)
        allows. A signal ends it early. The lease is kept: whoever only waits has made progress."""
        following = seen.decision.next_due
        if own is not None and following is not None:
            at = min(at, following.scheduled_at)
        runtime, never = self._runtime, Event()
        clock, seconds = runtime.clock, (at - seen.now).total_seconds()
        wakes = clock.boot() + seconds
        if seconds > self._sleep_left or (end is not None and wakes >= end):
            return False
        self._sleep_left -= seconds
        while clock.boot() < wakes and runtime.stop.reason is None:
            clock.wait(min(STEP_SECONDS, wakes - clock.boot()), never)
            keeper.progressed()
        return True
