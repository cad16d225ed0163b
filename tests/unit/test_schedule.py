from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise
from time import perf_counter
from typing import Any

import pytest
from cronsim import CronSim
from hypothesis import assume, given
from hypothesis import strategies as st

from reconcile.core import schedule
from reconcile.core.calendars.cron import AT_NAMES
from reconcile.core.errors import ConfigError, UsageError
from reconcile.core.schedule import TICK, Schedule, Version, instant_id, read_id

MINUTES = ["*", "0", "30", "*/15", "5,35", "10-20/5", "59"]
HOURS = ["*", "0", "2", "9,17", "*/6", "23", "8-18/2"]
DAYS = ["*", "1", "13", "L", "LW", "29", "*/10", "1-7"]
MONTHS = ["*", "2", "1,7", "*/3", "JAN-MAR"]
WEEKDAYS = ["*", "0", "7", "MON", "MON-FRI", "5L", "FRI#2", "*/2"]
NEVER = "*/10 2 5L"  # the last Friday of a February is after the 21st

expressions = st.builds(
    " ".join, st.tuples(*map(st.sampled_from, (MINUTES, HOURS, DAYS, MONTHS, WEEKDAYS)))
).filter(lambda expression: not expression.endswith(NEVER))
instants = st.datetimes(
    datetime(1999, 12, 30),  # noqa: DTZ001 - Hypothesis takes bounds without a zone
    datetime(2031, 1, 2),  # noqa: DTZ001
    timezones=st.just(UTC),
    allow_imaginary=False,
)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@given(expressions, instants)
def test_instants_are_those_of_cron(expression: str, instant: datetime) -> None:
    schedule = Schedule(expression)
    expected = list(islice(CronSim(expression, instant), 12))
    assert list(islice(schedule.between(instant, utc("2200-01-01")), 12)) == expected
    assert schedule.next_after(instant) == expected[0]


@given(expressions, instants)
def test_the_newest_instant_is_the_one_that_cron_finds_backwards(
    expression: str, instant: datetime
) -> None:
    newest = Schedule(expression).latest_until(instant)
    beyond = instant if instant.microsecond else instant + timedelta(seconds=1)
    assert newest == next(CronSim(expression, beyond, reverse=True))


@given(expressions, instants, st.timedeltas(timedelta(0), timedelta(days=900)))
def test_counting_agrees_with_stepping(expression: str, after: datetime, span: timedelta) -> None:
    schedule = Schedule(expression)
    assert schedule.period is not None
    until = after + (span if schedule.period >= timedelta(hours=1) else span / 60)
    assert schedule.count(after, until) == sum(1 for _ in schedule.between(after, until))


@given(expressions, instants)
def test_the_next_instant_is_strictly_later_and_found_again_from_itself(
    expression: str, instant: datetime
) -> None:
    schedule = Schedule(expression)
    following = schedule.next_after(instant)
    assert following is not None
    assert following > instant
    assert schedule.latest_until(following) == following
    assert schedule.next_after(following - TICK) == following
    before = schedule.latest_until(following - TICK)
    assert before is None or before <= instant


@given(expressions)
def test_the_period_is_the_smallest_gap_of_four_years(expression: str) -> None:
    schedule = Schedule(expression)
    found = list(islice(schedule.between(utc("1999-12-31T23:59"), utc("2004-01-01")), 5000))
    assume(len(found) > 1)
    assert schedule.period is not None
    assert min(later - earlier for earlier, later in pairwise(found)) >= schedule.period


@pytest.mark.parametrize(
    ("expression", "period"),
    [
        ("* * * * *", timedelta(minutes=1)),
        ("30 2 * * *", timedelta(days=1)),
        ("0 9,17 * * *", timedelta(hours=8)),
        ("0 1,23 * * *", timedelta(hours=2)),
        ("0 0 * * 1", timedelta(days=7)),
        ("0 0 1 * *", timedelta(days=28)),
        ("50 23 1,15 * *", timedelta(days=14)),
        ("0 0 29 2 *", timedelta(days=1461)),
        ("0,50 * * * *", timedelta(minutes=10)),
        ("50 0,1,23 * * *", timedelta(hours=1)),
        ("0,50 1,2 * * *", timedelta(minutes=10)),
        ("*:0,59:0,58", timedelta(seconds=2)),
        ("0/2:*:*", timedelta(seconds=1)),
        ("2027-*-1 00:00", timedelta(days=28)),
        ("2027-03-01", timedelta(days=50 * 366)),
    ],
)
def test_the_period_is_the_smallest_gap(expression: str, period: timedelta) -> None:
    assert Schedule(expression).period == period


