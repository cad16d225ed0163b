"""When intervals come round, and how their instants are spelled.

A `Schedule` is made of versions: what `reconcile.toml` said from which instant on. An
edited schedule takes effect when it is first seen and invents nothing before that, and
what the old one had left undone stays due; so both must be asked, each for its own time.

Each version asks one `Calendar` (`calendars`), which knows what an expression means in a
time zone. It gives instants in UTC, strictly increasing, so nothing here knows of clocks
that are put back; but for one thing: under `Dst.gap` "skip" a calendar has instants that
are intended and never come (`Schedule.gaps`). They are not scheduled, so nothing finds them
due; they have ids, so that their records can be asked for.

The interval id is the short `2026-11-30` where the schedule is sure to have at most one
instant per UTC date, else `2026-11-30T02:30Z`, with seconds where they are not zero. Where
an edit put a second instant on a date, the first keeps the short id and later ones have the
long one. A date is always that of the instant in UTC, whatever the time zone.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from heapq import merge
from itertools import islice, takewhile
from typing import TYPE_CHECKING, NamedTuple

from . import calendars
from .calendars import Dst, calendar
from .errors import UsageError
from .model import Interval

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .calendars import Calendar

TICK = calendars.TICK
YEARS = range(1970, 9999)
"""No interval lies outside; the calendar's own ends overflow."""

_ID = re.compile(r"(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d(?::\d\d)?)Z)?", re.ASCII)
_SHOWN = 3


class Version(NamedTuple):
    """What the schedule was from `since` on. `expression` None: the job was on demand."""

    since: datetime
    expression: str | None
    timezone: str = calendars.UTC_NAME
    dst: Dst = calendars.USUAL_DST


