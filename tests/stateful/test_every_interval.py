"""Every intended interval has one record, one final state and a cause, whatever happened.

A job lives through random triggers: knocks after downtimes of minutes to days, killed at random
points; work that fails; pauses, reruns, intervals of now and skips by hand; schedules and time
zones that are edited; backfills, left to triggers or stayed for. Its intervals have rows of their
own, or one truth, which an older one would undo, or a source that tells that of now. What was
intended is found by code that shares nothing with the project (`support/occurrences.py`), from
what was configured and asked for when. In the end the records are exactly that, span by span, and
each has a cause that the log of what really happened bears out.

The suite lives through as many triggers as fit into a few seconds; RECONCILE_TEST_LONG=1 through
10,000 in each of the four worlds, some minutes each; RECONCILE_TEST_TRIGGERS says how many, and
RECONCILE_TEST_SEED chooses another life.
"""

from __future__ import annotations

import os
import random
from bisect import bisect_left
from datetime import datetime, timedelta

import pytest
from support.filling import Filling
from support.lives import DAY, MINUTE, PLANS, START, Life, Pause
from support.nights import Killed
from support.sides import JOB

from reconcile.core.errors import SourceUnreachable
from reconcile.core.model import State
from reconcile.core.operations.application import RunRequest
from reconcile.core.operations.trigger import run
from reconcile.core.records import IntervalRecord

LONG = bool(os.environ.get("RECONCILE_TEST_LONG"))
TRIGGERS = int(os.environ.get("RECONCILE_TEST_TRIGGERS") or (10_000 if LONG else 240))


def check(life: Life, filling: Filling | None = None) -> None:
    """The records are what was intended, and each has its cause."""
    filling = filling or Filling(life)
    filling.check()
    intended = life.intended()
    records = life.records()
    assert len({record.id for record, _ in records}) == len(records), "ids are unique"
    every = {*intended, *filling.past()}
    left = set(every)
    for record, written_at in records:
        at = record.scheduled_at
        assert record.state.is_final
        if record.span > 1:
            assert record.until_at is not None
            covered = {one for one in left if at <= one <= record.until_at}
            assert len(covered) == record.span, "a span stands for as many as it says"
            left -= covered
            life.seen["span"] += 1
        elif at not in every:
            assert life.was_asked_for(record), f"{at} was never intended"
        else:
            assert at in left, f"{at} has two records"
            left.remove(at)
        for one in (at, *([record.until_at] if record.until_at else [])):
            bears_out(life, filling, intended, record, one, written_at)
        life.seen[str(record.reason or record.state)] += 1
        if at < START and record.reason == "operator":
            life.seen["given up"] += 1
    assert left == set(), "an intended interval has no record"
    if life.truth == "one":
        assert life.done == sorted(life.done), "old never overwrites new"


def bears_out(
    life: Life,
    filling: Filling,
    intended: list[datetime],
    record: IntervalRecord,
    at: datetime,
    written: datetime,
) -> None:
    """Whether the cause on record is what really happened."""
    log, reason = life.log[at], record.reason
    fell = [pause for pause in life.pauses if pause.at < at <= (pause.end or life.now)]
    scheduled = at in intended[bisect_left(intended, at) :][:1]
    held = scheduled and any(not one.catch_up and at < newest_in(one, intended) for one in fell)
    asked_for = at in life.touched or any(at in one.instants for one in filling.asked)
    assert reason == "paused" or not held or asked_for, "a pause leaves only its newest"
    assert at >= START or reason in {None, "attempts", "operator", "overtaken"}, "it was asked for"
    if record.state is State.COMPLETED:
        assert "done" in log
        assert reason is None
    elif reason == "overtaken":
        assert record.state is State.FAILED
        assert life.is_overtaken(at, written)
    elif record.state is State.FAILED:
        assert reason == "attempts"
        assert log.count("failed") >= 2
        assert "done" not in log
    elif reason == "paused":
        assert log == []
        assert held
        if any(one.again is not None and at < one.again for one in fell):
            life.seen["paused on"] += 1
    elif reason == "superseded":
        assert life.policy == "latest"
        assert "saved" not in log, "one with a checkpoint is finished"
        assert any(at < newer <= written for newer in intended)
    elif reason == "catch_up_window":
        assert log == []
        assert at < written - life.window
    else:
        assert reason == "operator"
        assert at in life.given_up or filling.given_up(at)


def newest_in(pause: Pause, intended: list[datetime]) -> datetime:
    assert pause.end is not None
    return max(one for one in intended if pause.at < one <= pause.end)


KNOCKS = 1000 if LONG else 60


@pytest.mark.parametrize("seed", range(3 if LONG else 1))
def test_days_of_calls_a_little_early_or_late_are_days_each_worked_once(seed: int) -> None:
    life = Life(random.Random(seed), "latest", trouble=False)
    life.plan = PLANS[1]
    life.clock.advance(2.5 * 3600 + 30)
    for day in range(KNOCKS):
        due = START + day * DAY + timedelta(hours=2.5)
        at = due + timedelta(seconds=life.rng.uniform(-1, 90))
        life.clock.advance(max(0.0, (at - life.now).total_seconds()))
        life.call(lambda app: run(app, RunRequest(JOB)))
        life.clock.advance(600)
        life.call(lambda app: run(app, RunRequest(JOB)))
    check(life)
    assert [log.count("done") for log in life.log.values()] == [1] * KNOCKS


