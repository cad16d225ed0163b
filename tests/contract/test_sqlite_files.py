"""The file of a SQLite store: where it may lie, and what is refused with which reason."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
import sys
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from reconcile.core.errors import (
    AccessDenied,
    StoreBusy,
    StoreUnreachable,
    StoreUnusable,
    UnsupportedPlatform,
)
from reconcile.core.model import Kind, Put
from reconcile.core.targets import file_systems
from reconcile.core.targets.file_systems import file_system_of
from reconcile.stores import sqlite_files
from reconcile.stores.sqlite import SqliteStore
from reconcile.stores.sqlite_files import APPLICATION_ID

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY = 65534


@pytest.fixture
def connect(clock):
    """Open a store at a path; closed in the end."""
    opened = []

    def connect(path: Path, *, single_host: bool = False) -> SqliteStore:
        store = SqliteStore(
            path, clock=clock, boot_id="b001", new_id=lambda: "5t0re", single_host=single_host
        )
        opened.append(store)
        return store

    yield connect
    for store in opened:
        store.close()


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Root is asked for no permission; become somebody who is."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter, which pytest's own are not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def pragma(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


# --- creation


def test_a_store_that_another_process_creates_meanwhile_is_not_taken_for_a_stranger(
    tmp_path: Path, connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as begun:
        begun.execute("PRAGMA journal_mode = WAL")
    read, others = sqlite_files._pragma, [path]

    def read_and_lose_the_processor(connection: sqlite3.Connection, name: str) -> int | str:
        value = read(connection, name)
        if others:
            connect(others.pop())
        return value

    monkeypatch.setattr(sqlite_files, "_pragma", read_and_lose_the_processor)
    assert connect(path).facts().id == "5t0re"


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_all_files_are_for_their_owner_only(tmp_path: Path, connect, mask: int) -> None:
    path = tmp_path / "new" / "state.db"
    with umask(mask):
        connect(path).note([Put(Kind.JOB, "j", "", {})])
    names = ["state.db", "state.db-shm", "state.db-wal", "state.db.lock"]
    assert sorted(found.name for found in path.parent.iterdir()) == names
    assert {mode_of(path.parent / name) for name in names} == {0o600}
    assert mode_of(path.parent) == 0o700


def test_only_the_last_folder_is_created(tmp_path: Path, connect) -> None:
    with pytest.raises(StoreUnreachable, match="does not exist") as refused:
        connect(tmp_path / "a" / "b" / "state.db")
    assert refused.value.hint == f"mkdir -p {tmp_path / 'a' / 'b'}"
    assert not (tmp_path / "a").exists()


def test_a_store_keeps_the_identity_it_was_created_with(tmp_path: Path, connect, clock) -> None:
    first = connect(tmp_path / "state.db").facts()
    again = SqliteStore(tmp_path / "state.db", clock=clock, boot_id="b", new_id=lambda: "other")
    with closing(again):
        assert again.facts().id == first.id == "5t0re"
    assert first.location == str(tmp_path / "state.db")


@pytest.mark.parametrize("left", [b"", b"left over from a killed process\n"])
def test_a_left_over_lock_file_blocks_nobody(tmp_path: Path, connect, left: bytes) -> None:
    (tmp_path / "state.db.lock").write_bytes(left)
    assert connect(tmp_path / "state.db").facts().id == "5t0re"


def test_a_process_stuck_in_creation_is_waited_for_with_a_bound(
    tmp_path: Path, connect, monkeypatch
) -> None:
    monkeypatch.setattr(sqlite_files, "CREATION_WAIT", 0.05)
    with (tmp_path / "state.db.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreBusy, match="creating or migrating"):
            connect(tmp_path / "state.db")
    assert connect(tmp_path / "state.db").facts().id == "5t0re"


def test_an_existing_store_is_opened_without_the_creation_lock(tmp_path: Path, connect) -> None:
    connect(tmp_path / "state.db")
    with (tmp_path / "state.db.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert connect(tmp_path / "state.db").facts().id == "5t0re"


def test_an_empty_file_or_database_becomes_a_store(tmp_path: Path, connect) -> None:
    (tmp_path / "empty").touch()
    pragma(tmp_path / "switched", "PRAGMA journal_mode = WAL")
    for name in ("empty", "switched"):
        assert connect(tmp_path / name).facts().id == "5t0re"


def test_an_older_schema_is_migrated_and_keeps_its_records(tmp_path: Path, connect) -> None:
    path = tmp_path / "state.db"
    store = connect(path)
    store.note([Put(Kind.JOB, "j", "", {"n": 1})])
    store.close()
    pragma(path, "PRAGMA user_version = 0", "PRAGMA journal_mode = DELETE")
    record = connect(path).get(Kind.JOB, "j", "")
    assert record is not None
    assert record.value == {"n": 1}
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)


@pytest.mark.parametrize("name", ["a b.db", "50%25?mode=ro#x.db", "żółć 🌍.db", "-x'\".db"])
def test_odd_names_are_taken_as_they_are(tmp_path: Path, connect, name: str) -> None:
    connect(tmp_path / name)
    assert (tmp_path / name).stat().st_size > 0


def test_a_link_leads_to_the_file_it_names(tmp_path: Path, connect) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "state.db").symlink_to(tmp_path / "there" / "real.db")
    store = connect(tmp_path / "state.db")
    store.note([Put(Kind.JOB, "j", "", {})])
    assert store.path == tmp_path / "there" / "real.db"
    assert (tmp_path / "there" / "real.db-wal").exists()
    assert connect(tmp_path / "there" / "real.db").get(Kind.JOB, "j", "") is not None


# --- what is no store


def test_a_file_that_is_no_database_is_refused(tmp_path: Path, connect) -> None:
    path = tmp_path / "export.csv"
    path.write_text("account_id,entitlement\n" * 500)
    with pytest.raises(StoreUnusable, match="no SQLite database"):
        connect(path)
    assert path.read_text().startswith("account_id")


def test_somebody_elses_database_is_refused_and_left_alone(tmp_path: Path, connect) -> None:
    path = tmp_path / "app.db"
    pragma(path, "CREATE TABLE entitlements (account_id)")
    before = path.read_bytes()
    with pytest.raises(StoreUnusable, match="not a store of reconcile"):
        connect(path)
    assert path.read_bytes() == before


def test_a_newer_schema_is_refused(tmp_path: Path, connect) -> None:
    path = tmp_path / "state.db"
    connect(path).close()
    pragma(path, "PRAGMA user_version = 2")
    with pytest.raises(StoreUnusable, match="schema version 2; this program knows 1") as refused:
        connect(path)
    assert "upgrade reconcile" in refused.value.hint


def test_a_damaged_store_is_refused(tmp_path: Path, connect) -> None:
    path = tmp_path / "state.db"
    store = connect(path)
    store.note([Put(Kind.JOB, "j", str(n), {"text": "x" * 500}) for n in range(100)])
    store.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    with pytest.raises(StoreUnusable, match="damaged"):
        connect(path)


@pytest.mark.parametrize("value", ["'{\"n\": '", "CAST(x'ff' AS TEXT)"])
def test_a_damaged_record_is_refused(tmp_path: Path, connect, value: str) -> None:
    store = connect(tmp_path / "state.db")
    store.note([Put(Kind.JOB, "j", "", {"n": 1})])
    pragma(store.path, f"UPDATE record SET value = {value}")
    with pytest.raises(StoreUnusable, match="damaged"):
        store.get(Kind.JOB, "j", "")


def test_a_store_without_its_tables_is_refused(tmp_path: Path, connect) -> None:
    path = tmp_path / "state.db"
    store = connect(path)
    pragma(path, "DROP TABLE lease", "DROP TABLE record")
    with pytest.raises(StoreUnusable, match="lacks a table"):
        store.get(Kind.JOB, "j", "")
    with pytest.raises(StoreUnusable, match="lacks a table"):
        store.note([Put(Kind.JOB, "j", "", {})])
    pragma(path, "DELETE FROM meta")
    with pytest.raises(StoreUnusable, match="lost its identity"):
        connect(path)


def test_what_is_no_file_is_refused(tmp_path: Path, connect) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "fifo"):
        with pytest.raises(StoreUnusable, match="not a regular file"):
            connect(path)
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnusable, match="cannot be a SQLite store"):
        connect(tmp_path / "file" / "state.db")


# --- what may not be had


def test_a_folder_that_may_not_be_written_is_refused(open_folder: Path, connect) -> None:
    folder = open_folder / "locked"
    folder.mkdir(mode=0o555)
    with ordinary_user(), pytest.raises(AccessDenied, match="may not read and write"):
        connect(folder / "state.db")
    with ordinary_user(), pytest.raises(AccessDenied, match="may not read and write"):
        connect(folder / "new" / "state.db")


@pytest.mark.parametrize(("folder_mode", "file_mode"), [(0o555, 0o644), (0o777, 0o444)])
def test_a_store_that_may_not_be_written_is_refused(
    open_folder: Path, connect, folder_mode: int, file_mode: int
) -> None:
    folder = open_folder / "var"
    folder.mkdir()
    connect(folder / "state.db").close()
    (folder / "state.db").chmod(file_mode)
    folder.chmod(folder_mode)
    with ordinary_user(), pytest.raises(AccessDenied, match="may not read and write"):
        connect(folder / "state.db").note([Put(Kind.JOB, "j", "", {})])
    folder.chmod(0o755)


def test_a_store_of_somebody_else_is_refused(open_folder: Path, connect) -> None:
    connect(open_folder / "state.db").close()
    (open_folder / "state.db").chmod(0o000 if os.geteuid() else 0o600)
    with ordinary_user(), pytest.raises(AccessDenied, match="may not read and write"):
        connect(open_folder / "state.db")


def test_a_full_disk_writes_nothing_and_says_so(tmp_path: Path, connect) -> None:
    store = connect(tmp_path / "state.db")
    store.note([Put(Kind.JOB, "j", "", {"n": 1})])
    store._file._db.execute("PRAGMA max_page_count = 20")
    with pytest.raises(StoreUnreachable, match="disk of the store") as refused:
        store.note(
            [Put(Kind.JOB, "j", "", {"n": 2}), Put(Kind.CHANGES, "j", "", {}, blob=b"x" * 2**20)]
        )
    assert "df -h" in refused.value.hint
    record = store.get(Kind.JOB, "j", "")
    assert record is not None
    assert record.value == {"n": 1}
    store._file._db.execute("PRAGMA max_page_count = 100000")
    store.note([Put(Kind.JOB, "j", "", {"n": 3})])


# --- where it may lie


MOUNTS = rb"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
31 27 0:40 / /srv/my\040files rw shared:5 - nfs4 server:/export rw
32 31 0:41 / /srv/my\040files/inner rw - tmpfs none rw
33 27 0:42 /root /data rw - btrfs /dev/vdb rw
34 27 0:43 / /data-more rw - fuse.sshfs host:/ rw
""".splitlines(keepends=True)


