"""A prune that is killed leaves all or nothing, and no night to be worked again."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Callable
from datetime import date, timedelta

import pytest
from support.scene import NIGHTS, Scene, Table

FIRST = NIGHTS[1]
OLD = [str(date.fromisoformat(FIRST) - timedelta(days=ago)) for ago in (502, 501, 500)]
WHERE = "WHERE job = 'entitlements' AND kind ="


def aged(scene: Scene) -> None:
    """Three nights of long ago, as they would be had the job begun then, and nothing between."""
    db = sqlite3.connect(scene.store)
    (value,) = db.execute(f"SELECT value FROM record {WHERE} 'interval'").fetchone()
    for night in OLD:
        key, record = f"{night}T00:00:00Z", json.loads(value)
        record |= {"id": night, "scheduled_at": f"{night}T00:00:00.000000Z", "plan": None}
        for kind, below, text in (("interval", "", json.dumps(record)), ("event", "/1", "{}")):
            db.execute(
                "INSERT INTO record (kind, job, key, version, tag, at, value, has_blob)"
                " VALUES (?, 'entitlements', ?, 1, '', 0, ?, 0)",
                (kind, key + below, text),
            )
    (value,) = db.execute(f"SELECT value FROM record {WHERE} 'job'").fetchone()
    job = json.loads(value)
    job["horizon_at"] = f"{OLD[0]}T00:00:00.000000Z"
    job["schedules"][0][0] = job["horizon_at"]
    job["settled_at"] = f"{FIRST}T00:00:00.000000Z"
    db.execute(f"UPDATE record SET value = ? {WHERE} 'job'", (json.dumps(job),))
    db.commit()
    db.close()


def stands(scene: Scene) -> tuple[list[str], str]:
    """Which old nights there are, and where the horizon is."""
    found = scene.ask(scene.store, f"SELECT key FROM record {WHERE} 'interval' ORDER BY key")
    ((job,),) = scene.ask(scene.store, f"SELECT value FROM record {WHERE} 'job'")
    return [key[:10] for (key,) in found if key[:10] in OLD], json.loads(job)["horizon_at"][:10]


@pytest.mark.parametrize("point", ["commit@reconcile.db:1", "commits@reconcile.db:1", "pruned:1"])
def test_killed_around_its_commit_a_prune_leaves_all_or_nothing(
    point: str, second_night: Callable[[], tuple[Scene, Table]]
) -> None:
    scene, _ = second_night()
    aged(scene)
    killed = scene.run("prune", step=f"{point}:SIGKILL")
    assert killed.code == -signal.SIGKILL
    assert stands(scene) == (([], OLD[-1]) if point == "pruned:1" else (OLD, OLD[0]))
    done = scene.run("prune", "--json")
    assert done.code == 0, done.err
    assert done.json()["jobs"][0]["intervals"] == (0 if point == "pruned:1" else 3)
    assert stands(scene) == ([], OLD[-1])


def test_what_a_night_prunes_when_it_is_done_never_comes_due_again(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, before = second_night()
    aged(scene)
    killed = scene.run("run", "entitlements", step="pruned:1:SIGKILL")
    assert killed.code == -signal.SIGKILL, killed.err
    assert stands(scene) == ([], OLD[-1])
    again = scene.run("run", "entitlements")
    assert (again.code, "nothing due" in again.err) == (0, True), again.err
    assert stands(scene) == ([], OLD[-1])
    scene.check(NIGHTS[2], before)
    asked = scene.run("rerun", "entitlements", OLD[1], "-m", "why")
    assert (asked.code, "pruned" in asked.err) == (2, True), asked.err
