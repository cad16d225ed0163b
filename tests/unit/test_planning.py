from __future__ import annotations

import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.core.config import (
    CatchUpConfig,
    EntitlementsConfig,
    Job,
    SourceConfig,
    TargetConfig,
)
from reconcile.core.model import State, Trigger, instant_key
from reconcile.core.planning import (
    LONG_SKIP,
    Decision,
    deadline_of,
    decide,
    first_horizon,
    floor,
    retry_at,
    schedule_of,
    seen,
    window,
)
from reconcile.core.records import IntervalRecord, JobRecord, to_text
from reconcile.core.schedule import TICK, Schedule

if TYPE_CHECKING:
    from collections.abc import Iterable

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
WORK = EntitlementsConfig(
    SourceConfig("csv", "/x/{date}.csv"), TargetConfig("sql", "sqlite:///x/app.db", "t")
)
NIGHTLY = Schedule("30 2 * * *")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


NOW = utc("2026-11-30T12:00")


def job(policy: str = "all", span: timedelta | None = None, **fields: object) -> Job:
    plain = Job("j", Path("/x/reconcile.toml"), "30 2 * * *", WORK)
    return plain._replace(catch_up=CatchUpConfig(policy, span), **fields)  # type: ignore[arg-type]


def record(at: str | datetime, state: State = State.UNFINISHED, **fields: object) -> IntervalRecord:
    when = utc(at) if isinstance(at, str) else at
    plain = IntervalRecord(NIGHTLY.interval_id(when), when, state)
    if state is State.UNFINISHED:
        plain = replace(plain, runs=1, trigger=Trigger.SCHEDULE)
    return replace(plain, **fields)  # type: ignore[arg-type]


def decided(
    one: Job,
    *records: IntervalRecord,
    since: str = "2026-11-27",
    now: datetime = NOW,
    tried: tuple[str, ...] = (),
) -> Decision:
    versions = [(r, n + 1) for n, r in enumerate(sorted(records, key=lambda r: r.scheduled_at))]
    return decide(one, NIGHTLY, utc(since), versions, now, tried=tried)


def due(decision: Decision) -> list[str]:
    return [one.interval.id for one in decision.due]


def skipped(decision: Decision) -> list[tuple[str, str]]:
    return [(one.interval.id, one.reason) for one in decision.skips]


class TestCatchUp:
    def test_all_makes_each_missed_interval_due_oldest_first(self) -> None:
        decision = decided(job("all"))
        assert due(decision) == ["2026-11-27", "2026-11-28", "2026-11-29", "2026-11-30"]
        assert decision.skips == []
        assert decision.backlog == 4
        assert decision.next_due is not None
        assert decision.next_due.id == "2026-12-01"

    def test_latest_makes_the_newest_due_and_records_the_older_ones_as_superseded(self) -> None:
        decision = decided(job("latest"))
        assert due(decision) == ["2026-11-30"]
        assert skipped(decision) == [
            ("2026-11-27", "superseded"),
            ("2026-11-28", "superseded"),
            ("2026-11-29", "superseded"),
        ]

    def test_latest_supersedes_what_is_older_than_a_newest_one_that_has_a_record(self) -> None:
        decision = decided(job("latest"), record("2026-11-30T02:30", State.COMPLETED))
        assert due(decision) == []
        assert {reason for _, reason in skipped(decision)} == {"superseded"}

    def test_none_begins_only_before_the_deadline(self) -> None:
        one = job("none", deadline=10 * HOUR)
        assert due(decided(one)) == ["2026-11-30"]
        assert skipped(decided(one))[-1] == ("2026-11-29", "catch_up_window")
        at_deadline = decided(one, now=utc("2026-11-30T12:30"))
        assert due(at_deadline) == []
        assert skipped(at_deadline)[-1] == ("2026-11-30", "catch_up_window")

    @pytest.mark.parametrize("policy", ["all", "latest", "none"])
    def test_what_is_older_than_the_window_is_skipped_with_a_record(self, policy: str) -> None:
        decision = decided(job(policy, 2 * DAY))
        assert skipped(decision)[0] == ("2026-11-27", "catch_up_window")
        assert "2026-11-28" not in due(decision)

    def test_the_beginning_of_the_window_is_inside(self) -> None:
        at = utc("2026-11-30T02:30")
        assert due(decided(job("all", 2 * DAY), now=at))[0] == "2026-11-28"
        assert due(decided(job("all", 2 * DAY), now=at + TICK))[0] == "2026-11-29"

    def test_the_default_window_is_seven_days_and_at_least_two_periods(self) -> None:
        assert window(job(), NIGHTLY) == 7 * DAY
        assert window(job(), Schedule("0 0 * * 1")) == 14 * DAY
        assert window(job(span=3 * DAY), NIGHTLY) == 3 * DAY

    def test_of_720_missed_minutes_an_hour_is_due_and_660_are_one_record(self) -> None:
        schedule = Schedule("* * * * *")
        decision = decide(job("all", HOUR - MINUTE), schedule, NOW - 719 * MINUTE, [], NOW)
        assert len(decision.due) == 60
        (skip,) = decision.skips
        assert (skip.span, skip.reason) == (660, "catch_up_window")
        assert skip.until is not None
        assert skip.until.scheduled_at == NOW - HOUR

    def test_250_000_missed_intervals_are_decided_in_less_than_a_second(self) -> None:
        schedule = Schedule("* * * * *")
        horizon = NOW - 249_999 * MINUTE
        for policy in ("all", "latest", "none"):
            begun = perf_counter()
            tracemalloc.start()
            decision = decide(job(policy, 400 * DAY), schedule, horizon, [], NOW)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert perf_counter() - begun < 1
            assert peak < 1_000_000
            assert decision.backlog + sum(skip.span for skip in decision.skips) == 250_000


