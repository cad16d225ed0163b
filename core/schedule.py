"""When intervals come round, and how their instants are spelled.

A `Schedule` is made of versions: what `reconcile.toml` said from which instant on. An
edited schedule takes effect when it is first seen and invents nothing before that, and
what the old one had left undone stays due; so both must be asked, each for its own time.

Each version asks one `Calendar`. So far there is one, `UtcCron`: five cron fields in UTC.
Time zones and systemd's OnCalendar are further calendars: a calendar gives instants in UTC,
strictly increasing, so nothing above it knows of clocks that are put back. cronsim reads
the fields and matches days (with its day-of-month and day-of-week rules, those of
Debian's cron); instants are counted by days here, because stepping through the minutes of
a long outage one by one is too slow.

The interval id is the short `2026-11-30` where the schedule has at most one instant per UTC
date, else `2026-11-30T02:30Z`, with seconds where they are not zero. Where an edit put a
second instant on a date, the first keeps the short id and later ones have the long one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice, takewhile
from typing import TYPE_CHECKING, NamedTuple, Protocol

from .errors import ConfigError, UsageError
from .model import Interval

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TICK = timedelta(microseconds=1)
YEARS = range(1970, 9999)
"""No interval lies outside; the calendar's own ends overflow."""
"""The smallest step of an instant: turns an open bound into a closed one."""

AT_NAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
CRON_FIELDS = 5

_DAY = timedelta(days=1)
_EPOCH = date(2000, 1, 1)
_LONGEST_GAP = timedelta(days=50 * 366)
_CYCLE = 1461  # days of four years, leap day included
_ID = re.compile(r"(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d(?::\d\d)?)Z)?", re.ASCII)
_SHOWN = 3


class Calendar(Protocol):
    """Instants in UTC, strictly increasing, of one schedule expression in one time zone."""

    once_a_day: bool
    """Whether at most one instant per UTC date is guaranteed."""

    def after(self, instant: datetime) -> Iterator[datetime]:
        """Instants later than this one, ascending, lazily."""
        ...

    def until(self, instant: datetime) -> Iterator[datetime]:
        """Instants not later than this one, descending, lazily."""
        ...

    def count(self, after: datetime, until: datetime) -> int:
        """How many instants lie in ``(after, until]``; takes time by the day, not by instant."""
        ...

    def period(self) -> timedelta:
        """The smallest gap between two instants, as found over the years 2000 to 2003."""
        ...


class Version(NamedTuple):
    """What the schedule was from `since` on. `expression` None: the job was on demand."""

    since: datetime
    expression: str | None
    timezone: str = "UTC"


