"""Backfills: whatever is killed, asked twice, changed, cancelled or live meanwhile, each interval
is begun once, no window holds more starts than the rate says, and nobody starves."""

from __future__ import annotations

import os
import tracemalloc
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.backfills import MINUTE, NAME, NOW, Bed, job, minutes, most_in

from reconcile.core.config import CatchUpConfig, EntitlementsConfig, SourceConfig, TargetConfig
from reconcile.core.errors import OldOverNew, UsageError
from reconcile.core.model import State
from reconcile.core.operations import pausing, pruning, trigger
from reconcile.core.operations.application import ActRequest, RunRequest
from reconcile.stores.memory import MemoryServer
from reconcile.stores.testing import MovedClock

LONG = bool(os.environ.get("RECONCILE_TEST_LONG"))
AT_ONCE = NOW.replace(microsecond=0)
IDS = minutes(0, 6)


class MemoryHarness:
    def __init__(self) -> None:
        self.clock = MovedClock()
        self.advance = self.clock.advance
        self._server = MemoryServer(self.clock, "5t0re")

    def open(self) -> Any:
        return self._server.connect()


def made(**fields: Any) -> Bed:
    return Bed(MemoryHarness(), job(**fields))


def finish(bed: Bed, seconds: float = 61, most: int = 300) -> None:
    """Knock until no backfill runs."""
    for _ in range(most):
        if bed.is_over():
            return
        bed.knock()
        bed.clock.takes(seconds)
    raise AssertionError("it is never over")


def states(bed: Bed) -> dict[str, str]:
    return {id_: record.state.value for id_, record in bed.records().items()}


def begun(bed: Bed) -> list[str]:
    return [one.interval for one in bed.attempts]


# --- what is begun, and how often


def test_left_to_triggers_each_interval_before_the_horizon_is_worked_once_oldest_first() -> None:
    bed = made()
    bed.ask(IDS[0], IDS[-1])
    assert states(bed) == {}, "nothing is listed"
    finish(bed)
    assert begun(bed) == IDS
    assert states(bed) == dict.fromkeys(IDS, "completed")
    assert {one.trigger for one in bed.attempts} == {"backfill"}
    (event,) = [one for one in bed.events(IDS[2]) if one["type"] == "backfill"]
    assert (event["actor"], event["reason"], event["number"]) == ("alice", "x", 1)
    assert bed.records()[IDS[2]].repair_owner == "alice"
    assert bed.knock().outcome == "nothing_due"


def test_killed_at_every_step_it_goes_on_and_begins_none_anew_but_the_one_at_work() -> None:
    kill_at, died = 0, True
    while died:
        kill_at += 1
        bed = made()
        died = bed.stay(IDS[0], IDS[2], kill_at=kill_at) is None
        again = bed.stay(IDS[0], IDS[2])
        assert again is not None
        assert bed.is_over()
        assert bed.applied == IDS[:3], f"killed at step {kill_at}"
        assert states(bed) == dict.fromkeys(IDS[:3], "completed")
        often = Counter(begun(bed))
        assert sum(often.values()) <= 4
        assert {record.rerun for record in bed.records().values()} == {0}
    assert kill_at > 25, "so many steps there are"


def test_the_same_call_again_goes_on_with_the_same_one_and_doubles_nothing() -> None:
    bed = made()
    bed.ask(IDS[0], IDS[-1])
    bed.knock(kill_at=20)
    again = bed.ask(IDS[0], IDS[-1])
    assert (again.did, again.view.backfill.record.number) == ("goes_on", 1)
    finish(bed)
    assert bed.ask(IDS[0], IDS[-1]).did == "nothing"
    bed.knock()
    assert set(Counter(begun(bed)).values()) <= {1, 2}
    assert bed.applied == IDS


def test_a_rerun_in_the_middle_is_the_only_second_attempt() -> None:
    bed = made(max_intervals=3)
    bed.ask(IDS[0], IDS[-1])
    bed.knock()
    bed.rerun(IDS[1])
    bed.ask(IDS[0], IDS[-1])
    finish(bed)
    assert Counter(begun(bed)) == Counter([*IDS, IDS[1]])
    found = bed.records()
    assert {id_: record.rerun for id_, record in found.items() if record.rerun} == {IDS[1]: 1}


