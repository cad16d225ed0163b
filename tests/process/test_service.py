"""A call as a service of systemd: what it tells of itself, from its beginning to its end."""

from __future__ import annotations

import socket
from collections.abc import Callable

from support import forks
from support.scene import ENVIRONMENT, NIGHTS, STARTED, Ran, Scene, Table

TONIGHT = NIGHTS[2]


def as_service(scene: Scene, *argv: str, **variables: str) -> tuple[Ran, list[str]]:
    """How it ended, and what it told."""
    ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    ear.bind(str(scene.folder / "notify"))
    ear.setblocking(False)
    environ = {**ENVIRONMENT, "NOTIFY_SOCKET": str(scene.folder / "notify"), **variables}
    process = forks.start(scene.command(*argv), cwd=scene.folder, env=environ)
    STARTED.append(process)
    ran = scene.end(process)
    told = []
    while True:
        try:
            told.append(ear.recv(4096).decode())
        except BlockingIOError:
            ear.close()
            (scene.folder / "notify").unlink()
            return ran, told


def test_it_is_ready_tells_how_far_it_is_lives_and_stops(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, _ = second_night()
    ran, told = as_service(scene, "-q", "run", "entitlements", WATCHDOG_USEC="1000000")
    assert (ran.code, ran.err) == (0, "")
    assert (told[0], told[-1]) == ("READY=1", "STOPPING=1")
    statuses = [text for text in told if text.startswith("STATUS=")]
    assert statuses[0].startswith(f"STATUS=entitlements {TONIGHT} started, generation ")
    assert statuses[-1].startswith(f"STATUS=entitlements {TONIGHT} completed in ")
    assert "WATCHDOG=1" in told

    ran, told = as_service(scene, "run", "entitlements")
    assert ran.code == 0
    assert told[0] == "READY=1"
    assert told[1].startswith("STATUS=entitlements nothing due, next ")
    assert told[2:] == ["STOPPING=1"]


def test_it_is_ready_before_anything_can_be_wrong(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    """Or systemd would call a busy knock (75) one that never started."""
    scene, _ = second_night()
    ran, told = as_service(scene, "run", "nojob")
    assert (ran.code, told) == (78, ["READY=1", "STOPPING=1"])


def test_a_fleet_speaks_for_its_children(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, _ = second_night()
    ran, told = as_service(scene, "run", "--all", WATCHDOG_USEC="1000000")
    assert ran.code == 0
    assert told.count("READY=1") == told.count("STOPPING=1") == 1
    assert told[-1] == "STOPPING=1"