class Schedule:
    """All scheduled instants of a job. Bounds are in UTC, spans are ``(after, until]``.

    Raises `ConfigError` for an expression that cannot be read or never comes round.
    """

    def __init__(self, expression: str, timezone: str = "UTC") -> None:
        self._parts: list[tuple[datetime | None, Calendar | None]] = [
            (None, calendar(expression, timezone))
        ]

    @classmethod
    def of(cls, versions: Sequence[Version]) -> Schedule:
        """The schedule made of versions, oldest first. The first has no beginning."""
        self = cls.__new__(cls)
        self._parts = [
            (v.since if n else None, calendar(v.expression, v.timezone) if v.expression else None)
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
            found = next(part.until(bound), None)
            if found is not None and (since is None or found >= since):
                return None if not_before is not None and found < not_before else found
        return None

    def between(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """Scheduled instants in ``(after, until]``, oldest first, lazily."""
        return takewhile(lambda instant: instant <= until, self._after(after))

    def count(self, after: datetime, until: datetime) -> int:
        """How many instants `between` would give, without stepping through them."""
        total = 0
        for since, before, part in self._spans():
            low = after if since is None else max(after, since - TICK)
            high = until if before is None else min(until, before - TICK)
            if low < high:
                total += part.count(low, high)
        return total

    @property
    def period(self) -> timedelta | None:
        """The smallest gap of the version in force; None while the job is on demand."""
        part = self._parts[-1][1]
        return None if part is None else part.period()

    def interval_id(self, instant: datetime) -> str:
        """How users spell this instant. One that is not on the schedule has the long id."""
        part = next(
            (p for since, p in reversed(self._parts) if since is None or since <= instant), None
        )
        if part is None or not part.once_a_day or self.latest_until(instant) != instant:
            return instant_id(instant)
        if len(self._parts) > 1:
            midnight = datetime.combine(instant.astimezone(UTC), time(), UTC)
            if self.count(midnight - TICK, instant - TICK):
                return instant_id(instant)
        return instant.astimezone(UTC).strftime("%Y-%m-%d")

    def interval(self, job: str, instant: datetime) -> Interval:
        """The job's interval of a scheduled instant."""
        return Interval(job, instant, self.interval_id(instant))

    def parse_id(self, text: str) -> datetime:
        """The scheduled instant that an id names, in either spelling.

        Raises `UsageError` where it is no id, names no scheduled instant (the hint has the
        two nearest), or names several.
        """
        spelled = read_id(text)
        if isinstance(spelled, datetime):
            if self.latest_until(spelled) == spelled:
                return spelled
            raise self._not_scheduled(text, spelled, spelled)
        first = datetime.combine(spelled, time(), UTC)
        last = datetime.combine(spelled, time.max, UTC)
        found = list(islice(self.between(first - TICK, last), _SHOWN + 1))
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

    def _after(self, instant: datetime) -> Iterator[datetime]:
        for since, before, part in self._spans():
            if before is not None and before <= instant:
                continue
            bound = instant if since is None else max(instant, since - TICK)
            for found in part.after(bound):
                if before is not None and found >= before:
                    break
                yield found

    def _spans(self) -> list[tuple[datetime | None, datetime | None, Calendar]]:
        ends = [since for since, _ in self._parts[1:]] + [None]
        pairs = zip(self._parts, ends, strict=True)
        return [(since, end, part) for (since, part), end in pairs if part is not None]


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
            f"{text!r} is no interval id", hint="write 2026-11-30 or 2026-11-30T02:30Z"
        ) from None


def calendar(expression: str, timezone: str = "UTC") -> Calendar:
    """The calendar of an expression. Raises `ConfigError` where it cannot be read."""
    if timezone != "UTC":
        raise ConfigError(
            f"time zone {timezone!r} is not supported by this version", hint='write "UTC"'
        )
    text = expression.strip()
    if text.startswith("@"):
        fields = AT_NAMES.get(text.lower())
        if fields is None:
            raise ConfigError(
                f"{text!r} is no schedule", hint=f"known names: {', '.join(AT_NAMES)}"
            )
        return UtcCron(fields)
    if len(text.split()) != CRON_FIELDS:
        raise ConfigError(
            f"{text!r} does not have the five fields of cron; other calendars, such as"
            " OnCalendar, are not supported by this version",
            hint='write for example "30 2 * * *": minute, hour, day, month, day of the week',
        )
    return UtcCron(text)


class UtcCron:
    """Five cron fields in UTC. The instants of a day are the same on each day that matches."""

    def __init__(self, expression: str) -> None:
        # Deferred: it brings calendar and locale, which commands without jobs never need.
        from cronsim import CronSim, CronSimError

        try:
            cron = CronSim(expression, datetime.combine(_EPOCH, time(), UTC))
        except CronSimError as error:
            raise ConfigError(
                f"{expression!r} is no schedule: {str(error).lower()}",
                hint='write for example "30 2 * * *": minute, hour, day, month, day of the week',
            ) from None
        self._months = cron.months
        self._match = cron.match_day
        self._minutes = sorted(60 * hour + minute for hour in cron.hours for minute in cron.minutes)
        self.once_a_day = len(self._minutes) == 1
        if next(self._days(_EPOCH, _DAY), None) is None:
            raise ConfigError(f"{expression!r} never comes round", hint="check day and month")

    def after(self, instant: datetime) -> Iterator[datetime]:
        """See `Calendar.after`."""
        today, minute = _split(instant)
        for day in self._days(today, _DAY):
            begin = bisect_right(self._minutes, minute) if day == today else 0
            midnight = datetime.combine(day, time(), UTC)
            for past_midnight in islice(self._minutes, begin, None):
                yield midnight + timedelta(minutes=past_midnight)

    def until(self, instant: datetime) -> Iterator[datetime]:
        """See `Calendar.until`."""
        today, minute = _split(instant)
        for day in self._days(today, -_DAY):
            end = bisect_right(self._minutes, minute) if day == today else len(self._minutes)
            midnight = datetime.combine(day, time(), UTC)
            for past_midnight in reversed(self._minutes[:end]):
                yield midnight + timedelta(minutes=past_midnight)

    def count(self, after: datetime, until: datetime) -> int:
        """See `Calendar.count`."""
        if after >= until:
            return 0
        (first, first_minute), (last, last_minute) = _split(after), _split(until)
        total = 0
        for day in takewhile(lambda day: day <= last, self._days(first, _DAY)):
            total += len(self._minutes)
            if day == first:
                total -= bisect_right(self._minutes, first_minute)
            if day == last:
                total -= len(self._minutes) - bisect_right(self._minutes, last_minute)
        return total

    def period(self) -> timedelta:
        """See `Calendar.period`."""
        pairs = zip(self._minutes, self._minutes[1:], strict=False)
        smallest = min((later - earlier for earlier, later in pairs), default=None)
        overnight = self._minutes[0] - self._minutes[-1]
        gap: int | None = None
        previous: date | None = None
        for day in self._days(_EPOCH, _DAY):
            if previous is not None:
                days = (day - previous).days
                gap = days if gap is None else min(gap, days)
                if gap == 1 or (day - _EPOCH).days > _CYCLE:
                    break
            previous = day
        gaps = [minutes for minutes in (smallest,) if minutes is not None]
        if gap is not None:
            gaps.append(gap * 24 * 60 + overnight)
        return timedelta(minutes=min(gaps)) if gaps else _LONGEST_GAP

    def _days(self, first: date, step: timedelta) -> Iterator[date]:
        """Days that match, from `first` on in steps of a day; ends after a gap of 50 years."""
        day = last = first
        try:
            while abs(day - last) <= _LONGEST_GAP:
                if day.month not in self._months:
                    day = _next_month(day) if step > timedelta() else day.replace(day=1) - _DAY
                    continue
                if self._match(day):
                    last = day
                    yield day
                day += step
        except OverflowError:  # the first or the last day there is
            return


def _split(instant: datetime) -> tuple[date, int]:
    """The UTC date, and the whole minutes since its midnight."""
    utc = instant.astimezone(UTC)
    return utc.date(), 60 * utc.hour + utc.minute


def _next_month(day: date) -> date:
    return (day.replace(day=1) + timedelta(days=31)).replace(day=1)
