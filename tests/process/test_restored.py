"""Store or target deleted, or replaced by an older copy: nothing is replayed over newer truth,
nothing is applied twice, and the trail says what happened."""

from __future__ import annotations

import shutil
import signal
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from support.fakes import eventually
from support.scene import NIGHTS, Scene, drifted, is_stopped, night

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EARLIER, FIRST, SECOND = NIGHTS
RUN = ("run", "entitlements")
SHORT = '[jobs.entitlements.lease]\nttl = "2s"\n'


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """The first of three nights completed, the others exported."""
    scene = Scene(tmp_path_factory.mktemp("stage") / "one", EARLIER, range_size=50, extra=SHORT)
    truth = night(31, 400)
    scene.write_night(EARLIER, truth)
    scene.write_night(FIRST, drifted(truth, 32))
    scene.write_night(SECOND, drifted(scene.nights[FIRST], 33))
    work(scene, EARLIER)
    return scene


@pytest.fixture
def scene(stage: Scene, tmp_path: Path) -> Scene:
    return stage.copy(tmp_path / "scene")


def work(scene: Scene, date: str) -> None:
    done = scene.run(*RUN, "--interval", date)
    assert done.code == 0, done.err


def delete(path: Path) -> None:
    """A database with all that belongs to it."""
    for part in path.parent.glob(path.name + "*"):
        part.unlink()


def keep(path: Path) -> Callable[[], None]:
    """A copy of a database nobody has open; what is returned puts it back."""
    copy = path.with_suffix(".copy")
    shutil.copy(path, copy)

    def restore() -> None:
        delete(path)
        shutil.copy(copy, path)

    return restore


def fenced_at(scene: Scene) -> int:
    return int(scene.ask(scene.target, "SELECT generation FROM reconcile_fence")[0][0])


def types(scene: Scene, date: str) -> list[str]:
    return [event["type"] for event in scene.events(date)]


def shown(scene: Scene, date: str) -> dict[str, object]:
    (found,) = scene.run("status", "entitlements", date, "--json").json()["intervals"]
    return found  # type: ignore[no-any-return]


def log(scene: Scene) -> list[tuple[object, ...]]:
    """The whole change log, as it was written."""
    return scene.ask(scene.target, "SELECT * FROM reconcile_changes ORDER BY id")


def test_a_store_deleted_between_two_nights_goes_on_from_what_the_target_knows(
    scene: Scene,
) -> None:
    work(scene, FIRST)
    generation, changes = fenced_at(scene), log(scene)
    delete(scene.store)
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    scene.check(SECOND, scene.nights[FIRST])
    assert log(scene)[: len(changes)] == changes
    assert not [one for one in log(scene)[len(changes) :] if SECOND not in one]
    assert fenced_at(scene) > generation
    whole = shown(scene, EARLIER)
    assert (whole["state"], whole["reason"], whole["span"]) == ("completed", "recovered", 2)
    assert types(scene, EARLIER) == ["recovered"]
    assert scene.events(EARLIER)[0]["newest"] == FIRST


def test_a_store_deleted_without_a_start_is_owed_every_night_after_the_targets_newest(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path / "scene", range_size=50)
    config = scene.folder / "reconcile.toml"
    config.write_text(
        config.read_text().replace(f"start = {FIRST}\n", "").replace(f"start = {EARLIER}\n", "")
    )
    truth = night(34, 100)
    for number, date in enumerate(NIGHTS):
        scene.write_night(date, drifted(truth, 35 + number, 0.02))
    clock = tmp_path / "clock"
    just_after = datetime.fromisoformat(EARLIER).replace(tzinfo=UTC) + timedelta(minutes=10)
    clock.write_text(str((just_after - datetime.now(UTC)).total_seconds()))
    assert scene.run(*RUN, step=f"clock@{clock}").code == 0
    scene.check(EARLIER, {})
    delete(scene.store)
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    scene.check(SECOND, scene.nights[FIRST])
    assert shown(scene, FIRST)["state"] == "completed"
    assert shown(scene, EARLIER)["reason"] == "recovered"


@pytest.mark.parametrize("at", ["range_planned:3", "range_committed:3", "target_completed:1"])
def test_a_store_deleted_while_its_holder_is_dead_costs_no_change_and_repeats_none(
    at: str, scene: Scene
) -> None:
    before = scene.nights[EARLIER]
    killed = scene.run(*RUN, "--interval", FIRST, step=f"{at}:SIGKILL")
    assert killed.code == -signal.SIGKILL
    generation = fenced_at(scene)
    delete(scene.store)
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    assert scene.rows() == scene.nights[SECOND]
    for_first = scene.log(FIRST)
    assert len(for_first) == len(set(for_first)) == count_changes(before, scene.nights[FIRST])
    scene.check(SECOND, scene.nights[FIRST])
    assert fenced_at(scene) > generation


