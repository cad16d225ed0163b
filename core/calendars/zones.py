"""Time zones: which there are, and when their clocks are changed.

A zone is asked for offsets only, by `zoneinfo`: first the system's files, which an operator
keeps up to date, then those of the package tzdata, so that each name is known everywhere.
When clocks are changed is found by asking for the offset every other day, and between two
answers that differ by halving. No zone has changed its offset twice within six days since
1970, nor plans to (`tests/unit/test_zones.py` compares with the files), so none is missed.
To know only which offsets there have been, once a fortnight is enough: each has been kept for
longer than that at some time, if only once.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING, NamedTuple

from ..errors import ConfigError
from . import UTC_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SECOND = timedelta(seconds=1)
_STEP, _FORTNIGHT = timedelta(days=2), timedelta(days=14)
_YEARS = range(2, 9999)
"""Those in which an offset cannot lead out of all years."""
_KNOWN_SINCE, _RULES_REPEAT = datetime(1970, 1, 1, tzinfo=UTC), datetime(2040, 1, 1, tzinfo=UTC)
_REFUSED = ("localtime", "posixrules", "Factory", "posix/", "right/")
"""Another one on each machine, a copy, or one that counts leap seconds."""


class Stretch(NamedTuple):
    """A time ``[begin, end)`` in UTC with one offset. `before` is the offset until `begin`,
    where the clock does something special meanwhile: it has just left out as much as this
    lasts (`before` is smaller), or shows as much again (larger)."""

    begin: datetime
    end: datetime
    offset: timedelta
    before: timedelta | None = None


class Clock:
    """The wall clock of a time zone."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._changes: dict[int, Sequence[tuple[datetime, timedelta, timedelta]]] = {}

    def ascending(self, since: datetime) -> Iterator[Stretch]:
        """All stretches from the one at `since` on."""
        for year in range(max(since.year, _YEARS.start), _YEARS.stop):
            yield from (one for one in self._stretches(year) if one.end > since)

    def descending(self, until: datetime) -> Iterator[Stretch]:
        """All stretches from the one at `until` back."""
        for year in range(min(until.year, _YEARS.stop - 1), _YEARS.start, -1):
            yield from (one for one in reversed(self._stretches(year)) if one.begin <= until)

    def offsets(self) -> set[timedelta]:
        """The offsets that the zone has had since the first interval there may be, and is to
        have."""
        # Asked for times on the wall: that is much the faster, and each trigger does it.
        steps = (_RULES_REPEAT - _KNOWN_SINCE) // _FORTNIGHT
        asked = (_KNOWN_SINCE + n * _FORTNIGHT for n in range(steps + 1))
        return {offset for wall in asked if (offset := self._zone.utcoffset(wall)) is not None}

    def _stretches(self, year: int) -> list[Stretch]:
        """Those of one year in UTC, cut off at its ends."""
        begin, end = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
        changes = [*self._changes_in(year - 1)[-1:], *self._changes_in(year)]
        found: list[Stretch] = []
        if not changes or changes[0][0] > begin:
            found.append(Stretch(begin, changes[0][0] if changes else end, self._offset(begin)))
        for number, (at, before, after) in enumerate(changes, 1):
            until = changes[number][0] if number < len(changes) else end
            settled = min(at + abs(after - before), until)
            found.append(Stretch(at, settled, after, before))
            found.append(Stretch(settled, until, after))
        cut = (one._replace(begin=max(one.begin, begin)) for one in found)
        return [one for one in cut if one.begin < one.end]

    def _changes_in(self, year: int) -> Sequence[tuple[datetime, timedelta, timedelta]]:
        """The instants after the first one of a year, up to the first one of the next, from
        which on the offset is another, with both offsets."""
        if year not in self._changes:
            self._changes[year] = list(self._find(year))
        return self._changes[year]

    def _find(self, year: int) -> Iterator[tuple[datetime, timedelta, timedelta]]:
        low, last = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
        before = self._offset(low)
        while low < last:
            high = min(low + _STEP, last)
            after = self._offset(high)
            if after != before:
                yield self._halve(low, high, before), before, after
            low, before = high, after

    def _halve(self, low: datetime, high: datetime, before: timedelta) -> datetime:
        """The first whole second after `low`, at `high` at the latest, without that offset."""
        while high - low > _SECOND:
            middle = low + (high - low) // _SECOND // 2 * _SECOND
            if self._offset(middle) == before:
                low = middle
            else:
                high = middle
        return high

    def _offset(self, instant: datetime) -> timedelta:
        offset = instant.astimezone(self._zone).utcoffset()
        assert offset is not None
        return offset


def zone(name: str) -> tzinfo:
    """The zone of a name. Raises `ConfigError` with the nearest name where there is none."""
    if name == UTC_NAME:
        return UTC
    # Deferred: a job in UTC never needs it.
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    if not name.startswith(_REFUSED):
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass  # there is none of that name, or it is no name at all
    raise ConfigError(f"{name!r} is no time zone", hint=_nearest(name))


def midnight(day: date, timezone: str) -> datetime:
    """When a day begins in a time zone, in UTC: the first time where the clock shows its
    midnight twice, and by the offset before the change where it does not show it."""
    local = datetime.combine(day, time(), zone(timezone))
    return local.astimezone(UTC)


def _nearest(name: str) -> str:
    """The name that was meant, as far as it can be told."""
    from difflib import get_close_matches
    from zoneinfo import available_timezones

    known = {one for one in available_timezones() if not one.startswith(_REFUSED)}
    lower = {one.lower(): one for one in sorted(known)}
    cities = {one.rpartition("/")[2]: one for one in sorted(lower, reverse=True)}
    asked = name.strip().lower().replace(" ", "_")
    for names in (lower, cities):
        close = get_close_matches(asked, names, n=1, cutoff=0.8)
        if close:
            found = names[close[0]]
            return f"did you mean {lower.get(found, found)}?"
    return 'write a name such as "Europe/Berlin"; see: timedatectl list-timezones'
