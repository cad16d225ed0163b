"""What a trigger may take, in order of work: what is due, or what somebody named."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from .. import planning
from ..model import ABSENT, instant_key
from .look import due_again, find_record, interval_at, read_interval

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import datetime

    from ..config import Job
    from ..planning import Due
    from ..ports import Store
    from .application import Application
    from .look import Look


def due_now(
    app: Application,
    store: Store,
    job: Job,
    seen: Look,
    tried: Collection[str],
    *,
    dry_run: bool,
) -> list[Due]:
    """What a knock may take; nothing while the job is paused. A dry run, which is a person who
    looks, is never held back."""
    if seen.decision.pause is not None and not dry_run:
        return []
    again = [
        planning.Due(w.interval, w.record, w.version)
        for w in seen.decision.waiting
        if w.interval.key not in tried and (dry_run or due_again(app, job, w))
    ]
    due = [*again, *seen.decision.due]
    if due or tried:
        return due
    if job.schedule is None:
        return [] if seen.decision.waiting else [_on_demand(store, job, seen)]
    return _preview_of_newest(store, job, seen) if dry_run else []


def named(
    store: Store,
    job: Job,
    seen: Look,
    only: Sequence[datetime],
    tried: Collection[str],
    *,
    dry_run: bool,
) -> Iterator[Due]:
    """Those of the instants asked for that are not done yet."""
    for instant in only:
        if instant_key(instant) in tried:
            continue
        record, version = find_record(store, job.name, instant)
        if record is not None:
            record = seen.standing(record)
            if record.state.is_final and not dry_run:
                continue
            if record.scheduled_at != instant:  # a span that is void, or only looked at
                record, version = None, ABSENT
        if record is not None:
            interval = record.interval(job.name)
        else:
            interval = interval_at(seen, job.name, instant)
        yield planning.Due(interval, record, version)


def _on_demand(store: Store, job: Job, seen: Look) -> Due:
    """A job without a schedule is asked for by name, and works an interval of now: of the
    first second that has none yet."""
    instant = seen.now.replace(microsecond=0)
    while read_interval(store, job.name, instant)[0] is not None:
        instant += timedelta(seconds=1)
    return planning.Due(interval_at(seen, job.name, instant))


def _preview_of_newest(store: Store, job: Job, seen: Look) -> list[Due]:
    """A dry run with nothing due still shows what the newest interval would change."""
    instant = seen.schedule.latest_until(seen.now) if seen.schedule else None
    if instant is None or seen.schedule is None:
        return []
    record, version = read_interval(store, job.name, instant)
    return [planning.Due(interval_at(seen, job.name, instant), record, version)]