def count_changes(before: dict[tuple[str, str], str], after: dict[tuple[str, str], str]) -> int:
    return sum(before.get(key) != after.get(key) for key in before.keys() | after.keys())


def test_a_store_deleted_under_a_working_holder_ends_it_and_the_next_one_goes_on(
    scene: Scene,
) -> None:
    first = scene.start_process(*RUN, "--interval", FIRST, step="range_committed:3:SIGSTOP")
    eventually(lambda: is_stopped(first.pid), "it is stopped")
    generation = fenced_at(scene)
    delete(scene.store)
    first.send_signal(signal.SIGCONT)
    _, err = first.communicate(timeout=30)
    assert first.returncode in (69, 80), err
    assert "store" in err
    assert "Traceback" not in err
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    for_first = scene.log(FIRST)
    assert len(for_first) == len(set(for_first))
    assert len(for_first) == count_changes(scene.nights[EARLIER], scene.nights[FIRST])
    scene.check(SECOND, scene.nights[FIRST])
    assert fenced_at(scene) > generation


def test_a_holder_whose_store_was_deleted_is_fenced_out_by_the_holder_of_the_new_one(
    scene: Scene,
) -> None:
    first = scene.start_process(*RUN, "--interval", FIRST, step="range_planned:3:SIGSTOP")
    eventually(lambda: is_stopped(first.pid), "it is stopped")
    delete(scene.store)
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    done = scene.everything()
    first.send_signal(signal.SIGCONT)
    _, err = first.communicate(timeout=30)
    assert first.returncode in (69, 80), err
    assert scene.everything() == done
    scene.check(SECOND, scene.nights[FIRST])


def test_a_store_from_before_the_last_night_does_not_replay_it(scene: Scene) -> None:
    restore = keep(scene.store)
    work(scene, FIRST)
    generation, changes = fenced_at(scene), log(scene)
    restore()
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    scene.check(SECOND, scene.nights[FIRST])
    assert log(scene)[: len(changes)] == changes
    assert fenced_at(scene) > generation
    found = shown(scene, FIRST)
    assert (found["state"], found["reason"]) == ("completed", "recovered")
    assert types(scene, FIRST) == ["recovered"]


def test_a_store_from_the_middle_of_the_last_night_closes_the_run_it_knew(scene: Scene) -> None:
    killed = scene.run(*RUN, "--interval", FIRST, step="range_committed:3:SIGKILL")
    assert killed.code == -signal.SIGKILL
    restore = keep_open(scene.store)
    work(scene, FIRST)
    changes = log(scene)
    restore()
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    assert log(scene)[: len(changes)] == changes
    assert len(scene.log(FIRST)) == len(set(scene.log(FIRST)))
    scene.check(SECOND, scene.nights[FIRST])
    runs = scene.run("status", "entitlements", FIRST, "--json").json()["runs"]
    assert all(run["ending"] for run in runs)


def keep_open(path: Path) -> Callable[[], None]:
    """As `keep`, with the write-ahead log that a killed process left."""
    parts = {part: part.read_bytes() for part in path.parent.glob(path.name + "*")}

    def restore() -> None:
        delete(path)
        for part, data in parts.items():
            part.write_bytes(data)

    return restore


def test_a_store_from_before_a_rerun_learns_its_number_from_the_target(scene: Scene) -> None:
    work(scene, FIRST)
    restore = keep(scene.store)
    again = scene.run("rerun", "entitlements", FIRST, "-m", "to be sure")
    assert again.code == 0, again.err
    changes = log(scene)
    restore()
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    scene.check(SECOND, scene.nights[FIRST])
    assert log(scene)[: len(changes)] == changes
    assert shown(scene, FIRST)["rerun"] == 1
    assert "recovered" in types(scene, FIRST)


def test_a_target_from_before_the_last_night_is_noticed_and_mended_as_a_rerun(
    scene: Scene,
) -> None:
    restore = keep(scene.target)
    work(scene, FIRST)
    restore()
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    assert scene.rows() == scene.nights[SECOND]
    found = shown(scene, FIRST)
    assert (found["state"], found["rerun"]) == ("completed", 1)
    assert found["repair_owner"] == "reconcile"
    (rewound,) = [e for e in scene.events(FIRST) if e["type"] == "target_rewound"]
    assert (rewound["actor"], rewound["target_has"]) == ("reconcile", EARLIER)
    assert len(scene.log(FIRST)) == count_changes(scene.nights[EARLIER], scene.nights[FIRST])
    scene.check(SECOND, scene.nights[FIRST])


def test_mending_a_restored_target_survives_a_kill(scene: Scene) -> None:
    restore = keep(scene.target)
    work(scene, FIRST)
    restore()
    for at in ("recovered:1", "fence_raised:1", "range_committed:2", "target_completed:1"):
        killed = scene.run(*RUN, step=f"{at}:SIGKILL")
        assert killed.code == -signal.SIGKILL, killed.err
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    assert shown(scene, FIRST)["rerun"] == 1
    assert types(scene, FIRST).count("target_rewound") == 1
    scene.check(SECOND, scene.nights[FIRST])


