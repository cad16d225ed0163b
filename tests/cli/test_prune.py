"""`prune`, and what the runs of a job drop by themselves."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest
from support.scenes import RUN, kept
from support.screens import EYES, OTHER, Screen, Stage, new_folder

DAY = 86_400.0


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    folder = new_folder()
    yield Stage(folder, monkeypatch)
    shutil.rmtree(folder)


def aged(stage: Stage, keep: str = "40d") -> None:
    """Three nights are on record, 40 days pass, and nothing is kept for longer."""
    kept(stage, keep)
    stage.clock.advance(40 * DAY)


def nights(stage: Stage) -> list[str]:
    shown = stage.elsewhere(eye=EYES[-1])("status", "entitlements", "--since", "900d")
    return [one["interval"] for one in json.loads(shown.data)["intervals"]]


def pruned(stage: Stage, *options: str) -> Screen:
    return stage("prune", *options)


def test_a_job_that_nobody_has_run_has_nothing_to_prune(stage: Stage) -> None:
    (stage.folder / "reconcile.toml").write_text(
        '[jobs.entitlements]\nsource = "a.csv"\ntarget = "app.db"\n'
    )
    shown = pruned(stage)
    assert shown.code == 0
    assert shown.words == ("entitlements  nothing to prune: no final interval is older than 400d\n")


def test_a_job_that_is_worked_is_not_pruned(stage: Stage) -> None:
    aged(stage)
    shown: list[Screen] = []

    def meanwhile(other: Stage) -> None:
        shown.append(other.elsewhere(holder=OTHER)("prune"))
        raise KeyboardInterrupt

    stage.hooks = {("lease_acquired", 1): meanwhile}
    stage(*RUN)
    (busy,) = shown
    assert busy.code == 75
    assert "entitlements  busy: it is being worked, and nothing was dropped" in busy.words


def test_a_trigger_far_from_the_one_before_it_prunes_nothing_and_the_next_one_does(
    stage: Stage,
) -> None:
    aged(stage)
    seen = nights(stage)
    stage(*RUN)
    assert set(nights(stage)) >= set(seen)
    stage.clock.advance(2 * 3600)
    stage(*RUN)
    assert "2026-11-27" not in nights(stage)
    assert "2026-11-28" not in nights(stage)
    assert "2026-11-29" in nights(stage), "the newest that was completed"


def test_a_day_goes_by_between_two_prunes(stage: Stage) -> None:
    aged(stage, keep="43d")
    stage(*RUN)
    left = []
    for hours in (2, 23, 2):
        stage.clock.advance(hours * 3600)
        stage(*RUN)
        left.append([night[-2:] for night in nights(stage) if night < "2026-12"])
    assert left == [["30", "29", "28"], ["30", "29", "28"], ["30", "29"]]


def test_a_pruned_night_can_still_be_asked_of_the_targets_log(stage: Stage) -> None:
    aged(stage)
    assert pruned(stage).code == 0
    shown = stage("changes", "entitlements", "2026-11-27")
    assert shown.code == 0
    assert shown.data.count("\n") == 3, "its three revokes"
    assert stage("status", "entitlements", "2026-11-27").code == 2
