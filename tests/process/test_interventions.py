"""Acts by hand while processes work, and somebody else who writes to the target."""

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from support.fakes import eventually
from support.scene import NIGHTS, Scene, drifted, is_stopped, night

if TYPE_CHECKING:
    from pathlib import Path

EARLIER, FIRST, SECOND = NIGHTS
RUN = ("run", "entitlements")
SIGNED = ("-m", "OPS-7 the export was wrong", "--actor", "alice")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """The first two of three nights completed, the third exported."""
    scene = Scene(tmp_path_factory.mktemp("stage") / "one", EARLIER, range_size=50)
    truth = night(71, 300)
    scene.write_night(EARLIER, truth)
    scene.write_night(FIRST, drifted(truth, 72))
    scene.write_night(SECOND, drifted(scene.nights[FIRST], 73))
    for date in (EARLIER, FIRST):
        done = scene.run(*RUN, "--interval", date)
        assert done.code == 0, done.err
    return scene


@pytest.fixture
def scene(stage: Scene, tmp_path: Path) -> Scene:
    return stage.copy(tmp_path / "scene")


def shown(scene: Scene, date: str) -> dict:  # type: ignore[type-arg]
    return scene.run("status", "entitlements", date, "--json").json()  # type: ignore[no-any-return]


# --- somebody else writes to the target


def test_grants_that_appeared_and_rows_that_vanished_since_the_plan_are_compared_again(
    scene: Scene,
) -> None:
    before, after = scene.nights[FIRST], scene.nights[SECOND]
    scene.run(*RUN, step="judged:1:SIGKILL")
    granted = min(after.keys() - before.keys())
    revoked = max(before.keys() - after.keys())  # far from the others: its range has just that
    kept = min(key for key in after if before.get(key) == after[key])
    delete = "DELETE FROM entitlements WHERE (account_id, entitlement) = "
    for statement in (
        f"INSERT INTO entitlements VALUES ('{granted[0]}', '{granted[1]}', 'theirs')",
        f"{delete} ('{revoked[0]}', '{revoked[1]}')",
        f"{delete} ('{kept[0]}', '{kept[1]}')",
        "INSERT INTO entitlements VALUES ('acct-00000', 'theirs', '')",
    ):
        scene.ask(scene.target, statement)
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    assert scene.rows() == after
    log = {key: action for action, key in scene.log(SECOND)}
    assert len(log) == len(scene.log(SECOND))
    assert log.get(f'["{granted[0]}","{granted[1]}"]') == "update", "it was there, with their value"
    assert f'["{revoked[0]}","{revoked[1]}"]' not in log, "somebody else took it back"
    found = shown(scene, SECOND)["intervals"][0]
    assert found["state"] == "completed"


def test_an_account_that_somebody_changes_without_end_leaves_the_interval_incomplete(
    scene: Scene,
) -> None:
    before, after = scene.nights[FIRST], scene.nights[SECOND]
    account = min(key[0] for key in after if key in before and before[key] != after[key])
    ran = scene.run(*RUN, step=f"disturb@{account}")
    assert ran.code == 3, ran.err
    assert account in ran.err
    others = {key: level for key, level in scene.rows().items() if key[0] != account}
    assert others == {key: level for key, level in after.items() if key[0] != account}
    assert shown(scene, SECOND)["intervals"][0]["state"] == "unfinished"
    # Once it is left in peace, it is mended too.
    ran = scene.run("resume", "entitlements")
    assert ran.code == 0, ran.err
    assert scene.rows() == after


# --- rerun


def test_a_rerun_of_the_newest_interval_keeps_its_id_and_proves_it_again(scene: Scene) -> None:
    was = shown(scene, FIRST)
    ran = scene.run("rerun", "entitlements", FIRST, *SIGNED, "--json")
    assert ran.code == 0, ran.err
    (one,) = ran.json()["intervals"]
    assert (one["interval"], one["rerun"], one["trigger"]) == (FIRST, 1, "rerun")
    assert set(one["changes"].values()) == {0}
    now = shown(scene, FIRST)
    assert now["intervals"][0]["checksum"] == was["intervals"][0]["checksum"]
    assert now["intervals"][0]["repair_owner"] == "alice"
    (event,) = [event for event in now["events"] if event["type"] == "rerun"]
    assert (event["actor"], event["reason"], event["rerun"]) == ("alice", SIGNED[1], 1)
    assert [run["ending"] for run in now["runs"]] == ["completed", "completed"]
    assert now["events"][: len(was["events"])] == was["events"], "the old trail stands"


def test_a_rerun_mends_what_somebody_broke_since(scene: Scene) -> None:
    scene.ask(scene.target, "DELETE FROM entitlements WHERE entitlement = 'sso'")
    ran = scene.run("rerun", "entitlements", FIRST, *SIGNED)
    assert ran.code == 0, ran.err
    assert scene.rows() == scene.nights[FIRST]


def test_a_rerun_of_an_interval_older_than_the_newest_is_refused_with_the_reason(
    scene: Scene,
) -> None:
    before = scene.everything()
    refused = scene.run("rerun", "entitlements", EARLIER, *SIGNED)
    assert refused.code == 3
    assert FIRST in refused.err
    assert "newer truth" in refused.err
    assert scene.everything() == before


