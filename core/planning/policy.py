"""How long an interval is waited for: retries, the deadline, the catch-up window."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING

from ..config import DAY, HOUR, MINUTE
from ..records import from_text

if TYPE_CHECKING:
    from ..config import Job
    from ..model import Interval
    from ..records import IntervalRecord
    from ..schedule import Schedule


SAMPLE = 1500
"""So many instants, as many as there are minutes in a day, show which minutes there are."""
SAMPLE_FROM, SAMPLE_UNTIL = datetime(2024, 1, 1, tzinfo=UTC), datetime(2034, 1, 1, tzinfo=UTC)


def retry_at(job: Job, record: IntervalRecord) -> datetime | None:
    """When an interval may be tried again; None where the last run did not fail.

    `retry_delay` after the failure, doubled with each further attempt, up to an hour; where the
    source has to be left alone until an instant, then.
    """
    if record.failure is None:
        return None
    if record.failure.get("until") is not None:
        return from_text(str(record.failure["until"]))
    longest = max(HOUR, job.retry_delay)
    delay = job.retry_delay
    for _ in range(record.attempts - 1):
        delay = min(2 * delay, longest)
        if delay == longest:
            break
    return from_text(str(record.failure["at"])) + delay


def deadline_of(
    job: Job, schedule: Schedule | None, interval: Interval | IntervalRecord
) -> datetime:
    """When the interval should be completed; by default a period after its instant."""
    return interval.scheduled_at + deadline(job, schedule)


def deadline(job: Job, schedule: Schedule | None) -> timedelta:
    """The job's `deadline`: by default one period, between 15 minutes and a day."""
    if job.deadline is not None:
        return job.deadline
    period = (schedule.period if schedule else None) or DAY
    return min(max(period, 15 * MINUTE), DAY)


def knock(schedule: Schedule, shift: timedelta = timedelta()) -> timedelta:
    """How often cron has to knock: the largest of 10, 5 and 1 minutes that hits every scheduled
    minute; for a schedule by the second, every minute. `shift` is how far the clock on cron's
    wall is ahead of UTC."""
    return next(step * MINUTE for step in (10, 5, 1) if hits(schedule, step * MINUTE, shift))


def hits(schedule: Schedule, every: timedelta, shift: timedelta = timedelta()) -> bool:
    """Whether knocks so far apart, one of them at midnight, hit every scheduled minute; judged by
    a sample of them."""
    by = min(every, MINUTE)
    some = islice(schedule.between(SAMPLE_FROM, SAMPLE_UNTIL), SAMPLE)
    return all((instant + shift - SAMPLE_FROM) // by * by % every < by for instant in some)


def window(job: Job, schedule: Schedule | None) -> timedelta:
    """The job's `catch_up.window`: by default 7 days, and at least two periods."""
    if job.catch_up.window is not None:
        return job.catch_up.window
    period = (schedule.period if schedule else None) or DAY
    return max(7 * DAY, 2 * period)
