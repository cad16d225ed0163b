"""A source that is not in order, read by real processes that are killed or wait."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support.fakes import eventually
from support.scene import CALL, NIGHTS, is_stopped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.scene import Scene, Table

SECOND = NIGHTS[2]
RUN = ("run", "entitlements", "--interval", SECOND)
KILLED_IN = ["Sorter.add", "Draft.finish", "_sync_folder"]
"""Where a spool is made: rows are taken; it is complete; it is renamed."""


@pytest.fixture
def unsorted(second_night: Callable[[], tuple[Scene, Table]]) -> tuple[Scene, Table]:
    """Night two, exported in any order but for its first rows."""
    scene, before = second_night()
    path = scene.folder / "exports" / f"{SECOND}.csv"
    head, *rows = path.read_text().splitlines(keepends=True)
    first, rest = rows[:800], rows[800:]
    random.Random(7).shuffle(rest)
    path.write_text("".join([head, *first, *rest]))
    return scene, before


def spools(scene: Scene) -> list[Path]:
    """What is in the folder beside the store; the folder itself where it is empty."""
    folder = scene.folder / "reconcile.db-spool"
    return (sorted(folder.iterdir()) or [folder]) if folder.exists() else []


def dying_in(scene: Scene, function: str, how: str = "SIGKILL") -> subprocess.Popen[str]:
    """A run that gets the signal when it calls that function."""
    owner, _, name = function.rpartition(".")
    owner = f".{owner}" if owner else ""
    module = "sorting" if owner == ".Sorter" else "spool"
    code = (
        "import os, signal\n"
        f"from reconcile.core.sources import {module}\n"
        f"real = {module}{owner}.{name}\n"
        "def dying(*args):\n"
        f"    os.kill(os.getpid(), signal.{how})\n"
        "    return real(*args)\n"
        f"{module}{owner}.{name} = dying\n"
    )
    return scene.launch([sys.executable, "-c", code + CALL, *RUN])


def test_in_any_order_the_night_is_the_same_and_nothing_is_left(
    unsorted: tuple[Scene, Table],
) -> None:
    scene, before = unsorted
    assert scene.run(*RUN, "--dry-run").code == 0
    assert spools(scene) == []
    assert scene.run(*RUN).code == 0
    scene.check(SECOND, before)
    assert spools(scene) == []


@pytest.mark.parametrize("function", KILLED_IN)
def test_killed_while_it_sorts_the_next_run_leaves_no_spool(
    unsorted: tuple[Scene, Table], function: str
) -> None:
    scene, before = unsorted
    killed = scene.end(dying_in(scene, function))
    assert killed.code == -signal.SIGKILL
    (left,) = spools(scene)
    assert left.name.startswith("entitlements.")
    assert left.suffix == (".spool" if function == "_sync_folder" else ".tmp")
    assert left.stat().st_mode & 0o777 == 0o600
    after = scene.run(*RUN)
    assert after.code == 0, after.err
    scene.check(SECOND, before)
    assert spools(scene) == []


@pytest.mark.parametrize("step", ["checkpoint_saved:12", "range_committed:3"])
def test_killed_later_the_next_run_reads_the_spool_that_is_there(
    unsorted: tuple[Scene, Table], step: str
) -> None:
    """Eight hundred rows are in order, so the first checkpoints are of a plan that is void."""
    scene, before = unsorted
    scene.run(*RUN, step=f"{step}:SIGKILL")
    (left,) = spools(scene)
    made = left.stat()
    again = scene.run(*RUN, step=f"{step}:SIGKILL")
    assert again.code == -signal.SIGKILL
    assert left.stat() == made, "it was not made again"
    after = scene.run(*RUN, "-v")
    assert after.code == 0, after.err
    scene.check(SECOND, before)
    assert spools(scene) == []


def test_terminated_it_keeps_the_spool_and_a_changed_source_drops_it(
    unsorted: tuple[Scene, Table],
) -> None:
    scene, _ = unsorted
    assert scene.run(*RUN, step="range_committed:1:SIGTERM").code == 143
    assert [path.suffix for path in spools(scene)] == [".spool"]
    scene.write_night(SECOND, scene.nights[SECOND] | {("acct-00000", "new"): "1"})
    after = scene.run(*RUN)
    assert after.code == 0, after.err
    assert scene.rows() == scene.nights[SECOND]
    assert spools(scene) == []


def test_a_stopped_run_that_was_taken_over_disturbs_nobody(
    unsorted: tuple[Scene, Table],
) -> None:
    scene, before = unsorted
    config = scene.folder / "reconcile.toml"
    config.write_text(config.read_text() + 'lease.ttl = "2s"\n')
    stopped = dying_in(scene, "Draft.finish", "SIGSTOP")
    eventually(lambda: is_stopped(stopped.pid), "it is stopped")
    eventually(lambda: scene.grant()[1], "its lease expires")
    after = scene.run(*RUN)
    assert after.code == 0, after.err
    os.kill(stopped.pid, signal.SIGCONT)
    assert scene.end(stopped).code in (1, 80)
    scene.check(SECOND, before)
    assert spools(scene) == []


def test_a_range_compared_again_after_an_approval_reads_the_whole_source(
    unsorted: tuple[Scene, Table],
) -> None:
    """The spool is gone by then. Read from the beginning of the file, which is out of order,
    the first range would have too few rows, and the rest of its rows would be revoked."""
    scene, _ = unsorted
    path = scene.folder / "exports" / f"{SECOND}.csv"
    head, *rows = path.read_text().splitlines(keepends=True)
    late = [row for row in rows if row.startswith("acct-00007,")]
    path.write_text("".join([head, *(row for row in rows if row not in late), *late]))
    config = scene.folder / "reconcile.toml"
    guards = 'max_update = "0%"\nguards.max_revoke = "100%"\nguards.max_revoke_min = 0\n'
    config.write_text(f"{config.read_text()}guards.{guards}")
    waits = scene.run(*RUN, "--json")
    assert waits.code == 4, waits.err
    assert spools(scene) == []
    with sqlite3.connect(scene.target) as db:
        db.execute("INSERT INTO entitlements VALUES ('acct-00001', 'by hand', '')")
    db.close()
    hash_ = waits.json()["intervals"][0]["guard"]["hash"]
    approved = scene.run("resume", "entitlements", SECOND, "--approve", hash_, "-m", "meant")
    assert approved.code == 0, approved.err
    assert late
    assert scene.rows() == scene.nights[SECOND]
    assert spools(scene) == []
