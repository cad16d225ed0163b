"""How each job stands by the store's records, in a line: what is unfinished, what comes next.

The judgement is that of `status --check` (`operations/checking.py`). Nothing is decided and
nothing written: a job that the store does not know yet is looked at as its first trigger would.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ... import planning
from ...findings import fail, ok, warn
from ...model import ABSENT, Interval, Trigger
from ...schedule import Schedule
from ...toml_values import show_duration
from ..checking import Level, troubles_of
from ..history import History

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from ...config import Job
    from ...findings import Finding
    from ...ports import Store
    from ..look import Look

_SHOWN = 3
"""So many troubles of a job are told; `status` tells all."""


class Awaited(NamedTuple):
    """For which interval a dated source has to be there. `owed`: one is due and not completed;
    else it is the next one that comes."""

    interval: Interval
    owed: bool


def awaited(job: Job, seen: Look | None, now: datetime) -> Awaited | None:
    """The interval that a job's source is needed for next; None where nobody can tell."""
    if seen is not None:
        for due in seen.decision.owed:
            return Awaited(due.interval, owed=True)
    if job.schedule is None:
        return None
    schedule = Schedule(job.schedule, job.timezone, job.dst)
    following = schedule.next_after(now)
    return None if following is None else Awaited(schedule.interval(job.name, following), False)


def begun(store: Store, job: Job, seen: Look) -> datetime | None:
    """When a trigger began one of the job's newest intervals last; None where it did so once at
    most, which may have been by hand."""
    newest = islice(History(store, job.name, seen.now, first=_SHOWN), _SHOWN)
    by_itself = (
        record for record in newest if record.trigger in (Trigger.SCHEDULE, Trigger.RESUME)
    )
    started = [record.started_at for record in by_itself if record.started_at is not None]
    return max(started) if len(started) > 1 else None


def standing(store: Store, job: Job, seen: Look) -> Iterator[Finding]:
    """What is wrong, and else where the job stands."""
    if seen.version == ABSENT:
        first = f", from {_minute(seen.job.horizon_at)} on" if job.schedule else ""
        yield warn(job.name, f"never triggered{first}", f"reconcile run {job.name}")
        return
    troubles = sorted(troubles_of(store, job, seen), key=lambda one: (-one.level, one.scheduled_at))
    for trouble in troubles[:_SHOWN]:
        found = fail if trouble.level is Level.CRITICAL else warn
        yield found(job.name, trouble.text, f"reconcile status {job.name}")
    if len(troubles) > _SHOWN:
        more = len(troubles) - _SHOWN
        yield warn(job.name, f"{more} more like these", f"reconcile status {job.name}")
    if not troubles:
        yield ok(job.name, _line(job, seen))


def _line(job: Job, seen: Look) -> str:
    parts = [f"records since {_minute(seen.job.horizon_at)}"]
    owed = [due.interval for due in seen.decision.owed]
    if owed:
        limit = show_duration(planning.deadline(job, seen.schedule))
        parts.append(f"oldest unfinished {owed[0].id} (deadline {limit} after its time)")
    elif seen.decision.waiting:
        parts.append(f"{seen.decision.waiting[0].interval.id} waits")
    else:
        parts.append("nothing unfinished")
    if seen.decision.pause is not None:
        parts.append("paused")
    elif seen.decision.next_due is not None:
        parts.append(f"next {_minute(seen.decision.next_due.scheduled_at)}")
    return ", ".join(parts)


def _minute(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%MZ}"