class Schedule:
    """All scheduled instants of a job. Bounds are in UTC, spans are ``(after, until]``.

    Raises `ConfigError` for an expression that cannot be read or never comes round, and for
    an unknown time zone.
    """

    def __init__(
        self, expression: str, timezone: str = calendars.UTC_NAME, dst: Dst = calendars.USUAL_DST
    ) -> None:
        self._parts = [_Part(None, expression, timezone, dst)]
        _ = self._parts[0].calendar

    @classmethod
    def of(cls, versions: Sequence[Version]) -> Schedule:
        """The schedule made of versions, oldest first. The first has no beginning. What an old
        version says is read when somebody asks about its time: a job may have had many."""
        self = cls.__new__(cls)
        self._parts = [
            _Part(v.since if n else None, v.expression, v.timezone, v.dst)
            for n, v in enumerate(versions)
        ]
        return self

    def next_after(self, instant: datetime) -> datetime | None:
        """The first scheduled instant later than this one."""
        return next(self._after(instant), None)

    def latest_until(
        self, instant: datetime, not_before: datetime | None = None
    ) -> datetime | None:
        """The newest scheduled instant not later than this one (nor before `not_before`)."""
        for since, before, part in reversed(self._spans()):
            bound = instant if before is None else min(instant, before - TICK)
            if since is not None and bound < since:
                continue
            found = next(part.calendar.until(bound), None)
            if found is not None and (since is None or found >= since):
                return None if not_before is not None and found < not_before else found
        return None

    def between(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """Scheduled instants in ``(after, until]``, oldest first, lazily."""
        return takewhile(lambda instant: instant <= until, self._after(after))

    def count(self, after: datetime, until: datetime) -> int:
        """How many instants `between` would give, without stepping through them."""
        return sum(part.count(low, high) for low, high, part in self._within(after, until))

    def gaps(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """Instants in ``(after, until]`` that are intended, and left out because clocks were
        put forward over their time; oldest first. None of them is scheduled."""
        for low, high, part in self._within(after, until):
            yield from part.gaps(low, high)

    @property
    def period(self) -> timedelta | None:
        """The smallest gap of the version in force, on the wall clock, where a day is always
        24 hours; None while the job is on demand."""
        now = self._parts[-1]
        return None if now.expression is None else now.calendar.period()

    def interval_id(self, instant: datetime) -> str:
        """How users spell this instant. One that is not on the schedule has the long id."""
        then = self._part(instant)
        if then.expression is None or not then.calendar.once_a_day:
            return instant_id(instant)
        if not self._is_intended(instant):
            return instant_id(instant)
        if len(self._parts) > 1:
            midnight = datetime.combine(instant.astimezone(UTC), time(), UTC)
            if next(self._intended(midnight - TICK, instant - TICK), None) is not None:
                return instant_id(instant)
        return instant.astimezone(UTC).strftime("%Y-%m-%d")

    def interval(self, job: str, instant: datetime) -> Interval:
        """The job's interval of a scheduled instant."""
        return Interval(job, instant, self.interval_id(instant), self._part(instant).timezone)

    def parse_id(self, text: str) -> datetime:
        """The scheduled instant that an id names, in either spelling, or one of `gaps`.

        Raises `UsageError` where it is no id, names no scheduled instant (the hint has the
        two nearest), or names several.
        """
        spelled = read_id(text)
        if isinstance(spelled, datetime):
            if self._is_intended(spelled):
                return spelled
            raise self._not_scheduled(text, spelled, spelled)
        first = datetime.combine(spelled, time(), UTC)
        last = datetime.combine(spelled, time.max, UTC)
        found = list(islice(self._intended(first - TICK, last), _SHOWN + 1))
        if len(found) == 1:
            return found[0]
        if not found:
            raise self._not_scheduled(text, first, last)
        names = [instant_id(instant) for instant in found[:_SHOWN]]
        raise UsageError(
            f"{text} has more than one interval",
            hint=f"name one in full: {', '.join(names)}" + (", …" if len(found) > _SHOWN else ""),
        )

    def _not_scheduled(self, text: str, first: datetime, last: datetime) -> UsageError:
        nearest = (self.latest_until(first), self.next_after(last))
        names = [self.interval_id(instant) for instant in nearest if instant is not None]
        hint = f"nearest: {' and '.join(names)}" if names else "nothing is scheduled"
        return UsageError(f"{text} is not on the schedule", hint=hint)

    def _is_intended(self, instant: datetime) -> bool:
        return next(self._intended(instant - TICK, instant), None) is not None

    def _intended(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """Instants that are scheduled, and those that are left out, oldest first."""
        return merge(self.between(after, until), self.gaps(after, until))

    def _after(self, instant: datetime) -> Iterator[datetime]:
        for since, before, part in self._spans():
            if before is not None and before <= instant:
                continue
            bound = instant if since is None else max(instant, since - TICK)
            for found in part.calendar.after(bound):
                if before is not None and found >= before:
                    break
                yield found

    def _within(
        self, after: datetime, until: datetime
    ) -> Iterator[tuple[datetime, datetime, Calendar]]:
        """What of ``(after, until]`` lies in the time of each version."""
        for since, before, part in self._spans():
            low = after if since is None else max(after, since - TICK)
            high = until if before is None else min(until, before - TICK)
            if low < high:
                yield low, high, part.calendar

    def _spans(self) -> list[tuple[datetime | None, datetime | None, _Part]]:
        ends = [part.since for part in self._parts[1:]] + [None]
        pairs = zip(self._parts, ends, strict=True)
        return [(p.since, end, p) for p, end in pairs if p.expression is not None]

    def _part(self, instant: datetime) -> _Part:
        """The version that holds at an instant."""
        parts = reversed(self._parts)
        return next(part for part in parts if part.since is None or part.since <= instant)


class _Part:
    """A version with its calendar. `since` None: it has no beginning; `expression` None: the job
    was on demand, and has no calendar."""

    def __init__(
        self, since: datetime | None, expression: str | None, timezone: str, dst: Dst
    ) -> None:
        self.since, self.expression, self.timezone = since, expression, timezone
        self._dst = dst
        self._calendar: Calendar | None = None

    @property
    def calendar(self) -> Calendar:
        """Made when it is first asked for. Raises as `calendars.calendar`."""
        if self._calendar is None:
            assert self.expression is not None, "a job on demand has none"
            self._calendar = calendar(self.expression, self.timezone, self._dst)
        return self._calendar


def instant_id(instant: datetime) -> str:
    """The long spelling: `2026-11-30T02:30Z`, with seconds where they are not zero."""
    pattern = "%Y-%m-%dT%H:%M:%SZ" if instant.second else "%Y-%m-%dT%H:%MZ"
    return instant.astimezone(UTC).strftime(pattern)


def read_id(text: str) -> datetime | date:
    """What an interval id spells: a date, or an instant in UTC. `UsageError` if neither."""
    match = _ID.fullmatch(text)
    try:
        if match is None:
            raise ValueError(text)
        day = date.fromisoformat(match[1])
        if day.year not in YEARS:
            raise ValueError(text)
        if match[2] is None:
            return day
        return datetime.combine(day, time.fromisoformat(match[2]), UTC)
    except ValueError:
        raise UsageError(
            f"{text!r} is no interval id",
            hint="write 2026-11-30, 2026-11-30T02:30Z, latest or oldest",
        ) from None