def test_a_new_store_behind_the_target_gets_above_its_floor(scene: Scene) -> None:
    delete(scene.store)
    scene.ask(scene.target, "UPDATE reconcile_fence SET generation = generation + 10000000")
    generation = fenced_at(scene)
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    assert fenced_at(scene) > generation
    scene.check(SECOND, scene.nights[FIRST])


# --- two stores


def other_folder(scene: Scene, folder: Path) -> Scene:
    """The same job with the same target and a store of its own."""
    other = scene.copy(folder)
    delete(other.store)
    delete(other.target)
    config = other.folder / "reconcile.toml"
    config.write_text(config.read_text().replace('"app.db"', f'"{scene.target}"'))
    return other


def store_id(scene: Scene) -> str:
    return str(scene.ask(scene.store, "SELECT value FROM meta WHERE name = 'id'")[0][0])


def test_a_holder_is_fenced_out_by_the_holder_of_another_store_on_the_same_target(
    scene: Scene, tmp_path: Path
) -> None:
    other = other_folder(scene, tmp_path / "other")
    first = scene.start_process(*RUN, "--interval", FIRST, step="range_committed:3:SIGSTOP")
    eventually(lambda: is_stopped(first.pid), "it is stopped")
    ran = other.run(*RUN, "--interval", FIRST)
    assert ran.code == 0, ran.err
    assert scene.rows() == scene.nights[FIRST]
    done = log(scene)
    first.send_signal(signal.SIGCONT)
    _, err = first.communicate(timeout=30)
    assert first.returncode == 80, err
    assert store_id(scene) in err
    assert store_id(other) in err
    assert log(scene) == done
    scene.check_target(FIRST, scene.nights[EARLIER])
    back = scene.run(*RUN)
    assert back.code == 0, back.err
    scene.check(SECOND, scene.nights[FIRST])


def test_two_stores_that_take_turns_never_apply_a_change_twice(
    scene: Scene, tmp_path: Path
) -> None:
    other = other_folder(scene, tmp_path / "other")
    work(scene, FIRST)
    changes = log(scene)
    ran = other.run(*RUN, "--interval", FIRST)
    assert ran.code == 0, ran.err
    assert log(scene) == changes
    ran = other.run(*RUN)
    assert ran.code == 0, ran.err
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    assert scene.rows() == scene.nights[SECOND]
    assert len(scene.log(SECOND)) == len(set(scene.log(SECOND)))


def test_two_stores_that_keep_fencing_each_other_out_are_both_named(scene: Scene) -> None:
    before = scene.rows()
    ran = scene.run(*RUN, "--interval", FIRST, step="rival")
    assert ran.code == 65, ran.err
    assert "rival" in ran.err
    assert store_id(scene) in ran.err
    assert scene.rows() == before
    assert scene.log(FIRST) == []


@pytest.mark.parametrize(
    "at", ["range_committed:1", "range_committed:3", "proved:1", "target_completed:1"]
)
@pytest.mark.parametrize("also", [False, True])
def test_a_target_restored_in_the_middle_of_a_night_is_noticed_by_what_it_lacks(
    at: str, also: bool, scene: Scene
) -> None:
    copies = [keep(scene.target)]
    if also:
        # From the middle of the very same run: the fence is as high, ranges are missing.
        scene.run("run", "entitlements", "--interval", FIRST, step="run_opened:1:SIGKILL")
        copies.append(keep(scene.target))
    scene.run("run", "entitlements", "--interval", FIRST, step=f"{at}:SIGKILL")
    copies[-1]()
    ran = scene.run("run", "entitlements", "--interval", FIRST)
    assert ran.code == 0, ran.err
    scene.check(FIRST, scene.nights[EARLIER])
    assert "target_rewound" in types(scene, FIRST) or at == "range_committed:1"


def test_a_restored_target_is_noticed_within_the_hour_though_nothing_is_due(
    scene: Scene,
) -> None:
    restore = keep(scene.target)
    for date in (FIRST, SECOND):
        scene.run("run", "entitlements", "--interval", date)
    done = scene.rows()
    restore()
    assert scene.run(*RUN).code == 0
    in_an_hour = timedelta(seconds=3700)
    scene.write_night(str((datetime.now(UTC) + in_an_hour).date()), scene.nights[SECOND])
    later = scene.folder / "later"
    later.write_text(str(in_an_hour.seconds))
    ran = scene.run(*RUN, step=f"clock@{later}")
    assert ran.code == 0, ran.err
    assert scene.rows() == done
    assert "target_rewound" in types(scene, SECOND)
