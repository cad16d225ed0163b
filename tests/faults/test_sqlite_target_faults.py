"""A SQLite target whose file, disk, lock or process fails: nothing of a range stays."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.fakes import FakeClock
from support.target import EVERYTHING, Bed, RealClock, commit, fence, grant, part, proof

from reconcile.core.errors import (
    AccessDenied,
    LeaseLapsed,
    ReconcileError,
    TargetUnreachable,
    TargetUnusable,
)
from reconcile.core.rows import Row

ROWS: list[Row] = [(f"account-{i:06}", "x", "1" * 50) for i in range(3000)]
GRANTS = [grant(*row) for row in ROWS]
NOBODY = 65534


@pytest.fixture(params=["delete", "wal"])
def bed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bed]:
    made = Bed(tmp_path, wal=request.param == "wal")
    yield made
    made.close()


def untouched(bed: Bed) -> bool:
    tables = ("entitlements", "reconcile_changes", "reconcile_ranges")
    return [bed.count(table) for table in tables] == [0, 0, 0]


# --- locks


def test_a_lock_held_for_too_long_is_said_so_and_nothing_is_done(bed: Bed) -> None:
    target = bed.fenced()
    bed.other.execute("BEGIN IMMEDIATE")
    for act in (
        lambda: bed.target().raise_fence(fence(2), "store", timedelta(seconds=0.3)),
        lambda: commit(target, GRANTS, ROWS, time=0.3),
    ):
        with pytest.raises(TargetUnreachable, match="locked by another program") as refused:
            act()
        assert str(bed.path) in refused.value.hint
    bed.other.execute("COMMIT")
    assert untouched(bed)
    assert commit(target, GRANTS, ROWS)


def test_a_lock_that_is_given_back_is_waited_for(bed: Bed) -> None:
    waiting = threading.Event()

    class Watched(RealClock):
        def wait(self, seconds: float, wake: threading.Event) -> bool:
            waiting.set()
            return super().wait(seconds, wake)

    bed.fenced()
    target = bed.target(clock=Watched())
    bed.other.execute("BEGIN IMMEDIATE")
    found: list[Any] = []
    thread = threading.Thread(
        target=lambda: found.append(target.raise_fence(fence(2), "store", timedelta(seconds=20)))
    )
    thread.start()
    assert waiting.wait(20)
    bed.other.execute("COMMIT")
    thread.join(20)
    assert found[0].generation == 1


def test_a_reader_that_delays_the_commit_delays_it_no_longer_than_the_lease(
    tmp_path: Path,
) -> None:
    bed = Bed(tmp_path, wal=False)
    target = bed.fenced()
    bed.other.execute("BEGIN")
    bed.other.execute("SELECT count(*) FROM entitlements").fetchone()
    with pytest.raises(TargetUnreachable, match="locked"):
        commit(target, GRANTS, ROWS, time=0.6)
    bed.other.execute("ROLLBACK")
    assert untouched(bed)
    assert commit(target, GRANTS, ROWS)
    bed.close()


def test_jobs_with_scopes_of_their_own_wait_for_each_other(bed: Bed) -> None:
    bed.other.execute("ALTER TABLE entitlements ADD origin TEXT AS (substr(account_id, 1, 1))")
    failures: list[Exception] = []

    def work(job: str) -> None:
        try:
            target = bed.target(job, scope=f"origin = '{job}'", columns=("entitlement", "level"))
            target.raise_fence(fence(1, job=job), "store", timedelta(seconds=20))
            rows: list[Row] = [(f"{job}{i}", "x", "1") for i in range(20)]
            for i, row in enumerate(rows):
                piece = part([grant(*row)], rows[: i + 1], number=i, plan=job)
                target.commit(fence(1, job=job), piece, RealClock().boot() + 20)
        except Exception as error:  # noqa: BLE001 - shown by the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(job,)) for job in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert bed.count("entitlements") == bed.count("reconcile_changes") == 60


# --- the lease


def test_a_lease_that_ends_during_the_work_takes_all_of_it_back(bed: Bed) -> None:
    class Jumping(FakeClock):
        """The host is suspended just when the time is noted, before the commit."""

        def now(self) -> datetime:
            self.advance(100.0)
            return super().now()

    clock = Jumping()
    target = bed.fenced(clock=clock)
    with pytest.raises(LeaseLapsed):
        target.commit(fence(1), part(GRANTS, ROWS), clock.boot() + 60.0)
    assert untouched(bed)
    assert target.commit(fence(1), part(GRANTS, ROWS), clock.boot() + 160.0)


ENDLESS = """CREATE TRIGGER slow AFTER INSERT ON entitlements BEGIN
  SELECT count(*) FROM (
    WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c);
END"""


def test_work_that_is_broken_off_leaves_nothing_and_goes_on_no_more(bed: Bed) -> None:
    target = bed.fenced()
    bed.other.execute(ENDLESS)
    ended: list[Exception] = []

    def work() -> None:
        try:
            commit(target, GRANTS, ROWS, time=60)
        except ReconcileError as error:
            ended.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive() and not _locked(bed):
        pass
    target.interrupt()
    thread.join(20)
    assert [type(error) for error in ended] == [LeaseLapsed]
    bed.other.execute("DROP TRIGGER slow")
    assert untouched(bed)
    for act in (
        target.schema,
        lambda: target.lines(EVERYTHING),
        lambda: commit(target, GRANTS, ROWS),
        lambda: target.complete(fence(1), proof()),
    ):
        with pytest.raises(LeaseLapsed):
            act()
    target.close()
    target.interrupt()
    assert commit(bed.target(), GRANTS, ROWS)


def test_waiting_for_a_lock_is_broken_off_too(bed: Bed) -> None:
    target = bed.fenced()
    bed.other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.2, target.interrupt)
    timer.start()
    with pytest.raises(LeaseLapsed):
        commit(target, GRANTS, ROWS, time=60)
    timer.join()
    bed.other.execute("ROLLBACK")


def _locked(bed: Bed) -> bool:
    try:
        bed.other.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return True
    bed.other.execute("ROLLBACK")
    return False


# --- the process


WRITER = """
import sys
from pathlib import Path

