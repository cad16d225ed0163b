"""Schedules through all clock changes of all time zones, 1990 to 2040.

What is right is said by Python's own reading of local times (PEP 495): the instant of a
time on the wall is the earlier one of two, and one that the clock does not show has the
offset before the change. That is `shift` and `first`; `both` adds the later of two, and
`skip` takes out what does not come back as it was asked for.

Zones with the same offsets at the same instants are one here. The suite looks at some zones
and some of their changes; `RECONCILE_TEST_LONG=1` at all changes of all zones, and goes
through each expression that comes at most a few times a day from one end to the other
(25 minutes on one core).
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache, lru_cache
from itertools import pairwise, takewhile
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import pytest

from reconcile.core.calendars import Calendar, Dst, calendar
from reconcile.core.schedule import TICK, Schedule, instant_id

LONG = bool(os.environ.get("RECONCILE_TEST_LONG"))
BEGIN, END = datetime(1990, 1, 1, tzinfo=UTC), datetime(2040, 1, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
LONG_GAP = timedelta(hours=6)

CRON = (
    "30 2 * * *",
    "30 0 * * *",
    "15 1 * * *",
    "0 3 * * MON-FRI",
    "59 23 * * *",
    "0 12 1 * *",
    "30 2 L * *",
    "30 1 * * SUN",
    "0 0 29 2 *",
    "10 2 */3 * *",
    "0 */4 * * *",
    "0 * * * *",
    "5,35 0-3 * * 0",
    "*/15 * * * *",
    "* * * * *",
)
ON_CALENDAR = (
    "02:30",
    "00:30",
    "daily",
    "Mon..Fri 01:15",
    "Sun 02:30:30",
    "*-*~01 01:59:59",
    "Mon *-05~07/1 03:00",
    "*-02-29 00:00",
    "*-*-1/2 01:30:30",
    "quarterly",
    "0/4:00",
    "hourly",
    "0..3:5,35",
    "*:0/15",
    "*:*:0/5",
)
POLICIES = (Dst("shift", "first"), Dst("skip", "both"))
KNOWN = (
    "UTC",
    "Europe/London",
    "Australia/Lord_Howe",  # half an hour
    "Pacific/Apia",  # left out a whole day
    "Africa/Casablanca",  # four changes a year
    "America/Sao_Paulo",  # at midnight
    "Antarctica/Casey",  # three hours, back and forth
    "Antarctica/Troll",  # two hours
    "Pacific/Kiritimati",  # left out the first day of a year
)


class Zone(NamedTuple):
    """A zone with the changes of its offset: when, to the minute, and by how much."""

    name: str
    changes: Sequence[tuple[datetime, timedelta]]

    @property
    def largest(self) -> timedelta:
        return max((abs(by) for _, by in self.changes), default=timedelta(0))


def changes(zone: tzinfo) -> Iterator[tuple[datetime, timedelta]]:
    """The first minute of each offset but the first, and by how much it is another."""

    def offset(minutes: int) -> timedelta:
        found = (BEGIN + timedelta(minutes=minutes)).astimezone(zone).utcoffset()
        assert found is not None
        return found

    for low in range(0, (END - BEGIN) // timedelta(minutes=1), 24 * 60):
        before, after = offset(low), offset(low + 24 * 60)
        if before != after:
            minute = bisect_left(
                range(24 * 60), 1, key=lambda m, low=low, b=before: offset(low + m) != b
            )
            yield BEGIN + timedelta(minutes=low + minute), after - before


@cache
def zones() -> Sequence[Zone]:
    names = sorted(available_timezones() - {"localtime", "Factory"}) if LONG else KNOWN
    found = {}
    for name in names:
        zone = ZoneInfo(name)
        told = tuple(changes(zone))
        found.setdefault((BEGIN.astimezone(zone).utcoffset(), told), Zone(name, told))
    return list(found.values())


def meant(walls: Sequence[datetime], zone: tzinfo, dst: Dst) -> tuple[set[datetime], set[datetime]]:
    """The instants of times on the wall, and those that are left out."""
    instants, left_out = set(), set()
    for wall in walls:
        instant = wall.replace(tzinfo=zone).astimezone(UTC)
        shown = instant.astimezone(zone).replace(tzinfo=UTC) == wall
        if not shown and dst.gap == "skip":
            left_out.add(instant)
            continue
        instants.add(instant)
        if shown and dst.overlap == "both":
            instants.add(wall.replace(tzinfo=zone, fold=1).astimezone(UTC))
    return instants, left_out - instants


@cache
def on_the_wall(expression: str, begin: datetime, end: datetime) -> Sequence[datetime]:
    """The times that a clock shows from one to another."""
    return list(takewhile(lambda wall: wall <= end, calendar(expression).after(begin)))


def shown(zone: Zone, expression: str, after: datetime, until: datetime) -> Sequence[datetime]:
    """The times on the wall of a zone meanwhile, and some more before and after."""
    if (after, until) == (BEGIN, END):
        return on_the_wall(expression, BEGIN - 2 * DAY, END + 2 * DAY)  # the same for all zones
    walls = [t.astimezone(ZoneInfo(zone.name)).replace(tzinfo=UTC) for t in (after, until)]
    return on_the_wall(expression, walls[0] - zone.largest, walls[1] + zone.largest)


@cache
def largest_gap(expression: str) -> timedelta:
    until = BEGIN + (timedelta(days=20 * 366) if is_rare(expression) else 20 * DAY)
    walls = on_the_wall(expression, BEGIN, until)
    return max(later - earlier for earlier, later in pairwise(walls))


def is_rare(expression: str) -> bool:
    return calendar(expression).period() > LONG_GAP


def check(
    zone: Zone, expression: str, dst: Dst, after: datetime, until: datetime
) -> list[datetime]:
    """Every promise of a calendar, in ``(after, until]``."""
    ours = calendar_of(expression, zone.name, dst)
    found = list(takewhile(lambda instant: instant <= until, ours.after(after)))
    told, left_out = meant(shown(zone, expression, after, until), ZoneInfo(zone.name), dst)
    case = (zone.name, expression, dst, after)
    assert found == sorted(instant for instant in told if after < instant <= until), case
    assert all(earlier < later for earlier, later in pairwise(found)), case
    backwards = list(takewhile(lambda instant: instant > after, ours.until(until)))
    assert backwards == found[::-1], case
    assert ours.count(after, until) == len(found), case
    gaps = list(ours.gaps(after, until))
    assert gaps == sorted(instant for instant in left_out if after < instant <= until), case
    longest = largest_gap(expression) + max(HOUR, zone.largest)
    if dst.gap == "shift":
        assert all(later - earlier <= longest for earlier, later in pairwise(found)), case
    unique(ours, [*found, *gaps], case)
    return found


@lru_cache(maxsize=64)
def calendar_of(expression: str, timezone: str, dst: Dst) -> Calendar:
    return calendar(expression, timezone, dst)


def unique(ours: Calendar, instants: Sequence[datetime], case: object) -> None:
    """No two instants have one id; what is left out counts too."""
    spelled = {i.date() if ours.once_a_day else i.replace(microsecond=0) for i in instants}
    assert len(spelled) == len(instants), case


def around(change: datetime, by: timedelta, expression: str) -> tuple[datetime, datetime]:
    """A span about a change, in which all happens that it is the reason of."""
    if is_rare(expression):
        span = 3 * DAY
    elif abs(by) > HOUR and expression.endswith("0/5"):
        span = HOUR / 4  # seconds of many hours are too many
    else:
        span = abs(by) + HOUR / 4
    return change - span, change + span


@pytest.mark.parametrize("dst", POLICIES, ids=["shift-first", "skip-both"])
@pytest.mark.parametrize("kind", ["cron", "OnCalendar"])
def test_every_change_of_clocks_is_met_as_local_times_are_meant(kind: str, dst: Dst) -> None:
    for zone in zones():
        for number, expression in enumerate(CRON if kind == "cron" else ON_CALENDAR):
            few = [zone.changes[n] for n in (0, -1) if zone.changes][number % 2 :: 2]
            if LONG:  # what comes every few seconds has a thousand instants in each span
                few = list(zone.changes[:: 5 if expression.endswith("0/5") else 1])
            for change, by in few:
                check(zone, expression, dst, *around(change, by, expression))


@pytest.mark.parametrize("kind", ["cron", "OnCalendar"])
def test_from_one_end_to_the_other_no_night_is_lost_and_no_id_is_given_twice(kind: str) -> None:
    for number, zone in enumerate(zones()):
        expressions = [e for e in (CRON if kind == "cron" else ON_CALENDAR) if is_rare(e)]
        for expression in expressions if LONG else expressions[number : number + number % 2 : 2]:
            check(zone, expression, POLICIES[0], BEGIN, END)


@pytest.mark.parametrize("zone", zones(), ids=lambda zone: zone.name)
def test_ids_lead_back_to_their_instants_and_parts_add_up(zone: Zone) -> None:
    for number, expression in enumerate((*CRON, *ON_CALENDAR)):
        if not LONG and number % 5:
            continue
        for dst in POLICIES:
            schedule = Schedule(expression, zone.name, dst)
            for change, by in zone.changes[:: len(zone.changes) // 4 + 1 if LONG else 200]:
                after, until = around(change, by, expression)
                scheduled = [*schedule.between(after, until)]
                assert all(schedule.latest_until(one) == one for one in scheduled[::7])
                if schedule.count(change - TICK, change):
                    assert schedule.latest_until(change) == change
                for instant in (*scheduled[-20:], *schedule.gaps(after, until)):
                    assert schedule.parse_id(schedule.interval_id(instant)) == instant
                    assert schedule.parse_id(instant_id(instant)) == instant
                middle = change + timedelta(minutes=10)
                parts = schedule.count(after, middle) + schedule.count(middle, until)
                assert parts == schedule.count(after, until)
                following = schedule.next_after(middle)
                assert following is not None
                assert schedule.latest_until(following - TICK) == schedule.latest_until(middle)