def test_completed_ones_are_rerun_only_where_that_is_asked_for_and_once_for_the_same_words() -> (
    None
):
    bed = made()
    bed.ask(IDS[0], IDS[2])
    finish(bed)
    bed.ask(IDS[0], IDS[-1], rerun_completed=True)
    bed.knock(kill_at=20)
    finish(bed)
    assert {id_: record.rerun for id_, record in bed.records().items()} == {
        **dict.fromkeys(IDS[:3], 1),
        **dict.fromkeys(IDS[3:], 0),
    }
    number = len(bed.attempts)
    assert bed.ask(IDS[0], IDS[-1], rerun_completed=True).did == "finished_before"
    finish(bed)
    assert len(bed.attempts) == number


def test_what_is_completed_already_is_left_alone() -> None:
    bed = made()
    bed.ask(IDS[2], IDS[3])
    finish(bed)
    asked = bed.ask(IDS[0], IDS[-1]).view.backfill.record
    assert (asked.total, asked.to_run, asked.standing) == (6, 4, 2)
    finish(bed)
    assert begun(bed) == [*IDS[2:4], *IDS[:2], *IDS[4:]]


def test_what_a_person_made_up_and_had_rerun_is_not_counted_as_a_scheduled_one() -> None:
    bed = made()
    bed.clock.takes(7)
    report = trigger.run(bed.app(), RunRequest(NAME, now=True, actor="bob", reason="now"))
    bed.rerun(report.intervals[0].interval)
    bed.clock.takes(60)
    asked = bed.ask(IDS[0], "latest").view.backfill.record
    assert (asked.to_run, asked.standing, asked.opened) == (asked.total, 0, 0)


def test_what_it_has_still_to_see_is_not_pruned() -> None:
    bed = made(max_wait=timedelta(0))
    bed.ask(IDS[3], IDS[4])
    finish(bed)
    bed.keep = timedelta(days=1)
    bed.clock.takes(2 * 86400)
    bed.ask(IDS[0], IDS[-1], "1/h")
    bed.knock()
    pruning.prune(bed.app())
    finish(bed, seconds=3601)
    assert Counter(begun(bed)) == Counter(IDS)
    pruning.prune(bed.app())
    assert sorted(bed.records()) == [*IDS[:3], IDS[5]], "then it may be"


def test_while_the_job_is_paused_triggers_begin_nothing_of_it_and_who_waits_for_it_does() -> None:
    bed = made()
    bed.ask(IDS[0], IDS[3], "2/m")
    pausing.pause(bed.app(), ActRequest(NAME, actor="bob", reason="disk swap"))
    assert bed.knock().outcome == "paused"
    assert begun(bed) == []
    assert bed.stay(IDS[0], IDS[3]).did == "finished"
    assert begun(bed) == IDS[:4]


def test_by_a_clock_that_was_put_back_nothing_of_the_future_is_begun() -> None:
    bed = made()
    bed.harness.clock.step(3600)
    last = "2026-11-30T03:10Z"
    bed.ask("2026-11-30T02:28Z", last)
    bed.harness.clock.step(-3600)
    bed.knock()
    assert max(begun(bed)) == "2026-11-30T02:30Z"
    bed.clock.takes(3600)
    finish(bed)
    assert begun(bed)[-1] == last
    assert len(begun(bed)) == len(set(begun(bed))) == 43


def test_another_one_is_refused_while_one_runs() -> None:
    bed = made()
    bed.ask(IDS[0], IDS[2])
    with pytest.raises(UsageError, match="has a backfill already: #1"):
        bed.ask(IDS[0], IDS[3])


def test_one_that_fails_is_tried_again_and_holds_up_none() -> None:
    bed = made()
    bed.fails = {IDS[1]}
    report = bed.stay(IDS[0], IDS[3])
    assert report.did == "goes_on"
    assert report.report.outcome == "failed"
    assert bed.applied == [IDS[0], IDS[2], IDS[3]]
    bed.fails = set()
    bed.clock.takes(3600)
    finish(bed)
    assert sorted(bed.applied) == IDS[:4]


# --- its rate


