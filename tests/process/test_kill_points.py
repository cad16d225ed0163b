"""Real processes are killed at every named step; the next call goes on, with no manual step."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from support.scene import NIGHTS, heard

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.scene import Scene, Table

SECOND = NIGHTS[2]
RUN = ("run", "entitlements", "--interval", SECOND)
STEPS = [
    "due_computed:1",
    "lease_acquired:1",
    "decided:1",
    "fence_raised:1",
    "run_opened:1",
    "range_planned:1",
    "range_planned:7",
    "checkpoint_saved:1",
    "checkpoint_saved:7",
    "plan_completed:1",
    "judged:1",
    "range_committed:1",
    "range_committed:7",
    "checkpoint_saved:17",
    "proved:1",
    "target_completed:1",
    "interval_completed:1",
    "released:1",
]
"""`checkpoint_saved` counts through planning (12 ranges) into applying."""

FILES = {"reconcile.toml", "app.db", "reconcile.db", "reconcile.db.lock"}
"""All that is in the folder, beside the exports, when nobody works."""

KILLS = 100
"""Kills at random moments, over as many nights as it takes."""

STEPS_AT_MOST = 30
"""A run gets so far before it is killed: half a night, however fast the machine is."""


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_the_next_run_completes_the_night(
    step: str, second_night: Callable[[], tuple[Scene, Table]]
) -> None:
    scene, before = second_night()
    killed = scene.run(*RUN, step=f"{step}:SIGKILL")
    assert killed.code == -signal.SIGKILL
    after = scene.run(*RUN)
    assert after.code == 0, after.err
    scene.check(SECOND, before)
    assert scene.files() == FILES, "whatever was left is gone"


@pytest.mark.parametrize("step", STEPS)
def test_terminated_at_any_step_a_checkpoint_and_a_released_lease_are_left(
    step: str, second_night: Callable[[], tuple[Scene, Table]]
) -> None:
    scene, before = second_night()
    ended = scene.run(*RUN, step=f"{step}:SIGTERM")
    assert ended.code in (0, 143), ended.err
    lease = scene.run("status", "entitlements", "--json").json()["jobs"][0]["lease"]
    assert lease is None
    after = scene.run(*RUN)
    assert after.code == 0, after.err
    scene.check(SECOND, before)
    assert scene.files() == FILES, "whatever was left is gone"


@pytest.mark.parametrize("applied", [3, 7])
def test_after_a_kill_planning_and_applying_go_on_at_the_next_range(
    applied: int, second_night: Callable[[], tuple[Scene, Table]]
) -> None:
    scene, before = second_night()
    scene.run(*RUN, step="checkpoint_saved:5:SIGKILL")
    scene.run(*RUN, step=f"range_committed:{applied}:SIGKILL")
    steps = scene.run(*RUN, "-v").err
    assert steps.count("step range_planned") == 0
    (total,) = scene.ask(scene.target, "SELECT count(*) FROM reconcile_ranges")[0]
    assert steps.count("step range_committed") == total - (applied - 1)
    scene.check(SECOND, before)
    plans = scene.ask(scene.target, "SELECT DISTINCT plan FROM reconcile_ranges")
    assert len(plans) == 1


def killed_at_random(process: subprocess.Popen[str], rng: random.Random) -> str:
    """Kill it a moment after one of its next steps, unless it has ended by then; what it said."""
    said = heard(process, rng.randrange(STEPS_AT_MOST))
    time.sleep(rng.uniform(0, 0.02))
    process.kill()
    return said + process.communicate()[1]


def test_a_hundred_kills_at_random_moments_change_nothing_of_the_outcome(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    seed = random.randrange(10**6)
    rng = random.Random(seed)
    kills = 0
    while kills < KILLS:
        scene, before = second_night()
        kills_before, told, code = kills, "", -signal.SIGKILL
        while code == -signal.SIGKILL:
            process = scene.start_process(*RUN, "-v")
            # The last of the kills is followed by a run that is left alone.
            told += killed_at_random(process, rng) if kills < KILLS else scene.end(process).err
            code = process.returncode
            kills += code == -signal.SIGKILL
        assert code == 0, f"seed {seed}: {told}"
        scene.check(SECOND, before)
        assert scene.files() == FILES, f"seed {seed}"
        shown = scene.run("status", "entitlements", SECOND, "--json").json()
        assert shown["intervals"][0]["runs"] <= kills - kills_before + 1
        generations = [run["generation"] for run in shown["runs"]]
        assert generations == sorted(set(generations)), f"seed {seed}"
        total = shown["intervals"][0]["ranges"]["total"]
        for step in ("range_planned", "range_committed"):
            redone = told.count(f"step {step}") - total
            assert redone <= kills - kills_before, f"seed {seed}: {step} {redone} times too often"


def test_a_killed_holder_on_this_host_is_noticed_at_once(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, before = second_night()
    scene.run(*RUN, step="range_committed:3:SIGKILL")
    begun = time.monotonic()
    assert scene.run(*RUN).code == 0
    assert time.monotonic() - begun < 30, "far below the lease of 60 s"
    scene.check(SECOND, before)
