"""Which intervals are due: the schedule minus the records. Pure; nothing is kept between calls.

There is no next-run pointer that a crash could leave behind. Each decision walks the
scheduled instants from the job's horizon to now beside the records, in order of time, and
whatever has no record is *new*. So an interval cannot be lost: either it has a record, or
the next decision finds it again.

New intervals, and pending ones that nobody has begun, go through the catch-up policy:

- older than ``catch_up.window``: skipped (`catch_up_window`), whatever the policy;
- ``all``: each is due, oldest first;
- ``latest``: only the newest scheduled instant is due, older ones are skipped
  (`superseded`); an unfinished one that never reached a checkpoint is overtaken in the same
  way, for nothing of it was done;
- ``none``: due before its deadline, afterwards skipped (`catch_up_window`).

A dated source tells the truth of its night, so one that is older than the newest completed
interval (`completed`) may no longer be applied: it is *overtaken*, begun or not, and whatever
it waits for. Only one with an open run is left to whoever takes that run over.

Else what was begun is never given up for its age. It is due again at once after a kill or an
interruption, after a failure once `retry_at` has come, and while a guard waits for somebody
only when the plan it waits with is the one that was approved. What was begun by hand
(rerun, backfill, manual) is not subject to the policy: a person asked for it.

A skip is a decision with a record too; a job that was down for months has more of them than
is sensible, so a long contiguous run of them is one *span*: one record that stands for its
first instant and `span` - 1 later ones up to `until`. Counting is done by the day
(`Schedule.count`), and only the first due ones are made into values, because a trigger
works one interval and decides again: 250,000 missed intervals take milliseconds.

To read only the newest records, the caller keeps `Decision.settled` (`JobRecord.settled_at`)
once the skips are written, and gives it as the next horizon (`floor`).

The store's clock may have jumped ahead and come back. Records, failures and horizons later
than its now are void: they neither cover nor delay anything.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from .config import DAY, HOUR, MINUTE
from .model import Interval, State, Trigger
from .records import JobRecord, from_text, to_text
from .schedule import TICK, Schedule, Version

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime

    from .config import Job
    from .records import IntervalRecord

LONG_SKIP = 100
"""More contiguous skips than this become one span record."""

_BY_HAND = (Trigger.RERUN, Trigger.BACKFILL, Trigger.MANUAL)


class Due(NamedTuple):
    """An interval to work. `record` is None, and `version` 0, where it has none yet."""

    interval: Interval
    record: IntervalRecord | None = None
    version: int = 0


class Skip(NamedTuple):
    """An interval to record as skipped, or `span` of them up to `until` (inclusive).

    `version` is the one to expect of the record, 0 where there is none yet.
    """

    interval: Interval
    reason: str
    record: IntervalRecord | None = None
    version: int = 0
    span: int = 1
    until: Interval | None = None


class Waiting(NamedTuple):
    """A begun interval that no trigger may touch yet.

    `why` is `retry`, not before `until`, or `approval`. Whether a guard's source or settings
    have changed, which makes it worth judging again, only the caller can see.
    """

    interval: Interval
    record: IntervalRecord
    version: int
    why: str
    until: datetime | None = None


class Decision(NamedTuple):
    """What to do now. `due` is in order of work, and holds no more than the limit of those
    that are new; `backlog` counts all that are due or unfinished, tried ones too. Those in
    `overtaken` are to be recorded as failed, with that reason.

    `settled`: once the skips are written, every scheduled instant from the horizon up to it,
    exclusive, has a record.
    """

    due: Sequence[Due]
    skips: Sequence[Skip]
    waiting: Sequence[Waiting]
    next_due: Interval | None
    backlog: int
    settled: datetime
    overtaken: Sequence[Skip] = ()


def decide(
    job: Job,
    schedule: Schedule | None,
    horizon: datetime,
    records: Iterable[tuple[IntervalRecord, int]],
    now: datetime,
    *,
    tried: Collection[str] = (),
    limit: int = LONG_SKIP,
    completed: datetime | None = None,
    open_runs: Collection[str] = (),
) -> Decision:
    """Decide what this trigger has to do. All instants are the store's.

    `records` with their versions, in order of key and each once: all that are open, however
    old, and all at or after `horizon`. `tried` are the keys of intervals this trigger has
    attempted already; they are neither due nor waiting. `schedule` None: on demand.
    `completed`: the newest completed instant where older ones may no longer be applied;
    `open_runs` are the keys of intervals with a run that is not closed.
    """
    walk = _Walk(job, schedule, now, tried, limit)
    walk.completed, walk.open_runs = completed, open_runs
    settled_until = horizon - TICK
    for record, version in records:
        if record.scheduled_at > now:
            continue
        walk.gap(settled_until, record.scheduled_at - TICK)
        settled_until = max(settled_until, record.until_at or record.scheduled_at)
        if settled_until > now:
            # A span recovered before the clock was put back: it must be seen until now is past it.
            walk.missing = min(walk.missing or now, record.scheduled_at)
        if not record.state.is_final:
            walk.record(record, version)
    walk.gap(settled_until, now)
    return walk.decision(horizon)


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

    The very same record where nothing has changed, so that nothing need be written.
    """
    entry = [to_text(now), job.schedule, job.timezone]
    if record is None:
        schedule = Schedule(job.schedule, job.timezone) if job.schedule else None
        return JobRecord(horizon_at=first_horizon(job, schedule, now), schedules=[entry])
    known = [
        version
        for number, version in enumerate(record.schedules)
        if number == 0 or from_text(version[0]) <= now
    ]
    if list(known[-1][1:]) != entry[1:]:
        known.append(entry)
    changed = record if known == record.schedules else replace(record, schedules=known)
    if record.horizon_at > now and record.horizon_at != job.start:
        return replace(changed, horizon_at=first_horizon(job, schedule_of(changed), now))
    return changed