def test_no_minute_holds_more_starts_than_the_rate_over_kills_and_processes() -> None:
    bed = made()
    ids = minutes(0, 100)
    bed.ask(ids[0], ids[-1], "10/m")
    for number in range(1, 500):
        if bed.is_over():
            break
        bed.knock(kill_at=number % 29)
        bed.clock.takes(number % 7)
    assert bed.is_over()
    at = [one.at for one in bed.attempts]
    assert len(at) > 100, "some were killed, and are counted too"
    assert most_in(MINUTE, at) == 10
    assert (max(at) - min(at)) < 20 * MINUTE
    assert states(bed) == dict.fromkeys(ids, "completed")


def test_a_rate_is_changed_and_paused_while_it_runs() -> None:
    bed = made(max_wait=timedelta(0))
    ids = minutes(0, 20)
    bed.ask(ids[0], ids[-1], "2/h")
    report = bed.knock()
    assert (report.outcome, report.left, report.backfill) == ("waiting", 18, 1)
    bed.change("0")
    assert bed.knock().outcome == "nothing_due"
    bed.clock.takes(7200)
    assert bed.knock().outcome == "nothing_due"
    bed.change("5/h")
    bed.knock()
    assert len(bed.attempts) == 7
    bed.ask(ids[0], ids[-1], "100/h")
    finish(bed)
    assert begun(bed) == ids


def test_a_new_backfill_and_the_job_s_catch_up_evade_no_rate() -> None:
    bed = made(catch_up=CatchUpConfig("all", rate=None), max_wait=timedelta(0))
    bed.ask(IDS[0], IDS[1], "2/m")
    finish(bed, seconds=1)
    more = minutes(30, 4)
    bed.ask(more[0], more[-1], "2/m")
    finish(bed, seconds=1)
    assert most_in(MINUTE, [one.at for one in bed.attempts]) == 2


def test_in_the_foreground_it_is_waited_for_and_a_signal_leaves_it_to_triggers() -> None:
    bed = made()
    ids = minutes(0, 12)
    report = bed.stay(ids[0], ids[-1], "5/m")
    assert (report.did, bed.clock.now() - NOW) == ("finished", 2 * MINUTE)
    more = minutes(20, 12)
    left = bed.stay(more[0], more[-1], "5/m", signal_at=30)
    assert (left.did, left.report.outcome) == ("goes_on", "interrupted")
    finish(bed)
    assert list(dict.fromkeys(begun(bed))) == [*ids, *more]


# --- its share


def live(most: int, **fields: Any) -> Bed:
    """An interval comes due each minute, and one takes nearly all of it."""
    bed = made(start=AT_ONCE, max_intervals=most, **fields)
    bed.takes = 59
    return bed


@pytest.mark.parametrize("most", [1, 3, 50])
def test_live_intervals_all_the_time_leave_it_every_fourth_place_and_wait_for_one_at_most(
    most: int,
) -> None:
    bed = live(most)
    ids = minutes(0, 8)
    bed.ask(ids[0], ids[-1])
    for _ in range(40):
        if bed.is_over():
            break
        bed.knock()
    own = [number for number, one in enumerate(bed.attempts) if one.trigger == "backfill"]
    assert [bed.attempts[number].interval for number in own] == ids
    assert all(1 < after - before <= 4 for before, after in pairwise(own))


def test_a_live_one_that_comes_due_while_the_rate_is_waited_for_is_not_kept_waiting() -> None:
    bed = made(start=AT_ONCE + MINUTE)
    bed.ask(IDS[0], IDS[-1], "1/h")
    bed.knock()
    bed.clock.takes(20)
    bed.knock()
    first, *_ = [one for one in bed.attempts if one.trigger == "schedule"]
    assert first.at - (AT_ONCE + MINUTE) < timedelta(seconds=1)


# --- giving it up


def test_cancelled_at_any_moment_each_ends_once_and_can_be_worked_later() -> None:
    kill_at, died = 0, True
    while died:
        kill_at += 1
        bed = made(max_intervals=2)
        bed.ask(IDS[0], IDS[-1])
        bed.knock()
        bed.knock(kill_at=4)
        died = bed.cancel(kill_at=kill_at) is None
        finish(bed)
        found = states(bed)
        given_up = died and found[IDS[-1]] == "completed"
        if not given_up:
            assert found == {
                **dict.fromkeys(IDS[:2], "completed"),
                **dict.fromkeys(IDS[2:], "skipped"),
            }
            assert {record.reason for record in bed.records().values()} == {None, "operator"}
    assert kill_at > 3
    assert bed.rerun(IDS[4]).outcome == "completed"
    assert bed.ask(IDS[0], IDS[-1]).view.backfill.record.number == 2
    finish(bed)
    assert states(bed) == dict.fromkeys(IDS, "completed")


