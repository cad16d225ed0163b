"""What a killed process leaves blocks and misleads nobody, and is gone after the next one.

`test_kill_points.py` looks at the folder after each of its kills too; here is what is made
once: the store, the files of `init`, the traceback of a defect. The suite kills at some of the
steps; `RECONCILE_TEST_LONG=1` at all of them.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import filelock
import pytest
import sqlite_utils  # noqa: F401 - so that no fork has to import it
from support.bad_inputs import AFTER, Night, Ticking, completed_night, copied
from support.cli import Cli
from support.killing import killed_before
from support.scene import NIGHTS, Scene, Table, night

from reconcile.cli.render.watcher import AnyWatcher

LONG = bool(os.environ.get("RECONCILE_TEST_LONG"))
OURS = {"reconcile.toml", "exports", "app.db", "reconcile.db", "reconcile.db.lock"}
"""All that a job's folder holds when nobody works."""


@pytest.fixture(scope="module")
def completed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    with pytest.MonkeyPatch.context() as patch:
        yield completed_night(Cli(tmp_path_factory.mktemp("completed"), patch))


@pytest.fixture
def fresh(completed: Night, tmp_path: Path) -> Callable[[], Night]:
    """Folders whose target has seen one night, and whose store is not there yet."""
    made = 0

    def copy() -> Night:
        nonlocal made
        made += 1
        night = copied(completed, tmp_path / str(made))
        night.store.unlink()
        (night.folder / "reconcile.db.lock").unlink()
        return night

    return copy


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def later(cli: Cli) -> None:
    """Whoever was killed has no lease any more."""
    cli.clock = Ticking()
    cli.clock.advance(600)
    cli.calls += 1  # that the killed call has counted in its own process only


@pytest.mark.parametrize(
    ("argv", "every"),
    [(("status",), 1 if LONG else 5), (("run", "entitlements"), 1 if LONG else 23)],
)
def test_a_store_whose_making_was_killed_at_any_step_is_made_by_the_next(
    fresh: Callable[[], Night], argv: tuple[str, ...], every: int
) -> None:
    number = 1
    night = fresh()
    while killed_before(number, night.folder, lambda: night.cli(*argv)):  # noqa: B023 - at once
        later(night.cli)
        after = night.cli("run", "entitlements")
        assert after.code == 0, f"killed before step {number}: {after}"
        assert names(night.folder) == OURS, f"killed before step {number}"
        assert night.cli("status").code == 0
        night = fresh()
        number += every
    assert number > 40, "it was killed while it made a store"


def test_a_spool_whose_making_was_killed_at_any_step_is_gone_after_the_next_run(
    fresh: Callable[[], Night],
) -> None:
    """A source that is not in order is sorted into a folder beside the store. A knock with
    nothing due does not look there; whoever works next does."""
    kills = 0
    for number in range(60, 1000, 3 if LONG else 29):
        night = fresh()
        head, *rows = AFTER.splitlines(keepends=True)
        night.source.write_text("".join([head, *reversed(rows)]))
        if not killed_before(number, night.folder, lambda: night.cli("run", "entitlements")):  # noqa: B023 - at once
            break
        kills += 1
        later(night.cli)
        after = night.cli("run", "entitlements")
        assert after.code == 0, f"killed before step {number}: {after}"
        if "nothing due" in after.words:
            assert night.cli("rerun", "entitlements", "latest", "-m", "why").code == 0
        assert names(night.folder) == OURS, f"killed before step {number}"
    assert kills > 3


@pytest.mark.parametrize("left", ["", "1\n", "999999\n", "reconcile is here"])
def test_a_lock_file_of_somebody_dead_or_of_somebody_else_blocks_nobody(
    fresh: Callable[[], Night], left: str
) -> None:
    night = fresh()
    lock = night.folder / "reconcile.db.lock"
    lock.write_text(left)
    lock.chmod(0o600)
    assert night.run("-q").code == 0
    assert names(night.folder) == OURS


