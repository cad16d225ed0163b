"""Whether every scheduled instant is accounted for: intended against recorded.

A decision walks only what is not settled yet, and believes that everything before has a
record. This does not believe it: it walks the newest records beside the schedule and counts the
instants between them, so that a record that a disk, a person or a defect has lost is noticed by
somebody. What is merely due, or about to be skipped, is not missing.
"""

from __future__ import annotations

from itertools import islice, takewhile
from typing import TYPE_CHECKING

from ..schedule import TICK
from ..status import Audit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..records import IntervalRecord
    from .look import Look

LOOKED_AT = 200
"""So many of the newest records are looked at."""


def audit(seen: Look, newest: Iterable[IntervalRecord], limit: int = LOOKED_AT) -> Audit | None:
    """Count them; None for a job that nothing is intended of. `newest` are the records until
    now, newest first."""
    schedule, horizon = seen.schedule, seen.job.horizon_at
    if schedule is None or horizon > seen.now:
        return None
    ours = takewhile(lambda one: (one.until_at or one.scheduled_at) >= horizon, newest)
    found = list(islice(ours, limit))
    found.reverse()
    since = max(found[0].scheduled_at, horizon) if len(found) == limit else horizon
    bare, until = 0, since - TICK
    for record in found:
        bare += schedule.count(until, record.scheduled_at - TICK)
        until = max(until, record.until_at or record.scheduled_at)
    bare += schedule.count(until, seen.now)
    decision = seen.decision
    begun = sum(due.record is not None for due in decision.owed) + len(decision.waiting)
    ahead = [*decision.skips, *decision.overtaken]
    owed = decision.backlog - begun + decision.paused
    # What clocks have left out is recorded, and was never intended.
    new = (skip for skip in ahead if skip.record is None and skip.reason != "dst_gap")
    owed += sum(skip.span for skip in new)
    intended = schedule.count(since - TICK, seen.now)
    return Audit(since, intended, intended - bare, max(0, bare - owed))
