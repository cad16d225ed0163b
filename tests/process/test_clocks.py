"""Wall clocks that are stepped, during a night and between nights: no lease is lost or kept
too long, nothing is claimed for the future for good, and nothing is skipped for good."""

from __future__ import annotations

import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from support.fakes import eventually
from support.scene import NIGHTS, Scene, drifted, is_stopped, night

if TYPE_CHECKING:
    from pathlib import Path

EARLIER, FIRST, SECOND = NIGHTS
RUN = ("run", "entitlements")
SHORT = '[jobs.entitlements.lease]\nttl = "2s"\n'
HOUR = 3600
TEN_YEARS = 3653 * 24 * HOUR
STEPS = [HOUR, -HOUR, TEN_YEARS, -TEN_YEARS]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """The first of three nights completed, the others exported."""
    scene = Scene(tmp_path_factory.mktemp("stage") / "one", EARLIER, range_size=50, extra=SHORT)
    truth = night(61, 300)
    scene.write_night(EARLIER, truth)
    scene.write_night(FIRST, drifted(truth, 62))
    scene.write_night(SECOND, drifted(scene.nights[FIRST], 63))
    done = scene.run(*RUN, "--interval", EARLIER)
    assert done.code == 0, done.err
    return scene


def intervals(scene: Scene) -> dict[str, str]:
    """All intervals with a record, and their states."""
    shown = scene.run("status", "entitlements", "--json", "-n", "900").json()["intervals"]
    return {one["interval"]: one["state"] for one in shown}


def test_a_clock_stepped_in_mid_night_neither_loses_the_lease_nor_keeps_it_too_long(
    stage: Scene, tmp_path: Path
) -> None:
    def night_under(step: int) -> None:
        scene = stage.copy(tmp_path / f"{step}")
        config = scene.folder / "reconcile.toml"
        config.write_text(config.read_text().replace("2s", "60s"))
        clock = scene.folder / "clock"
        clock.write_text("0")
        run = (*RUN, "--interval", FIRST)
        first = scene.start_process(*run, step=f"range_committed:2:SIGSTOP,clock@{clock}")
        eventually(lambda: is_stopped(first.pid), "it is stopped")
        clock.write_text(str(step))
        early = scene.run(*run, step=f"clock@{clock}")
        assert early.code in (75, 2), "it lives, or the night is in the future"
        first.send_signal(signal.SIGCONT)
        _, err = first.communicate(timeout=30)
        assert first.returncode == 0, err
        clock.write_text("0")
        scene.check(FIRST, scene.nights[EARLIER])
        # And one that is silent for a TTL is replaced after a TTL.
        config.write_text(config.read_text().replace("60s", "2s"))
        run = (*RUN, "--interval", SECOND)
        stopped = scene.start_process(*run, step=f"range_committed:2:SIGSTOP,clock@{clock}")
        eventually(lambda: is_stopped(stopped.pid), "it is stopped")
        eventually(lambda: scene.grant()[1], "its lease expires")
        clock.write_text(str(abs(step)))
        other = scene.run(*run, step=f"clock@{clock}")
        assert other.code == 0, other.err
        scene.check(SECOND, scene.nights[FIRST])
        stopped.send_signal(signal.SIGCONT)
        stopped.communicate(timeout=30)
        assert stopped.returncode == 80

    with ThreadPoolExecutor() as pool:
        list(pool.map(night_under, STEPS))


@pytest.mark.parametrize("step", STEPS)
def test_a_clock_that_was_wrong_between_two_nights_costs_no_night(
    step: int, stage: Scene, tmp_path: Path
) -> None:
    scene = stage.copy(tmp_path / "scene")
    clock = tmp_path / "clock"
    clock.write_text(str(step))
    wrong = scene.run(*RUN, step=f"clock@{clock}")
    assert wrong.code in (0, 69), wrong.err
    assert "Traceback" not in wrong.err
    right = scene.run(*RUN)
    assert right.code == 0, right.err
    scene.check(SECOND, scene.nights[FIRST])
    assert scene.log(FIRST)
    found = intervals(scene)
    assert {found[date] for date in NIGHTS} == {"completed"}
    assert scene.run(*RUN, "--json").json()["outcome"] == "nothing_due"
    # The next nights come as if nothing had been.
    for number in (1, 2, 3):
        at = datetime.fromisoformat(SECOND).replace(tzinfo=UTC) + timedelta(days=number, minutes=5)
        date = str(at.date())
        scene.write_night(date, drifted(scene.nights[SECOND], 64 + number))
        clock.write_text(str((at - datetime.now(UTC)).total_seconds()))
        later = scene.run(*RUN, step=f"clock@{clock}")
        assert later.code == 0, later.err
        assert scene.rows() == scene.nights[date]


@pytest.mark.parametrize("days", [40, 400])
def test_nights_that_a_clock_ahead_gave_up_are_taken_back(
    days: int, stage: Scene, tmp_path: Path
) -> None:
    scene = stage.copy(tmp_path / "scene")
    clock = tmp_path / "clock"
    clock.write_text(str(days * 24 * HOUR))
    scene.run(*RUN, step=f"clock@{clock}")
    right = scene.run(*RUN)
    assert right.code == 0, right.err
    scene.check(SECOND, scene.nights[FIRST])
    assert {intervals(scene)[date] for date in NIGHTS} == {"completed"}
    assert "clock_stepped" in [event["type"] for event in scene.events(FIRST)]


@pytest.mark.parametrize("step", [HOUR, -HOUR, TEN_YEARS, -TEN_YEARS])
def test_a_clock_stepped_while_a_holder_works_changes_nothing_of_the_outcome(
    step: int, stage: Scene, tmp_path: Path
) -> None:
    scene = stage.copy(tmp_path / "scene")
    ran = scene.run(*RUN, "--interval", FIRST, step=f"clock={step}@range_planned:3")
    assert ran.code == 0, ran.err
    scene.check(FIRST, scene.nights[EARLIER])
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    scene.check(SECOND, scene.nights[FIRST])


def test_a_faked_clock_of_the_whole_process_neither_loses_nor_keeps_a_lease(
    stage: Scene, tmp_path: Path
) -> None:
    faketime = shutil.which("faketime")
    if faketime is None:
        assert os.environ.get("RECONCILE_TEST_SYSTEM") != "1", "faketime missing"
        pytest.skip("not run: faketime missing")

    def night_under(shift: str) -> None:
        scene = stage.copy(tmp_path / shift)
        command = [
            faketime,
            "--exclude-monotonic",
            "-f",
            shift,
            *scene.command(*RUN, "--interval", FIRST),
        ]
        ran = scene.end(scene.launch(command))
        assert ran.code in (0, 2), ran.err
        right = scene.run(*RUN)
        assert right.code == 0, right.err
        scene.check(SECOND, scene.nights[FIRST])

    with ThreadPoolExecutor() as pool:
        list(pool.map(night_under, ["+1h", "-1h", "+10y", "-10y"]))