sys.path.insert(0, {tests!r})
from support.target import Bed, commit, grant
from reconcile.core.targets.sqlite_database import Database

def stop(self, by):
    print("uncommitted", flush=True)
    sys.stdin.read()

Database.commit = stop
bed = Bed.__new__(Bed)
bed.path, bed._targets = Path({path!r}), []
rows = [(f"account-{{i:06}}", "x", "1" * 50) for i in range(3000)]
commit(bed.target(), [grant(*row) for row in rows], rows)
"""


def test_a_writer_killed_within_its_transaction_leaves_nothing(bed: Bed) -> None:
    bed.fenced().close()
    tests = str(Path(__file__).parents[1])
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER.format(tests=tests, path=str(bed.path))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "uncommitted\n"
        successor = bed.target()
        with pytest.raises(TargetUnreachable, match="locked"):
            successor.raise_fence(fence(2), "store", timedelta(seconds=0.3))
        child.send_signal(signal.SIGKILL)
        child.wait(20)
        assert successor.raise_fence(fence(2), "store", timedelta(seconds=5)).generation == 1
        assert untouched(bed)
        assert commit(successor, GRANTS, ROWS, generation=2)
        assert bed.count("reconcile_changes") == len(ROWS)
    finally:
        child.kill()
        child.communicate()


# --- the disk


def test_a_full_database_takes_a_range_back(bed: Bed) -> None:
    target = bed.fenced()
    database = target._database._open()
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {pages + 20}")
    with pytest.raises(TargetUnreachable, match="full") as refused:
        commit(target, GRANTS, ROWS)
    assert "df -h" in refused.value.hint
    assert untouched(bed)
    database.execute("PRAGMA max_page_count = 1000000")
    assert commit(target, GRANTS, ROWS)


def test_a_write_that_the_system_refuses_takes_a_range_back(bed: Bed) -> None:
    target = bed.fenced()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(TargetUnreachable):
            commit(target, GRANTS, ROWS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert untouched(bed)
    assert commit(target, GRANTS, ROWS)
    assert bed.other.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


# --- the file


@pytest.fixture
def as_nobody() -> Iterator[Any]:
    """A folder that others may enter, and a way to act as somebody without rights."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)

    @contextmanager
    def act() -> Iterator[None]:
        was = os.geteuid()
        if was == 0:
            os.seteuid(NOBODY)
        try:
            yield
        finally:
            os.seteuid(was)

    yield folder, act
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize("wal", [False, True])
def test_a_file_that_may_only_be_read_is_access_denied(as_nobody: Any, wal: bool) -> None:
    folder, act = as_nobody
    bed = Bed(folder, wal=wal)
    bed.insert(("a", "x", "1"))
    bed.other.close()
    bed.path.chmod(0o444)
    folder.chmod(0o555)
    with act():
        target = bed.target()
        with pytest.raises(AccessDenied) as refused:
            target.raise_fence(fence(1), "store", timedelta(0))
        assert refused.value.hint
        if not wal:
            assert len(target.lines(EVERYTHING)) == 1
        target.close()


def test_a_file_that_may_not_be_read_is_access_denied(as_nobody: Any) -> None:
    folder, act = as_nobody
    bed = Bed(folder)
    bed.path.chmod(0)
    with act():
        for denied in (bed.target(), Bed.target(bed, table="x")):
            with pytest.raises(AccessDenied, match="may not be opened"):
                denied.schema()
    bed.close()


def test_a_missing_file_is_never_created(tmp_path: Path) -> None:
    bed = Bed(tmp_path)
    target = bed.target()
    bed.path.rename(tmp_path / "gone")
    with pytest.raises(TargetUnreachable, match="does not exist") as refused:
        target.schema()
    assert "never created" in refused.value.hint
    assert not bed.path.exists()
    bed.close()


@pytest.mark.parametrize(
    "content", [b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 200]
)
def test_a_file_that_is_no_database_is_unusable(tmp_path: Path, content: bytes) -> None:
    bed = Bed(tmp_path)
    target = bed.target()
    bed.path.write_bytes(content)
    with pytest.raises(TargetUnusable) as refused:
        target.schema()
    assert refused.value.hint
    bed.close()


def test_a_folder_is_unusable(tmp_path: Path) -> None:
    bed = Bed(tmp_path)
    target = bed.target()
    bed.path.unlink()
    bed.path.mkdir()
    with pytest.raises(TargetUnusable, match="is not a file"):
        target.schema()
    bed.close()


def test_a_damaged_table_is_unusable_and_no_empty_answer(tmp_path: Path) -> None:
    bed = Bed(tmp_path)
    bed.other.execute("BEGIN")
    bed.other.executemany("INSERT INTO entitlements VALUES (?, ?, ?)", ROWS)
    bed.other.execute("COMMIT")
    size = bed.path.stat().st_size
    with bed.path.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff" * (size // 2))
    target = bed.target()
    with pytest.raises(TargetUnusable, match="malformed"):
        target.lines(EVERYTHING)
    bed.close()


def test_a_clock_that_stands_still_does_not_hang_a_free_lock(bed: Bed) -> None:
    target = bed.fenced(clock=FakeClock())
    assert target.commit(fence(1), part(GRANTS, ROWS), 1e9).changes