def test_a_lock_that_somebody_really_has_is_waited_for(
    fresh: Callable[[], Night], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the test above would prove nothing."""
    night = fresh()
    monkeypatch.setattr("reconcile.stores.sqlite_files.CREATION_WAIT", 0.1)
    with filelock.FileLock(str(night.folder / "reconcile.db.lock")):
        assert night.run("-q").code == 75


@pytest.mark.parametrize("argv", [("init",), ("init", "--demo")])
def test_init_killed_at_any_step_is_done_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]
) -> None:
    complete = {"reconcile.toml", "export.csv", "app.db"} if argv[1:] else {"reconcile.toml"}
    kills = 0
    for number in range(1, 100, 1 if LONG or not argv[1:] else 3):
        folder = tmp_path / str(number)
        folder.mkdir()
        cli = Cli(folder, monkeypatch)
        if not killed_before(number, folder, lambda: cli(*argv)):  # noqa: B023 - at once
            break
        kills += 1
        if names(folder) != complete:
            assert "reconcile.toml" not in names(folder), "a configuration promises the rest"
            again = cli(*argv)
            assert again.code == 0, f"killed before step {number}: {again}"
        assert names(folder) == complete
        assert cli("status").code == 0
    assert kills > 2


def modes(folder: Path, prefix: str) -> dict[str, str]:
    """Who may do what with the files that begin with that name."""
    return {
        path.name: oct(stat.S_IMODE(path.stat().st_mode))
        for path in folder.iterdir()
        if path.name.startswith(prefix)
    }


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_the_store_and_its_logs_are_for_their_owner_only_while_it_is_worked_on(
    fresh: Callable[[], Night], mask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    night = fresh()
    before = os.umask(mask)
    try:
        pid = os.fork()
        if pid == 0:
            monkeypatch.setattr(AnyWatcher, "reached", killed_at("range_committed"))
            night.cli("run", "entitlements")
            os._exit(0)
        assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
        private = ["", "-wal", "-shm", ".lock"]
        assert modes(night.folder, "reconcile.db") == dict.fromkeys(
            [f"reconcile.db{suffix}" for suffix in private], "0o600"
        )
    finally:
        os.umask(before)


def killed_at(step: str) -> Callable[[AnyWatcher, str], None]:
    def reached(self: AnyWatcher, name: str) -> None:
        if name == step:
            os.kill(os.getpid(), signal.SIGKILL)

    return reached


def test_a_traceback_is_for_its_owner_only_whatever_the_umask(cli: Cli) -> None:
    cli.fails_with("run", ZeroDivisionError("oops"))
    before = os.umask(0)
    try:
        shown = cli("run", "entitlements")
    finally:
        os.umask(before)
    assert shown.code == 70
    (file,) = (cli.folder / "state").iterdir()
    assert f"its traceback is in {file}; please report it" in shown.words
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    return Cli(tmp_path, monkeypatch)


@pytest.mark.parametrize("step", ["commits@app.db:2", "commit@reconcile.db:9", "range_committed:1"])
def test_a_journal_of_a_killed_writer_is_gone_after_the_next_run(tmp_path: Path, step: str) -> None:
    """Real processes, killed in the middle of a write to one of the two databases."""
    scene = Scene(tmp_path / "scene", NIGHTS[2], range_size=5)
    truth: Table = night(11, 20)
    scene.write_night(NIGHTS[2], truth)
    killed = scene.run("run", "entitlements", step=f"{step}:SIGKILL")
    assert killed.code == -signal.SIGKILL, killed.err
    assert scene.files() > OURS - {"exports"}, "something is left to be cleaned up"
    assert scene.run("run", "entitlements").code == 0
    assert scene.files() == OURS - {"exports"}
    scene.check(NIGHTS[2], {})
    with sqlite3.connect(scene.store) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
