"""What fell into a pause: nothing is decided while it lasts, and by one rule afterwards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.deciding import DAY, HOUR, MINUTE, decided, due, job, record, skipped, utc

from reconcile.core.model import Actor, State
from reconcile.core.planning import Pause, in_force, paused, pauses_of, unpaused
from reconcile.core.records import JobRecord
from reconcile.core.schedule import Schedule

ALICE = "alice"
BEGAN = utc("2026-11-24T12:00")
OPEN = Pause(BEGAN, None, ALICE, "OPS-71")
UNTIL = Pause(BEGAN, utc("2026-11-28T12:00"), ALICE, "OPS-71")
ENDED = Pause(BEGAN, None, ALICE, "OPS-71", ended=utc("2026-11-28T12:00"))
BEFORE = [record(f"2026-11-{day}T02:30", State.COMPLETED) for day in range(20, 25)]


@pytest.mark.parametrize("policy", ["all", "latest", "none"])
@pytest.mark.parametrize("pause", [OPEN, UNTIL])
def test_while_it_lasts_its_instants_are_neither_due_nor_skipped(pause: Pause, policy: str) -> None:
    found = decided(job(policy), *BEFORE, now="2026-11-27T12:00", pauses=[pause])
    assert (due(found), skipped(found), found.backlog) == ([], [], 0)
    assert (found.pause, found.paused) == (pause, 3)
    assert found.settled == utc("2026-11-25T02:30"), "they must be read again"


@pytest.mark.parametrize("policy", ["all", "latest", "none"])
@pytest.mark.parametrize("pause", [UNTIL, ENDED])
def test_when_it_is_over_the_newest_is_due_and_older_ones_are_skipped(
    pause: Pause, policy: str
) -> None:
    found = decided(job(policy), *BEFORE, now="2026-11-28T12:05", pauses=[pause])
    assert due(found) == ["2026-11-28"]
    assert skipped(found) == [(f"2026-11-{day}", "paused", 1) for day in (25, 26, 27)]
    assert {skip.pause for skip in found.skips} == {pause}
    assert found.pause is None


def test_with_catch_up_they_are_misses_like_any_other() -> None:
    pause = ENDED._replace(catch_up=True)
    everything = decided(job("all"), *BEFORE, now="2026-11-28T12:05", pauses=[pause])
    assert due(everything) == [f"2026-11-{day}" for day in (25, 26, 27, 28)]
    newest = decided(job("latest"), *BEFORE, now="2026-11-28T12:05", pauses=[pause])
    assert {reason for _, reason, _ in skipped(newest)} == {"superseded"}


def test_what_was_due_before_it_began_is_left_to_the_policy() -> None:
    found = decided(job("all"), *BEFORE[:-1], now="2026-11-28T12:05", pauses=[ENDED])
    assert due(found) == ["2026-11-24", "2026-11-28"]
    held = decided(job("all"), *BEFORE[:-1], now="2026-11-27T12:05", pauses=[OPEN])
    assert due(held) == ["2026-11-24"], "whoever asks by hand finds it"
    assert held.pause == OPEN, "and triggers leave it"


def test_the_newest_counts_as_scheduled_for_the_end_of_the_pause() -> None:
    """Or a long pause of a job that is never late would end with nothing to do."""
    one = job("none", deadline=6 * HOUR)
    pause = ENDED._replace(ended=utc("2026-11-28T20:00"))
    soon = decided(one, *BEFORE, now="2026-11-28T20:01", pauses=[pause])
    assert due(soon) == ["2026-11-28"]
    late = decided(one, *BEFORE, now="2026-11-29T02:01", pauses=[pause])
    assert due(late) == []
    assert skipped(late)[-1] == ("2026-11-28", "catch_up_window", 1)


def test_one_that_was_worked_by_hand_meanwhile_is_left_alone() -> None:
    by_hand = record("2026-11-28T02:30", State.COMPLETED)
    found = decided(job("all"), *BEFORE, by_hand, now="2026-11-28T12:05", pauses=[ENDED])
    assert due(found) == []
    assert len(found.skips) == 3


def test_an_unfinished_one_goes_on_when_it_is_over() -> None:
    begun = record("2026-11-24T02:30", cursor={"phase": "applying"})
    found = decided(job("latest"), *BEFORE[:-1], begun, now="2026-11-28T12:05", pauses=[ENDED])
    assert due(found) == ["2026-11-24", "2026-11-28"]


def test_a_long_pause_ends_as_one_span() -> None:
    minutely = Schedule("* * * * *")
    pause = ENDED._replace(at=utc("2026-11-24T12:00:30"), ended=utc("2026-11-25T12:00:30"))
    one = job("all", schedule="* * * * *")
    since, now = "2026-11-24T12:01", "2026-11-25T12:02"
    found = decided(one, now=now, since=since, schedule=minutely, pauses=[pause])
    assert due(found) == [f"2026-11-25T12:0{minute}Z" for minute in range(3)]
    assert skipped(found) == [("2026-11-24T12:01Z", "paused", 24 * 60 - 1)]


def test_a_pending_record_is_treated_as_none() -> None:
    pending = [record(f"2026-11-{day}T02:30", State.PENDING) for day in (26, 28)]
    held = decided(job("all"), *BEFORE, *pending, now="2026-11-28T11:00", pauses=[OPEN])
    assert (due(held), skipped(held), held.paused) == ([], [], 4)
    found = decided(job("all"), *BEFORE, *pending, now="2026-11-28T12:05", pauses=[ENDED])
    assert due(found) == ["2026-11-28"]
    assert [reason for _, reason, _ in skipped(found)] == ["paused"] * 3


@given(
    ends=st.lists(st.integers(1, 20 * 24 * 60), min_size=2, max_size=10, unique=True),
    kinds=st.lists(st.booleans(), min_size=5, max_size=5),
    policy=st.sampled_from(["all", "latest"]),
)
def test_each_instant_is_decided_once_by_its_pause(
    ends: list[int], kinds: list[bool], policy: str
) -> None:
    """An independent count: instant by instant."""
    since = utc("2026-11-01")
    edges = [since + MINUTE * minute for minute in sorted(ends)]
    pairs = list(zip(edges[::2], edges[1::2], strict=False))
    pauses = [
        Pause(at, None if by_hand else end, "a", "b", end if by_hand else None)
        for (at, end), by_hand in zip(pairs, kinds, strict=False)
    ]
    now = since + 21 * DAY
    one = job(policy, 365 * DAY, schedule="0 */8 * * *")
    schedule = Schedule("0 */8 * * *")
    found = decided(one, now=f"{now:%Y-%m-%dT%H:%M}", since="2026-11-01", schedule=schedule,
                    pauses=pauses)  # fmt: skip
    instants = list(schedule.between(since - MINUTE, now))
    reasons = {}
    for instant in instants:
        fell = next(((at, end) for at, end in pairs if at < instant <= end), None)
        newest = fell and max(i for i in instants if fell[0] < i <= fell[1])
        if fell and instant != newest:
            reasons[instant] = "paused"
        elif policy == "latest" and instant != instants[-1]:
            reasons[instant] = "superseded"
    assert {s.interval.scheduled_at: s.reason for s in found.skips} == reasons
    assert {d.interval.scheduled_at for d in found.due} == set(instants) - set(reasons)


class TestTheRecord:
    def record(self) -> JobRecord:
        return JobRecord(utc("2026-11-20"), [])

    def test_a_pause_is_read_as_it_was_written(self) -> None:
        until = utc("2026-11-30")
        found = paused(self.record(), Actor(ALICE, "OPS-1", BEGAN), until)
        assert pauses_of(JobRecord.from_json(found.to_json())) == [
            Pause(BEGAN, until, ALICE, "OPS-1")
        ]
        after = unpaused(found, BEGAN + HOUR, catch_up=True)
        (pause,) = pauses_of(JobRecord.from_json(after.to_json()))
        assert (pause.ended, pause.catch_up, after.pause) == (BEGAN + HOUR, True, None)

    def test_a_second_word_changes_the_end_and_not_the_beginning(self) -> None:
        first = paused(self.record(), Actor(ALICE, "OPS-1", BEGAN), None)
        second = paused(first, Actor("bob", "OPS-2", BEGAN + HOUR), BEGAN + DAY)
        assert pauses_of(second) == [Pause(BEGAN, BEGAN + DAY, "bob", "OPS-2")]

    def test_one_that_ended_by_itself_is_kept_beside_the_next(self) -> None:
        first = paused(self.record(), Actor(ALICE, "OPS-1", BEGAN), BEGAN + HOUR)
        second = paused(first, Actor("bob", "OPS-2", BEGAN + DAY), None)
        assert [pause.at for pause in pauses_of(second)] == [BEGAN, BEGAN + DAY]
        assert in_force(pauses_of(second), BEGAN + DAY) is not None

    def test_the_list_does_not_grow_for_ever(self) -> None:
        found = self.record()
        for day in range(100):
            found = paused(found, Actor(ALICE, "OPS-1", BEGAN + day * DAY), None)
            found = unpaused(found, BEGAN + day * DAY + HOUR, catch_up=False)
        assert len(pauses_of(found)) == 20

    def test_what_a_person_ended_is_over_by_any_clock(self) -> None:
        assert in_force([ENDED], BEGAN + HOUR) is None
        assert in_force([UNTIL], BEGAN + HOUR) is not None
