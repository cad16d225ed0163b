"""Acts by hand around a dead holder, jobs on demand, live files, and clocks that were ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.scene import NIGHTS, Scene, drifted, night

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.scene import Table

EARLIER, FIRST, SECOND = NIGHTS
RUN = ("run", "entitlements", "--interval", SECOND)


def test_a_killed_holder_is_in_nobodys_way(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, _ = second_night()
    scene.run(*RUN, step="range_committed:3:SIGKILL")
    shown = scene.run("status", "entitlements", SECOND, "--json").json()
    assert shown["intervals"][0]["shows"] == "stalled"
    assert shown["jobs"][0]["lease"] is None
    stopped = scene.run("stop", "entitlements", "-m", "OPS-1")
    assert stopped.code == 0, stopped.err
    skipped = scene.run("skip", "entitlements", SECOND, "-m", "OPS-2")
    assert skipped.code == 0, skipped.err
    interval = scene.run("status", "entitlements", SECOND, "--json").json()["intervals"][0]
    assert (interval["state"], interval["reason"]) == ("failed", "cancelled")


@pytest.fixture
def live(tmp_path: Path) -> Scene:
    """A job whose source is one file that tells the truth of now."""
    scene = Scene(tmp_path / "live", start=SECOND)
    config = scene.folder / "reconcile.toml"
    config.write_text(config.read_text().replace("exports/{date}.csv", "exports/now.csv"))
    return scene


def export(scene: Scene, table: Table) -> None:
    """The truth of now."""
    scene.write_night("now", table)


def test_an_approval_of_a_live_source_is_for_what_it_said_then(live: Scene) -> None:
    before = night(11)
    export(live, before)
    assert live.run("run", "entitlements").code == 0
    export(live, dict(sorted(before.items())[: len(before) * 8 // 10]))
    again = live.run("rerun", "entitlements", SECOND, "-m", "x", "--json").json()
    hash_ = again["guard"]["hash"]
    export(live, dict(sorted(before.items())[: len(before) * 6 // 10]))
    approve = ("resume", "entitlements", SECOND, "--approve", hash_, "-m", "OPS-12")
    assert live.run(*approve).code == 4
    assert live.rows() == before


def test_a_job_without_a_schedule_runs_when_it_is_asked_to(live: Scene) -> None:
    config = live.folder / "reconcile.toml"
    kept = [
        line
        for line in config.read_text().splitlines()
        if not line.startswith(("schedule", "start"))
    ]
    config.write_text("\n".join(kept) + "\n")
    truth = night(12)
    export(live, truth)
    killed = live.run("run", "entitlements", step="range_committed:3:SIGKILL")
    assert killed.code == -9
    finished = live.run("run", "entitlements", "--json").json()
    assert finished["outcome"] == "completed"
    assert live.rows() == truth
    other = drifted(truth, 13)
    export(live, other)
    assert live.run("run", "entitlements").code == 0
    assert live.rows() == other
    shown = live.run("status", "entitlements", "--json").json()
    assert [interval["state"] for interval in shown["intervals"]] == ["completed"] * 2


def test_two_runs_on_demand_within_one_second_are_two_intervals(live: Scene) -> None:
    config = live.folder / "reconcile.toml"
    kept = [
        line
        for line in config.read_text().splitlines()
        if not line.startswith(("schedule", "start"))
    ]
    config.write_text("\n".join(kept) + "\n")
    export(live, night(12))
    codes = [live.run("run", "entitlements").code for _ in range(4)]
    assert codes == [0] * 4

    intervals = live.run("status", "entitlements", "--json").json()["intervals"]
    assert len({interval["interval"] for interval in intervals}) == 4


def test_what_a_clock_ahead_of_now_decided_keeps_no_later_night_from_being_worked(
    live: Scene,
) -> None:
    export(live, night(14))
    ahead = live.folder / "ahead"
    ahead.write_text(str(40 * 86400))
    wrong = live.run("run", "entitlements", step=f"clock@{ahead}")
    assert wrong.code == 0, wrong.err
    truth = drifted(night(14), 15)
    export(live, truth)
    right = live.run("run", "entitlements", "--json").json()
    assert [(i["interval"], i["outcome"]) for i in right["intervals"]] == [(SECOND, "completed")]
    assert live.rows() == truth
