"""Who is stopped with a lock on the store: ended where a copy of the store proves that its time
is over, else named and left alone. The processes are real, the clock is the test's."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.fakes import eventually
from support.scene import is_stopped

from reconcile.cli.host import LinuxHost, read_process
from reconcile.core.errors import StoreBlocked, StoreBusy, TargetLocked
from reconcile.core.model import Holder, LeaseKey, RunId
from reconcile.core.targets import file_locks
from reconcile.core.targets.file_locks import lockers, standstill
from reconcile.core.targets.sqlite_database import Database
from reconcile.stores import sqlite_blockers
from reconcile.stores.sqlite import SqliteStore
from reconcile.stores.testing_support import KEY, TONIGHT, TTL, B, grant

WHOLE_DATABASE = (2**30, 512)
"""The bytes that are locked while the last connection closes."""
WRITE_LOCK = (120, 1)
"""That of the -shm file which a writer has."""

LOCKS = """
import fcntl, os
file, first, length = input().split("|")
file = os.open(file, os.O_RDWR)
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, int(length), int(first))
print(flush=True)
input()
"""


class Place:
    """A store, and another process that may lock it."""

    def __init__(self, path: Path, clock) -> None:
        self.path, self.clock = path, clock
        self.host = LinuxHost(lambda: "ours", lambda error: None)
        self.opened: list[SqliteStore] = []
        self.other = subprocess.Popen(
            [sys.executable, "-c", LOCKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.holder = self.host.holder()._replace(
            pid=self.other.pid,
            started=read_process(self.other.pid).started,
            token="theirs",
        )

    def open(self, host: Any = None) -> SqliteStore:
        store = SqliteStore(
            self.path,
            clock=self.clock,
            boot_id=self.host.holder().boot_id,
            new_id=lambda: "5t0re",
            busy_wait=0.05,
            host=host or self.host,
        )
        self.opened.append(store)
        return store

    def close(self) -> None:
        for store in self.opened:
            store.close()

    def end(self) -> None:
        self.close()
        self.other.kill()
        self.other.communicate()

    def granted(self, holder: Holder | None = None, key: LeaseKey = KEY) -> None:
        """The other process, or who is said to be it, gets a lease."""
        self.open().acquire(key, RunId("r1"), holder or self.holder, TTL, interval=TONIGHT)
        self.close()

    def lock(self, span: tuple[int, int] = WHOLE_DATABASE, suffix: str = "") -> None:
        """The other process locks bytes, from the first one on so many."""
        assert self.other.stdin is not None
        assert self.other.stdout is not None
        self.other.stdin.write(f"{self.path}{suffix}|{span[0]}|{span[1]}\n".encode())
        self.other.stdin.flush()
        assert self.other.stdout.readline() == b"\n"

    def stop(self) -> None:
        self.other.send_signal(signal.SIGSTOP)
        eventually(lambda: is_stopped(self.other.pid), "it is stopped")

    def is_ended(self) -> bool:
        return self.other.poll() == -signal.SIGKILL


@pytest.fixture
def place(tmp_path: Path, clock) -> Iterator[Place]:
    place = Place(tmp_path / "state.db", clock)
    yield place
    place.end()


@pytest.mark.parametrize("released", [False, True])
def test_a_holder_is_ended_when_the_time_of_its_lease_is_over_and_not_before(
    place: Place, released: bool
) -> None:
    store = place.open()
    lease = grant(store, "r1", place.holder)
    if released:
        store.release(lease.fence, 1, None)
    store.close()
    place.lock()
    place.stop()
    place.clock.advance(TTL.total_seconds() - 0.01)
    with pytest.raises(StoreBusy, match="has the lease of entitlements until") as refused:
        place.open()
    assert not isinstance(refused.value, StoreBlocked)
    assert f"process {place.other.pid} (python" in str(refused.value)
    assert is_stopped(place.other.pid)
    place.clock.advance(0.02)
    assert place.open().lease(KEY).holder == place.holder
    assert place.is_ended()


def test_a_log_that_is_not_yet_in_the_database_is_part_of_the_proof(place: Place) -> None:
    store = place.open()  # with a connection left, nothing is put back into the database
    grant(store, "r1", place.holder)
    place.lock(WRITE_LOCK, "-shm")
    place.stop()
    place.clock.advance(TTL.total_seconds() + 1)
    assert grant(store, "r2", B).holder == B
    assert place.is_ended()


def test_a_holder_that_was_overtaken_is_ended_whatever_the_lease_of_the_other(
    place: Place,
) -> None:
    store = place.open()
    grant(store, "r1", place.holder)
    grant(store, "r2", B, replaces="r1")
    place.lock(WRITE_LOCK, "-shm")
    place.stop()
    store.note([])
    assert place.is_ended()


def test_a_holder_is_left_alone_while_any_of_its_leases_has_time(place: Place) -> None:
    place.granted()
    place.clock.advance(TTL.total_seconds() + 1)
    place.granted(key=LeaseKey("others"))
    place.lock()
    place.stop()
    with pytest.raises(StoreBusy, match="has the lease of others until"):
        place.open()
    assert is_stopped(place.other.pid)


def test_a_holder_that_is_not_stopped_is_named_and_left_alone(place: Place) -> None:
    place.granted()
    place.clock.advance(TTL.total_seconds() + 1)
    place.lock()
    with pytest.raises(StoreBusy, match=f"is locked by process {place.other.pid} ") as refused:
        place.open()
    assert not isinstance(refused.value, StoreBlocked)
    assert f"ps -fp {place.other.pid}" in refused.value.hint
    assert place.other.poll() is None


OTHERS: dict[str, Callable[[Holder], Holder]] = {
    "another that is alive": lambda holder: holder._replace(
        pid=os.getpid(), started=read_process(os.getpid()).started
    ),
    "who had its pid before": lambda holder: holder._replace(started=holder.started - 1000),
    "one on another host": lambda holder: holder._replace(host="far"),
    "one on another machine": lambda holder: holder._replace(machine_id="m"),
    "one before the host was booted": lambda holder: holder._replace(boot_id="b"),
    "one in another namespace": lambda holder: holder._replace(pid_namespace="pid:[1]"),
}


@pytest.mark.parametrize("holder", OTHERS.values(), ids=OTHERS.keys())
def test_who_is_not_that_very_holder_is_named_and_left_alone(
    place: Place, holder: Callable[[Holder], Holder]
) -> None:
    place.granted(holder(place.holder))
    place.clock.advance(TTL.total_seconds() + 1)
    place.lock()
    place.stop()
    with pytest.raises(StoreBlocked, match="and not known to be a holder") as refused:
        place.open()
    assert f"is locked by process {place.other.pid} (python" in str(refused.value)
    assert f"kill -CONT {place.other.pid}" in refused.value.hint
    assert is_stopped(place.other.pid)


def test_who_went_on_while_the_copy_was_made_is_left_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = sqlite_blockers._granted_in_copy

    def copy(*arguments):
        place.other.send_signal(signal.SIGCONT)
        eventually(lambda: not is_stopped(place.other.pid), "it goes on")
        place.stop()
        return copied(*arguments)

    monkeypatch.setattr(sqlite_blockers, "_granted_in_copy", copy)
    place.granted()
    place.clock.advance(TTL.total_seconds() + 1)
    place.lock()
    place.stop()
    with pytest.raises(StoreBlocked, match="not known to be a holder"):
        place.open()
    assert is_stopped(place.other.pid)


@pytest.mark.parametrize(("states", "stands"), [("TT", True), ("Tt", True), ("TS", False)])
def test_a_process_stands_still_when_all_its_threads_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, states: str, stands: bool
) -> None:
    for number, state in enumerate(states):
        task = tmp_path / "7" / "task" / str(number)
        task.mkdir(parents=True)
        (task / "stat").write_text(f"{number} (a) b) {state} 1 7\n")
        (task / "status").write_text("voluntary_ctxt_switches:\t3\n")
    monkeypatch.setattr(file_locks, "_PROC", tmp_path)
    assert (standstill(7) is not None) is stands
    assert standstill(8) is None


def test_who_may_not_be_ended_from_here_is_named(place: Place) -> None:
    class Weak(LinuxHost):
        def kill(self, holder: Holder) -> bool:
            return False

    place.granted()
    place.clock.advance(TTL.total_seconds() + 1)
    place.lock()
    place.stop()
    with pytest.raises(StoreBlocked, match="its lease of entitlements was over at") as refused:
        place.open(Weak(lambda: "ours", lambda error: None))
    assert f"kill -KILL {place.other.pid}" in refused.value.hint


def test_the_copy_is_for_its_owner_only_and_does_not_stay(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    modes = []
    connect = sqlite3.connect

    def seen(path, **options):
        if Path(str(path)).parent.parent == scratch:
            modes.append(stat.S_IMODE(Path(path).parent.stat().st_mode))
        return connect(path, **options)

    monkeypatch.setattr(sqlite3, "connect", seen)
    place.granted()
    place.clock.advance(TTL.total_seconds() + 1)
    place.lock()
    place.stop()
    place.open()
    assert place.is_ended()
    assert modes == [0o700]
    assert list(scratch.iterdir()) == []


def test_no_room_for_a_copy_is_no_proof(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.granted()
    place.clock.advance(TTL.total_seconds() + 1)
    place.lock()
    place.stop()
    full = os.statvfs_result((1, 1, 100, 0, 0, 1, 1, 1, 0, 255))
    monkeypatch.setattr(sqlite_blockers.os, "statvfs", lambda path: full)
    with pytest.raises(StoreBlocked):
        place.open()
    assert is_stopped(place.other.pid)


def test_this_process_keeps_its_own_locks_on_the_store_that_it_copies(place: Place) -> None:
    store = place.open()
    grant(store, "r1", place.holder)
    ours = f" READ {os.getpid()} "
    before = [line.split()[3:] for line in _locks(place.path) if ours in line]
    assert before, "the connection has a lock on the database"
    place.lock(WRITE_LOCK, "-shm")
    place.stop()
    place.clock.advance(TTL.total_seconds() + 1)
    store.note([])
    assert place.is_ended()
    assert [line.split()[3:] for line in _locks(place.path) if ours in line] == before


def _locks(path: Path) -> list[str]:
    number = f":{path.stat().st_ino} "
    return [line for line in Path("/proc/locks").read_text().splitlines() if number in line]


def test_who_keeps_a_target_locked_is_named_and_a_stopped_one_first(place: Place) -> None:
    with closing(sqlite3.connect(place.path)) as db:
        db.execute("CREATE TABLE t (x)")
    place.lock()

    def refused() -> TargetLocked:
        target = Database(place.path, place.clock)
        with closing(target), pytest.raises(TargetLocked) as error, target.reading(0):
            pass
        return error.value

    error = refused()
    assert f"locked by another program: process {place.other.pid} (python" in str(error)
    assert (error.hint, error.stopped) == (f"see what it does: ps -fp {place.other.pid}", [])
    place.stop()
    error = refused()
    assert str(error).endswith("which is stopped")
    assert f"kill -CONT {place.other.pid}" in error.hint
    assert error.stopped == [place.other.pid]


def test_the_lockers_of_a_file_are_the_other_processes_that_have_locks_on_it(
    place: Place,
) -> None:
    with closing(sqlite3.connect(place.path)) as db:
        db.execute("CREATE TABLE t (x)")
        db.commit()
        db.execute("BEGIN IMMEDIATE")
        assert lockers(place.path) == []
    place.lock((5, 1))
    (found,) = lockers(place.path, place.path.with_name("missing"))
    assert (found.pid, found.exclusive, found.stopped) == (place.other.pid, True, False)
    place.stop()
    assert lockers(place.path)[0].stopped
