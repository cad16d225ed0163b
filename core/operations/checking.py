"""`status --check`: what a monitoring system asks every few minutes, from the store alone.

It judges by the same rules as alerts (`core/alerts.py`), whether or not anybody gets any, so
that a host on which nothing runs any more is noticed from any other. What waits for a person or
for its next attempt is a warning as long as there is time; what is past its deadline, has
failed, kills every run or has no record is critical.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from .. import alerts, planning
from ..alert_records import AlertRecord
from ..model import Kind, Outcome, State
from ..records import OPEN
from .audit import audit
from .history import History
from .look import look

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime, timedelta

    from ..config import Job
    from ..model import Record
    from ..ports import Store
    from ..records import IntervalRecord
    from .application import Application
    from .look import Look


class Level(IntEnum):
    """How bad it is; the exit status that monitoring plugins have for it."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


class Trouble(NamedTuple):
    """One thing to say. `scheduled_at` orders them."""

    level: Level
    scheduled_at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Check:
    """`oldest_age` and `oldest_deadline` are those of the unfinished interval that is nearest to
    its deadline, or furthest beyond; both in seconds. `missing` counts scheduled intervals that
    have no record."""

    level: Level
    jobs: int
    troubles: Sequence[Trouble]
    backlog: int
    oldest_age: float
    oldest_deadline: float | None
    missing: int


def check(app: Application, only: str | None = None) -> Check:
    """How all jobs stand, or one. Raises `UnknownJob` and errors of the store."""
    jobs = [app.job(only)] if only is not None else list(app.config.jobs.values())
    with closing(app.open_store()) as store:
        now = store.facts().now
        looks = [(job, look(store, job, now)) for job in jobs]
        troubles = [t for job, seen in looks for t in troubles_of(store, job, seen)]
        audits = [(job, audit(seen, History(store, job.name, now))) for job, seen in looks]
    for job, found in audits:
        if found is not None and found.missing:
            text = f"{job.name}: {found.missing} scheduled intervals have no record"
            troubles.append(Trouble(Level.CRITICAL, found.since, text))
    troubles.sort(key=lambda trouble: (-trouble.level, trouble.scheduled_at))
    age, deadline = _oldest(looks)
    return Check(
        level=troubles[0].level if troubles else Level.OK,
        jobs=len(jobs),
        troubles=troubles,
        backlog=sum(seen.decision.backlog for _, seen in looks),
        oldest_age=age,
        oldest_deadline=deadline,
        missing=sum(found.missing for _, found in audits if found is not None),
    )


def troubles_of(store: Store, job: Job, seen: Look) -> Iterator[Trouble]:
    """What is wrong with a job's intervals, beside records that are missing."""
    told: set[datetime] = set()
    for found in alerts.judge(job, seen.job, seen.schedule, seen.decision, seen.now):
        waits = found.kind == alerts.APPROVAL
        if waits and found.interval.scheduled_at in told:
            continue  # that it is overdue says why
        told.add(found.interval.scheduled_at)
        level = Level.WARNING if waits else Level.CRITICAL
        yield Trouble(level, found.interval.scheduled_at, found.text)
    standing = [AlertRecord.from_json(one.value) for one in _alerts(store, job)]
    for alert in standing:
        if alert.tries:
            told_of = f"{job.name} {alert.id}: its alert ({alert.kind}) could not be delivered"
            yield Trouble(Level.WARNING, alert.scheduled_at, told_of)
    for record in _failed(store, job, seen, standing):
        text = f"{job.name} {record.id} has failed for good ({record.reason})"
        yield Trouble(Level.CRITICAL, record.scheduled_at, text)
    begun = [due.record for due in seen.decision.owed if due.record is not None]
    for record in (*begun, *(waits.record for waits in seen.decision.waiting)):
        text = "" if record.scheduled_at in told else _tried(job, record)
        if text:
            yield Trouble(Level.WARNING, record.scheduled_at, text)


def _alerts(store: Store, job: Job) -> Sequence[Record]:
    """Those that stand, or that somebody has still to hear of."""
    return store.scan(Kind.ALERT, job.name, tag=OPEN)


def _failed(
    store: Store, job: Job, seen: Look, standing: Sequence[AlertRecord]
) -> Iterator[IntervalRecord]:
    """Those that no newer completion followed, and those whose alert stands."""
    recent, _ = History(store, job.name, seen.now).failures()
    found = {record.scheduled_at: record for record in recent if not record.is_signed}
    for alert in standing:
        if alert.kind == alerts.FAILED and not alert.cleared:
            yield from _still_failed(store, job, alert, found)
    yield from sorted(found.values(), key=lambda record: record.scheduled_at)


def _still_failed(
    store: Store, job: Job, alert: AlertRecord, found: dict[datetime, IntervalRecord]
) -> Iterator[IntervalRecord]:
    from .look import read_interval

    if alert.scheduled_at in found:
        return
    record, _ = read_interval(store, job.name, alert.scheduled_at)
    if record is not None and record.state is State.FAILED and not record.is_signed:
        yield record


def _tried(job: Job, record: IntervalRecord) -> str:
    """What is said of an interval that was attempted more than once, or more than that often."""
    name = f"{job.name} {record.id}"
    if record.kills > 1:
        return f"{name} was killed {record.kills} times without progress"
    if record.failure is not None and record.failure.get("outcome") != Outcome.WAITING:
        return f"{name} failed and is tried again: {record.failure.get('text')}"
    runs = record.runs - record.runs_before
    if runs > job.max_attempts:
        return f"{name} was begun {runs} times"
    return ""


def _oldest(looks: Sequence[tuple[Job, Look]]) -> tuple[float, float | None]:
    """Age and deadline of the unfinished interval that is furthest beyond its deadline; 0 and the
    shortest deadline where nothing is unfinished."""
    found: list[tuple[timedelta, timedelta, timedelta]] = []
    limits: list[timedelta] = []
    for job, seen in looks:
        limit = planning.deadline(job, seen.schedule)
        limits.append(limit)
        entries = [(one.interval, one.record) for one in seen.decision.owed]
        entries += [(one.interval, one.record) for one in seen.decision.waiting]
        for interval, record in entries:
            since = alerts.owed_since(seen.job, interval, record)
            if since is not None:
                found.append((seen.now - since - limit, seen.now - since, limit))
    if found:
        _, age, limit = max(found)
        return age.total_seconds(), limit.total_seconds()
    return 0.0, min(limits).total_seconds() if limits else None