@pytest.mark.parametrize("name", AT_NAMES)
def test_names_stand_for_their_five_fields(name: str) -> None:
    now = utc("2026-11-30T12:00")
    assert Schedule(name.upper()).next_after(now) == Schedule(AT_NAMES[name]).next_after(now)


@pytest.mark.parametrize(
    ("expression", "timezone", "says"),
    [
        ("60 * * * *", "UTC", "bad minute"),
        ("* * * *", "UTC", "five fields"),
        ("0 0 2 * * *", "UTC", "five fields"),
        ("@reboot", "UTC", "no schedule"),
        ("@1395716396", "UTC", "no schedule"),
        ("*-*~3..9/2", "UTC", "cannot be told for sure"),
        ("*-*~1,3..9/2 02:30", "UTC", "cannot be told for sure"),
        ("1..1/2:00", "UTC", "cannot be told for sure"),
        ("0/90:00", "UTC", "never reached"),
        ("*-*~7/7", "UTC", "never reached"),
        ("*-*-2/30", "UTC", "never reached"),
        ("2190/10-1-1", "UTC", "never reached"),
        ("*:*:0.5", "UTC", "fraction of a second"),
        ("*-02-30", "UTC", "never comes round"),
        ("25:00", "UTC", "bad hour"),
        ("every day", "UTC", "five fields"),
        ("Mon Tue", "UTC", "neither"),
        ("02:30 Europe/Berlin", "UTC", "in Europe/Berlin, and timezone is 'UTC'"),
        ("02:30 Europe/Berln", "Europe/Berln", "no time zone"),
        ("", "UTC", "five fields"),
        ("0 0 31 2 *", "UTC", "bad day-of-month"),
        (f"0 0 {NEVER}", "UTC", "never comes round"),
        ("0 0 5 2 */8#5", "UTC", "bad day-of-week"),
        ("0 2 * * *", "Europe/Berln", "no time zone"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_mend(
    expression: str, timezone: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        Schedule(expression, timezone)
    assert refused.value.hint


def test_a_span_is_open_below_and_closed_above() -> None:
    first, second = utc("2026-11-29T02:30"), utc("2026-11-30T02:30")
    schedule = Schedule("30 2 * * *")
    assert list(schedule.between(first, second)) == [second]
    assert list(schedule.between(first - TICK, second - TICK)) == [first]
    assert schedule.count(first, second) == 1
    assert schedule.count(first - TICK, second - TICK) == 1
    assert schedule.count(second, first) == 0


def test_the_edges_of_the_calendar_end_the_search() -> None:
    schedule = Schedule("30 2 * * *")
    assert schedule.next_after(datetime.max.replace(tzinfo=UTC)) is None
    assert schedule.latest_until(datetime.min.replace(tzinfo=UTC)) is None


def test_the_newest_instant_is_not_looked_for_before_a_bound() -> None:
    schedule = Schedule("30 2 * * *")
    now = utc("2026-11-30T12:00")
    assert schedule.latest_until(now, utc("2026-11-30T02:30")) == utc("2026-11-30T02:30")
    assert schedule.latest_until(now, utc("2026-11-30T02:31")) is None


def test_250_000_instants_are_counted_in_no_time() -> None:
    begun = perf_counter()
    now = utc("2026-11-30T12:00")
    assert Schedule("* * * * *").count(now - timedelta(minutes=250_000), now) == 250_000
    assert Schedule("0 * * * *").count(now - timedelta(hours=250_000), now) == 250_000
    left_out = 29  # hours of spring that no clock in Berlin has shown
    elsewhere = Schedule("0 * * * *", "Europe/Berlin")
    assert elsewhere.count(now - timedelta(hours=250_000), now) == 250_000 - left_out
    assert perf_counter() - begun < 1


class TestIds:
    def test_at_most_one_per_date_has_the_short_id(self) -> None:
        interval = Schedule("30 2 * * 1").interval("backup", utc("2026-11-30T02:30"))
        assert interval.id == "2026-11-30"
        assert interval.key == "2026-11-30T02:30:00Z"

    @pytest.mark.parametrize("expression", ["0 9,17 * * *", "0,30 2 * * *", "* * * * *"])
    def test_several_per_date_have_the_long_id(self, expression: str) -> None:
        schedule = Schedule(expression)
        following = schedule.next_after(utc("2026-11-30T00:00"))
        assert following is not None
        assert schedule.interval_id(following) == instant_id(following)

    def test_seconds_are_spelled_where_they_are_not_zero(self) -> None:
        assert instant_id(utc("2026-11-30T02:30:07")) == "2026-11-30T02:30:07Z"
        assert instant_id(utc("2026-11-30T02:30")) == "2026-11-30T02:30Z"

    def test_an_instant_off_the_schedule_has_the_long_id(self) -> None:
        assert Schedule("30 2 * * *").interval_id(utc("2026-11-30T02:31")) == "2026-11-30T02:31Z"

    @given(expressions, instants)
    def test_every_id_leads_back_to_its_instant(self, expression: str, instant: datetime) -> None:
        schedule = Schedule(expression)
        following = schedule.next_after(instant)
        assert following is not None
        assert schedule.parse_id(schedule.interval_id(following)) == following
        assert schedule.parse_id(instant_id(following)) == following

    def test_a_date_with_several_is_ambiguous_and_refused(self) -> None:
        with pytest.raises(UsageError, match="more than one") as refused:
            Schedule("0 9,17 * * *").parse_id("2026-11-30")
        assert "2026-11-30T09:00Z, 2026-11-30T17:00Z" in refused.value.hint

    def test_a_date_with_one_of_several_per_date_leads_to_it(self) -> None:
        schedule = Schedule("0 9,17 * * *")
        edited = Schedule.of(
            [
                Version(utc("2026-01-01"), "0 17 * * *"),
                Version(utc("2026-11-30T18:00"), "0 9,17 * * *"),
            ]
        )
        assert edited.parse_id("2026-11-30") == utc("2026-11-30T17:00")
        with pytest.raises(UsageError):
            schedule.parse_id("2026-11-30")

    @pytest.mark.parametrize("text", ["2026-11-30T03:00Z", "2026-11-29T02:30:01Z"])
    def test_an_id_off_the_schedule_is_refused_with_the_two_nearest(self, text: str) -> None:
        with pytest.raises(UsageError, match="not on the schedule") as refused:
            Schedule("30 2 * * 0").parse_id(text)
        assert refused.value.hint in (
            "nearest: 2026-11-29 and 2026-12-06",
            "nearest: 2026-11-22 and 2026-11-29",
        )

    def test_a_date_off_the_schedule_is_refused_with_the_two_nearest(self) -> None:
        with pytest.raises(UsageError) as refused:
            Schedule("30 2 * * 0").parse_id("2026-11-30")
        assert refused.value.hint == "nearest: 2026-11-29 and 2026-12-06"

    @pytest.mark.parametrize(
        "text",
        ["", "yesterday", "2026-13-01", "2026-11-30T25:00Z", "2026-11-30T02:30", "2026-11-30 "],
    )
    def test_what_is_no_id_is_refused(self, text: str) -> None:
        with pytest.raises(UsageError, match="no interval id"):
            read_id(text)

    def test_both_spellings_are_read(self) -> None:
        assert read_id("2026-11-30") == date(2026, 11, 30)
        assert read_id("2026-11-30T02:30Z") == utc("2026-11-30T02:30")
        assert read_id("2026-11-30T02:30:00Z") == utc("2026-11-30T02:30")


class TestVersions:
    OLD = Version(utc("2026-11-01"), "30 2 * * *")
    NEW = Version(utc("2026-11-20T12:00"), "0 14 * * *")

    def test_each_version_holds_for_its_own_time(self) -> None:
        schedule = Schedule.of([self.OLD, self.NEW])
        found = list(schedule.between(utc("2026-11-19T00:00"), utc("2026-11-21T23:00")))
        assert found == [
            utc("2026-11-19T02:30"),
            utc("2026-11-20T02:30"),
            utc("2026-11-20T14:00"),
            utc("2026-11-21T14:00"),
        ]

    def test_an_edit_invents_nothing_before_it(self) -> None:
        new = Version(utc("2026-11-20T12:00"), "*/5 * * * *")
        schedule = Schedule.of([self.OLD, new])
        assert schedule.count(utc("2026-11-19T12:00"), utc("2026-11-20T11:59")) == 1
        assert schedule.next_after(utc("2026-11-20T02:30")) == utc("2026-11-20T12:00")

    def test_the_instant_at_which_a_version_was_seen_is_its_first(self) -> None:
        schedule = Schedule.of([self.OLD, Version(utc("2026-11-20T14:00"), "0 14 * * *")])
        span = (utc("2026-11-20T12:00"), utc("2026-11-20T14:00"))
        assert list(schedule.between(*span)) == [span[1]]
        assert schedule.count(*span) == 1
        assert schedule.latest_until(span[1]) == span[1]

    def test_the_first_version_has_no_beginning(self) -> None:
        schedule = Schedule.of([self.OLD, self.NEW])
        assert schedule.parse_id("2020-02-29") == utc("2020-02-29T02:30")

    def test_a_time_on_demand_has_no_instants(self) -> None:
        gap = Version(utc("2026-11-10"), None)
        schedule = Schedule.of([self.OLD, gap, self.NEW])
        assert schedule.next_after(utc("2026-11-09T12:00")) == utc("2026-11-20T14:00")
        assert schedule.latest_until(utc("2026-11-20T13:00")) == utc("2026-11-09T02:30")
        assert schedule.count(utc("2026-11-10"), utc("2026-11-20T12:00")) == 0
        assert Schedule.of([self.OLD, gap]).period is None

    def test_a_second_instant_on_the_date_of_an_edit_has_the_long_id(self) -> None:
        schedule = Schedule.of([self.OLD, self.NEW])
        assert schedule.interval_id(utc("2026-11-20T02:30")) == "2026-11-20"
        assert schedule.interval_id(utc("2026-11-20T14:00")) == "2026-11-20T14:00Z"
        assert schedule.interval_id(utc("2026-11-21T14:00")) == "2026-11-21"
        with pytest.raises(UsageError, match="more than one"):
            schedule.parse_id("2026-11-20")

    @given(
        st.lists(st.tuples(instants, st.none() | expressions), min_size=1, max_size=4),
        instants,
    )
    def test_looking_forward_and_backward_agree(
        self, parts: list[tuple[datetime, str | None]], instant: datetime
    ) -> None:
        versions = [Version(since, text) for since, text in sorted(parts, key=lambda p: p[0])]
        schedule = Schedule.of(versions)
        found = list(islice(schedule.between(instant, utc("2200-01-01")), 5))
        assert found == sorted(set(found))
        for one in found:
            assert schedule.latest_until(one) == one
        if found:
            assert schedule.count(instant, found[-1]) == len(found)
            assert schedule.latest_until(found[0] - TICK) == schedule.latest_until(instant)


def test_what_an_old_version_says_is_read_only_when_somebody_asks_about_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    days = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day) for day in range(90)]
    made = Schedule.of([Version(day, f"{n % 60} 2 * * *") for n, day in enumerate(days)])
    read: list[str] = []
    real = schedule.calendar

    def calendar(expression: str, *rest: Any) -> object:
        read.append(expression)
        return real(expression, *rest)

    monkeypatch.setattr(schedule, "calendar", calendar)
    last = days[-1] + timedelta(days=30)
    assert made.latest_until(last) == last.replace(hour=2, minute=29) - timedelta(days=1)
    assert made.next_after(last) == last.replace(hour=2, minute=29)
    assert read == ["29 2 * * *"]
    assert made.next_after(days[50]) == days[50].replace(hour=2, minute=50)
    assert read == ["29 2 * * *", "50 2 * * *"]
