"""When clocks are changed: what `zones` finds by asking, against the files of the zones.

The files are read by code of this test. The suite looks at every sixteenth zone;
`RECONCILE_TEST_LONG=1` at all.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from importlib.resources import files
from itertools import pairwise, takewhile
from zoneinfo import ZoneInfo, available_timezones

import pytest

from reconcile.core.calendars.zones import Clock, midnight

LONG = bool(os.environ.get("RECONCILE_TEST_LONG"))
SINCE = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = sorted(available_timezones() - {"localtime", "Factory"})


def in_file(name: str) -> tuple[list[tuple[datetime, int, int]], datetime]:
    """All changes of the offset in seconds, as the second block of a file lists them, and
    until when it does: what comes later follows a rule."""
    data = files("tzdata.zoneinfo").joinpath(*name.split("/")).read_bytes()
    at = 0
    for width in (4, 8):
        utc, wall, leaps, times, kinds, letters = struct.unpack_from(">6l", data, at + 20)
        body = at + 44
        at = body + times * (width + 1) + kinds * 6 + letters + leaps * (width + 4) + wall + utc
    instants = struct.unpack_from(f">{times}q", data, body)
    which = data[body + 8 * times : body + 9 * times]
    offsets = [
        struct.unpack_from(">lbb", data, body + 9 * times + 6 * kind)[0] for kind in range(kinds)
    ]
    before = offsets[0]
    found = []
    for instant, kind in zip(instants, which, strict=True):
        if offsets[kind] != before and instant >= 0:
            found.append((datetime.fromtimestamp(instant, UTC), before, offsets[kind]))
        before = offsets[kind]
    return found, datetime.fromtimestamp(max(instants, default=0), UTC)


def of_package(name: str) -> ZoneInfo:
    with files("tzdata.zoneinfo").joinpath(*name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file)


def by_asking(name: str, last: datetime) -> Iterator[tuple[datetime, int, int]]:
    before = None
    for stretch in Clock(of_package(name)).ascending(SINCE):
        if stretch.begin > last:
            return
        offset = int(stretch.offset.total_seconds())
        if before is not None and offset != before:
            yield stretch.begin, before, offset
        before = offset


def test_every_change_of_an_offset_is_found() -> None:
    for name in ZONES[:: 1 if LONG else 16]:
        told, last = in_file(name)
        assert list(by_asking(name, last)) == told, name


def test_no_zone_changes_its_offset_twice_within_six_days() -> None:
    """What finding changes by asking every other day rests on."""
    for name in ZONES:
        changes = [instant for instant, _, _ in in_file(name)[0]]
        near = [b for a, b in pairwise(changes) if b - a < timedelta(days=6)]
        assert near == [], name
    offsets = {b for name in ZONES for _, a, b in in_file(name)[0]}
    assert all(abs(offset) < 86400 for offset in offsets)


def test_the_offsets_are_all_that_there_are() -> None:
    """By the files, and by asking each day of the first two years that follow a rule. The
    briefest were those of two zones in Argentina, for 18 and 20 days."""
    brief = [f"America/Argentina/{city}" for city in ("La_Rioja", "Rio_Gallegos", "Ushuaia")]
    for name in ZONES if LONG else [*ZONES[::16], *brief]:
        zone, (changes, last) = of_package(name), in_file(name)
        told = {timedelta(seconds=one) for _, *both in changes for one in both}
        days = (max(last, SINCE) + timedelta(days=n) for n in range(731))
        assert Clock(zone).offsets() == told.union(map(zone.utcoffset, days)), name


class Counting(tzinfo):
    """A zone that counts how often it is asked."""

    asked = 0

    def utcoffset(self, dt: datetime | None) -> timedelta:
        self.asked += 1
        return timedelta(hours=1)


def test_the_offsets_take_two_thousand_questions_at_most() -> None:
    """Each trigger of a job that is in a time zone asks them all."""
    zone = Counting()
    assert Clock(zone).offsets() == {timedelta(hours=1)}
    assert 26 * 67 < zone.asked < 2000


@pytest.mark.parametrize("year", [1994, 1995, 2011, 2026, 2500])
def test_stretches_tile_the_time_and_are_the_same_from_both_ends(year: int) -> None:
    begin, end = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    for name in ("Europe/London", "Pacific/Apia", "Pacific/Kiritimati", "Antarctica/Casey", "UTC"):
        clock = Clock(ZoneInfo(name))
        up = list(takewhile(lambda one: one.begin < end, clock.ascending(begin)))
        down = []
        for stretch in clock.descending(end - timedelta(microseconds=1)):
            if stretch.end <= begin:
                break
            down.append(stretch)
        assert up == down[::-1]
        assert up[0].begin <= begin
        assert up[-1].end >= end
        assert all(a.end == b.begin for a, b in pairwise(up))
        assert all(s.begin < s.end for s in up)


def test_a_change_at_the_end_of_a_year_is_still_seen_in_the_next() -> None:
    """Kiritimati left out 1 January 1995, from 10:00Z of the day before on."""
    clock = Clock(ZoneInfo("Pacific/Kiritimati"))
    first = next(clock.ascending(datetime(1995, 1, 1, 5, tzinfo=UTC)))
    assert first.end == datetime(1995, 1, 1, 10, tzinfo=UTC)
    assert first.before is not None
    assert first.offset - first.before == timedelta(days=1)
    assert next(clock.descending(first.begin)) == first


@pytest.mark.parametrize(
    ("day", "timezone", "instant"),
    [
        ("2026-11-01", "UTC", "2026-11-01T00:00"),
        ("2026-06-01", "Europe/London", "2026-05-31T23:00"),
        ("2018-11-04", "America/Sao_Paulo", "2018-11-04T03:00"),  # 00:00 left out
        ("2018-02-18", "America/Sao_Paulo", "2018-02-18T03:00"),  # the 17th showed 23:00 twice
        ("2026-11-01", "America/Havana", "2026-11-01T04:00"),  # 00:00 shown twice
        ("2011-12-30", "Pacific/Apia", "2011-12-30T10:00"),  # no such day
    ],
)
def test_a_day_begins_at_its_first_midnight(day: str, timezone: str, instant: str) -> None:
    found = midnight(date.fromisoformat(day), timezone)
    assert found == datetime.fromisoformat(instant).replace(tzinfo=UTC)
