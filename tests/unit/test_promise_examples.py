"""Examples in which a promise was once broken, as the state machine found them, or as it showed
where to look (`tests/stateful/test_promises.py`)."""

from __future__ import annotations

import pytest
from support.settling import (
    Build,
    approve,
    each_due_interval_has_one_record,
    knock,
    knocked,
    of,
    operator,
    records,
    waiting,
    work_off,
    worlds,
)
from support.sides import JOB
from support.signatures import OPERATOR, is_signed
from support.world import DAY

from reconcile.core.errors import FencedOut
from reconcile.core.model import Kind, LeaseKey, Outcome, State

build = pytest.fixture(worlds)


def test_what_was_found_equal_is_compared_again_after_an_older_night_changed_it(
    build: Build,
) -> None:
    world = build(of("ab", "x"), of("b", "x"), of("ab", "x"))
    knocked(world)
    world.advance(2 * DAY)
    killed = world.start(knock)
    killed.cut = "cut"
    killed.go("judged")
    killed.die()
    assert [r.cursor is not None for r in records(world)] == [True, False, True]
    world.advance(305)
    knocked(world)
    assert [record.state for record in records(world)] == [State.COMPLETED] * 3
    assert world.target.rows() == of("ab", "x")


def test_revokes_that_come_up_range_by_range_add_up_before_the_guard(build: Build) -> None:
    world = build(of("ab", "x"))
    for account in "ab":
        world.somebody_writes((account, "x"), "2")
    process = world.start(knock)
    process.go("judged")
    for account in "ab":
        for name in "pq":
            world.somebody_writes((account, name), "1")
    process.go("end")
    assert process.main.result.outcome is Outcome.NEEDS_APPROVAL
    assert process.main.result.guard.guard == "max_revoke"
    assert world.target.rows() == of("a", "x") | of("b", "pq") | of("b", "x", "2")


def test_what_a_killed_run_committed_and_did_not_tell_counts_before_the_guard(
    build: Build,
) -> None:
    world = build(of("a", "x") | of("b", "pq"))
    for key in of("ab", "pq"):
        world.somebody_writes(key, "1")
    killed = world.start(knock)
    killed.go("range_committed")
    killed.die()
    world.rewrite("2026-11-28", of("ab", "x"))
    report = knocked(world)
    assert report.outcome is Outcome.NEEDS_APPROVAL
    (record,) = records(world)
    assert (record.grant, record.revoke) == (1, 2)
    assert world.target.rows() == of("a", "x") | of("b", "pq")


def test_a_span_recovered_under_a_clock_that_was_ahead_leaves_no_night_a_second_record(
    build: Build,
) -> None:
    world = build(of("a"))
    world.set_clock(2 * DAY)
    knocked(world)
    world.wipe_store()
    world.set_clock(0.0)
    for _ in range(4):
        knocked(world)
        each_due_interval_has_one_record(world)
        world.advance(DAY)


def test_the_last_night_of_a_recovered_span_is_worked_again_under_a_record_of_its_own(
    build: Build,
) -> None:
    world = build(of("a"), of("ab"), missed=2)
    nothing = world.copy("target")
    knocked(world)
    world.wipe_store()
    world.advance(DAY)
    killed = world.start(knock)
    killed.go("recovered")
    killed.die()
    assert [record.span for record in records(world)] == [3]
    world.put_back("target", nothing)
    knocked(world)
    each_due_interval_has_one_record(world)
    assert [(r.id, r.span, r.rerun) for r in records(world)] == [
        ("2026-11-28", 2, 0),
        ("2026-11-30", 1, 1),
        ("2026-12-01", 1, 0),
    ]


def test_an_interval_resumed_under_a_clock_put_back_counts_its_runs_on(build: Build) -> None:
    world = build(of("a"), of(""), missed=1)
    knocked(world)
    resumed = approve(world, *waiting(world)[0])
    resumed.go("lease_acquired")
    world.set_clock(-3600.0)
    resumed.go("end")
    runs = world.store.peek().scan(Kind.RUN, JOB)
    assert [run.key[-6:] for run in runs] == ["000001", "000001", "000002"]
    assert {str(run.value["ending"]) for run in runs} == {"completed", "needs approval"}


