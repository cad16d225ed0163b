"""Triggers that come together: one works, the others say who does."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from support.fakes import eventually
from support.scene import NIGHTS, is_stopped

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.scene import Scene, Table

SECOND = NIGHTS[2]
RUN = ("run", "entitlements", "--interval", SECOND)


def test_of_fifty_runs_started_together_one_works_and_the_others_name_it(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, before = second_night()
    # The one that gets the lease stops in the middle, so that all others find it at work.
    first = scene.start_process(*RUN, step="range_committed:1:SIGSTOP")
    eventually(lambda: is_stopped(first.pid), "the first run stops in mid-work")
    others = [scene.start_process(*RUN) for _ in range(49)]
    for other in others:
        _, err = other.communicate(timeout=60)
        assert other.returncode == 75, err
        assert f"pid {first.pid}" in err
        assert "locked" not in err
    first.send_signal(signal.SIGCONT)
    _, err = first.communicate(timeout=60)
    assert first.returncode == 0, err
    scene.check(SECOND, before)


def test_fifty_runs_that_race_for_one_night_work_it_once(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, before = second_night()
    racers = [scene.start_process(*RUN) for _ in range(50)]
    codes = []
    for racer in racers:
        _, err = racer.communicate(timeout=100)
        assert "locked" not in err
        codes.append(racer.returncode)
    assert set(codes) <= {0, 75}
    scene.check(SECOND, before)
    runs = scene.run("status", "entitlements", SECOND, "--json").json()
    assert len(runs["runs"]) == 1