def test_one_that_was_partly_applied_ends_failed() -> None:
    bed = made()
    bed.ask(IDS[0], IDS[2])
    bed.fails = {IDS[0]}
    bed.knock(kill_at=8)
    bed.cancel()
    found = bed.records()
    assert (found[IDS[0]].state, found[IDS[0]].reason) == (State.SKIPPED, "operator")
    assert bed.is_over()

    bed = made()
    bed.ask(IDS[0], IDS[2])
    while "checkpoint_saved" not in bed.steps:
        bed.knock(kill_at=7)
    bed.cancel()
    found = bed.records()
    assert (found[IDS[0]].state, found[IDS[0]].reason) == (State.FAILED, "cancelled")
    assert bed.rerun(IDS[0]).outcome == "completed"


def test_a_long_rest_is_one_span_of_which_each_can_be_worked() -> None:
    bed = made()
    bed.job = bed.job._replace(schedule="* * * * *")
    first, last = "2026-06-10T00:00Z", "2026-11-30T00:00Z"
    tracemalloc.start()
    asked = bed.ask(first, last, "0")
    bed.cancel()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert asked.view.left == 249_121
    assert peak < 4_000_000
    (span,) = bed.records().values()
    assert (span.id, span.span, span.state) == (first, 249_121, State.SKIPPED)
    middle = "2026-08-01T12:00Z"
    assert bed.rerun(middle).outcome == "completed"
    found = bed.records()
    assert sum(record.span for record in found.values()) == 249_121
    assert found[middle].state is State.COMPLETED
    assert bed.rerun(first).outcome == "completed"
    assert bed.rerun(last).outcome == "completed"
    assert sorted(record.span for record in bed.records().values())[:3] == [1, 1, 1]


@pytest.mark.parametrize("asks_first", [False, True])
def test_what_triggers_skip_as_one_is_filled_in(asks_first: bool) -> None:
    bed = made(
        start=AT_ONCE - 200 * MINUTE,
        catch_up=CatchUpConfig("all", timedelta(minutes=2)),
        max_intervals=2,
    )
    ids = minutes(60, 3)
    if asks_first:
        bed.ask(ids[0], ids[-1])
        assert bed.knock().outcome == "completed"
    else:
        bed.knock()
        assert max(record.span for record in bed.records().values()) > 100
        bed.ask(ids[0], ids[-1])
    finish(bed, seconds=0)
    found = bed.records()
    assert [found[id_].state for id_ in ids] == [State.COMPLETED] * 3
    assert sum(record.span for record in found.values()) == 201
    assert set(Counter(begun(bed)).values()) == {1}


def test_what_the_policy_skips_in_the_very_decision_that_would_begin_it_is_begun_after() -> None:
    bed = made(
        start=AT_ONCE - 300 * MINUTE,
        schedule="0 * * * *",
        deadline=15 * MINUTE,
        catch_up=CatchUpConfig("none"),
    )
    ids = [f"2026-11-30T0{hour}:00Z" for hour in (0, 1, 2)]
    bed.ask(ids[0], ids[-1])
    assert bed.knock().outcome == "completed"
    assert begun(bed) == ids
    assert bed.is_over()


# --- where a newer one has the last word


def one_truth(**fields: Any) -> Bed:
    work = EntitlementsConfig(
        SourceConfig("csv", "/{interval}.csv"), TargetConfig("sql", "sqlite:///x", "t")
    )
    return made(work=work, **fields)


def test_all_too_old_is_refused_and_some_are_told_of_and_end_untried() -> None:
    bed = one_truth()
    bed.ask(IDS[3], IDS[3])
    finish(bed)
    with pytest.raises(OldOverNew, match="all 3 intervals"):
        bed.ask(IDS[0], IDS[2])
    assert len(bed.records()) == 1, "nothing is registered"
    bed.ask(IDS[0], IDS[-1])
    finish(bed)
    assert begun(bed) == IDS[3:]
    found = bed.records()
    assert {found[id_].reason for id_ in IDS[:3]} == {"overtaken"}
    assert {found[id_].state for id_ in IDS[:3]} == {State.FAILED}


