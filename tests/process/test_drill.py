"""`drill` on real stores: it holds, leaves nothing behind, and sees a bug that is put into the
program. Whole drills on each store, with each bug, by `RECONCILE_TEST_LONG=1`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import drilling
from support.fakes import eventually
from support.postgres_server import fresh_name, shared_server
from support.scene import ENVIRONMENT
from support.valkey import fresh_url, shared_url

from reconcile.core.operations.drill import NAMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.scene import Scene, Table

LONG = bool(os.environ.get("RECONCILE_TEST_LONG"))
STORES: dict[str, Callable[[], str]] = {
    "sqlite": lambda: "reconcile.db",
    "postgres": lambda: shared_server().url(fresh_name("drill")),
    "valkey": lambda: fresh_url(shared_url()),
}
MOST_SECONDS = 30


def scratch(scene: Scene) -> list[tuple]:  # type: ignore[type-arg]
    """What is in the store of scratch jobs: kinds, names and keys."""
    return scene.ask(
        scene.store, "SELECT kind, job, key FROM record WHERE job LIKE 'reconcile-drill%'"
    )


def users(scene: Scene) -> tuple[object, ...]:
    """All that is the user's: of the store, the target and the screens."""
    store = [line for line in scene.everything().splitlines() if "reconcile-drill" not in line]
    counted = [line for line in store if "'appended'" not in line]  # of all jobs together
    (job,) = scene.run("status", "--json").json()["jobs"]
    stands = {name: job[name] for name in ("state", "lease", "backlog", "last_completed")}
    figures = scene.run("status", "--metrics").out.splitlines()
    return counted, stands, [one for one in figures if "_age_" not in one]


def nothing_is_left(scene: Scene) -> None:
    assert scratch(scene) == []
    assert list((scene.folder / "tmp").iterdir()) == []


def test_the_smoke_job_of_the_examples_shows_that_all_promises_hold(tmp_path: Path) -> None:
    smoke = Path(__file__).parents[2] / "examples/smoke.sh"
    environ = {**ENVIRONMENT, "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    environ["PATH"] = f"{Path(sys.executable).parent}:{environ['PATH']}"
    done = subprocess.run(
        ["sh", smoke], env=environ, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    told = {line[2:20].rstrip(): line for line in lines if line.endswith("✓")}
    assert tuple(told) == NAMES
    assert "20 started together: 1 worked, 19 said 75, 1 generation" in told["one holder"]
    assert "resumed at 18; 1 range read twice, 0 changes twice" in told["killed at range 17"]
    assert "6 late writes, 6 refused" in told["stalled holder"]
    assert "1 run, 2 skipped (superseded), all 3 on record" in told["three nights down"]
    assert "500 of 1,000 rows; 0 changed" in told["half a source"]
    summed = re.fullmatch(r"7 of 7 hold, ([0-9.]+) s. Scratch area removed.", lines[-1])
    assert summed, done.stderr
    assert float(summed[1]) < MOST_SECONDS
    assert list(tmp_path.iterdir()) == []


def test_a_drill_touches_nothing_of_the_users_and_leaves_nothing(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, _ = second_night()
    before = users(scene)
    told = drilling.some(scene, "killed at range 17", "three nights down", "half a source")
    assert told["holds"] is told["removed"] is True
    assert users(scene) == before
    nothing_is_left(scene)


@pytest.mark.parametrize("bug", drilling.BUGS)
def test_a_bug_in_the_program_is_seen_and_its_promise_named(
    bug: str,
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    sees(second_night()[0], bug, drilling.BUGS[bug])


@pytest.mark.skipif(not LONG, reason="RECONCILE_TEST_LONG is not set")
@pytest.mark.parametrize("bug", drilling.MORE)
def test_each_rehearsal_can_fail(
    bug: str,
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    sees(second_night()[0], bug, drilling.MORE[bug])


def sees(scene: Scene, bug: str, what: drilling.Bug) -> None:
    """A drill of what it breaks names the promise."""
    needs = ["three nights down"] if what.name == "proof" else []
    told = drilling.some(scene, *needs, what.name, bug=bug)
    assert told["exit"] == 1
    found = told["rehearsals"][-1]
    assert (found["name"], found["promise"], found["verdict"]) == (
        what.name,
        what.promise,
        "failed",
    ), found
    assert what.evidence in found["evidence"]
    nothing_is_left(scene)


@pytest.mark.parametrize("store", ["postgres", "valkey"])
def test_a_server_as_the_store_is_rehearsed_with_too(
    store: str,
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, _ = second_night()
    drilling.keep_in(scene, STORES[store]())
    told = drilling.some(scene, "killed at range 17", "proof")
    assert told["exit"] == 0, told
    assert len(told["rehearsals"]) == 2


def test_a_holder_that_hangs_ends_before_its_lease_and_is_taken_over_after_it(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, _ = second_night()
    (found,) = drilling.some(scene, "no progress")["rehearsals"]
    still = found["figures"]
    assert still["ended_seconds"] < still["lease_over_seconds"] < still["taken_over_seconds"]
    assert still["last_renewal_seconds"] < still["progress_deadline_seconds"] + 1


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("bug", ["", *drilling.BUGS])
@pytest.mark.skipif(not LONG, reason="RECONCILE_TEST_LONG is not set")
def test_a_whole_drill_on_each_store_sees_each_bug_and_nothing_else(
    store: str,
    bug: str,
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, _ = second_night()
    drilling.keep_in(scene, STORES[store]())
    done = drilling.ended(drilling.start(scene, "--json", bug=bug))
    assert done.code == bool(bug), done.out + done.err
    told = done.json()
    assert [one["name"] for one in told["rehearsals"]] == list(NAMES)
    assert told["seconds"] < MOST_SECONDS
    bad = [(one["name"], one["promise"]) for one in told["rehearsals"] if one["verdict"] != "holds"]
    assert bad == ([(drilling.BUGS[bug].name, drilling.BUGS[bug].promise)] if bug else []), told


def is_at_work(scene: Scene, pid: int) -> bool:
    """Whether a drill has processes, and records of scratch jobs are there."""
    return len(drilling.children(pid)) >= 3 and len(scratch(scene)) > 10


def test_what_a_killed_drill_leaves_dies_with_it_or_is_removed_by_prune(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, _ = second_night()
    before = users(scene)
    process = drilling.start(scene)
    eventually(lambda: is_at_work(scene, process.pid), "it rehearses")
    started = drilling.children(process.pid)
    process.kill()
    drilling.ended(process)
    drilling.wait_for_death(started)
    assert scratch(scene) != []
    assert users(scene) == before
    pruned = scene.launch(["env", f"TMPDIR={scene.folder / 'tmp'}", *scene.command("prune")])
    ran = scene.end(pruned)
    assert ran.code == 0, ran.err
    assert "drill" in ran.err
    nothing_is_left(scene)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_drill_with_nothing_left(
    number: signal.Signals,
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, _ = second_night()
    as_json = ["--json"] if number == signal.SIGTERM else []
    process = drilling.start(scene, *as_json)
    eventually(lambda: is_at_work(scene, process.pid), "it rehearses")
    started = drilling.children(process.pid)
    process.send_signal(number)
    done = drilling.ended(process)
    assert done.code == 128 + number, done.err
    assert "Traceback" not in done.err
    if as_json:
        assert done.json()["interrupted"] is done.json()["removed"] is True
    else:
        assert done.err.endswith("Interrupted. Scratch area removed.\n")
    drilling.wait_for_death(started)
    nothing_is_left(scene)
