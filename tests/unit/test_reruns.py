"""Reruns and other acts by hand: one after the other, each on record, and beside what is due."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.deciding import NIGHTLY, decided, job, record, utc
from support.settling import Build, knocked, of, operator, records, worlds
from support.sides import JOB
from support.signatures import OPERATOR, REASON

from reconcile.core.errors import LeaseBusy, UsageError, WriteConflict
from reconcile.core.model import Kind, Outcome, State, Trigger
from reconcile.core.operations.application import RunRequest
from reconcile.core.operations.recovery import reopened
from reconcile.core.operations.trigger import run
from reconcile.core.records import IntervalRecord

build = pytest.fixture(worlds)
NIGHT = "2026-11-28"


@pytest.mark.parametrize("at", ["lease_acquired", "fence_raised", "run_opened", "range_committed"])
def test_a_rerun_that_will_not_wait_for_another_is_refused_and_both_are_on_the_trail(
    build: Build, at: str
) -> None:
    world = build(of("ab"))
    knocked(world)
    world.rewrite(NIGHT, of("b"))
    first = operator(world, "rerun", NIGHT)
    first.go(at)
    second = operator(world, "rerun", NIGHT)
    second.go("end")
    assert isinstance(second.main.result, LeaseBusy), "nothing is done, and it is said who works"
    first.go("end")
    third = operator(world, "rerun", NIGHT)
    third.go("end")
    assert third.main.result.outcome is Outcome.COMPLETED
    trail = world.store.peek().scan(Kind.EVENT, JOB)
    signed = [event.value for event in trail if event.value["type"] == "rerun"]
    assert [(one["rerun"], one["actor"]) for one in signed] == [(1, OPERATOR), (2, OPERATOR)]
    (refused,) = [event.value for event in trail if event.value["type"] == "rerun_refused"]
    assert (refused["actor"], refused["reason"], refused["why"]) == (OPERATOR, REASON, "busy")
    runs = world.store.peek().scan(Kind.RUN, JOB)
    assert [(one.value["number"], one.value["ending"]) for one in runs] == [
        (1, "completed"),
        (2, "completed"),
        (3, "completed"),
    ]
    times = [(one.value["started_at"], one.value["ended_at"]) for one in runs]
    assert all(end <= begin for (_, end), (begin, _) in pairwise(times))


def test_of_two_that_ask_in_the_same_moment_one_is_told_that_nothing_was_done(
    build: Build,
) -> None:
    world = build(of("ab"))
    knocked(world)
    slow = operator(world, "rerun", NIGHT)
    slow.go("store.note")
    fast = operator(world, "rerun", NIGHT)
    fast.go("end")
    slow.go("end")
    assert isinstance(slow.main.result, WriteConflict)
    (found,) = records(world)
    assert (found.state, found.rerun) == (State.COMPLETED, 1)
    trail = world.store.peek().scan(Kind.EVENT, JOB)
    (refused,) = [event.value for event in trail if event.value["type"] == "rerun_refused"]
    assert (refused["actor"], refused["why"]) == (OPERATOR, "write_conflict")


@pytest.mark.parametrize("act", ["rerun", "skip", "resume"])
def test_a_night_to_come_is_refused_and_still_comes(build: Build, act: str) -> None:
    """The manual run took the identity of the next one, which was then skipped, elsewhere."""
    world = build(of("ab"), of("b"))
    knocked(world)
    early = operator(world, act, "2026-11-29")
    early.go("end")
    assert isinstance(early.main.result, UsageError)
    world.advance(86400)
    assert knocked(world).outcome is Outcome.COMPLETED
    assert [one.id for one in records(world)] == [NIGHT, "2026-11-29"]


def test_an_interval_of_now_obeys_the_lease_as_any_other(build: Build) -> None:
    world = build(of("ab"))
    holder = world.start(lambda app: run(app, RunRequest(JOB)))
    holder.go("run_opened")
    by_hand = world.start(lambda app: run(app, RunRequest(JOB, NIGHT)))
    by_hand.go("end")
    assert by_hand.main.result.outcome is Outcome.BUSY
    holder.go("end")


STATES = st.sampled_from(["none", "completed", "skipped", "failed"])


@given(
    states=st.lists(STATES, min_size=8, max_size=8),
    which=st.integers(0, 7),
    policy=st.sampled_from(["all", "latest", "none"]),
    begun=st.booleans(),
)
def test_a_rerun_never_changes_what_else_is_due(
    states: list[str], which: int, policy: str, begun: bool
) -> None:
    """The same records with and without a rerun of one of them, at any stage of it."""
    nights = list(NIGHTLY.between(utc("2026-11-22"), utc("2026-11-30")))
    plain = {
        at: record(at, State(state))
        for at, state in zip(nights, states, strict=True)
        if state != "none"
    }
    at = nights[which]
    if at not in plain:
        return
    rerun: IntervalRecord = reopened(plain[at], "alice")
    assert rerun.trigger is Trigger.RERUN
    if begun:
        rerun = record(at, rerun=1, trigger=Trigger.RERUN, runs=2, cursor={"phase": "planning"})
    with_it = decided(job(policy), *(plain | {at: rerun}).values(), now="2026-11-30T12:00",
                      since="2026-11-22")  # fmt: skip
    without = decided(job(policy), *plain.values(), now="2026-11-30T12:00", since="2026-11-22")
    ours = rerun.interval("j").key
    assert [d.interval for d in with_it.due if d.interval.key != ours] == [
        d.interval for d in without.due
    ]
    assert with_it.skips == without.skips
    assert with_it.next_due == without.next_due