def test_a_live_one_overtakes_the_rest_which_ends_untried() -> None:
    bed = one_truth(start=AT_ONCE + MINUTE, max_intervals=2)
    bed.ask(IDS[0], IDS[-1])
    bed.knock()
    bed.clock.takes(61)
    finish(bed)
    found = bed.records()
    assert Counter(found[id_].reason for id_ in IDS) == {None: 2, "overtaken": 4}


@pytest.mark.parametrize(
    ("source", "schedule", "says"),
    [("/live.csv", "* * * * *", "live source"), ("/{interval}.csv", None, "on demand")],
)
def test_a_job_that_has_no_past_is_refused(source: str, schedule: str | None, says: str) -> None:
    target = TargetConfig("sql", "sqlite:///x", "t")
    work = EntitlementsConfig(SourceConfig("csv", source), target)
    bed = made(work=work, schedule=schedule)
    with pytest.raises(UsageError, match=says):
        bed.ask(IDS[0], IDS[1])


@pytest.mark.parametrize(
    ("first", "last", "says"),
    [
        (IDS[1], IDS[0], "later than"),
        (IDS[0], "2026-12-01T00:00Z", "in the future"),
        ("2026-11-30T00:00:30Z", IDS[1], "not on the schedule"),
    ],
)
def test_bounds_that_are_none_are_refused(first: str, last: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        made().ask(first, last)


# --- anything in any order

ACTS = ("knock", "knock", "die", "die", "later", "ask", "rerun", "cancel", "rate", "pause", "fail")


@settings(max_examples=400 if LONG else 25)
@given(
    st.lists(st.tuples(st.sampled_from(ACTS), st.integers(1, 40)), max_size=60 if LONG else 25),
    st.booleans(),
)
def test_whatever_happens_each_ends_once_and_the_rate_holds(
    acts: list[tuple[str, int]], has_live: bool
) -> None:
    bed = made(start=AT_ONCE if has_live else AT_ONCE + 90000 * MINUTE, max_intervals=3)
    ids, asked = minutes(0, 7), set()
    reruns: Counter[str] = Counter()
    for act, number in acts:
        if act == "ask":
            first, last = sorted((number % 7, number // 7 % 7))
            with suppress(UsageError):
                bed.ask(ids[first], ids[last], "3/m")
                asked |= set(ids[first : last + 1])
        elif act == "rerun":
            with suppress(UsageError):
                bed.rerun(ids[number % 7])
                reruns[ids[number % 7]] += 1
        else:
            _ACTS[act](bed, number)
    bed.fails = set()
    if not bed.is_over():
        bed.change("3/m")
    bed.clock.takes(7200)
    finish(bed, seconds=25)
    bed.knock()
    found = bed.records()
    assert asked <= found.keys()
    assert all(found[id_].state.is_final for id_ in asked)
    own = [one for one in bed.attempts if one.trigger == "backfill"]
    assert most_in(MINUTE, [one.at for one in own]) <= 3
    for id_ in asked:
        done = bed.completions(id_)
        assert done <= 1 + reruns[id_], id_
        assert (done > 0) == (found[id_].state is State.COMPLETED)


def _fail(bed: Bed, number: int) -> None:
    bed.fails = {minutes(0, 7)[number % 7]}


_ACTS: dict[str, Callable[[Bed, int], Any]] = {
    "knock": lambda bed, _: bed.knock(),
    "die": lambda bed, number: bed.knock(kill_at=number),
    "later": lambda bed, number: bed.clock.takes(number * 5),
    "cancel": lambda bed, number: bed.cancel(kill_at=number),
    "rate": lambda bed, number: bed.change(f"{number % 3 + 1}/m"),
    "pause": lambda bed, _: bed.change("0"),
    "fail": _fail,
}


def test_the_window_is_counted_as_it_should_be() -> None:
    at = [NOW + timedelta(seconds=s) for s in (0, 59, 60, 61)]
    assert most_in(MINUTE, at) == 3
