"""A command whose holder is cut off from its store has ended before the lease could be granted
elsewhere: all of it, measured by the stamps of boot time that it leaves in a file.

The suite does each way once; `RECONCILE_TEST_LONG=1` ten times.
"""

from __future__ import annotations

import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from support.commands import boot, wait_for
from support.hosted import KINDS, opened
from support.stamping import Stamping
from support.wired import begin, wired

from reconcile.core.model import LeaseKey

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = 10 if os.environ.get("RECONCILE_TEST_LONG") else 1
HOW = ("cut", "silence")


def last(scene: Stamping) -> float:
    """Its newest stamp."""
    return max(max(stamps) for stamps in scene.stamps().values())


def left(folder: Path, kind: str, how: str) -> timedelta:
    """One holder, cut off; how much of its lease was left at the last stamp of its command."""
    with wired(kind) as wire:
        scene = Stamping(folder, extra=wire.near)
        watch = opened(wire.direct)
        watch.facts()  # it is made by who has patience
        holder = scene.start_process("run", "stamps")
        scene.wait_for_both()
        time.sleep(random.random() * scene.ttl / 5)  # anywhere between two renewals
        getattr(wire.proxy, how)()
        ran, stands = scene.end(holder), watch.lease(LeaseKey("stamps"))
        watch.close()
        assert ran.code == 69, ran.err
        assert "Traceback" not in ran.err
        assert stands is not None
        assert not stands.released
        newest = last(scene)
        wait_for(lambda: boot() > newest + 0.5, "time in which it could have left another")
        assert newest == last(scene)
        return stands.expires_at - (datetime.now(UTC) - timedelta(seconds=boot() - newest))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.timeout(600 if ROUNDS > 1 else 120)
def test_a_command_has_ended_before_its_lease_could_be_granted_elsewhere(
    tmp_path: Path, kind: str
) -> None:
    begin(kind)
    ways = [how for _ in range(ROUNDS) for how in HOW]
    with ThreadPoolExecutor(2) as pool:
        played = [
            pool.submit(left, tmp_path / f"{number}", kind, how) for number, how in enumerate(ways)
        ]
    for how, one in zip(ways, played, strict=True):
        print(kind, how, one.result())  # noqa: T201
    assert min(one.result() for one in played) > timedelta(0)
