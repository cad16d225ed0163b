"""How a backfill stands, for people and programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...backfills import BackfillView, running, takes
from ...model import State
from ...tally import totals
from ..history import History, times
from .turns import begins_at, left, turn

if TYPE_CHECKING:
    from ...backfills import Backfill
    from ...config import Job
    from ...ports import Store
    from ..look import Look

DONE = (State.COMPLETED, State.FAILED, State.SKIPPED)


def view_of(store: Store, job: Job, seen: Look, usual: float | None = None) -> BackfillView | None:
    """The one that runs. `usual`: how long one interval takes, in seconds."""
    found = turn(store, job, seen)
    if found is None:
        return None
    number = left(seen, found)
    starts = begins_at(store, job, found, seen.now)
    held = found.backfill.paused or found.backfill.cancelled is not None
    span = None if held else takes(number, found.backfill.rate, usual)
    return BackfillView(
        backfill=found.backfill,
        left=number,
        done=done(store, job, found.backfill),
        next_id=found.begins.interval.id if found.begins is not None and not held else None,
        starts_at=starts if starts > seen.now and not held else None,
        until=None if span is None else max(starts, seen.now) + span,
    )


def left_of(store: Store, job: Job, seen: Look) -> int:
    """How many intervals of the job's backfill are left; 0 where none runs."""
    if running(store, job.name, seen.job) is None:
        return 0
    found = turn(store, job, seen)
    return 0 if found is None else left(seen, found)


def done(store: Store, job: Job, backfill: Backfill) -> dict[str, int]:
    """How many of its own have ended, by state."""
    counted = totals(store, job.name)
    number = backfill.record.number
    return {state.value: counted.get(f"backfill:{number}:{state}", 0) for state in DONE}


def usual_seconds(store: Store, job: Job, seen: Look) -> float | None:
    """How long one interval of the job usually takes; None where nobody knows yet."""
    return times(History(store, job.name, seen.now, first=30).completed()).usual
