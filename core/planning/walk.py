"""The decision itself: one walk over the time from the horizon to now, beside the records."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from ..model import State, Trigger
from ..records import from_text
from ..schedule import TICK
from .decisions import Decision, Due, Skip, Waiting
from .policy import deadline, retry_at, window

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime

    from ..config import Job
    from ..records import IntervalRecord
    from ..schedule import Schedule

LONG_SKIP = 100
"""More contiguous skips than this become one span record."""

_BY_HAND = (Trigger.RERUN, Trigger.BACKFILL, Trigger.MANUAL)


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
