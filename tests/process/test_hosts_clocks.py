"""Hosts whose clocks are ten minutes fast and slow, by libfaketime, and a store that has a clock
of its own: no lease is lost or stolen, and each host is told."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from support.fakes import eventually
from support.hosted import FIRST, KINDS, RUN, SECOND, Hosted
from support.scene import is_stopped

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LONG = bool(os.environ.get("RECONCILE_TEST_LONG"))
TTL = timedelta(seconds=10 if LONG else 2)
"""A machine that is busy with more must not cost a holder its lease."""


def out_by(seconds: int) -> list[str]:
    """How to run a command on a host whose clock is out."""
    faketime = shutil.which("faketime")
    if faketime is None:
        assert os.environ.get("RECONCILE_TEST_SYSTEM") != "1", "faketime missing"
        pytest.skip("not run: faketime missing")
    # The program itself is a process in between, which would be stopped in the other's place.
    ask = [faketime, "-m", "-f", "+0", "printenv", "LD_PRELOAD"]
    library = subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip()
    fake = {"LD_PRELOAD": library, "FAKETIME": f"{seconds:+d}s", "DONT_FAKE_MONOTONIC": "1"}
    return ["env", *(f"{name}={value}" for name, value in fake.items())]


@pytest.fixture(params=KINDS)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hosted]:
    made = Hosted.made(request.param, tmp_path / "scene", f"{TTL.seconds}s")
    yield made
    made.wipe()


@pytest.mark.parametrize("seconds", [600, -600] if LONG else [600])
def test_hosts_ten_minutes_fast_and_slow_lose_no_lease_and_steal_none(
    scene: Hosted, seconds: int
) -> None:
    here, there = out_by(-seconds), out_by(seconds)
    holder = scene.launch([*here, *scene.command(*RUN, step="range_committed:3:hang")])
    eventually(lambda: scene.ranges_of(SECOND) >= 3, "it works")
    granted = scene.lease()
    busy = scene.end(scene.launch([*there, *scene.command(*RUN, step="elsewhere")]))
    assert busy.code == 75, busy.err
    eventually(lambda: scene.lease().expires_at > granted.granted_at + 2 * TTL, "it renews")
    assert scene.lease().fence == granted.fence
    holder.send_signal(signal.SIGSTOP)
    eventually(lambda: is_stopped(holder.pid), "it is stopped")
    left = scene.lease()
    wait = scene.command(*RUN, "--wait", "30s", step="elsewhere")
    other = scene.end(scene.launch([*there, *wait]))
    assert other.code == 0, other.err
    taken = scene.lease()
    late = taken.granted_at - left.expires_at
    print("granted so long after the old lease had ended:", late)  # noqa: T201
    assert timedelta(0) <= late < timedelta(seconds=1)
    assert taken.fence.generation == left.fence.generation + 1
    holder.send_signal(signal.SIGCONT)
    _, err = holder.communicate(timeout=60)
    assert holder.returncode == 80, err
    mine, theirs = ("behind", "ahead of")[:: 1 if seconds > 0 else -1]
    # An answer that is late by a second on a busy machine is a second of the difference.
    for way, said in ((mine, err), (theirs, other.err)):
        assert re.search(rf"this host's clock is (59\d|60\d)s {way} the store's", said), said
    scene.check(SECOND, scene.nights[FIRST])
