"""The decision itself: one walk over the time from the horizon to now, beside the records."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from ..model import State, Trigger
from ..records import from_text
from ..schedule import TICK
from .decisions import Blocked, Decision, Due, Skip, Waiting
from .pauses import in_force
from .policy import deadline, retry_at, window

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime

    from ..config import Job
    from ..records import IntervalRecord
    from ..schedule import Schedule
    from .pauses import Pause

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
    pauses: Sequence[Pause] = (),
    failed: IntervalRecord | None = None,
) -> Decision:
    """Decide what this trigger has to do. All instants are the store's.

    `records` with their versions, in order of key and each once: all that are open, however
    old, and all at or after `horizon`. `tried` are the keys of intervals this trigger has
    attempted already; they are neither due nor waiting. `schedule` None: on demand.
    `completed`: the newest completed instant where older ones may no longer be applied;
    `open_runs` are the keys of intervals with a run that is not closed. `pauses` are the job's,
    oldest first. `failed`: the oldest interval that failed for good and that nothing newer has
    made up for; asked for where the job says `on_failed = "block"`.
    """
    walk = _Walk(job, schedule, now, tried, limit, pauses)
    walk.completed, walk.open_runs, walk.failed = completed, open_runs, failed
    settled_until = horizon - TICK
    for record, version in records:
        if record.scheduled_at > now:
            continue
        walk.gap(settled_until, record.scheduled_at - TICK)
        settled_until = max(settled_until, record.until_at or record.scheduled_at)
        if settled_until >= now:
            # A span that ends now, or was recovered before the clock was put back: it must be seen
            # until now is past it.
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
        pauses: Sequence[Pause],
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
        self.failed: IntervalRecord | None = None
        # The oldest interval that was begun by triggers and is not finished.
        self.unfinished: IntervalRecord | None = None
        self.open_runs: Collection[str] = ()
        self.pauses = pauses
        self.pause = in_force(pauses, now)
        self.paused = 0
        self.backlog = 0
        # The oldest instant without a record, or whose record must be read the next time too.
        self.missing: datetime | None = None

    def gap(self, after: datetime, until: datetime) -> None:
        """Sort the scheduled instants of ``(after, until]``, none of which has a record."""
        if self.schedule is not None and after < until:
            for instant in self.schedule.gaps(after, until):
                self.skips.append(Skip(self.schedule.interval(self.job.name, instant), "dst_gap"))
        for pause in self.pauses:
            end = self._end(pause)
            if after < end and pause.at < until:
                if after < pause.at:
                    self._sort(after, pause.at)
                self._fell_into(pause, max(after, pause.at), min(until, end))
                after = min(until, end)
        self._sort(after, until)

    def _end(self, pause: Pause) -> datetime:
        """Until when instants fall into a pause, as far as it is known now."""
        over_at = pause.over_at if pause.is_over(self.now) else None
        return self.now if over_at is None else min(over_at, self.now)

    def _fell_into(self, pause: Pause, after: datetime, until: datetime) -> None:
        """Sort the instants of a pause."""
        if self.schedule is None or after >= until:
            return
        if not pause.is_over(self.now):
            self.paused += self.schedule.count(after, until)
            first = self.schedule.next_after(after)
            if first is not None and first <= until:
                self.missing = self.missing or first
            return
        newest = self.newest_of(pause)
        if pause.catch_up or newest is None:
            self._sort(after, until)
            return
        after = self._skip(after, min(until, newest - TICK), "paused", pause)
        # As if it had been scheduled for the end of the pause.
        still = self._end(pause) >= self.oldest
        self._sort(after, until, min(self.oldest, newest) if still else None)

    def newest_of(self, pause: Pause) -> datetime | None:
        """The newest instant that fell into a pause."""
        assert self.schedule is not None, "only scheduled instants fall into a pause"
        return self.schedule.latest_until(self._end(pause), pause.at + TICK)

    def _sort(self, after: datetime, until: datetime, oldest: datetime | None = None) -> None:
        """Sort the instants of ``(after, until]`` by the policy. `oldest`: where its window
        begins for them, if not where it does for all."""
        after = self._skip(after, min(until, (oldest or self.oldest) - TICK), "catch_up_window")
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
        pause = self._pause_of(record)
        if pause is not None and not pause.is_over(self.now):
            self.paused += 1
            self.missing = self.missing or record.scheduled_at
            return
        reason = self._given_up(record, pause)
        if reason is not None:
            self.skips.append(Skip(interval, reason, record, version, pause=pause))
            return
        if self._is_overtaken(record) and interval.key not in self.open_runs:
            self.overtaken.append(Skip(interval, "overtaken", record, version))
            return
        self.backlog += 1
        by_hand = record.rerun or record.trigger in _BY_HAND
        if self.unfinished is None and _is_begun(record) and not by_hand:
            self.unfinished = record
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
        after: datetime | None = max(self.now, horizon - TICK)
        if self.pause is not None:
            after = self.pause.until
        if self.schedule is not None and after is not None:
            instant = self.schedule.next_after(after)
            if instant is not None:
                next_due = self.schedule.interval(self.job.name, instant)
        blocked = self._blocked()
        self.backfills.sort(key=lambda due: due.record is not None and not _is_begun(due.record))
        return Decision(
            due=list(chain(self.begun, self.new, self.backfills)),
            skips=self.skips,
            waiting=self.waiting,
            next_due=next_due,
            backlog=self.backlog,
            settled=self.missing or self.now,
            overtaken=self.overtaken,
            pause=self.pause,
            paused=self.paused,
            blocked=blocked,
        )

    def _blocked(self) -> Blocked | None:
        """Take away what may not be begun before an older interval is finished."""
        if self.job.on_failed != "block":
            return None
        older = [one for one in (self.failed, self.unfinished) if one is not None]
        if not older:
            return None
        oldest = min(older, key=lambda one: one.scheduled_at)
        held = [due for due in self.new if due.interval.scheduled_at > oldest.scheduled_at]
        if not held:
            return None
        self.new = [due for due in self.new if due not in held]
        return Blocked(oldest, held, oldest.state is State.FAILED)

    def _skip(
        self, after: datetime, until: datetime, reason: str, pause: Pause | None = None
    ) -> datetime:
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
            found.append(Skip(interval, reason, span=count, until=end, pause=pause))
        elif count:
            for instant in self.schedule.between(after, until):
                interval = self.schedule.interval(self.job.name, instant)
                found.append(Skip(interval, reason, pause=pause))
        return until

    def _is_overtaken(self, record: IntervalRecord) -> bool:
        return self.completed is not None and record.scheduled_at < self.completed

    def _pause_of(self, record: IntervalRecord) -> Pause | None:
        """The pause that an interval nobody has begun fell into."""
        if _is_begun(record) or record.trigger in _BY_HAND or self.schedule is None:
            return None
        at = record.scheduled_at
        return next((one for one in self.pauses if one.at < at <= self._end(one)), None)

    def _given_up(self, record: IntervalRecord, pause: Pause | None) -> str | None:
        """Why an open record is skipped, if it is. `pause`: the one it fell into."""
        if record.rerun or record.trigger in _BY_HAND:
            return None
        at = record.scheduled_at
        if pause is not None and not pause.catch_up:
            if at != self.newest_of(pause):
                return "paused"
            at = self._end(pause)
        if not _is_begun(record) and at < self.oldest:
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
