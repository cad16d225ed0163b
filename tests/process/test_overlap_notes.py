"""A trigger that comes while a holder is about to leave is not lost: the holder looks again."""

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from support.fakes import eventually
from support.scene import NIGHTS, Scene, drifted, is_stopped, night

if TYPE_CHECKING:
    from pathlib import Path

TONIGHT = NIGHTS[2]
TOMORROW = str(datetime.fromisoformat(TONIGHT).date() + timedelta(days=1))
RUN = ("run", "entitlements")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """A job with a live source, and a clock that stands near midnight."""
    made = Scene(tmp_path / "scene", TONIGHT, range_size=100)
    config = made.folder / "reconcile.toml"
    config.write_text(config.read_text().replace("exports/{date}.csv", "exports/live.csv"))
    made.write_night("live", night(51, 300))
    set_clock(made, seconds=-120)
    return made


def set_clock(scene: Scene, seconds: float) -> None:
    """So long after tomorrow's midnight it is now, for all that look at the scene's clock."""
    midnight = datetime.fromisoformat(TOMORROW).replace(tzinfo=UTC)
    wanted = midnight + timedelta(seconds=seconds)
    (scene.folder / "clock").write_text(str((wanted - datetime.now(UTC)).total_seconds()))


def test_an_interval_that_came_due_while_its_holder_was_about_to_leave_is_worked_by_it(
    scene: Scene,
) -> None:
    clock = f"clock@{scene.folder / 'clock'}"
    holder = scene.start_process(*RUN, step=f"decided:2:SIGSTOP,{clock}")
    eventually(lambda: is_stopped(holder.pid), "it has decided that nothing is left to do")
    before = scene.nights["live"]
    scene.write_night("live", drifted(before, 52))
    set_clock(scene, seconds=1)
    turned_away = scene.run(*RUN, step=clock)
    assert turned_away.code == 75, turned_away.err
    holder.send_signal(signal.SIGCONT)
    _, err = holder.communicate(timeout=30)
    assert holder.returncode == 0, err
    assert scene.rows() == scene.nights["live"]
    shown = scene.run("status", "entitlements", TOMORROW, "--json", step=clock).json()
    assert shown["intervals"][0]["state"] == "completed"
    (run,) = shown["runs"]
    assert run["holder"]["pid"] == holder.pid
    assert scene.run(*RUN, "--json", step=clock).json()["outcome"] == "nothing_due"


def test_a_trigger_for_the_very_interval_that_was_worked_keeps_nobody(scene: Scene) -> None:
    clock = f"clock@{scene.folder / 'clock'}"
    holder = scene.start_process(*RUN, "-v", step=f"judged:1:SIGSTOP,{clock}")
    eventually(lambda: is_stopped(holder.pid), "it is in the middle of the night")
    assert scene.run(*RUN, step=clock).code == 75
    holder.send_signal(signal.SIGCONT)
    _, err = holder.communicate(timeout=30)
    assert holder.returncode == 0, err
    assert err.count("step decided") == 2
