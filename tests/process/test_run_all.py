"""`run --all`: one line of cron for all jobs, each in a process of its own."""

from __future__ import annotations

import signal
import sqlite3
from pathlib import Path

import pytest
from support.fakes import eventually
from support.scene import NIGHTS, Scene, is_stopped, night

from reconcile.cli.environment import real_environment
from reconcile.cli.fleet import Fleet

NIGHT = NIGHTS[2]
ALL = ("run", "--all")
LEASE = '[jobs.entitlements.lease]\nttl = "10m"\n'
OTHERS = """
[jobs.beside]
schedule = "0 0 * * *"
start = {night}
source = "beside.csv"
target = "beside.db"
[jobs.older]
schedule = "0 0 * * *"
start = {older}
source = "older.csv"
target = "older.db"
catch_up.policy = "all"
"""
EXPORT = "account_id,entitlement,level\nann,seats,1\n"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Three jobs: the scene's own, one beside it, and one that owes the night before, too."""
    extra = LEASE + OTHERS.format(night=NIGHT, older=NIGHTS[1])
    made = Scene(tmp_path / "scene", NIGHT, range_size=30, extra=extra)
    made.write_night(NIGHT, night(51, 90))
    for name in ("beside", "older"):
        (made.folder / f"{name}.csv").write_text(EXPORT)
        with sqlite3.connect(made.folder / f"{name}.db") as db:
            db.execute(
                f"CREATE TABLE {name} (account_id TEXT NOT NULL, entitlement TEXT NOT NULL,"
                " level TEXT, PRIMARY KEY (account_id, entitlement))"
            )
        db.close()
    return made


def completed(text: str) -> list[str]:
    """The jobs of which a night was completed, in order."""
    return [line.split()[1] for line in text.splitlines() if " completed in " in line]


def test_a_job_that_hangs_keeps_no_other_waiting_and_a_signal_reaches_each(scene: Scene) -> None:
    holder = scene.start_process("run", "entitlements", step="range_committed:1:SIGSTOP")
    eventually(lambda: is_stopped(holder.pid), "it stops itself")
    every = scene.start_process(*ALL, "--wait", "5m")
    assert every.stderr is not None
    said = ""
    while len(completed(said)) < 3:
        line = every.stderr.readline()
        assert line, said
        said += line
    assert sorted(completed(said)) == ["beside", "older", "older"]
    while f"pid {holder.pid} until" not in said:
        said += every.stderr.readline()
    every.send_signal(signal.SIGTERM)
    ended = scene.end(every)
    assert (ended.code, ended.out) == (143, "")
    assert "entitlements interrupted" in ended.err
    holder.send_signal(signal.SIGCONT)
    assert scene.end(holder).code == 0
    again = scene.run(*ALL)
    assert (again.code, again.err.count("nothing due"), again.err.count("\n")) == (0, 3, 3)


def test_the_oldest_interval_of_all_decides_and_each_job_has_its_message(scene: Scene) -> None:
    (scene.folder / "older.csv").write_text(EXPORT.rstrip())  # cut
    (scene.folder / "exports" / f"{NIGHT}.csv").unlink()
    found = scene.run(*ALL, "--json", "--jobs", "2").json()
    jobs = [(job["job"], job["exit"], job["outcome"]) for job in found["jobs"]]
    assert jobs == [("beside", 0, "completed"), ("entitlements", 69, "failed"),
                    ("older", 65, "failed")]  # fmt: skip
    assert found["exit"] == 65
    assert [one["interval"] for one in found["jobs"][2]["intervals"]] == [NIGHTS[1], NIGHT]
    again = scene.run(*ALL)
    assert again.code == 1, "they wait for their retries, and the oldest still decides"
    assert {line.split()[1] for line in again.err.splitlines()} == {
        "beside",
        "entitlements",
        "older",
    }
    quiet = scene.run(*ALL, "-q")
    assert (quiet.code, quiet.err) == (1, "")


def test_a_refusal_of_one_job_is_told_beside_the_others(scene: Scene) -> None:
    (scene.folder / "older.db").write_bytes(b"no database at all, whatever its name says" * 100)
    ended = scene.run(*ALL, "--jobs", "1")
    assert completed(ended.err) == ["beside", "entitlements"]
    assert "older" in ended.err.splitlines()[-1]
    assert ended.code == 65


def test_of_many_jobs_that_are_due_together_no_more_work_at_once_than_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_work = []
    relay = Fleet._relay

    def counted(fleet: Fleet) -> None:
        at_work.append(len(fleet._children))
        relay(fleet)

    monkeypatch.setattr(Fleet, "_relay", counted)
    ended = Fleet(real_environment(), ["--version"], 2).run(["a", "b", "c"])
    assert [one.job for one in ended] == ["a", "b", "c"]
    assert max(at_work) == 2
