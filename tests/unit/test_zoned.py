"""Schedules in a time zone: what becomes of times at clock changes, and of ids.

Every zone and many expressions are gone through in `test_every_zone.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from time import perf_counter

import pytest

from reconcile.core.calendars import Dst
from reconcile.core.errors import ConfigError, UsageError
from reconcile.core.schedule import TICK, Schedule, Version

LONDON, BERLIN = "Europe/London", "Europe/Berlin"
# In 2026 the clocks of Europe go forward at 01:00Z of 29 March, and back at 01:00Z of 25 October.
SPRING, AUTUMN = "2026-03-29", "2026-10-25"


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def on(schedule: Schedule, day: str, days: int = 1) -> list[str]:
    """The instants of some days in UTC, the first from midnight on."""
    begin = utc(day)
    found = schedule.between(begin - TICK, begin + timedelta(days=days) - TICK)
    return [f"{instant:%dT%H:%M}" for instant in found]


class TestOverlaps:
    def test_a_time_that_the_clock_shows_twice_runs_the_first_time(self) -> None:
        assert on(Schedule("30 1 * * *", LONDON), AUTUMN, 2) == ["25T00:30", "26T01:30"]

    def test_or_both_times_with_two_identities(self) -> None:
        schedule = Schedule("30 1 * * *", LONDON, Dst(overlap="both"))
        assert on(schedule, AUTUMN, 2) == ["25T00:30", "25T01:30", "26T01:30"]
        ids = [
            schedule.interval("j", i).id
            for i in schedule.between(utc(AUTUMN), utc("2026-10-25T12"))
        ]
        assert ids == ["2026-10-25T00:30Z", "2026-10-25T01:30Z"]

    def test_a_frequent_job_pauses_in_the_hour_that_comes_again_or_goes_on(self) -> None:
        span = (utc("2026-10-25T00:00") - TICK, utc("2026-10-25T02:00"))
        first = list(Schedule("*/30 * * * *", LONDON).between(*span))
        assert first == [utc(f"2026-10-25T{t}") for t in ("00:00", "00:30", "02:00")]
        both = Schedule("*/30 * * * *", LONDON, Dst(overlap="both"))
        assert both.count(*span) == len(list(both.between(*span))) == 5


class TestGaps:
    def test_a_time_that_the_clock_leaves_out_has_the_offset_before_the_change(self) -> None:
        schedule = Schedule("30 2 * * *", BERLIN)
        assert on(schedule, SPRING, 2) == ["29T01:30", "30T00:30"]
        # 01:30Z is 02:30 by the old offset, and the clock shows 03:30.
        assert schedule.next_after(utc(SPRING)) == utc("2026-03-29T01:30")

    def test_or_is_left_out_and_said_to_be(self) -> None:
        schedule = Schedule("30 2 * * *", BERLIN, Dst(gap="skip"))
        assert on(schedule, SPRING, 2) == ["30T00:30"]
        year = (utc("2026-01-01"), utc("2027-01-01"))
        assert list(schedule.gaps(*year)) == [utc("2026-03-29T01:30")]
        assert schedule.count(*year) == 364
        assert list(schedule.gaps(utc("2026-03-29T01:30"), year[1])) == []
        assert list(Schedule("30 2 * * *", BERLIN).gaps(*year)) == []
        assert list(Schedule("30 2 * * *").gaps(*year)) == []

    @pytest.mark.parametrize("gap", ["shift", "skip"])
    def test_two_times_on_one_instant_are_one_interval(self, gap: str) -> None:
        schedule = Schedule("30 * * * *", BERLIN, Dst(gap=gap))
        day = (utc(SPRING) - TICK, utc(SPRING) + timedelta(days=1) - TICK)
        assert schedule.count(*day) == len(list(schedule.between(*day))) == 24
        assert list(schedule.gaps(*day)) == []

    def test_what_is_left_out_has_an_id_and_is_found_by_it(self) -> None:
        schedule = Schedule("30 2 * * *", BERLIN, Dst(gap="skip"))
        left_out = utc("2026-03-29T01:30")
        assert schedule.interval("j", left_out).id == "2026-03-29"
        assert schedule.parse_id("2026-03-29") == schedule.parse_id("2026-03-29T01:30Z") == left_out
        assert schedule.latest_until(left_out) == utc("2026-03-28T01:30")
        with pytest.raises(UsageError):
            Schedule("30 3 * * *", BERLIN, Dst(gap="skip")).parse_id("2026-03-29T02:30Z")

    def test_a_day_that_never_was_meets_the_next_one(self) -> None:
        # Samoa left 30 December 2011 out.
        schedule = Schedule("30 2 * * *", "Pacific/Apia")
        assert on(schedule, "2011-12-29", 3) == ["29T12:30", "30T12:30", "31T12:30"]
        skipping = Schedule("30 2 * * 5", "Pacific/Apia", Dst(gap="skip"))
        year = (utc("2011-12-25"), utc("2012-01-10"))
        assert list(skipping.gaps(*year)) == [utc("2011-12-30T12:30")]


class TestIds:
    @pytest.mark.parametrize(
        ("expression", "timezone", "has_dates"),
        [
            ("30 2 * * *", LONDON, True),
            ("30 0 * * *", LONDON, False),  # 28 March: 00:30Z, and 23:30Z for the 29th
            ("30 0 * * 1", LONDON, True),  # never two days in a row
            ("30 0 1,15 * *", LONDON, True),
            ("30 0 1,2 * *", LONDON, False),
            ("Mon *-*-* 00:30", LONDON, True),
            ("Mon,Tue *-*-* 00:30", LONDON, False),
            ("30 2 * * *", BERLIN, True),
            ("30 1 * * *", BERLIN, False),
            ("30 2 * * *", "Asia/Tokyo", True),
            ("0 */12 * * *", "Asia/Tokyo", False),
            ("30 2 * * *", "Etc/GMT+5", True),
            ("30 2 * * *", "Pacific/Apia", False),
        ],
    )
    def test_a_date_is_an_id_only_where_no_two_can_meet(
        self, expression: str, timezone: str, has_dates: bool
    ) -> None:
        schedule = Schedule(expression, timezone)
        instant = schedule.next_after(utc("2026-06-01"))
        assert instant is not None
        spelled = f"{instant:%Y-%m-%d}" if has_dates else f"{instant:%Y-%m-%dT%H:%MZ}"
        assert schedule.interval_id(instant) == spelled

    def test_two_nights_of_london_on_one_date_are_told_apart(self) -> None:
        schedule = Schedule("30 0 * * *", LONDON)
        nights = list(schedule.between(utc("2027-03-28"), utc("2027-03-29")))
        assert nights == [utc("2027-03-28T00:30"), utc("2027-03-28T23:30")]
        with pytest.raises(UsageError, match="more than one"):
            schedule.parse_id("2027-03-28")
        assert [schedule.parse_id(schedule.interval_id(night)) for night in nights] == nights

    @pytest.mark.parametrize("timezone", [LONDON, BERLIN])
    def test_with_both_times_of_autumn_no_date_is_sure(self, timezone: str) -> None:
        schedule = Schedule("30 2 * * *", timezone, Dst(overlap="both"))
        assert "T" in schedule.interval_id(utc("2026-06-01T00:30") + timedelta(hours=1))

    def test_seconds_are_spelled(self) -> None:
        schedule = Schedule("*:*:0/5", BERLIN)
        instant = schedule.next_after(utc("2026-11-30T02:30"))
        assert instant is not None
        assert schedule.interval_id(instant) == "2026-11-30T02:30:05Z"
        assert schedule.parse_id("2026-11-30T02:30:05Z") == instant


class TestVersions:
    def test_a_zone_edit_takes_effect_when_it_is_seen(self) -> None:
        seen = utc("2026-06-10T12:00")
        schedule = Schedule.of(
            [
                Version(utc("2026-01-01"), "30 2 * * *", "UTC"),
                Version(seen, "30 2 * * *", BERLIN),
            ]
        )
        assert on(schedule, "2026-06-10", 2) == ["10T02:30", "11T00:30"]

    def test_a_zone_edit_on_the_way_of_a_night_repeats_and_loses_none(self) -> None:
        """01:00Z: the night of Berlin (00:30Z) has come, that of UTC (02:30Z) has not."""
        there = Version(utc("2026-01-01"), "30 2 * * *", BERLIN)
        back = Version(utc("2026-06-10T01:00"), "30 2 * * *", "UTC")
        schedule = Schedule.of([there, back])
        assert on(schedule, "2026-06-10") == ["10T00:30", "10T02:30"]
        ids = [schedule.interval_id(utc(f"2026-06-10T{t}")) for t in ("00:30", "02:30")]
        assert ids == ["2026-06-10", "2026-06-10T02:30Z"]
        other_way = Schedule.of(
            [back._replace(since=there.since), there._replace(since=back.since)]
        )
        assert on(other_way, "2026-06-10", 2) == ["11T00:30"]

    def test_what_was_left_out_before_an_edit_stays_left_out(self) -> None:
        skipping = Version(utc("2026-01-01"), "30 2 * * *", BERLIN, Dst(gap="skip"))
        edited = Version(utc("2026-06-01"), "30 2 * * *", BERLIN)
        schedule = Schedule.of([skipping, edited])
        left_out = list(schedule.gaps(utc("2026-01-01"), utc("2028-01-01")))
        assert left_out == [utc("2026-03-29T01:30")]
        assert on(schedule, "2027-03-28") == ["28T01:30"]
        # Put into force in mid-gap, it leaves out what is later only.
        late = Schedule.of(
            [edited._replace(since=utc("2026-01-01")), skipping._replace(since=left_out[0] + TICK)]
        )
        assert list(late.gaps(utc("2026-01-01"), utc("2027-01-01"))) == []

    def test_a_second_instant_on_the_date_of_one_left_out_has_the_long_id(self) -> None:
        schedule = Schedule.of(
            [
                Version(utc("2026-01-01"), "30 2 * * *", BERLIN, Dst(gap="skip")),
                Version(utc("2026-03-29T12:00"), "0 14 * * *", "UTC"),
            ]
        )
        assert schedule.interval_id(utc("2026-03-29T01:30")) == "2026-03-29"
        assert schedule.interval_id(utc("2026-03-29T14:00")) == "2026-03-29T14:00Z"


@pytest.mark.parametrize(
    ("expression", "seconds"),
    [("* * * * *", 60), ("*:*:0/5", 5), ("*:*:*", 1), ("0 * * * *", 3600)],
)
@pytest.mark.parametrize("timezone", ["UTC", BERLIN])
def test_a_long_outage_is_counted_in_no_time(expression: str, seconds: int, timezone: str) -> None:
    now = utc("2026-11-30T12:00")
    begun = perf_counter()
    schedule = Schedule(expression, timezone, Dst(overlap="both"))
    after = now - timedelta(seconds=242_000 * seconds)
    assert schedule.count(after, now) == 242_000
    assert schedule.latest_until(now) == now
    assert schedule.next_after(now) == now + timedelta(seconds=seconds)
    assert perf_counter() - begun < 1


def test_the_environment_has_no_say_in_identities() -> None:
    told = (
        "from datetime import UTC, datetime\n"
        "from reconcile.core.schedule import Schedule\n"
        "for zone in ('UTC', 'Europe/Berlin'):\n"
        "    print(Schedule('30 2 * * *', zone).next_after(datetime(2026, 7, 1, tzinfo=UTC)))\n"
    )
    said = {
        subprocess.check_output([sys.executable, "-c", told], env={**os.environ, "TZ": zone})
        for zone in ("UTC", "Asia/Tokyo")
    }
    assert said == {b"2026-07-01 02:30:00+00:00\n2026-07-01 00:30:00+00:00\n"}


def test_the_edges_of_the_calendar_end_the_search() -> None:
    schedule = Schedule("30 2 * * *", "Asia/Tokyo")
    assert schedule.next_after(datetime.max.replace(tzinfo=UTC)) is None
    assert schedule.latest_until(datetime.min.replace(tzinfo=UTC)) is None


def test_a_calendar_that_is_over_ends_the_search_at_once() -> None:
    schedule = Schedule("2020-*-* 02:30", "Europe/Berlin")
    begun = perf_counter()
    assert schedule.next_after(utc("2026-11-30")) is None
    assert schedule.latest_until(utc("2026-11-30")) == utc("2020-12-31T01:30")
    assert schedule.latest_until(utc("2019-01-01")) is None
    assert perf_counter() - begun < 1


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Europe/Berln", "did you mean Europe/Berlin?"),
        ("europe/berlin", "did you mean Europe/Berlin?"),
        ("Berlin", "did you mean Europe/Berlin?"),
        ("New York", "did you mean America/New_York?"),
        ("Mars/Olympus", "Europe/Berlin"),
        ("../etc/localtime", "Europe/Berlin"),
        ("localtime", "Europe/Berlin"),
        ("right/Europe/Berlin", "did you mean Europe/Berlin?"),
        ("Europe", "Europe/Berlin"),
        ("", "Europe/Berlin"),
    ],
)
def test_an_unknown_zone_is_refused_with_the_nearest_one(name: str, hint: str) -> None:
    with pytest.raises(ConfigError, match="no time zone") as refused:
        Schedule("30 2 * * *", name)
    assert hint in refused.value.hint
