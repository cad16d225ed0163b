"""Alerts by real processes: many at once, and one that is killed while it sends."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from support.fakes import eventually
from support.scene import NIGHTS, Scene, night

RUN = ("run", "entitlements")
ALERTS = '[alerts]\ncommand = ["./page"]\nmetrics_file = "m.prom"\n'


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """A night of yesterday's whose export never came, long past its deadline."""
    made = Scene(tmp_path / "scene", NIGHTS[1], range_size=100, extra='deadline = "1s"\n')
    config = made.folder / "reconcile.toml"
    config.write_text(ALERTS + config.read_text())
    page(made, "cat >> got")
    return made


def page(scene: Scene, does: str) -> None:
    path = scene.folder / "page"
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)


def got(scene: Scene) -> list[Any]:
    path = scene.folder / "got"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_of_many_calls_at_once_one_tells_and_none_is_disturbed(scene: Scene) -> None:
    assert scene.run(*RUN).code == 69
    (scene.folder / "got").unlink()
    db_written = 'UPDATE record SET value = json_remove(value, "$.sent"), tag = "open"'
    scene.ask(scene.store, f"{db_written} WHERE kind = 'alert' AND key <> ''")
    ended = [scene.end(one) for one in [scene.start_process(*RUN) for _ in range(6)]]
    assert {one.code for one in ended} <= {1, 69, 75}
    assert [one["id"] for one in got(scene)] == [f"entitlements/{NIGHTS[1]}/overdue"]
    assert (scene.folder / "m.prom").read_text().endswith("# EOF\n")
    assert not list(scene.folder.glob(".m.prom*"))


def test_a_call_killed_while_it_sends_leaves_the_alert_to_the_next(scene: Scene) -> None:
    page(scene, "cat > under-way; exec sleep 600")
    process = scene.start_process(*RUN)
    eventually((scene.folder / "under-way").exists, "the command is called")
    process.send_signal(signal.SIGKILL)
    scene.end(process)
    page(scene, "cat >> got")
    assert scene.run(*RUN).code in (1, 69)
    assert got(scene) == [], "it may still be on its way"
    earlier = 'replace(value, \'"claimed_at":"20\', \'"claimed_at":"19\')'
    scene.ask(scene.store, f"UPDATE record SET value = {earlier} WHERE kind = 'alert'")
    assert scene.run(*RUN).code in (1, 69)
    first = json.loads((scene.folder / "under-way").read_text())
    assert [one["id"] for one in got(scene)] == [first["id"]]
    scene.write_night(NIGHTS[1], night(1, 60))
    scene.write_night(NIGHTS[2], night(1, 60))
    assert scene.run("resume", "entitlements", NIGHTS[1]).code == 0
    states = [(one["kind"], one["state"]) for one in got(scene)]
    assert states[:2] == [("overdue", "raised"), ("overdue", "cleared")]
