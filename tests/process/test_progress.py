"""Renewal is a promise that something moves: what hangs lets go, what is slow is left alone."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from support.fakes import eventually
from support.scene import NIGHTS, Scene, drifted, night

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND = NIGHTS[1:]
RUN = ("run", "entitlements", "--interval", SECOND)
LEASE = '[jobs.entitlements.lease]\nttl = "2s"\nprogress_deadline = "3s"\n'


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Night one completed, night two exported; at most three seconds without progress."""
    scene = Scene(tmp_path_factory.mktemp("stage") / "one", FIRST, range_size=100, extra=LEASE)
    truth = night(41, 400)
    scene.write_night(FIRST, truth)
    scene.write_night(SECOND, drifted(truth, 42))
    done = scene.run("run", "entitlements", "--interval", FIRST)
    assert done.code == 0, done.err
    return scene


@pytest.fixture
def scene(stage: Scene, tmp_path: Path) -> Scene:
    return stage.copy(tmp_path / "scene")


def generations(scene: Scene) -> list[int]:
    runs = scene.run("status", "entitlements", SECOND, "--json").json()["runs"]
    return [run["generation"] for run in runs]


def test_a_holder_that_hangs_ends_by_itself_and_the_next_one_goes_on(
    stage: Scene, tmp_path: Path
) -> None:
    def hang(at: str) -> None:
        scene = stage.copy(tmp_path / at)
        hung = scene.run(*RUN, "-v", step=f"{at}:hang")
        assert hung.code == 1, hung.err
        said = [line for line in hung.err.splitlines() if "no progress" in line]
        assert len(said) == 1, hung.err
        assert "progress_deadline is 3s" in said[0]
        assert "Traceback" not in hung.err
        after = scene.run(*RUN)
        assert after.code == 0, after.err
        scene.check(SECOND, scene.nights[FIRST])
        one, two = generations(scene)
        assert two > one

    with ThreadPoolExecutor() as pool:
        list(pool.map(hang, ["range_planned:2", "range_committed:2"]))


def test_a_holder_that_takes_nearly_the_deadline_for_each_range_is_left_alone(
    scene: Scene,
) -> None:
    slow = scene.run(*RUN, step="range_planned:1:wait=2.7,range_planned:2:wait=2.7")
    assert slow.code == 0, slow.err
    scene.check(SECOND, scene.nights[FIRST])
    assert len(generations(scene)) == 1


def test_a_holder_without_a_processor_of_its_own_keeps_its_generation(scene: Scene) -> None:
    core = min(os.sched_getaffinity(0))
    burn = f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass"
    others = [subprocess.Popen([sys.executable, "-c", burn]) for _ in range(3)]
    try:
        starved = scene.start_process(*RUN, step="busy,range_planned:*:wait=0.8")
        os.sched_setaffinity(starved.pid, {core})
        found: set[int] = set()

        def ended() -> bool:
            found.add(scene.grant()[0])
            return starved.poll() is not None

        eventually(ended, "it completes the night")
    finally:
        for other in others:
            other.kill()
            other.wait()
    _, err = starved.communicate()
    assert starved.returncode == 0, err
    scene.check(SECOND, scene.nights[FIRST])
    assert generations(scene) == [max(found)]
