"""What systemd is told over its socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fakes import FakeClock

from reconcile.cli.delivery.manager import ServiceManager, without_manager


class Ear:
    """systemd's end."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.setblocking(False)

    def heard(self) -> list[str]:
        found = []
        while True:
            try:
                found.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return found


@pytest.fixture
def ear(tmp_path: Path) -> Iterator[Ear]:
    made = Ear(str(tmp_path / "notify"))
    yield made
    made.socket.close()


def manager(tmp_path: Path, clock: FakeClock, **variables: str) -> ServiceManager:
    return ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify"), **variables}, clock)


def test_the_words_are_those_of_sd_notify(tmp_path: Path, ear: Ear) -> None:
    told = manager(tmp_path, FakeClock())
    told.ready()
    told.status("range 17\nsecond line")
    told.status("")
    told.stopping()
    assert ear.heard() == ["READY=1", "STATUS=range 17", "STOPPING=1"]


def test_an_abstract_socket_is_found(tmp_path: Path) -> None:
    name = f"reconcile-test-{os.getpid()}"
    ear = Ear(f"\0{name}")
    ServiceManager({"NOTIFY_SOCKET": f"@{name}"}, FakeClock()).ready()
    assert ear.heard() == ["READY=1"]
    ear.socket.close()


def test_signs_of_life_are_four_in_the_time_of_the_watchdog(tmp_path: Path, ear: Ear) -> None:
    clock = FakeClock()
    told = manager(tmp_path, clock, WATCHDOG_USEC="60000000", WATCHDOG_PID=str(os.getpid()))
    for _ in range(60):
        told.alive()
        clock.advance(1)
    assert ear.heard() == ["WATCHDOG=1"] * 4


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"},
    ],
)
def test_nobody_is_told_who_does_not_ask_this_process(
    tmp_path: Path, ear: Ear, variables: dict[str, str]
) -> None:
    manager(tmp_path, FakeClock(), **variables).alive()
    assert ear.heard() == []


def test_a_bar_that_moves_is_told_of_once_a_second(tmp_path: Path, ear: Ear) -> None:
    clock = FakeClock()
    told = manager(tmp_path, clock)
    for number in range(20):
        told.status(f"range {number}", passing=True)
        clock.advance(0.1)
    told.status("completed")
    assert ear.heard() == ["STATUS=range 0", "STATUS=range 10", "STATUS=completed"]


def test_nobody_listens_and_nothing_comes_of_it(tmp_path: Path) -> None:
    manager(tmp_path, FakeClock()).stopping()


def test_systemd_that_reads_nothing_keeps_nobody_waiting(tmp_path: Path, ear: Ear) -> None:
    told = manager(tmp_path, FakeClock())
    for number in range(2000):
        told.status(str(number))
    assert 0 < len(ear.heard()) < 2000


def test_a_child_does_not_speak_for_its_parent() -> None:
    given = {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1", "PATH": "/bin"}
    assert without_manager(given) == {"PATH": "/bin"}
