"""The schedule as it was at each time, and where decisions about a job begin."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..calendars import USUAL_DST, Dst
from ..config import HOUR
from ..records import JobRecord, from_text, to_text
from ..schedule import TICK, Schedule, Version

if TYPE_CHECKING:
    from datetime import datetime

    from ..config import Job


def first_horizon(job: Job, schedule: Schedule | None, now: datetime) -> datetime:
    """Where decisions about a job begin that was never seen before.

    Its `start`; else the newest scheduled instant of the past hour, so that the trigger which
    came for it finds it; else now.
    """
    if job.start is not None:
        return job.start
    found = schedule.latest_until(now, now - HOUR) if schedule else None
    return found or now


def seen(job: Job, record: JobRecord | None, now: datetime) -> JobRecord:
    """The job's record with the configured schedule as its newest version.

    The very same record where nothing has changed, so that nothing need be written. A new
    version begins after the instant at which it is first seen: what the old one had at that
    very instant is its own, or two intervals could bear one id.
    """
    if record is None:
        schedule = Schedule(job.schedule, job.timezone, job.dst) if job.schedule else None
        horizon = first_horizon(job, schedule, now)
        return JobRecord(horizon_at=horizon, schedules=[_entry(job, now)])
    entry = _entry(job, now + TICK)
    known = [
        version
        for number, version in enumerate(record.schedules)
        if number == 0 or from_text(version[0]) <= now + TICK
    ]
    if list(known[-1][1:]) != entry[1:]:
        known.append(entry)
    changed = record if known == record.schedules else replace(record, schedules=known)
    if record.horizon_at > now and record.horizon_at != job.start:
        return replace(changed, horizon_at=first_horizon(job, schedule_of(changed), now))
    return changed


def _entry(job: Job, since: datetime) -> list[str | None]:
    """The configured schedule as a version of `JobRecord.schedules`."""
    dst = () if job.dst == USUAL_DST else job.dst
    return [to_text(since), job.schedule, job.timezone, *dst]


def schedule_of(record: JobRecord) -> Schedule | None:
    """The schedule with all its versions; None for a job that never had one."""
    versions = [
        Version(from_text(since), text, zone, Dst(*dst))
        for since, text, zone, *dst in record.schedules
    ]
    if all(version.expression is None for version in versions):
        return None
    return Schedule.of(versions)


def timezone_at(record: JobRecord, instant: datetime) -> str:
    """The time zone of the job at an instant; before its first version, that one's."""
    zones = [
        str(zone)
        for number, (since, _, zone, *_) in enumerate(record.schedules)
        if number == 0 or from_text(since) <= instant
    ]
    return zones[-1]


def floor(record: JobRecord, now: datetime) -> datetime:
    """From where `decide` must look at the job: what is settled need not be read again."""
    settled = record.settled_at
    if settled is None or settled > now:
        return record.horizon_at
    return max(record.horizon_at, settled)
