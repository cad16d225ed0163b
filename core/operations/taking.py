"""What a trigger may take, in order of work: what is due, or what somebody named."""

from __future__ import annotations

from datetime import timedelta
from threading import Event
from typing import TYPE_CHECKING

from .. import planning
from ..errors import UsageError
from ..model import ABSENT, instant_key
from .look import due_again, find_record, interval_at, read_interval

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import datetime

    from ..config import Job
    from ..leasing import LeaseKeeper
    from ..planning import Due, Waiting
    from ..ports import Runtime, Store
    from .application import Application
    from .look import Look


SECONDS_BACK = 60
SECONDS_AHEAD = 60
STEP_SECONDS = 1.0


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


def of_this_second(store: Store, job: Job, seen: Look) -> datetime:
    """The instant of an interval that somebody wants now: the newest second until now that has
    neither a record nor a scheduled instant, so that it takes the place of no other.

    Raises `UsageError` where it would change what is due, or where there is no such second.
    """
    _refuse_to_overtake(job, seen)
    instant = seen.now.replace(microsecond=0)
    for _ in range(SECONDS_BACK):
        scheduled = seen.schedule is not None and seen.schedule.latest_until(instant) == instant
        if not scheduled and read_interval(store, job.name, instant)[0] is None:
            return instant
        instant -= timedelta(seconds=1)
    raise UsageError(
        f"{job.name} has an interval in each second, so there is none for --now",
        hint=f"work the newest: reconcile run {job.name} --interval latest",
    )


def _refuse_to_overtake(job: Job, seen: Look) -> None:
    """What is due of a dated source could not be applied any more after a newer interval."""
    left: list[Due | Waiting] = [*seen.decision.due, *seen.decision.waiting]
    if not job.work.overtakes or not (left or seen.decision.paused):
        return
    oldest = min((one.interval for one in left), key=lambda one: one.scheduled_at, default=None)
    what = "what fell into the pause" if oldest is None else f"{oldest.id}, which is due"
    raise UsageError(
        f"{job.name}: an interval of now would overtake {what}: its source tells the truth of"
        " one night",
        hint=f"work the newest that is scheduled: reconcile run {job.name} --interval latest"
        if oldest is None
        else f"work that first: reconcile run {job.name} --interval {oldest.id}",
    )


def comes(runtime: Runtime, seen: Look, due: Sequence[Due], keeper: LeaseKeeper) -> bool:
    """Wait for the first of these if it is still to come, as that of `_on_demand` may be, for
    nothing is worked before its time. Whether it had to be waited for: then all is decided
    anew, by the store's clock. A signal ends it early. The lease is kept: whoever only waits
    has made progress."""
    if not due or due[0].interval.scheduled_at <= seen.now or runtime.stop.reason is not None:
        return False
    clock, stop, never = runtime.clock, runtime.stop, Event()
    seconds = (due[0].interval.scheduled_at - seen.now).total_seconds()
    wakes = clock.boot() + seconds
    while stop.reason is None and (left := wakes - clock.boot()) > 0:
        clock.wait(min(STEP_SECONDS, left), never)
        keeper.progressed()
    return True


def _on_demand(store: Store, job: Job, seen: Look) -> Due:
    """A job without a schedule is asked for by name, and works an interval of now: of the
    first second that has none yet. Asked for twice within a second it is the next one, which
    `comes` waits for; an earlier one would be older than what the target has by now.

    Raises `UsageError` where a clock that was put back leaves too many seconds taken.
    """
    instant = seen.now.replace(microsecond=0)
    for _ in range(SECONDS_AHEAD):
        if read_interval(store, job.name, instant)[0] is None:
            return planning.Due(interval_at(seen, job.name, instant))
        instant += timedelta(seconds=1)
    raise UsageError(
        f"{job.name} has an interval in each second of the next minute",
        hint="see whether the clock was put back, and run it again in a minute",
    )


def _preview_of_newest(store: Store, job: Job, seen: Look) -> list[Due]:
    """A dry run with nothing due still shows what the newest interval would change."""
    instant = seen.schedule.latest_until(seen.now) if seen.schedule else None
    if instant is None or seen.schedule is None:
        return []
    record, version = read_interval(store, job.name, instant)
    return [planning.Due(interval_at(seen, job.name, instant), record, version)]
