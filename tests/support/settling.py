"""What one healthy process makes of a `World` once all faults have stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from reconcile.core.errors import ReconcileError
from reconcile.core.events import RunReport
from reconcile.core.model import Kind, Outcome
from reconcile.core.operations.application import (
    ActRequest,
    Application,
    ResumeRequest,
    RunRequest,
)
from reconcile.core.operations.by_hand import resume
from reconcile.core.operations.interventions import skip, stop
from reconcile.core.operations.rerunning import rerun
from reconcile.core.operations.trigger import run
from reconcile.core.records import IntervalRecord

from .memory_target import MemoryTargetSide
from .processes import Process
from .sides import JOB, MemoryStoreSide, Table
from .signatures import OPERATOR, REASON
from .world import DAY, START, World

Build = Callable[..., World]


def worlds() -> Iterator[Build]:
    """For a fixture: makes the world of a test, with one account a range."""
    made: list[World] = []

    def one(*nights: Table, missed: int = 0) -> World:
        world = World(MemoryStoreSide, MemoryTargetSide, 1, [dict(night) for night in nights])
        world.advance(missed * DAY)
        made.append(world)
        return world

    yield one
    for world in made:
        world.close()


def of(accounts: str, names: str = "xy", level: str = "1") -> Table:
    """Each account with each of the entitlements."""
    return {(account, name): level for account in accounts for name in names}


def knock(app: Application) -> RunReport:
    """What cron calls."""
    return run(app, RunRequest(JOB))


def knocked(world: World) -> Any:
    """One trigger from its beginning to its end; what it says or raises."""
    process = world.start(knock)
    process.go("end")
    return process.main.result


def records(world: World) -> list[IntervalRecord]:
    """All intervals, read behind everybody's back."""
    found = world.store.peek().scan(Kind.INTERVAL, JOB)
    return [IntervalRecord.from_json(record.value) for record in found]


def waiting(world: World) -> list[tuple[str, str]]:
    """Intervals that wait for an approval, each with the hash to approve."""
    return [
        (record.id, str(record.waiting["hash"]))
        for record in records(world)
        if record.waiting and not record.approval and not record.state.is_final
    ]


def approve(world: World, interval: str, plan: str) -> Process:
    """`reconcile resume JOB INTERVAL --approve HASH`, about to begin."""
    request = ResumeRequest(JOB, interval, approve=plan, actor=OPERATOR, reason=REASON)
    return by_hand(world, lambda app: resume(app, request))


def by_hand(world: World, act: Callable[[Application], Any], *, far: bool = False) -> Process:
    """What an operator types, about to begin."""
    process = world.start(act, far=far)
    process.by_hand = True
    return process


def operator(
    world: World, verb: str, interval: str | None, *, far: bool = False, force: bool = False
) -> Process:
    """`reconcile rerun`, `skip`, `stop` or `resume` (approving nothing), about to begin."""
    if verb == "resume":
        asked = ResumeRequest(JOB, interval, actor=OPERATOR, reason=REASON)
        return by_hand(world, lambda app: resume(app, asked), far=far)
    acts = {"rerun": rerun, "skip": skip, "stop": stop}
    request = ActRequest(JOB, interval or "latest", OPERATOR, REASON, force=force)
    process = by_hand(world, lambda app: acts[verb](app, request), far=far)
    process.forces = force
    return process


def work_off(world: World) -> None:
    """One healthy process after another, until nothing is due."""
    report: Any = None
    for _ in range(60):
        report = knocked(world)
        if isinstance(report, RunReport) and report.outcome is Outcome.NOTHING_DUE:
            return
        for interval, plan in waiting(world):
            approve(world, interval, plan).go("end")
        if isinstance(report, ReconcileError) or report.outcome is not Outcome.COMPLETED:
            world.advance(305)
    raise AssertionError(f"promise 5: it never comes to an end: {report}")


def each_due_interval_has_one_record(world: World) -> None:
    """Promise 5."""
    found = records(world)
    at = START
    while at <= world.clock.now():
        having = [r for r in found if r.scheduled_at <= at <= (r.until_at or r.scheduled_at)]
        assert len(having) == 1, f"promise 5: {at} has {having}"
        assert having[0].state.is_final, f"promise 5: {having[0]}"
        at += timedelta(days=1)


def the_next_night(world: World) -> str:
    """Let it become later than all that was ever worked, a clock set wrong included."""
    known = [record.until_at or record.scheduled_at for record in records(world)]
    nights = max([world.clock.now(), *known, START + timedelta(days=3)]) - START
    last = START + timedelta(days=nights.days + 1)
    world.advance((last - world.clock.now()).total_seconds() + 60)
    return last.strftime("%Y-%m-%d")