class TestOpenRecords:
    def test_a_killed_interval_is_resumed_at_once_and_before_newer_ones(self) -> None:
        decision = decided(job("all"), record("2026-11-28T02:30", cursor={"range": 17}))
        assert due(decision) == ["2026-11-28", "2026-11-27", "2026-11-29", "2026-11-30"]
        first = decision.due[0]
        assert first.record is not None
        assert first.version == 1

    @pytest.mark.parametrize("policy", ["all", "latest", "none"])
    def test_what_has_a_checkpoint_is_never_given_up_for_its_age(self, policy: str) -> None:
        old = record("2026-10-01T02:30", cursor={"range": 1})
        assert due(decided(job(policy, DAY), old))[0] == "2026-10-01"

    def test_latest_overtakes_an_unfinished_one_without_a_checkpoint(self) -> None:
        decision = decided(job("latest"), record("2026-11-29T02:30"), since="2026-11-29")
        assert due(decision) == ["2026-11-30"]
        assert skipped(decision) == [("2026-11-29", "superseded")]
        assert decision.skips[0].version == 1

    def test_latest_does_not_overtake_the_newest(self) -> None:
        decision = decided(job("latest"), record("2026-11-30T02:30"), since="2026-11-30")
        assert due(decision) == ["2026-11-30"]

    @pytest.mark.parametrize(
        "fields", [{"rerun": 1}, {"trigger": Trigger.MANUAL}, {"trigger": Trigger.BACKFILL}]
    )
    def test_what_a_person_asked_for_is_not_superseded(self, fields: dict[str, object]) -> None:
        mine = record("2026-11-28T02:30", State.UNFINISHED, **fields)
        assert "2026-11-28" in due(decided(job("latest"), mine))

    def test_a_pending_record_goes_through_the_policy_like_one_without_a_record(self) -> None:
        pending = record("2026-11-27T02:30", State.PENDING)
        assert skipped(decided(job("all", 3 * DAY), pending)) == [("2026-11-27", "catch_up_window")]
        assert skipped(decided(job("latest"), pending))[0] == ("2026-11-27", "superseded")
        assert due(decided(job("all"), pending))[0] == "2026-11-27"

    def test_new_and_pending_ones_are_worked_in_order_of_time(self) -> None:
        pending = record("2026-11-29T02:30", State.PENDING)
        assert due(decided(job("all"), pending)) == sorted(due(decided(job("all"), pending)))

    def test_backfills_come_last(self) -> None:
        begun = record("2026-11-28T02:30", trigger=Trigger.BACKFILL)
        waiting = record("2026-11-27T02:30", State.PENDING, trigger=Trigger.BACKFILL)
        decision = decided(job("all"), begun, waiting)
        assert due(decision) == ["2026-11-29", "2026-11-30", "2026-11-28", "2026-11-27"]

    def test_final_records_are_neither_due_nor_counted(self) -> None:
        final = [
            record("2026-11-27T02:30", State.COMPLETED),
            record("2026-11-28T02:30", State.SKIPPED),
            record("2026-11-29T02:30", State.FAILED),
        ]
        decision = decided(job("all"), *final)
        assert due(decision) == ["2026-11-30"]
        assert decision.backlog == 1

    def test_an_open_record_of_an_on_demand_job_is_due_without_a_schedule(self) -> None:
        one = record("2026-11-30T11:59:07", trigger=Trigger.MANUAL)
        decision = decide(job("latest"), None, NOW, [(one, 3)], NOW)
        assert [d.version for d in decision.due] == [3]
        assert decision.next_due is None

    def test_an_interval_is_attempted_once_by_one_trigger(self) -> None:
        open_one = record("2026-11-28T02:30")
        tried = ("2026-11-28T02:30:00Z", "2026-11-29T02:30:00Z")
        decision = decided(job("all"), open_one, since="2026-11-28", tried=tried)
        assert due(decision) == ["2026-11-30"]
        assert decision.backlog == 3
        assert decision.settled == utc("2026-11-29T02:30")