@pytest.mark.parametrize("kills", [0.0, 0.2])
@pytest.mark.parametrize("seed", range(20 if LONG else 1))
def test_a_clock_that_is_put_back_by_minutes_repeats_and_loses_nothing(
    seed: int, kills: float
) -> None:
    life = Life(random.Random(seed), "all", trouble=False)
    life.plan = PLANS[4]
    for _ in range(KNOCKS // 2):
        life.clock.advance(life.rng.randrange(5, 25) * 60)
        life.call(lambda app: run(app, RunRequest(JOB)), dies=life.rng.random() < kills)
        if life.rng.random() < 0.6:
            life.clock.step_wall_clock(-5 * MINUTE)
            life.call(lambda app: run(app, RunRequest(JOB)))
    life.clock.advance(600)
    life.settle()
    check(life)
    again = sum(log.count("begun") - 1 for log in life.log.values())
    assert again <= life.seen["kill"], "kills alone repeat"


@pytest.mark.parametrize("policy", ["all", "latest"])
@pytest.mark.parametrize("seed", range(10 if LONG else 1))
def test_a_clock_that_was_far_ahead_once_claims_and_poisons_nothing(seed: int, policy: str) -> None:
    life = Life(random.Random(seed), policy, trouble=False)
    for _ in range(20):
        life.clock.advance(3600 * life.rng.randrange(1, 20))
        life.knock()
    before = life.log.copy()
    life.clock.step_wall_clock(300 * DAY)
    life.call(lambda app: run(app, RunRequest(JOB)), dies=life.rng.random() < 0.5)
    life.clock.step_wall_clock(-300 * DAY)
    ahead = life.log.keys() - before.keys()
    for _ in range(20):
        life.clock.advance(3600 * life.rng.randrange(1, 20))
        life.knock()
    life.settle()
    records = [pair for pair in life.records() if pair[0].scheduled_at <= life.now]
    later = [record for record, _ in life.records() if record.scheduled_at > life.now]
    assert {record.state for record in later} <= {State.PENDING}
    life.records = lambda: records  # type: ignore[method-assign]
    check(life)
    assert all(at > life.now or life.log[at].count("done") == 1 for at in ahead)


def test_what_had_failed_before_is_not_called_done_where_a_kill_keeps_the_end_of_a_newer_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The target knows that the second night is completed, and the store does not yet."""
    life = Life(random.Random(0), "all", "one", trouble=False)
    life.plan = PLANS[1]
    faults = [SourceUnreachable("away"), SourceUnreachable("away"), None]

    def dies(step: str) -> None:
        if step == "target_completed":
            life.died.add(life.started)
            raise Killed

    monkeypatch.setattr(life, "fault", lambda: faults.pop(0))
    monkeypatch.setattr(life, "reached", dies)
    for hours in (3, 24):
        life.clock.advance(hours * 3600)
        life.call(lambda app: run(app, RunRequest(JOB)))
    assert (faults, life.done) == ([], [START + timedelta(days=1, hours=2.5)])
    monkeypatch.undo()
    life.settle()
    check(life)
    (first, _), (second, _) = life.records()
    assert (first.state, first.reason) == (State.FAILED, "overtaken")
    assert (second.state, second.reason) == (State.COMPLETED, None)


SEED = os.environ.get("RECONCILE_TEST_SEED")


@pytest.mark.timeout(3 * 3600 if LONG else 600)
@pytest.mark.parametrize(
    ("policy", "truth", "seed"),
    [("all", "own", 2), ("latest", "own", 8), ("all", "one", 11), ("latest", "live", 6)],
)
def test_the_records_are_the_intended_intervals_each_with_its_cause(
    policy: str, truth: str, seed: int
) -> None:
    life = Life(random.Random(int(SEED or seed)), policy, truth)
    filling = Filling(life)
    for _ in range(TRIGGERS):
        life.live()
    filling.settle()
    check(life, filling)
    expected = {"held back", "completed", "paused", "kill", "knock", "edit", "named"}
    expected.add("superseded" if policy == "latest" else "catch_up_window")
    if truth == "own":
        expected |= {"ask", "backfilled", "filled in", "cancelled", "again: goes_on"}
        if TRIGGERS < 1000:  # later backfills work what an earlier one has left
            expected.add("given up")
        expected |= {"stayed", "rerun", "one_of_now"}
        expected |= {"span", "left alone"} if policy == "latest" else {"attempts"}
    else:
        expected.add("paused on")
    if truth == "one":
        expected |= {"filled in", "old_over_new", "overtaken"}
    assert expected <= life.seen.keys(), expected - life.seen.keys()