def schedule_of(record: JobRecord) -> Schedule | None:
    """The schedule with all its versions; None for a job that never had one."""
    versions = [Version(from_text(since), text, zone) for since, text, zone in record.schedules]
    if all(version.expression is None for version in versions):
        return None
    return Schedule.of(versions)


def floor(record: JobRecord, now: datetime) -> datetime:
    """From where `decide` must look at the job: what is settled need not be read again."""
    settled = record.settled_at
    if settled is None or settled > now:
        return record.horizon_at
    return max(record.horizon_at, settled)


def retry_at(job: Job, record: IntervalRecord) -> datetime | None:
    """When a failed interval may be tried again; None where the last run did not fail.

    `retry_delay` after the failure, doubled with each further attempt, up to an hour.
    """
    if record.failure is None:
        return None
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


def window(job: Job, schedule: Schedule | None) -> timedelta:
    """The job's `catch_up.window`: by default 7 days, and at least two periods."""
    if job.catch_up.window is not None:
        return job.catch_up.window
    period = (schedule.period if schedule else None) or DAY
    return max(7 * DAY, 2 * period)


class _Walk:
    """One pass over the time from horizon to now, oldest first."""

    def __init__(
        self,
        job: Job,
        schedule: Schedule | None,
        now: datetime,
        tried: Collection[str],
        limit: int,
    ) -> None:
        self.job = job
        self.schedule = schedule
        self.now = now
        self.tried = tried
        self.limit = limit
        self.policy = job.catch_up_policy
        # The beginning of the catch-up window.
        self.oldest = now - window(job, schedule)
        if self.policy == "none":
            self.oldest = max(self.oldest, now - deadline(job, schedule) + TICK)
        self.newest = schedule.latest_until(now) if schedule else None
        self.begun: list[Due] = []
        self.new: list[Due] = []
        self.backfills: list[Due] = []
        self.skips: list[Skip] = []
        self.waiting: list[Waiting] = []
        self.overtaken: list[Skip] = []
        self.completed: datetime | None = None
        self.open_runs: Collection[str] = ()
        self.backlog = 0
        # The oldest instant without a record, or whose record must be read the next time too.
        self.missing: datetime | None = None

    def gap(self, after: datetime, until: datetime) -> None:
        """Sort the scheduled instants of ``(after, until]``, none of which has a record."""
        after = self._skip(after, min(until, self.oldest - TICK), "catch_up_window")
        if self.policy == "latest" and self.newest is not None:
            after = self._skip(after, min(until, self.newest - TICK), "superseded")
        if self.completed is not None:
            after = self._skip(after, min(until, self.completed - TICK), "overtaken")
        if self.schedule is None or after >= until:
            return
        for instant in self.schedule.between(after, until):
            if self.missing is None:
                self.missing = instant
            if len(self.new) >= self.limit:
                self.backlog += self.schedule.count(instant - TICK, until)
                return
            self.backlog += 1
            interval = self.schedule.interval(self.job.name, instant)
            if interval.key not in self.tried:
                self.new.append(Due(interval))

    def record(self, record: IntervalRecord, version: int) -> None:
        """Sort an open record."""
        interval = record.interval(self.job.name)
        reason = self._given_up(record)
        if reason is not None:
            self.skips.append(Skip(interval, reason, record, version))
            return
        if self._is_overtaken(record) and interval.key not in self.open_runs:
            self.overtaken.append(Skip(interval, "overtaken", record, version))
            return
        self.backlog += 1
        if interval.key in self.tried:
            return
        if record.waiting is not None and not _is_approved(record):
            self.waiting.append(Waiting(interval, record, version, "approval"))
            return
        until = self._retry_at(record)
        if until is not None:
            self.waiting.append(Waiting(interval, record, version, "retry", until))
            return
        self._group(record).append(Due(interval, record, version))

    def decision(self, horizon: datetime) -> Decision:
        """What was found. Unfinished ones first, then new ones, then backfills."""
        next_due = None
        if self.schedule is not None:
            instant = self.schedule.next_after(max(self.now, horizon - TICK))
            if instant is not None:
                next_due = self.schedule.interval(self.job.name, instant)
        self.backfills.sort(key=lambda due: due.record is not None and not _is_begun(due.record))
        return Decision(
            due=list(chain(self.begun, self.new, self.backfills)),
            skips=self.skips,
            waiting=self.waiting,
            next_due=next_due,
            backlog=self.backlog,
            settled=self.missing or self.now,
            overtaken=self.overtaken,
        )

    def _skip(self, after: datetime, until: datetime, reason: str) -> datetime:
        """Skip ``(after, until]``; from where to go on."""
        if self.schedule is None or after >= until:
            return after
        found = self.overtaken if reason == "overtaken" else self.skips
        count = self.schedule.count(after, until)
        if count > LONG_SKIP:
            first, last = self.schedule.next_after(after), self.schedule.latest_until(until)
            assert first is not None
            assert last is not None
            interval = self.schedule.interval(self.job.name, first)
            end = self.schedule.interval(self.job.name, last)
            found.append(Skip(interval, reason, span=count, until=end))
        elif count:
            for instant in self.schedule.between(after, until):
                interval = self.schedule.interval(self.job.name, instant)
                found.append(Skip(interval, reason))
        return until

    def _is_overtaken(self, record: IntervalRecord) -> bool:
        return self.completed is not None and record.scheduled_at < self.completed

    def _given_up(self, record: IntervalRecord) -> str | None:
        """Why an open record is skipped, if it is."""
        if record.rerun or record.trigger in _BY_HAND:
            return None
        if not _is_begun(record) and record.scheduled_at < self.oldest:
            return "catch_up_window"
        overtaken = (
            self.policy == "latest"
            and record.cursor is None
            and self.newest is not None
            and record.scheduled_at < self.newest
        )
        return "superseded" if overtaken else None

    def _retry_at(self, record: IntervalRecord) -> datetime | None:
        until = retry_at(self.job, record)
        if until is None or until <= self.now:
            return None
        assert record.failure is not None
        return until if from_text(str(record.failure["at"])) <= self.now else None

    def _group(self, record: IntervalRecord) -> list[Due]:
        if record.trigger is Trigger.BACKFILL:
            return self.backfills
        return self.begun if _is_begun(record) else self.new


def _is_begun(record: IntervalRecord) -> bool:
    return record.state is State.UNFINISHED or record.runs > 0


def _is_approved(record: IntervalRecord) -> bool:
    approval, waiting = record.approval, record.waiting
    return bool(approval and waiting and approval.get("hash") == waiting.get("hash"))