FAILURE = {"text": "x", "exit": "source_unreachable", "at": to_text(NOW)}


class TestWaiting:
    @pytest.mark.parametrize(
        ("attempts", "minutes"), [(0, 5), (1, 5), (2, 10), (3, 20), (4, 40), (5, 60), (900, 60)]
    )
    def test_the_delay_doubles_up_to_an_hour(self, attempts: int, minutes: int) -> None:
        one = record("2026-11-30T02:30", attempts=attempts, failure=FAILURE)
        assert retry_at(job(), one) == NOW + minutes * MINUTE

    def test_a_delay_above_an_hour_is_kept_and_not_doubled(self) -> None:
        one = record("2026-11-30T02:30", attempts=3, failure=FAILURE)
        assert retry_at(job(retry_delay=2 * HOUR), one) == NOW + 2 * HOUR

    def test_without_a_failure_there_is_nothing_to_wait_for(self) -> None:
        assert retry_at(job(), record("2026-11-30T02:30", attempts=3)) is None

    def test_a_failed_one_waits_and_lets_newer_ones_go_on(self) -> None:
        failed = record("2026-11-29T02:30", attempts=1, failure=FAILURE)
        decision = decided(job("all"), failed, since="2026-11-29")
        assert due(decision) == ["2026-11-30"]
        (waiting,) = decision.waiting
        assert (waiting.why, waiting.until) == ("retry", NOW + 5 * MINUTE)
        assert decision.backlog == 2

    def test_it_is_due_again_when_the_delay_is_over(self) -> None:
        failed = record("2026-11-30T02:30", attempts=1, failure=FAILURE)
        before = decided(job(), failed, since="2026-11-30", now=NOW + 5 * MINUTE - TICK)
        after = decided(job(), failed, since="2026-11-30", now=NOW + 5 * MINUTE)
        assert (due(before), due(after)) == ([], ["2026-11-30"])

    def test_a_failure_from_a_clock_that_was_ahead_delays_nothing(self) -> None:
        ahead = {**FAILURE, "at": to_text(NOW + 300 * DAY)}
        failed = record("2026-11-30T02:30", attempts=1, failure=ahead)
        assert due(decided(job(), failed, since="2026-11-30")) == ["2026-11-30"]

    def test_a_guard_waits_until_its_very_plan_is_approved(self) -> None:
        stopped = record("2026-11-30T02:30", cursor={}, waiting={"hash": "4e1f"})
        (waiting,) = decided(job(), stopped, since="2026-11-30").waiting
        assert waiting.why == "approval"
        other = replace(stopped, approval={"hash": "81d0"})
        assert due(decided(job(), other, since="2026-11-30")) == []
        approved = replace(stopped, approval={"hash": "4e1f"})
        assert due(decided(job(), approved, since="2026-11-30")) == ["2026-11-30"]


