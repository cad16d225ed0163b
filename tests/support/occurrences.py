"""When a schedule comes round, found without any code of the project: each date of the zone's
calendar with each hour and minute, turned into UTC by the standard library.

A time that clocks leave out has the offset from before the change, and one that they show twice
is the first: both is what `fold=0` says.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

DAY = timedelta(days=1)


class Plan(NamedTuple):
    """Hours and minutes of each day in a zone, and cron's spelling of the same."""

    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    zone: str
    cron: str

    def between(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """Instants in UTC, in ``(after, until]``, oldest first."""
        zone = ZoneInfo(self.zone)
        day = after.astimezone(zone).date() - DAY
        last = until.astimezone(zone).date() + DAY
        found = set()
        while day <= last:
            for hour in self.hours:
                for minute in self.minutes:
                    local = datetime.combine(day, time(hour, minute), zone)
                    found.add(local.astimezone(UTC))
            day += DAY
        yield from sorted(instant for instant in found if after < instant <= until)


def plan(hours: str, minutes: str, zone: str = "UTC") -> Plan:
    """`plan("*/6", "15,45")`: a step or a list, as cron spells it."""
    return Plan(_values(hours, 24), _values(minutes, 60), zone, f"{minutes} {hours} * * *")


def _values(text: str, size: int) -> tuple[int, ...]:
    if text.startswith("*"):
        return tuple(range(0, size, int(text[2:] or 1)))
    return tuple(map(int, text.split(",")))
