"""With `interval_column` each night has its own rows: none can undo another."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator

import pytest
from support.scenes import CONFIG, RUN, export
from support.screens import EYES, OTHER, Stage, new_folder
from support.small import HAS, write_source

PROGRAM = EYES[-1]
WHY = ("-m", "why")
TARGET = """
[jobs.entitlements.target]
url = "app.db"
interval_column = "as_of"
"""


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    folder = new_folder()
    made = Stage(folder, monkeypatch)
    (folder / "reconcile.toml").write_text(CONFIG.replace('target = "app.db"\n', "") + TARGET)
    (folder / "exports").mkdir()
    with sqlite3.connect(folder / "app.db") as db:
        db.execute(
            "CREATE TABLE entitlements (as_of TEXT, account_id TEXT NOT NULL, entitlement TEXT NOT"
            " NULL, level TEXT, PRIMARY KEY (as_of, account_id, entitlement))"
        )
    db.close()
    for day, rows in (("27", HAS), ("28", HAS[:-6]), ("29", HAS[:-3])):
        write_source(folder / f"exports/2026-11-{day}.csv", rows)
    yield made
    shutil.rmtree(folder)


def held(stage: Stage) -> dict[str, int]:
    """How many rows each night has."""
    db = sqlite3.connect(stage.folder / "app.db")
    found = dict(db.execute("SELECT as_of, count(*) FROM entitlements GROUP BY 1").fetchall())
    db.close()
    return found


def nights(stage: Stage) -> dict[str, str]:
    shown = json.loads(stage.elsewhere(eye=PROGRAM)("status", "entitlements").data)
    return {one["interval"][-2:]: one["shows"] for one in shown["intervals"]}


ALL = {"2026-11-27": 120, "2026-11-28": 114, "2026-11-29": 117}


def test_each_night_has_its_own_rows_and_revokes_nothing_of_another(stage: Stage) -> None:
    stage.day(29)
    shown = stage(*RUN)
    assert shown.code == 0, str(shown)
    assert held(stage) == ALL
    assert nights(stage) == {"27": "completed", "28": "completed", "29": "completed"}


def test_an_older_night_may_be_worked_after_a_newer_one(stage: Stage) -> None:
    (stage.folder / "exports/2026-11-28.csv").rename(stage.folder / "late.csv")
    stage.day(29)
    assert stage(*RUN).code == 69
    assert nights(stage) == {"27": "completed", "28": "overdue", "29": "completed"}
    (stage.folder / "late.csv").rename(stage.folder / "exports/2026-11-28.csv")
    stage.clock.advance(600)
    shown = stage(*RUN)
    assert shown.code == 0, str(shown)
    assert held(stage) == ALL
    assert nights(stage) == {"27": "completed", "28": "completed", "29": "completed"}
    stage.clock.advance(4000)
    assert stage(*RUN).code == 0
    assert "target_rewound" not in str(stage.elsewhere(eye=PROGRAM)("status", *RUN[1:], "latest"))


def test_a_rerun_of_an_older_night_changes_its_own_rows(stage: Stage) -> None:
    stage.day(29)
    stage(*RUN)
    export(HAS[:-9], "2026-11-27")(stage)
    shown = stage("rerun", "entitlements", "2026-11-27", *WHY)
    assert shown.code == 0, str(shown)
    assert held(stage) == {**ALL, "2026-11-27": 111}
    logged = stage("changes", "entitlements", "2026-11-27").data.splitlines()
    assert sum("\trevoke\t" in line for line in logged) == 9


def test_guards_judge_the_rows_of_the_night(stage: Stage) -> None:
    stage.day(29)
    stage(*RUN)
    export(HAS[:100], "2026-11-27")(stage)
    shown = stage.elsewhere(eye=PROGRAM)("rerun", "entitlements", "2026-11-27", *WHY)
    assert shown.code == 4
    guard = json.loads(shown.data)["guard"]
    assert (guard["guard"], guard["base"], guard["planned"]["revoke"]) == ("max_revoke", 120, 20)
    assert held(stage) == ALL


def test_killed_in_the_middle_an_older_night_goes_on_after_a_newer_one(stage: Stage) -> None:
    stage.day(28, 12)
    export(HAS, "2026-11-28")(stage)
    stage.killed_at("range_committed", 3, "run", "entitlements", "--interval", "2026-11-28")
    other = stage.elsewhere(holder=OTHER, dead=frozenset({"one"}))
    stage.day(29)
    newer = other("run", "entitlements", "--interval", "2026-11-29")
    assert newer.code == 0, str(newer)
    shown = other(*RUN)
    assert shown.code == 0, str(shown)
    assert held(stage) == {**ALL, "2026-11-28": 120}
    assert "2026-11-28 resumed at range 3/5" in shown.words
    assert "planned anew" not in shown.words
    db = sqlite3.connect(stage.folder / "app.db")
    logged = db.execute('SELECT interval, "key", count(*) FROM reconcile_changes GROUP BY 1, 2')
    assert {count for *_, count in logged} == {1}, "a change was made twice"
    db.close()


def test_a_table_without_the_column_is_refused(stage: Stage) -> None:
    path = stage.folder / "reconcile.toml"
    path.write_text(path.read_text().replace('"as_of"', '"night"'))
    stage.day(29)
    shown = stage(*RUN)
    assert shown.code == 65
    assert "has no column night" in shown.words