class TestClockAndHorizon:
    def test_records_later_than_now_cover_nothing_and_are_not_due(self) -> None:
        later = record("2026-12-05T02:30", cursor={})
        assert due(decided(job("all"), later, since="2026-11-30")) == ["2026-11-30"]

    def test_nothing_before_the_horizon_is_due(self) -> None:
        assert due(decided(job("all"), since="2026-11-30T02:31")) == []
        assert due(decided(job("all"), since="2026-11-30T02:30")) == ["2026-11-30"]

    def test_a_start_to_come_makes_that_the_next(self) -> None:
        decision = decided(job("all"), since="2026-12-24")
        assert due(decision) == []
        assert decision.next_due is not None
        assert decision.next_due.id == "2026-12-24"

    def test_the_first_horizon_is_the_start(self) -> None:
        assert first_horizon(job(start=utc("2026-11-01")), NIGHTLY, NOW) == utc("2026-11-01")

    def test_the_first_horizon_is_the_newest_instant_of_the_past_hour(self) -> None:
        at = utc("2026-11-30T02:30")
        assert first_horizon(job(), NIGHTLY, at) == at
        assert first_horizon(job(), NIGHTLY, at + HOUR) == at
        assert first_horizon(job(), NIGHTLY, at + HOUR + TICK) == at + HOUR + TICK

    def test_a_job_seen_again_is_the_same_record(self) -> None:
        first = seen(job(), None, NOW)
        assert seen(job(), first, NOW + DAY) is first
        again = JobRecord.from_json(first.to_json())
        assert seen(job(), again, NOW + DAY) is again

    def test_an_edited_schedule_takes_effect_when_first_seen(self) -> None:
        first = seen(job(), None, utc("2026-11-20T02:30"))
        edited = seen(job(schedule="0 9,17 * * *"), first, utc("2026-11-28T12:00"))
        schedule = schedule_of(edited)
        decision = decide(job("all", 30 * DAY), schedule, utc("2026-11-27"), [], NOW)
        assert due(decision) == [
            "2026-11-27",
            "2026-11-28",
            "2026-11-28T17:00Z",
            "2026-11-29T09:00Z",
            "2026-11-29T17:00Z",
            "2026-11-30T09:00Z",
        ]

    def test_a_schedule_taken_out_and_put_back_invents_nothing_between(self) -> None:
        one = seen(job(), None, utc("2026-11-20"))
        one = seen(job(schedule=None), one, utc("2026-11-22"))
        one = seen(job(), one, utc("2026-11-29"))
        schedule = schedule_of(one)
        assert due(decide(job("all", 30 * DAY), schedule, one.horizon_at, [], NOW)) == [
            "2026-11-20",
            "2026-11-21",
            "2026-11-29",
            "2026-11-30",
        ]

    def test_a_job_that_never_had_a_schedule_has_none(self) -> None:
        assert schedule_of(seen(job(schedule=None), None, NOW)) is None

    def test_versions_and_horizons_from_a_clock_that_was_ahead_are_void(self) -> None:
        ahead = seen(job(), None, NOW + 300 * DAY)
        assert ahead.horizon_at > NOW
        assert seen(job(), ahead, NOW).horizon_at == NOW
        edited = seen(job(schedule="0 9 * * *"), seen(job(), None, NOW), NOW + 300 * DAY)
        back = seen(job(schedule="0 9 * * *"), edited, NOW + DAY)
        assert [version[0] for version in back.schedules] == [
            to_text(NOW),
            to_text(NOW + DAY + TICK),
        ]

    def test_a_start_to_come_is_not_void(self) -> None:
        one = job(start=utc("2027-01-01"))
        first = seen(one, None, NOW)
        assert first.horizon_at == utc("2027-01-01")
        assert seen(one, first, NOW + DAY) is first

    def test_what_is_settled_is_not_read_again_unless_the_clock_went_back(self) -> None:
        plain = JobRecord(horizon_at=utc("2026-11-01"), schedules=[])
        assert floor(plain, NOW) == utc("2026-11-01")
        assert floor(replace(plain, settled_at=NOW), NOW) == NOW
        assert floor(replace(plain, settled_at=NOW + TICK), NOW) == utc("2026-11-01")


class TestDeadline:
    @pytest.mark.parametrize(
        ("expression", "given_deadline", "expected"),
        [
            ("30 2 * * *", None, DAY),
            ("30 2 * * 1", None, DAY),
            ("0 * * * *", None, HOUR),
            ("* * * * *", None, 15 * MINUTE),
            ("30 2 * * *", 6 * HOUR, 6 * HOUR),
        ],
    )
    def test_it_is_a_period_between_a_quarter_of_an_hour_and_a_day(
        self, expression: str, given_deadline: timedelta | None, expected: timedelta
    ) -> None:
        one = job(deadline=given_deadline)
        at = utc("2026-11-30T02:30")
        assert deadline_of(one, Schedule(expression), record(at)) == at + expected

    def test_without_a_schedule_it_is_a_day(self) -> None:
        assert deadline_of(job(), None, record(NOW)) == NOW + DAY


# --- properties

LIMIT = 500

