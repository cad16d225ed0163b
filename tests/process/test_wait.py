"""`run --wait` with real processes: it begins where the other has ended, and not before."""

from __future__ import annotations

import signal
from pathlib import Path

from support.fakes import eventually
from support.scene import NIGHTS, Scene, is_stopped, night

NIGHT = NIGHTS[2]
RUN = ("run", "entitlements")
LONG = '[jobs.entitlements.lease]\nttl = "10m"\n'
"""A lease that outlives a busy machine."""


def test_of_those_that_wait_one_begins_where_the_holder_has_ended_and_the_others_touch_nothing(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path / "scene", NIGHT, range_size=30, extra=LONG)
    scene.write_night(NIGHT, night(51, 90))
    holder = scene.start_process(*RUN, step="range_committed:2:SIGSTOP")
    eventually(lambda: is_stopped(holder.pid), "it stops itself")

    patient, interrupted = (scene.start_process(*RUN, "--wait", "5m") for _ in range(2))
    for waits in (patient, interrupted):
        assert waits.stderr is not None
        assert f"pid {holder.pid} until" in waits.stderr.readline()
    before = scene.everything()
    given_up = scene.run(*RUN, "--wait", "1s")
    assert (given_up.code, "busy" in given_up.err) == (75, True)
    interrupted.send_signal(signal.SIGINT)
    assert scene.end(interrupted).code == 130
    assert scene.everything() == before

    holder.send_signal(signal.SIGCONT)
    assert scene.end(holder).code == 0
    ended = scene.end(patient)
    assert (ended.code, "nothing due" in ended.err) == (0, True), ended.err
    scene.check(NIGHT, {})