@pytest.mark.parametrize(
    ("folder", "device", "kind"),
    [
        ("/var/lib/reconcile", (254, 0), "ext4"),
        ("/srv/my files", (0, 40), "nfs4"),
        ("/srv/my files/inner/x", (0, 41), "tmpfs"),
        ("/data/sub", (0, 99), "btrfs"),
        ("/data-more/sub", (0, 99), "fuse.sshfs"),
        ("/srv/my files/x", (0, 99), "nfs4"),
        ("/", (0, 99), "ext4"),
    ],
)
def test_the_file_system_is_found(folder: str, device: tuple[int, int], kind: str) -> None:
    assert file_system_of(Path(folder), os.makedev(*device), MOUNTS) == kind
    assert file_system_of(Path(folder), os.makedev(*device), []) == ""


def test_a_file_system_of_many_hosts_is_refused_unless_vouched_for(
    tmp_path: Path, connect, monkeypatch
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_bytes(b"27 1 9:9 / / rw,relatime - nfs4 server:/export rw\n")
    monkeypatch.setattr(file_systems, "_MOUNTS", mounts)
    with pytest.raises(StoreUnusable, match="lies on nfs4") as refused:
        connect(tmp_path / "state.db")
    assert "?single_host=yes" in refused.value.hint
    assert connect(tmp_path / "state.db", single_host=True).facts().id == "5t0re"
    monkeypatch.setattr(file_systems, "_MOUNTS", tmp_path / "missing")
    with pytest.raises(StoreUnusable, match="an unknown file system"):
        connect(tmp_path / "state.db")


def test_other_systems_are_refused(tmp_path: Path, connect, monkeypatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UnsupportedPlatform, match="darwin"):
        connect(tmp_path / "state.db")