schedules = st.sampled_from(["* * * * *", "*/7 * * * *", "0 * * * *", "0 9,17 * * *"])
jobs = st.builds(
    job,
    st.sampled_from(["all", "latest", "none"]),
    st.sampled_from([None, DAY, 3 * HOUR]),
    deadline=st.sampled_from([None, HOUR]),
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[Job, Schedule, datetime, list[IntervalRecord]]:
    """A job, its schedule, its horizon, and records at some of the instants since."""
    one, schedule = draw(jobs), Schedule(draw(schedules))
    period = schedule.period
    assert period is not None
    horizon = NOW - period * draw(st.integers(0, 400))
    instants = list(schedule.between(horizon - TICK, NOW))
    numbers = draw(st.sets(st.integers(0, max(0, len(instants) - 1)), max_size=12))
    records = [_any_record(draw, instants[n]) for n in sorted(numbers) if n < len(instants)]
    if draw(st.booleans()):
        old = _any_record(draw, horizon - 3 * HOUR + 7 * MINUTE)
        records = [old, *records]
    return one, schedule, horizon, records


def _any_record(draw: st.DrawFn, at: datetime) -> IntervalRecord:
    failure = {"text": "x", "exit": "x", "at": to_text(NOW - MINUTE)}
    return IntervalRecord(
        id="x",
        scheduled_at=at,
        state=draw(st.sampled_from(list(State))),
        trigger=draw(st.sampled_from([None, Trigger.SCHEDULE, Trigger.RERUN, Trigger.BACKFILL])),
        cursor=draw(st.none() | st.just({"range": 1})),
        attempts=draw(st.integers(0, 3)),
        failure=draw(st.none() | st.just(failure)),
        waiting=draw(st.none() | st.just({"hash": "a"})),
        approval=draw(st.none() | st.just({"hash": "a"})),
    )


def versioned(records: Iterable[IntervalRecord]) -> list[tuple[IntervalRecord, int]]:
    return [(one, 1) for one in sorted(records, key=lambda r: r.scheduled_at)]


def taken(schedule: Schedule, decision: Decision) -> list[str]:
    """The keys of all that a decision speaks of, once for each time it does."""
    keys = [one.interval.key for one in decision.due]
    keys += [one.interval.key for one in decision.waiting]
    for skip in decision.skips:
        if skip.until is None:
            keys.append(skip.interval.key)
        else:
            after = skip.interval.scheduled_at - TICK
            span = list(schedule.between(after, skip.until.scheduled_at))
            assert len(span) == skip.span
            keys += map(instant_key, span)
    return keys


@given(histories())
def test_every_instant_is_in_exactly_one_place(
    history: tuple[Job, Schedule, datetime, list[IntervalRecord]],
) -> None:
    one, schedule, horizon, records = history
    decision = decide(one, schedule, horizon, versioned(records), NOW, limit=10**6)
    final = [instant_key(r.scheduled_at) for r in records if r.state.is_final]
    still_open = [instant_key(r.scheduled_at) for r in records if not r.state.is_final]
    keys = taken(schedule, decision) + final
    assert len(keys) == len(set(keys))
    scheduled = {instant_key(instant) for instant in schedule.between(horizon - TICK, NOW)}
    assert set(keys) == scheduled | set(final) | set(still_open)
    assert decision.backlog == len(decision.due) + len(decision.waiting)


@given(histories())
def test_work_is_ordered_unfinished_then_new_then_backfills_each_by_time(
    history: tuple[Job, Schedule, datetime, list[IntervalRecord]],
) -> None:
    one, schedule, horizon, records = history
    decision = decide(one, schedule, horizon, versioned(records), NOW, limit=10**6)

    def rank(place: int) -> tuple[int, datetime]:
        found = decision.due[place].record
        at = decision.due[place].interval.scheduled_at
        begun = found is not None and found.state is State.UNFINISHED
        if found is not None and found.trigger is Trigger.BACKFILL:
            return (2 if begun else 3, at)
        return (0 if begun else 1, at)

    ranks = [rank(place) for place in range(len(decision.due))]
    assert ranks == sorted(ranks)


@given(histories(), st.integers(1, 5))
def test_a_limit_gives_the_beginning_and_the_same_backlog(
    history: tuple[Job, Schedule, datetime, list[IntervalRecord]], limit: int
) -> None:
    one, schedule, horizon, records = history
    records = [r for r in records if r.state is not State.PENDING]
    whole = decide(one, schedule, horizon, versioned(records), NOW, limit=10**6)
    part = decide(one, schedule, horizon, versioned(records), NOW, limit=limit)
    new = [d for d in whole.due if d.record is None]
    assert [d for d in part.due if d.record is None] == new[:limit]
    assert part._replace(due=()) == whole._replace(due=())


def carried_out(
    decision: Decision, records: dict[str, IntervalRecord], state: State = State.COMPLETED
) -> None:
    """Record all that was decided, as the engine does."""
    for skip in decision.skips:
        known = skip.record or IntervalRecord(skip.interval.id, skip.interval.scheduled_at)
        until_at = skip.until.scheduled_at if skip.until else None
        records[skip.interval.key] = replace(
            known, state=State.SKIPPED, reason=skip.reason, span=skip.span, until_at=until_at
        )
    for one in decision.due:
        known = one.record or IntervalRecord(one.interval.id, one.interval.scheduled_at)
        records[one.interval.key] = replace(known, state=state)


@given(histories())
def test_what_was_decided_and_recorded_is_not_decided_again(
    history: tuple[Job, Schedule, datetime, list[IntervalRecord]],
) -> None:
    one, schedule, horizon, found = history
    records = {instant_key(r.scheduled_at): r for r in found}
    first = decide(one, schedule, horizon, versioned(found), NOW, limit=10**6)
    carried_out(first, records)
    second = decide(one, schedule, horizon, versioned(records.values()), NOW)
    assert second.due == []
    assert second.skips == []
    assert second.waiting == first.waiting
    assert second.settled == NOW


@given(
    jobs,
    st.sampled_from(["*/7 * * * *", "0 * * * *", "0 9,17 * * *"]),
    st.lists(
        st.tuples(st.integers(1, 3000), st.lists(st.sampled_from("cfkx"), max_size=6)),
        min_size=1,
        max_size=8,
    ),
)
def test_whatever_the_downtimes_each_interval_has_one_record_in_the_end(
    one: Job, expression: str, knocks: list[tuple[int, list[str]]]
) -> None:
    """Knocks at random distances; each completes, fails, is killed (at a checkpoint or before)
    or stops after so many intervals. Only what is not settled is given to `decide`, and the
    decision must be that from all records."""
    schedule = Schedule(expression)
    begun = now = NOW
    job_record = JobRecord(horizon_at=begun, schedules=[[to_text(begun), expression, "UTC"]])
    records: dict[str, IntervalRecord] = {}

    def decision(tried: tuple[str, ...]) -> Decision:
        nonlocal job_record
        low = floor(job_record, now)
        some = [r for r in records.values() if r.scheduled_at >= low or not r.state.is_final]
        found = decide(one, schedule, low, versioned(some), now, tried=tried, limit=LIMIT)
        every = versioned(records.values())
        whole = decide(one, schedule, begun, every, now, tried=tried, limit=LIMIT)
        assert found._replace(settled=whole.settled) == whole
        carried_out(found._replace(due=()), records)
        job_record = replace(job_record, settled_at=found.settled)
        return found

    for minutes, endings in [*knocks, (60 * 24 * 3, [])]:
        now += minutes * MINUTE
        tried: tuple[str, ...] = ()
        found = decision(tried)
        for ending in endings:
            if not found.due:
                break
            first = found.due[0]
            tried = (*tried, first.interval.key)
            known = first.record or IntervalRecord(first.interval.id, first.interval.scheduled_at)
            known = replace(known, state=State.UNFINISHED, runs=known.runs + 1)
            failure = {"text": "x", "exit": "x", "at": to_text(now)}
            records[first.interval.key] = {
                "c": replace(known, state=State.COMPLETED),
                "f": replace(known, failure=failure, attempts=known.attempts + 1),
                "k": replace(known, cursor={"range": 17}),
                "x": known,
            }[ending]
            found = decision(tried)
    while (found := decision(())).due:
        carried_out(found._replace(skips=()), records)

    assert found.backlog == 0
    covered: list[str] = []
    for one_record in records.values():
        assert one_record.state.is_final
        until = one_record.until_at or one_record.scheduled_at
        span = list(schedule.between(one_record.scheduled_at - TICK, until))
        assert len(span) == one_record.span
        covered += map(instant_key, span)
    scheduled = [instant_key(instant) for instant in schedule.between(begun - TICK, now)]
    assert sorted(covered) == scheduled


def test_a_long_skip_is_one_record_and_a_short_one_is_many() -> None:
    schedule = Schedule("* * * * *")
    for count, expected in ((LONG_SKIP, LONG_SKIP), (LONG_SKIP + 1, 1)):
        begin = NOW - count * MINUTE
        assert len(decide(job("latest"), schedule, begin, [], NOW).skips) == expected