def test_who_was_stopped_between_two_nights_does_not_go_on_with_what_he_had_decided(
    build: Build,
) -> None:
    world = build(of("a"), of("ab"), missed=1)
    stopped = world.start(knock)
    stopped.go("decided", 2)
    stopped.stopped = True
    world.advance(61)
    knocked(world)
    stopped.stopped = False
    stopped.go("end")
    assert isinstance(stopped.main.result, FencedOut)
    assert [(record.state, record.runs) for record in records(world)] == [(State.COMPLETED, 1)] * 2
    lease = world.store.peek().lease(LeaseKey(JOB))
    assert lease is not None
    assert lease.released


def test_what_was_to_be_resumed_by_hand_is_left_alone_once_a_span_stands_for_it(
    build: Build,
) -> None:
    world = build(of("a"), of(""), of("b"), missed=1)
    knocked(world)
    resumed = approve(world, *waiting(world)[0])
    resumed.go("store.acquire")
    world.advance(DAY)
    knocked(world)
    world.wipe_store()
    knocked(world)
    assert [(record.id, record.span) for record in records(world)] == [("2026-11-28", 3)]
    resumed.go("end")
    assert resumed.main.result[0].intervals == []
    each_due_interval_has_one_record(world)


def test_who_has_one_of_a_span_worked_again_signs_for_what_is_left_of_it(build: Build) -> None:
    world = build(of("a"), of("b"), of("ab"), missed=2)
    work_off(world)
    world.wipe_store()
    knocked(world)
    assert [(record.id, record.span) for record in records(world)] == [("2026-11-28", 3)]
    operator(world, "rerun", "latest").go("end")
    assert [(record.span, record.rerun, record.repair_owner) for record in records(world)] == [
        (2, 0, None),
        (1, 1, OPERATOR),
    ]
    (divided,) = [
        event.value
        for event in world.store.peek().scan(Kind.EVENT, JOB, limit=100)
        if event.value["type"] == "divided"
    ]
    assert is_signed(divided)
    assert (divided["of"], divided["span"]) == ("2026-11-28", 2)
    each_due_interval_has_one_record(world)


def test_a_run_whose_plan_went_with_the_store_is_fenced_out(build: Build) -> None:
    world = build(of("ab"))
    process = world.start(knock)
    process.go("judged")
    process.go("store.get")
    world.wipe_store()
    process.go("end")
    assert process.main.result.outcome is Outcome.FENCED_OUT
    assert world.target.rows() == {}
    work_off(world)
    assert world.target.rows() == of("ab")


def test_what_a_run_was_killed_before_it_could_tell_is_added_to_the_interval_s_last_closed_run(
    build: Build,
) -> None:
    world = build({}, {}, of("b", "x"), missed=2)
    world.somebody_writes(("a", "x"), "1")
    killed = world.start(knock)
    killed.go("range_committed")
    killed.die()
    world.advance(DAY)
    failed = world.start(knock)
    failed.go("run_opened")
    failed.fault = "request lost"
    failed.go("end")
    assert [record.revoke for record in records(world)] == [0, 0, 0, 0]
    approve(world, *waiting(world)[-1]).go("end")
    assert [record.revoke for record in records(world)] == [0, 0, 1, 1]
    runs = world.store.peek().scan(Kind.RUN, JOB, prefix="2026-11-30")
    assert [(run.value["ending"], run.value["revoked"]) for run in runs] == [
        ("abandoned", 0),
        ("failed", 1),
    ]


def test_a_range_that_a_killed_run_compared_again_is_told_by_the_next_and_is_not_its_own(
    build: Build,
) -> None:
    world = build(of("ab", "x"))
    world.somebody_writes(("a", "x"), "1")
    killed = world.start(knock)
    killed.go("judged")
    killed.die()
    world.somebody_writes(("a", "x"), None)
    world.advance(7200)
    killed = world.start(knock)
    killed.go("range_committed", 2)
    killed.die()
    assert knocked(world).outcome is Outcome.COMPLETED
    (record,) = records(world)
    assert record.grant == 2
    runs = [run.value for run in world.store.peek().scan(Kind.RUN, JOB)]
    assert [run.get("first_range") for run in runs] == [None, 2, None]
