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
    from collections.abc import Callable
    from datetime import datetime

    from ..config import Job
    from ..planning import Due
    from ..ports import Reader, Runtime
    from .look import Look

STEP_SECONDS = 1.0
_BY_HAND = (Trigger.RERUN, Trigger.BACKFILL, Trigger.MANUAL)


def is_replay(job: Job, seen: Look, due: Due) -> bool:
    """Whether the rate is asked before a trigger begins this one."""
    record = due.record
    if job.catch_up.rate is None or seen.schedule is None:
        return False
    if record is not None and (record.runs or record.rerun or record.trigger in _BY_HAND):
        return False
    newest = seen.schedule.latest_until(seen.now)
    return newest is not None and due.interval.scheduled_at < newest


def begins_at(records: Reader, job: Job, now: datetime) -> datetime:
    """From when on the next replay may begin."""
    assert job.catch_up.rate is not None, "or there is nothing to ask"
    return may_start_at(starts_of(records, job.name), job.catch_up.rate, now)


class Sleep:
    """How long one trigger may sleep in all."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds

    def until(
        self, runtime: Runtime, seconds: float, end: float | None, alive: Callable[[], None]
    ) -> bool:
        """Sleep so many seconds; False, at once, where that is longer than may be slept, or than
        `end` (a reading of the boot clock) allows. A signal ends it early. `alive` is called now
        and then: whoever only waits has made progress."""
        clock, never = runtime.clock, Event()
        wakes = clock.boot() + seconds
        if seconds > self.left or (end is not None and wakes >= end):
            return False
        self.left -= seconds
        while clock.boot() < wakes and runtime.stop.reason is None:
            clock.wait(min(STEP_SECONDS, wakes - clock.boot()), never)
            alive()
        return True
