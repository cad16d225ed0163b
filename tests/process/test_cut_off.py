"""A holder that is cut off from its store for longer than it may trust its lease: it has ended
before the lease could be granted elsewhere, whatever it works at and whatever it waits for.

A connection may end, or stand and be silent: then a request waits for an answer that never comes.
The suite does each once; `RECONCILE_TEST_LONG=1` ten times, with lease after lease.
"""

from __future__ import annotations

import os
import random
import select
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, ClassVar

import pytest
from support.fakes import eventually
from support.forks import DRIVERS
from support.hosted import KINDS, opened
from support.scene import NIGHTS, Scene, Table, drifted, night
from support.wired import begin, wired

from reconcile.core.model import LeaseKey

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

TONIGHT = NIGHTS[2]
RUN = ("run", "entitlements")
TRUTH = night(71, 300)
BEFORE: Table = drifted(TRUTH, 72)
LONG = bool(os.environ.get("RECONCILE_TEST_LONG"))
TTLS = (2.0, 3.0, 12.0) if LONG else (2.0,)
ROUNDS = 10 if LONG else 1
HOW = ("cut", "silence")
DOES = ("hang", "wait=0.3")
"""Whether its work comes back when it is broken off."""


class Cut(Scene):
    """A night whose store is on a server."""

    variables: ClassVar[dict[str, str]] = DRIVERS

    def works(self) -> bool:
        """Whether some ranges are in the target."""
        try:
            return self.ask(self.target, "SELECT count(*) FROM reconcile_ranges")[0][0] >= 3
        except sqlite3.OperationalError:  # it has not made its tables yet
            return False


def ended(process: subprocess.Popen[str]) -> datetime:
    """When it did, to the moment: how busy the test is does not count."""
    descriptor = os.pidfd_open(process.pid)
    try:
        assert select.select([descriptor], [], [], 60)[0], "it has not ended"
        return datetime.now(UTC)
    finally:
        os.close(descriptor)


def left(folder: Path, kind: str, how: str, does: str, ttl: float) -> timedelta:
    """One holder, cut off; how much of its lease was left when it had ended."""
    with wired(kind) as wire:
        lease = f'[jobs.entitlements.lease]\nttl = "{ttl:g}s"\n'
        scene = Cut(folder, TONIGHT, range_size=10, extra=f'[store]\nurl = "{wire.near}"\n{lease}')
        scene.write_night(TONIGHT, TRUTH)
        scene.fill(BEFORE)
        watch = opened(wire.direct)
        watch.facts()  # it is made by who has patience
        count = "*" if does.startswith("wait") else "3"
        holder = scene.start_process(*RUN, step=f"range_committed:{count}:{does}")
        eventually(scene.works, "it works")
        time.sleep(random.random() * ttl / 5)  # anywhere between two renewals
        getattr(wire.proxy, how)()
        at = ended(holder)
        ran, stands = scene.end(holder), watch.lease(LeaseKey("entitlements"))
        watch.close()
        assert stands is not None
        assert not stands.released
        assert ran.code == 69, ran.err
        assert "Traceback" not in ran.err
        text = (folder / "reconcile.toml").read_text()
        (folder / "reconcile.toml").write_text(text.replace(wire.near, wire.direct))
        after = scene.run(*RUN, "--wait", "20s", step="elsewhere")
        assert after.code == 0, after.err
        scene.check_target(TONIGHT, BEFORE)
        return stands.expires_at - at


@pytest.mark.parametrize("ttl", TTLS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.timeout(600 if LONG else 120)
def test_a_holder_cut_off_has_ended_before_its_lease_could_be_granted_elsewhere(
    tmp_path: Path, kind: str, ttl: float
) -> None:
    begin(kind)
    ways = [(how, DOES[(n + (how == "cut")) % 2]) for n in range(ROUNDS) for how in HOW]
    with ThreadPoolExecutor(2) as pool:
        played = [
            pool.submit(left, tmp_path / f"{number}", kind, *way, ttl)
            for number, way in enumerate(ways)
        ]
    for (how, does), one in zip(ways, played, strict=True):
        print(kind, ttl, how, does, one.result())  # noqa: T201
    assert min(one.result() for one in played) > timedelta(0)
