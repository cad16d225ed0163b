"""`pause` and `unpause`: whether triggers of a job start anything.

What fell into a pause is decided by the planning, from the job's record (`planning.pauses`).
`unpause` writes that down at once where the lease is free; else the holder does, or the next
trigger. Both acts stand on the job's own trail, the skips on that of each interval, under the
name of whoever paused.
"""

from __future__ import annotations

import re
from contextlib import closing, suppress
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING

from .. import planning
from ..calendars.zones import zone
from ..errors import ConfigError, StoreBusy, UsageError, WriteConflict
from ..events import PauseReport
from ..model import ABSENT, Actor, Append, Kind, Put, Trigger
from ..records import to_text
from ..toml_values import parse_duration
from ..trail import OF_JOB
from .interventions import stop
from .look import look
from .visit import Visit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..config import Job
    from ..model import JsonObject
    from ..planning import Pause, Skip
    from ..ports import Store
    from ..records import JobRecord
    from .application import ActRequest, Application
    from .look import Look

TRIES = 10
"""So often in a row may a holder's write come between reading the job's record and writing it."""
_TIME = re.compile(r"(\d\d:\d\d)(Z|[+-]\d\d:\d\d)?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?)?$", re.ASCII)


def pause(
    app: Application, request: ActRequest, *, until: str | None = None, stops: bool = False
) -> PauseReport:
    """Let no trigger start anything until `until`, or until somebody unpauses. With `stops` the
    holder that works is asked to stop, too.

    `until`: an instant, a date or a time of day, with an offset or on the clock of the job's time
    zone; or a duration from now.
    Raises `UsageError` where it is neither, or over.
    """
    job = app.job(request.job)
    with closing(app.open_store()) as store:
        now = store.facts().now
        by = Actor(request.actor, request.reason, now)
        end = None if until is None else _until(until, now, zone(job.timezone))
        event = _signed("paused", by, until=None if end is None else to_text(end))
        seen = _note(store, job, now, event, lambda record: planning.paused(record, by, end))
    assert seen is not None, "it always changes something"
    stopped = stop(app, request) if stops else None
    return PauseReport(
        job=job.name,
        at=now,
        pause=seen.decision.pause,
        next_due=seen.decision.next_due.scheduled_at if seen.decision.next_due else None,
        stopped=stopped,
    )


def unpause(app: Application, request: ActRequest, *, catch_up: bool = False) -> PauseReport:
    """Let triggers go on. The newest interval of the pause is due, older ones are skipped; with
    `catch_up` all of them are left to the policy."""
    job = app.job(request.job)
    with closing(app.open_store()) as store:
        now = store.facts().now
        by = Actor(request.actor, request.reason, now)
        event = _signed("unpaused", by, catch_up=catch_up or None)

        def ended(record: JobRecord) -> JobRecord | None:
            if planning.in_force(planning.pauses_of(record), now) is None:
                return None
            return planning.unpaused(record, now, catch_up=catch_up)

        seen = _note(store, job, now, event, ended)
        if seen is None:
            return PauseReport(job.name, now, None, was_paused=False)
        report = _fell_into(job, seen, catch_up=catch_up)
        visit = Visit(app=app, job=job, store=store, facts=store.facts(), trigger=Trigger.MANUAL)
        visit.settles = True
        with suppress(StoreBusy):  # somebody writes to it; the next trigger writes this down
            visit.run()
        return report


def _note(
    store: Store,
    job: Job,
    now: datetime,
    event: JsonObject,
    change: Callable[[JobRecord], JobRecord | None],
) -> Look | None:
    """Change the job's record by hand, signed; how the job stands then, None where there is
    nothing to change. A holder writes that record too, so it is tried again on a conflict."""
    for tries_left in reversed(range(TRIES)):
        seen = look(store, job, now)
        record = change(seen.job)
        if record is None:
            return None
        put = Put(Kind.JOB, job.name, "", record.to_json(), expect=seen.version or ABSENT)
        try:
            store.note([put, Append(Kind.EVENT, job.name, OF_JOB, event)])
        except WriteConflict:
            if not tries_left:
                raise
            continue
        return look(store, job, now)
    raise AssertionError("the last try returns or raises")


def _fell_into(job: Job, seen: Look, *, catch_up: bool) -> PauseReport:
    """What became of the instants of the pause that has just ended."""
    pause = planning.pauses_of(seen.job)[-1]
    skips = [skip for skip in seen.decision.skips if skip.pause == pause]
    due = None
    if seen.schedule is not None and not catch_up:
        newest = seen.schedule.latest_until(seen.now, pause.at + timedelta(microseconds=1))
        found = {one.interval.scheduled_at: one.interval.id for one in seen.decision.due}
        due = found.get(newest) if newest is not None else None
    missed = _missed(seen, pause) if catch_up else 0
    return PauseReport(
        job=job.name,
        at=seen.now,
        pause=None,
        next_due=seen.decision.next_due.scheduled_at if seen.decision.next_due else None,
        due=due,
        skipped=[skip.interval.id for skip in skips],
        skipped_count=sum(skip.span for skip in skips),
        left_to_policy=missed,
        ended=pause,
    )


def _missed(seen: Look, pause: Pause) -> int:
    """How many instants of a pause nobody has worked, and the policy decides about."""
    skips: Sequence[Skip] = [s for s in seen.decision.skips if s.interval.scheduled_at > pause.at]
    due = [d for d in seen.decision.due if d.interval.scheduled_at > pause.at]
    return sum(skip.span for skip in skips) + len(due)


def _until(text: str, now: datetime, there: tzinfo) -> datetime:
    """The instant that ends a pause; `there` is the job's time zone."""
    end = _read(text, now, there)
    if end <= now:
        raise UsageError(f"--until {text} is over: it is {now:%Y-%m-%dT%H:%MZ} now")
    return end


def _read(text: str, now: datetime, there: tzinfo) -> datetime:
    """What bears no offset is on the job's clock, as `start` is."""
    try:
        if (match := _TIME.fullmatch(text)) is not None:
            at = time.fromisoformat(match[1])
            clock = there if match[2] is None else _offset(match[2])
            today = now.astimezone(clock).date()
            days = (datetime.combine(today + timedelta(days=n), at, clock) for n in range(2))
            return next(day for day in (day.astimezone(UTC) for day in days) if day > now)
        if _DATE.match(text):
            found = datetime.fromisoformat(text)
            return found.replace(tzinfo=found.tzinfo or there).astimezone(UTC)
        return now + parse_duration(text)
    except (ValueError, OverflowError, ConfigError, StopIteration):
        raise UsageError(
            f"--until {text!r} is no time",
            hint="write 05:00 (on the clock of the job's time zone), 05:00Z, 05:00+01:00,"
            " 2026-12-01, 2026-12-01T05:00Z, or a duration as 90m",
        ) from None


def _offset(text: str) -> tzinfo:
    found = time.fromisoformat(f"00:00{text}").tzinfo
    assert found is not None, "it has one"
    return found


def _signed(type_: str, by: Actor, **facts: JsonObject | str | bool | None) -> JsonObject:
    value = {"type": type_, "actor": by.name, "reason": by.reason, **facts}
    return {name: fact for name, fact in value.items() if fact is not None}
