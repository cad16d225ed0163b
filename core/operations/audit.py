"""Whether every scheduled instant is accounted for: intended against recorded.

A decision walks only what is not settled yet, and believes that everything before has a
record. This does not believe it: it walks the newest records beside the schedule and counts the
instants between them, so that a record that a disk, a person or a defect has lost is noticed by
somebody. What is merely due, or about to be skipped, is not missing.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ..model import instant_key
from ..schedule import TICK
from .history import SECOND, newest

if TYPE_CHECKING:
    from datetime import datetime

    from ..config import Job
    from ..ports import Store
    from .look import Look

LOOKED_AT = 200
"""So many of the newest records are looked at."""


class Audit(NamedTuple):
    """From `since` on: how many intervals were intended, how many have a record, and how many
    have none though nothing is left that would give them one."""

    since: datetime
    intended: int
    recorded: int
    missing: int


def audit(store: Store, job: Job, seen: Look, limit: int = LOOKED_AT) -> Audit | None:
    """Count them; None for a job that nothing is intended of."""
    schedule = seen.schedule
    if schedule is None or seen.job.horizon_at > seen.now:
        return None
    after = instant_key(seen.job.horizon_at - SECOND)
    before = instant_key(seen.now + SECOND)
    found = list(islice(newest(store, job.name, after=after, before=before), limit))
    found.reverse()
    since = found[0].scheduled_at if len(found) == limit else seen.job.horizon_at
    bare, until = 0, since - TICK
    for record in found:
        bare += schedule.count(until, record.scheduled_at - TICK)
        until = max(until, record.until_at or record.scheduled_at)
    bare += schedule.count(until, seen.now)
    decision = seen.decision
    begun = sum(due.record is not None for due in decision.due) + len(decision.waiting)
    ahead = [*decision.skips, *decision.overtaken]
    owed = decision.backlog - begun + decision.paused
    owed += sum(skip.span for skip in ahead if skip.record is None)
    intended = schedule.count(since - TICK, seen.now)
    return Audit(since, intended, intended - bare, max(0, bare - owed))
