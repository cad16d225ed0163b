"""`run --wait` with real processes: it begins where the other has ended, and not before."""

from __future__ import annotations

import signal
from pathlib import Path

from support.fakes import eventually
from support.scene import NIGHTS, Scene, is_stopped, night

NIGHT = NIGHTS[2]


def test_two_runs_at_once_where_the_second_waits_for_the_first(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "scene", NIGHT)
    scene.write_night(NIGHT, night(51, 400))
    first = scene.start_process("run", "entitlements", step="range_committed:2:SIGSTOP")
    eventually(lambda: is_stopped(first.pid), "it stops itself")

    second = scene.start_process("run", "entitlements", "--wait", "50s")
    assert second.stderr is not None
    assert f"pid {first.pid} until" in second.stderr.readline()
    given_up = scene.run("run", "entitlements", "--wait", "1s")
    assert (given_up.code, "busy" in given_up.err) == (75, True)

    first.send_signal(signal.SIGCONT)
    assert scene.end(first).code == 0
    ended = scene.end(second)
    assert (ended.code, "nothing due" in ended.err) == (0, True), ended.err
    scene.check(NIGHT, {})


def test_ctrl_c_ends_the_wait_and_touches_nothing(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "scene", NIGHT)
    scene.write_night(NIGHT, night(52, 400))
    first = scene.start_process("run", "entitlements", step="range_committed:2:SIGSTOP")
    eventually(lambda: is_stopped(first.pid), "it stops itself")
    second = scene.start_process("run", "entitlements", "--wait", "50s")
    assert second.stderr is not None
    second.stderr.readline()
    before = scene.everything()
    second.send_signal(signal.SIGINT)
    assert scene.end(second).code == 130
    assert scene.everything() == before
    first.send_signal(signal.SIGCONT)
    assert scene.end(first).code == 0
