"""A backfill by real processes: killed at every step, and three at once on one server."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from support.backfills import most_in
from support.forks import DRIVERS
from support.postgres_server import fresh_name, shared_server
from support.scene import Ran, Scene, Table
from support.valkey import fresh_url, shared_url

if TYPE_CHECKING:
    import subprocess

LONG = bool(os.environ.get("RECONCILE_TEST_LONG"))
TODAY = datetime.now(UTC).date()
NIGHTS = [str(TODAY - timedelta(days=ago)) for ago in range(9, 0, -1)]
JOB = ("backfill", "entitlements")
SPAN = ("--from", NIGHTS[0], "--to", NIGHTS[-1])
GUARDS = '[jobs.entitlements.guards]\nmax_update = "100%"\n'
WHY = ("-m", "new column, OPS-9", "--actor", "alice")
TABLES: list[Table] = [
    {(f"acct-{n}", "seats"): str(night) for n in range(4)} for night in range(len(NIGHTS))
]


class Kept(Scene):
    """Nights of long ago, whose job begins tomorrow."""

    variables: ClassVar[dict[str, str]] = DRIVERS


def scene(folder: Path, url: str = "") -> Kept:
    store = f'[store]\nurl = "{url}"\n' if url else ""
    made = Kept(folder, start=str(TODAY + timedelta(days=1)), extra=store)
    text = (folder / "reconcile.toml").read_text()
    (folder / "reconcile.toml").write_text(text + GUARDS)
    for night, table in zip(NIGHTS, TABLES, strict=True):
        made.write_night(night, table)
    return made


def intervals(scene: Scene) -> list[dict[str, Any]]:
    found = scene.run("status", "entitlements", "--json").json()["intervals"]
    return sorted(found, key=lambda one: str(one["interval"]))


def check(scene: Scene, killed: int = 0) -> list[dict[str, Any]]:
    """Each night was completed once, in order, and each change is logged once."""
    found = intervals(scene)
    assert [one["interval"] for one in found] == NIGHTS
    assert {(one["state"], one["rerun"], one["trigger"]) for one in found} == {
        ("completed", 0, "backfill")
    }
    assert sum(one["runs"] for one in found) <= len(NIGHTS) + killed
    before: Table = {}
    for night, table in zip(NIGHTS, TABLES, strict=True):
        log = scene.log(night)
        assert len(log) == len(set(log)) == len(table)
        before = table
    assert scene.rows() == before
    return found


STEPS = (
    "backfill_asked",
    "lease_acquired",
    "fence_raised",
    "run_opened",
    "checkpoint_saved",
    "range_committed",
    "target_completed",
    "interval_completed",
    "released",
    "backfill_ended",
)
FEW = ("run_opened", "range_committed", "backfill_ended")


@pytest.mark.parametrize("step", STEPS if LONG else FEW)
def test_killed_at_a_step_the_same_call_goes_on(tmp_path: Path, step: str) -> None:
    made = scene(tmp_path / "a")
    count = 1 if step in ("lease_acquired", "released") or step.startswith("backfill") else 2
    dead = made.run(*JOB, *SPAN, *WHY, step=f"{step}:{count}:SIGKILL")
    assert dead.code == -9
    again = made.run(*JOB, *SPAN, *WHY)
    assert again.code == 0, again.err
    check(made, killed=1)
    asked = made.run("status", "entitlements", "--json").json()["acts"]
    assert sum(one["type"] == "backfill_asked" for one in asked) == 1


SERVERS: dict[str, Callable[[], str]] = {
    "postgres": lambda: shared_server().url(fresh_name("backfill")),
    "valkey": lambda: fresh_url(shared_url()),
}


@pytest.fixture(params=SERVERS)
def url(request: pytest.FixtureRequest) -> str:
    return SERVERS[request.param]()


def test_three_processes_at_once_work_each_night_once_and_never_beyond_the_rate(
    tmp_path: Path, url: str
) -> None:
    made = scene(tmp_path / "a", url)
    call = (*JOB, *SPAN, "--rate", "3/s", *WHY)
    first = made.start_process(*call, step="checkpoint_saved:5:SIGKILL")
    others: list[subprocess.Popen[str]] = [made.start_process(*call) for _ in range(2)]
    ended: list[Ran] = [made.end(process) for process in (first, *others)]
    assert [ran.code for ran in ended[1:]] == [0, 0], ended
    found = check(made, killed=1)
    at = [datetime.fromisoformat(one["started_at"]) for one in found]
    assert most_in(timedelta(seconds=1), at) <= 3
