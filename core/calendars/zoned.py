"""A pattern on the wall clock of a time zone.

The clock of a zone is an offset that changes now and then. Between two changes each time it
shows is one instant. A change *forwards* leaves times out, as many as the change is large:
with `shift` they are taken by the offset before the change, so they fall into the stretch
that begins with the change, between those which the clock shows there; two times on one
instant are one. With `skip` they are `gaps`. A change *backwards* shows times again, in the
stretch that begins with it: with `first` nothing is scheduled there, since each of these
times was an instant before the change; with `both` all of it is.

So each `Stretch` of time is asked for the times of a fixed offset or two, or none, and is
done before the next begins. Hence instants strictly increase.

Whether one instant per UTC date is *guaranteed*, so that the date can be its id, must not
depend on where in the year one looks, nor be undone by the next decision of a parliament.
One time of day on the wall lies on the same UTC date, the day before, or the day after,
by its offset. Where that is the same for all offsets the zone has had since 1970, no two
days meet on a date; the same holds where days that match are never next to each other.
London at 02:30 has dates, London at 00:30 has not: on the last Sunday of March the night
of the 28th is at 00:30Z, that of the 29th at 23:30Z, of the same UTC date.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from . import GAPS, OVERLAPS, TICK
from .pattern import DAY
from .zones import Clock, zone

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from . import Dst
    from .pattern import Pattern
    from .zones import Stretch

_SHIFT, _SKIP = GAPS
_FIRST, _BOTH = OVERLAPS
_NEVER = datetime.max.replace(tzinfo=UTC)
_ALWAYS = datetime.min.replace(tzinfo=UTC)


class Zoned:
    """A pattern in a time zone. See `Calendar`. Raises `ConfigError` for an unknown zone."""

    def __init__(self, pattern: Pattern, timezone: str, dst: Dst) -> None:
        self._pattern = pattern
        self._dst = dst
        self._clock = Clock(zone(timezone))
        self._once_a_day: bool | None = None

    @property
    def once_a_day(self) -> bool:
        """See `Calendar.once_a_day`."""
        if self._once_a_day is None:
            self._once_a_day = self._is_once_a_day()
        return self._once_a_day

    def after(self, instant: datetime) -> Iterator[datetime]:
        """See `Calendar.after`."""
        # The pattern is known to have nothing between these two times on the wall.
        quiet, sound = _NEVER, _NEVER
        for stretch in self._clock.ascending(instant):
            low, high = max(instant, stretch.begin - TICK), stretch.end - TICK
            offsets = self._offsets(stretch)
            if len(offsets) > 1:
                yield from self._merged(low, high, offsets)
                continue
            for offset in offsets:
                if quiet <= low + offset and high + offset < sound:
                    if sound == _NEVER:
                        return
                    continue
                quiet, sound = low + offset, _NEVER
                for wall in self._pattern.after(low + offset):
                    if wall > high + offset:
                        sound = wall
                        break
                    quiet = wall
                    yield wall - offset

    def until(self, instant: datetime) -> Iterator[datetime]:
        """See `Calendar.until`."""
        quiet, sound = _ALWAYS, _ALWAYS
        for stretch in self._clock.descending(instant):
            low, high = stretch.begin - TICK, min(instant, stretch.end - TICK)
            offsets = self._offsets(stretch)
            if len(offsets) > 1:
                yield from reversed(self._merged(low, high, offsets))
                continue
            for offset in offsets:
                if sound <= low + offset and high + offset < quiet:
                    if sound == _ALWAYS:
                        return
                    continue
                quiet, sound = high + offset + TICK, _ALWAYS
                for wall in self._pattern.until(high + offset):
                    if wall <= low + offset:
                        sound = wall
                        break
                    quiet = wall
                    yield wall - offset

    def count(self, after: datetime, until: datetime) -> int:
        """See `Calendar.count`."""
        total = 0
        for low, high, stretch in self._within(after, until):
            offsets = self._offsets(stretch)
            if len(offsets) > 1:
                total += len(self._merged(low, high, offsets))
            else:
                total += sum(self._pattern.count(low + o, high + o) for o in offsets)
        return total

    def gaps(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """See `Calendar.gaps`."""
        if self._dst.gap != _SKIP:
            return
        for low, high, stretch in self._within(after, until):
            if stretch.before is not None and stretch.before < stretch.offset:
                shown = self._merged(low, high, (stretch.offset,))
                left_out = self._merged(low, high, (stretch.before,))
                yield from (instant for instant in left_out if instant not in set(shown))

    def period(self) -> timedelta:
        """See `Calendar.period`."""
        return self._pattern.period()

    def _within(
        self, after: datetime, until: datetime
    ) -> Iterator[tuple[datetime, datetime, Stretch]]:
        """The stretches of ``(after, until]``, each with the part of it that lies there."""
        for stretch in self._clock.ascending(after):
            if stretch.begin > until or after >= until:
                return
            yield max(after, stretch.begin - TICK), min(until, stretch.end - TICK), stretch

    def _offsets(self, stretch: Stretch) -> Sequence[timedelta]:
        """By which offsets times on the wall are instants of this stretch."""
        if stretch.before is None:
            return (stretch.offset,)
        if stretch.before < stretch.offset:
            shifted = self._dst.gap == _SHIFT
            return (stretch.offset, stretch.before) if shifted else (stretch.offset,)
        return (stretch.offset,) if self._dst.overlap == _BOTH else ()

    def _merged(
        self, low: datetime, high: datetime, offsets: Sequence[timedelta]
    ) -> list[datetime]:
        """The instants in ``(low, high]``, a day at most, by several offsets, each once."""
        found: set[datetime] = set()
        for offset in offsets:
            for wall in self._pattern.after(low + offset):
                if wall > high + offset:
                    break
                found.add(wall - offset)
        return sorted(found)

    def _is_once_a_day(self) -> bool:
        if len(self._pattern.times) > 1:
            return False
        offsets = self._clock.offsets()
        if len(offsets) == 1:
            return True
        if self._dst.overlap == _BOTH:
            return False
        time = timedelta(seconds=self._pattern.times[0])
        if len({(time - offset) // DAY for offset in offsets}) == 1:
            return True
        days = self._pattern.nearest_days()
        return days is None or days * DAY - (max(offsets) - min(offsets)) >= DAY
