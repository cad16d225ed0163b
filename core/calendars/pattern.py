"""Days that match and times of day, the same on each of them: what a wall clock shows.

What the clock shows is written as the instant in UTC that shows the same, so that a
`Pattern` is itself the calendar of its expression in UTC. Instants are counted by days,
because stepping through the minutes of a long outage one by one is too slow; the times of a
day are kept as hours, minutes and seconds, of which every second has 86,400.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, overload

from ..errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

DAY = timedelta(days=1)
LONGEST_GAP = timedelta(days=50 * 366)
"""A pattern that does not match for so long is taken to be over."""
_EPOCH = date(2000, 1, 1)
_FOUR_YEARS = 1461  # days, leap day included
_ALL_YEARS = 28
"""Years with all their kinds: leap or not, and begun on each day of the week."""


class Times(Sequence[int]):
    """The seconds of a day at which each hour, minute and second of three sets comes round,
    ascending. Nothing is kept but the sets."""

    def __init__(self, hours: Iterable[int], minutes: Iterable[int], seconds: Iterable[int]):
        self._parts = tuple(sorted(set(part)) for part in (hours, minutes, seconds))
        self._lengths = len(self._parts[1]), len(self._parts[2])

    def __len__(self) -> int:
        return len(self._parts[0]) * self._lengths[0] * self._lengths[1]

    @overload
    def __getitem__(self, at: int) -> int: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[int]: ...

    def __getitem__(self, at: int | slice) -> int | Sequence[int]:
        if isinstance(at, slice):
            return [self[n] for n in range(*at.indices(len(self)))]
        if not -len(self) <= at < len(self):
            raise IndexError(at)
        hours, minutes, seconds = self._parts
        rest, second = divmod(at % len(self), self._lengths[1])
        hour, minute = divmod(rest, self._lengths[0])
        return 3600 * hours[hour] + 60 * minutes[minute] + seconds[second]

    def smallest_gap(self) -> int | None:
        """The smallest number of seconds between two times of one day; None for a single one."""
        gaps: list[int] = []
        spread = 0  # from the first to the last time within one unit of the part above
        for part, unit in zip(reversed(self._parts), (1, 60, 3600), strict=True):
            gaps += (unit * (later - earlier) - spread for earlier, later in pairwise(part))
            spread += unit * (part[-1] - part[0])
        return min(gaps, default=None)


class Pattern:
    """Times of day on the days that match. See `Calendar`; this one's instants are UTC.

    `months` must hold those of all days that match; `years` None: any. Raises `ConfigError`
    for one that never comes round.
    """

    def __init__(
        self,
        text: str,
        times: Times,
        match: Callable[[date], bool],
        months: Collection[int],
        years: Collection[int] | None = None,
    ) -> None:
        self.times = times
        self._match = match
        self._months = months
        self._years = None if years is None else sorted(years)
        self._begin = _EPOCH if self._years is None else date(self._years[0], 1, 1)
        if next(self._days(self._begin, DAY), None) is None:
            raise ConfigError(f"{text!r} never comes round", hint="check day and month")

    @property
    def once_a_day(self) -> bool:
        """See `Calendar.once_a_day`."""
        return len(self.times) == 1

    def after(self, instant: datetime) -> Iterator[datetime]:
        """See `Calendar.after`."""
        today, second = _split(instant)
        for day in self._days(today, DAY):
            begin = bisect_right(self.times, second) if day == today else 0
            midnight = datetime.combine(day, time(), UTC)
            for n in range(begin, len(self.times)):
                yield midnight + timedelta(seconds=self.times[n])

    def until(self, instant: datetime) -> Iterator[datetime]:
        """See `Calendar.until`."""
        today, second = _split(instant)
        for day in self._days(today, -DAY):
            end = bisect_right(self.times, second) if day == today else len(self.times)
            midnight = datetime.combine(day, time(), UTC)
            for n in range(end - 1, -1, -1):
                yield midnight + timedelta(seconds=self.times[n])

    def count(self, after: datetime, until: datetime) -> int:
        """See `Calendar.count`."""
        if after >= until:
            return 0
        (first, first_second), (last, last_second) = _split(after), _split(until)
        total = 0
        for day in takewhile(lambda day: day <= last, self._days(first, DAY)):
            total += len(self.times)
            if day == first:
                total -= bisect_right(self.times, first_second)
            if day == last:
                total -= len(self.times) - bisect_right(self.times, last_second)
        return total

    def gaps(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """See `Calendar.gaps`: in UTC no time is left out."""
        return iter(())

    def period(self) -> timedelta:
        """See `Calendar.period`."""
        gaps: list[int] = []
        within = self.times.smallest_gap()
        if within is not None:
            gaps.append(within)
        days = self.nearest_days(_FOUR_YEARS)
        if days is not None:
            overnight = self.times[0] - self.times[-1]
            gaps.append(days * 24 * 3600 + overnight)
        return timedelta(seconds=min(gaps)) if gaps else LONGEST_GAP

    def nearest_days(self, within: int | None = None) -> int | None:
        """How many days, at least, lie between two that match, as found in so many days from
        the first on; of every kind of year by default. None where there are not two."""
        if within is None and self._years is not None:
            within = (self._years[-1] + 1 - self._years[0]) * 366
        last = _ALL_YEARS * 366 if within is None else within
        smallest: int | None = None
        previous: date | None = None
        for day in self._days(self._begin, DAY):
            if previous is not None:
                days = (day - previous).days
                smallest = days if smallest is None else min(smallest, days)
                if smallest == 1:
                    break
            if (day - self._begin).days > last:
                break
            previous = day
        return smallest

    def _days(self, first: date, step: timedelta) -> Iterator[date]:
        """Days that match, from `first` on in steps of a day; ends after a long gap."""
        day: date | None = first
        last = first
        try:
            while day is not None and abs(day - last) <= LONGEST_GAP:
                if self._years is not None and day.year not in self._years:
                    day = self._other_year(self._years, day.year, step)
                    last = day or last
                elif day.month not in self._months:
                    day = _next_month(day) if step > timedelta() else day.replace(day=1) - DAY
                else:
                    if self._match(day):
                        last = day
                        yield day
                    day += step
        except OverflowError:  # the first or the last day there is
            return

    @staticmethod
    def _other_year(years: Sequence[int], year: int, step: timedelta) -> date | None:
        """Where to go on from a year that does not match; None where nothing is left."""
        at = bisect_right(years, year)
        if step > timedelta():
            return date(years[at], 1, 1) if at < len(years) else None
        return date(years[at - 1], 12, 31) if at else None


def _split(instant: datetime) -> tuple[date, int]:
    """The UTC date, and the whole seconds since its midnight."""
    utc = instant.astimezone(UTC)
    return utc.date(), 3600 * utc.hour + 60 * utc.minute + utc.second


def _next_month(day: date) -> date:
    return (day.replace(day=1) + timedelta(days=31)).replace(day=1)
