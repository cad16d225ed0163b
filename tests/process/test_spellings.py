"""A night under a key policy, killed: what each side spells in its own way is still one account."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from support.scene import NIGHTS, Scene

TONIGHT = NIGHTS[-1]
ACCOUNTS = 60


@pytest.mark.parametrize("step", ["range_planned:4:SIGKILL", "range_committed:2:SIGKILL"])
def test_after_a_kill_rows_still_change_once_and_in_the_tables_own_spelling(
    tmp_path: Path, step: str
) -> None:
    scene = Scene(
        tmp_path / "scene",
        start=TONIGHT,
        range_size=10,
        extra='key_policy = "casefold"\nguards = { max_revoke = "100%", max_update = "100%" }\n',
    )
    names = [f"acct-{n:03}" for n in range(ACCOUNTS)]
    # Every other account in capitals on one side, every third on the other: neither is in the
    # order of the other, nor in that of the normalised one.
    exported = {n: n.upper() if i % 2 else n for i, n in enumerate(names)}
    held = {n: n.upper() if i % 3 else n for i, n in enumerate(names[:-5])}
    scene.write_night(TONIGHT, {(exported[n], "x"): "2" for n in names[3:]})
    before = {(held[n], "x"): "12"[i % 2] for i, n in enumerate(held)}
    with closing(sqlite3.connect(scene.target)) as db:
        db.executemany(
            "INSERT INTO entitlements VALUES (?, ?, ?)", [(*k, v) for k, v in before.items()]
        )
        db.commit()
    after = {(held.get(n, n), "x"): "2" for n in names[3:]}

    assert scene.run("run", "entitlements", step=step).code == -9
    assert scene.rows() != after
    done = scene.run("run", "entitlements")
    assert done.code == 0, done.err
    assert scene.rows() == after
    changed = before.items() ^ after.items()
    log = scene.log(TONIGHT)
    assert len(log) == len(set(log)) == len({key for key, _ in changed})
