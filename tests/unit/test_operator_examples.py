"""What operators do by hand in between, at the moments where it could break a promise; as the
state machine found them, or as it showed where to look (`tests/stateful/test_promises.py`)."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.fakes import FakeClock
from support.settling import (
    Build,
    approve,
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

from reconcile.core.errors import LeaseBusy, StoreUnreachable
from reconcile.core.model import ABSENT, Kind, Outcome, Put, State
from reconcile.core.operations.application import RunRequest
from reconcile.core.operations.trigger import run
from reconcile.stores.sqlite import SqliteStore

build = pytest.fixture(worlds)


def test_an_interval_is_not_skipped_while_its_holder_is_about_to_open_its_run(
    build: Build,
) -> None:
    world = build(of("a"))
    holder = world.start(knock)
    holder.go("fence_raised")
    skipper = operator(world, "skip", "2026-11-28")
    skipper.go("end")
    assert isinstance(skipper.main.result, LeaseBusy)
    holder.go("end")
    assert [record.state for record in records(world)] == [State.COMPLETED]


@pytest.mark.parametrize("far", [False, True])
def test_a_skip_fences_out_a_holder_that_was_stopped_with_a_run_open(
    build: Build, far: bool
) -> None:
    world = build(of("ab"))
    stopped = world.start(knock)
    stopped.go("judged")
    stopped.stopped = True
    early = operator(world, "skip", "2026-11-28", far=far)
    early.go("end")
    assert isinstance(early.main.result, LeaseBusy)
    world.advance(61)
    operator(world, "skip", "2026-11-28", far=far).go("end")
    (record,) = records(world)
    assert (record.state, record.reason, record.repair_owner) == (
        State.SKIPPED,
        "operator",
        OPERATOR,
    )
    stopped.stopped = False
    stopped.go("end")
    assert stopped.main.result.outcome is Outcome.FENCED_OUT
    assert world.target.rows() == {}
    (run,) = world.store.peek().scan(Kind.RUN, JOB)
    assert run.value["ending"] == "abandoned"


def test_a_skip_is_refused_while_another_interval_is_worked_and_a_run_of_this_one_is_open(
    build: Build,
) -> None:
    world = build(of("a"), of("b"), missed=1)
    killed = world.start(knock)
    killed.go("range_planned")
    killed.die()
    world.rewrite("2026-11-28", of("c"))
    other = world.start(lambda app: run(app, RunRequest(JOB, "2026-11-29")))
    other.go("lease_acquired")
    skipper = operator(world, "skip", "2026-11-28")
    skipper.go("end")
    assert isinstance(skipper.main.result, LeaseBusy)
    other.go("run_opened")  # which closes the killed one's run, behind the fence
    skipper = operator(world, "skip", "2026-11-28")
    skipper.go("end")
    assert records(world)[0].state is State.SKIPPED


def test_what_a_killed_run_applied_and_did_not_tell_is_not_called_skipped(build: Build) -> None:
    world = build(of("ab"))
    killed = world.start(knock)
    killed.go("range_committed")
    killed.die()
    (record,) = records(world)
    assert record.grant == 0
    operator(world, "skip", "2026-11-28").go("end")
    (record,) = records(world)
    assert (record.state, record.reason) == (State.FAILED, "cancelled")


def test_no_two_reruns_have_one_number(build: Build) -> None:
    world = build(of("ab"))
    knocked(world)
    for number in (1, 2):
        rerun = operator(world, "rerun", "2026-11-28")
        rerun.go("run_opened")
        rerun.die()
        assert [record.rerun for record in records(world)] == [number]
        operator(world, "skip", "2026-11-28").go("end")
        (record,) = records(world)
        assert (record.state, record.rerun, record.reruns) == (State.COMPLETED, 0, number)


@pytest.mark.parametrize("force", [False, True])
def test_a_stop_is_signed_before_it_is_done(build: Build, force: bool) -> None:
    world = build(of("ab"))
    holder = world.start(knock)
    holder.go("run_opened")
    stopper = operator(world, "stop", None, force=force)
    stopper.go("store.acquire" if force else "store.ask_stop")
    trail = world.store.peek().scan(Kind.EVENT, JOB)
    assert next(one.value for one in trail if is_signed(one.value))["type"] == "stop_asked"
    stopper.die()
    holder.go("end")
    assert holder.main.result.outcome is Outcome.COMPLETED


@pytest.mark.parametrize("force", [False, True])
def test_who_stopped_a_run_owns_the_repair_of_its_interval(build: Build, force: bool) -> None:
    world = build(of("ab"))
    holder = world.start(knock)
    holder.go("range_planned")
    stopper = operator(world, "stop", None, force=force)
    stopper.go("wait")
    world.advance(13)
    holder.go("end")
    stopper.go("end")
    (record,) = records(world)
    assert (record.state, record.repair_owner) == (State.UNFINISHED, OPERATOR)
    (run,) = world.store.peek().scan(Kind.RUN, JOB)
    assert run.value["ending"] == ("fenced out" if force else "interrupted")


def test_who_resumes_by_hand_owns_the_repair(build: Build) -> None:
    world = build(of("ab"))
    killed = world.start(knock)
    killed.go("range_planned")
    killed.die()
    operator(world, "resume", "2026-11-28").go("end")
    (record,) = records(world)
    assert (record.state, record.repair_owner) == (State.COMPLETED, OPERATOR)


def test_a_forced_stop_by_an_operator_who_finds_the_store_locked_is_signed_all_the_same(
    build: Build,
) -> None:
    world = build(of("ab"))
    holder = world.start(knock)
    holder.go("range_planned")
    stopper = operator(world, "stop", None, force=True)
    stopper.go("store.note")
    stopper.fault = "busy"
    stopper.go("end")
    assert stopper.main.result.forced
    trail = world.store.peek().scan(Kind.EVENT, JOB)
    assert [one.value["type"] for one in trail if is_signed(one.value)] == ["stop_asked"]
    holder.go("end")
    assert holder.main.result.outcome is Outcome.FENCED_OUT
    work_off(world)
    assert world.target.rows() == of("ab")


def test_a_rerun_that_came_too_late_leaves_the_completion_as_it_was_approved(
    build: Build,
) -> None:
    world = build(of("a", "x"), {}, of("b", "x"), missed=1)
    knocked(world)
    approve(world, *waiting(world)[0]).go("end")
    before = records(world)[1]
    assert before.approval is not None
    world.somebody_writes(("c", "x"), "1")
    operator(world, "rerun", "2026-11-29").go("end")
    assert records(world)[1].waiting is not None
    world.advance(DAY)
    knocked(world)
    after = records(world)[1]
    assert (after.state, after.rerun, after.reruns) == (State.COMPLETED, 0, 1)
    assert (after.checksum, after.approval) == (before.checksum, before.approval)
    assert world.target.rows() == of("b", "x")


def test_an_act_by_hand_that_was_decided_in_a_store_that_is_lost_is_not_done_in_the_next(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    path = tmp_path / "state.db"
    old = SqliteStore(path, clock=clock, boot_id="b", new_id=lambda: "one")
    note = [Put(Kind.INTERVAL, JOB, "2026-11-28T02:30:00Z", {"n": 1}, expect=ABSENT)]
    for name in ("state.db", "state.db-wal", "state.db-shm"):
        (tmp_path / name).unlink()
    new = SqliteStore(path, clock=clock, boot_id="b", new_id=lambda: "two")
    with pytest.raises(StoreUnreachable):
        old.note(note)
    assert new.scan(Kind.INTERVAL, JOB) == []
    for store in (old, new):
        store.close()