def test_a_killed_rerun_is_finished_by_any_trigger_under_its_number(scene: Scene) -> None:
    scene.ask(scene.target, "DELETE FROM entitlements WHERE entitlement = 'sso'")
    rerun = ("rerun", "entitlements", FIRST, *SIGNED)
    assert scene.run(*rerun, step="range_committed:2:SIGKILL").code == -signal.SIGKILL
    assert shown(scene, FIRST)["intervals"][0]["state"] == "unfinished"
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    found = shown(scene, FIRST)["intervals"][0]
    assert (found["state"], found["rerun"]) == ("completed", 1)
    scene.check(SECOND, scene.nights[FIRST])


def test_a_rerun_that_fails_for_good_leaves_the_interval_completed_as_it_was(
    scene: Scene,
) -> None:
    config = scene.folder / "reconcile.toml"
    config.write_text(config.read_text() + "max_attempts = 1\n")
    was = shown(scene, FIRST)["intervals"][0]
    (scene.folder / "exports" / f"{FIRST}.csv").write_text("nonsense\n")
    ran = scene.run("rerun", "entitlements", FIRST, *SIGNED)
    assert ran.code == 65, ran.err
    now = shown(scene, FIRST)
    found = now["intervals"][0]
    assert (found["state"], found["rerun"]) == ("completed", 0)
    assert (found["checksum"], found["completed_at"]) == (was["checksum"], was["completed_at"])
    assert [run["ending"] for run in now["runs"]] == ["completed", "failed"]
    assert "rerun" in [event["type"] for event in now["events"]]
    assert scene.rows() == scene.nights[FIRST]
    # The next night is none the wiser.
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    scene.check(SECOND, scene.nights[FIRST])


# --- stop


def test_stop_ends_a_run_at_its_next_checkpoint_and_the_next_one_goes_on(scene: Scene) -> None:
    config = scene.folder / "reconcile.toml"
    config.write_text(config.read_text() + '[jobs.entitlements.lease]\nttl = "10s"\n')
    holder = scene.start_process(*RUN, step="range_planned:*:wait=1")
    eventually(lambda: not scene.grant()[1], "it works")
    asked = scene.run("stop", "entitlements", *SIGNED)
    assert asked.code == 0, asked.err
    _, err = holder.communicate(timeout=30)
    assert holder.returncode == 143, err
    assert "alice" in err
    now = shown(scene, SECOND)
    assert now["intervals"][0]["state"] == "unfinished"
    assert [run["ending"] for run in now["runs"]] == ["interrupted"]
    (event,) = [event for event in now["events"] if event["type"] == "stop_asked"]
    assert (event["actor"], event["reason"]) == ("alice", SIGNED[1])
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    scene.check(SECOND, scene.nights[FIRST])


@pytest.mark.parametrize("at", ["range_planned:2", "range_committed:2", "target_completed:1"])
def test_stop_by_force_fences_a_holder_out_of_store_and_target(at: str, scene: Scene) -> None:
    holder = scene.start_process(*RUN, step=f"{at}:SIGSTOP")
    eventually(lambda: is_stopped(holder.pid), "it is stopped")
    generation, _ = scene.grant()
    forced = scene.run("stop", "entitlements", "--force", *SIGNED)
    assert forced.code == 0, forced.err
    assert scene.grant() == (generation + 1, True)
    assert scene.ask(scene.target, "SELECT generation FROM reconcile_fence") == [(generation + 1,)]
    assert [run["ending"] for run in shown(scene, SECOND)["runs"]] == ["fenced out"]
    done = scene.everything()
    holder.send_signal(signal.SIGCONT)
    _, err = holder.communicate(timeout=30)
    assert holder.returncode == 80, err
    assert scene.everything() == done
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    scene.check(SECOND, scene.nights[FIRST])


@pytest.mark.parametrize("where", ["app.db", "reconcile.db"])
def test_stop_by_force_ends_a_holder_that_is_stopped_inside_a_transaction(
    where: str, scene: Scene
) -> None:
    config = scene.folder / "reconcile.toml"
    config.write_text(config.read_text() + 'fence_wait = "1s"\n')
    holder = scene.start_process(*RUN, step=f"commit@{where}:4:SIGSTOP")
    eventually(lambda: is_stopped(holder.pid), "it is stopped")
    forced = scene.run("stop", "entitlements", "--force", *SIGNED)
    assert forced.code == 0, forced.err
    holder.communicate(timeout=30)
    assert holder.returncode == -signal.SIGKILL
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    scene.check(SECOND, scene.nights[FIRST])


# --- skip, and intervals asked for by name


def test_a_skipped_interval_is_given_up_by_hand_and_no_trigger_takes_it(scene: Scene) -> None:
    skipped = scene.run("skip", "entitlements", SECOND, *SIGNED)
    assert skipped.code == 0, skipped.err
    assert scene.run(*RUN, "--json").json()["outcome"] == "nothing_due"
    found = shown(scene, SECOND)
    assert (found["intervals"][0]["state"], found["intervals"][0]["reason"]) == (
        "skipped",
        "operator",
    )
    assert scene.rows() == scene.nights[FIRST]


def test_an_interval_beyond_the_catch_up_window_can_still_be_asked_for_by_name(
    tmp_path: Path,
) -> None:
    long_ago = str(datetime.now(UTC).date() - timedelta(days=20))
    scene = Scene(tmp_path / "scene", long_ago, range_size=50)
    scene.write_night(long_ago, night(74, 60))
    ran = scene.run(*RUN, "--interval", long_ago)
    assert ran.code == 0, ran.err
    scene.check(long_ago, {})
