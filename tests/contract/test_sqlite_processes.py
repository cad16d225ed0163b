"""The SQLite store under many processes at once, under SIGKILL, and on bad disks.

Each test runs a short program in an interpreter of its own, which forks its workers, so
that they are real processes and start together.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

PRELUDE = '''
import json, os, signal, sys, time, traceback
from datetime import UTC, datetime, timedelta
from reconcile.core.errors import LeaseBusy, ReconcileError
from reconcile.core.model import Append, Holder, Kind, LeaseKey, Put, RunId
from reconcile.stores.sqlite import SqliteStore

class Clock:
    def now(self): return datetime.now(UTC)
    def boot(self): return time.clock_gettime(time.CLOCK_BOOTTIME)
    def wait(self, seconds, wake): return wake.wait(seconds)

PATH = sys.argv[1]
KEY = LeaseKey("j")
TTL = timedelta(seconds=60)

def connect(new_id=lambda: f"{os.getpid():032x}", **how):
    return SqliteStore(PATH, clock=Clock(), boot_id="b001", new_id=new_id, **how)

def holder(token):
    return Holder("web-2", "5f7c", "b001", "pid", os.getpid(), 1, token)

def grant(store, run):
    return store.acquire(KEY, RunId(run), holder(run), TTL, interval="i")

def said(work, *args):
    """What a piece of work gave, or the error it raised."""
    try:
        return work(*args)
    except ReconcileError as error:
        return f"{type(error).__name__}: {error}"
    except BaseException:
        return traceback.format_exc()

def together(count, work):
    """Run work(n) in `count` processes that start at the same instant; what each said."""
    gate, open_gate = os.pipe()
    answers = []
    for n in range(count):
        answer, tell = os.pipe()
        if os.fork() == 0:
            os.close(open_gate)
            os.read(gate, 1)
            os.write(tell, json.dumps(said(work, n)).encode())
            os._exit(0)
        os.close(tell)
        answers.append(answer)
    os.close(open_gate)
    found = [json.loads(open(answer).read() or '"killed"') for answer in answers]
    for _ in range(count):
        os.wait()
    return found
'''


def run(program: str, path: Path, *before: str) -> Any:
    """What the program printed as JSON."""
    done = subprocess.run(
        [*before, sys.executable, "-c", PRELUDE + program, str(path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=550,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_fifty_processes_open_a_fresh_store_at_once(tmp_path: Path) -> None:
    said = run(
        """
def work(n):
    store = connect(busy_wait=30)
    store.note([Append(Kind.EVENT, "j", "x", {"n": n})])
    store.close()
    return store.facts().id
print(json.dumps([together(50, work), len(connect().scan(Kind.EVENT, "j"))]))
""",
        tmp_path / "new" / "state.db",
    )
    ids, events = said
    assert len(set(ids)) == 1
    assert len(ids[0]) == 32, ids[0]
    assert events == 50


def test_fifty_processes_that_come_and_go_never_meet_a_locked_file(tmp_path: Path) -> None:
    # The last to close checkpoints and removes the -wal file while the next one opens it.
    said = run(
        """
connect().close()
def work(n):
    for turn in range(20):
        store = connect(busy_wait=30)
        assert store.facts().id
        if turn % 4 == 0:
            store.note([Append(Kind.EVENT, "j", "x", {"text": "x" * 3000})])
        store.scan(Kind.EVENT, "j", limit=3)
        store.close()
print(json.dumps(together(50, work)))
""",
        tmp_path / "state.db",
    )
    assert said == [None] * 50


def test_one_of_fifty_processes_is_granted_the_lease(tmp_path: Path) -> None:
    said = run(
        """
def work(n):
    store = connect(busy_wait=30)
    try:
        return grant(store, f"r{n}").fence.generation
    except LeaseBusy:
        return "busy"
print(json.dumps(together(50, work)))
""",
        tmp_path / "state.db",
    )
    assert sorted(map(str, said))[1:] == ["busy"] * 49
    assert len([answer for answer in said if isinstance(answer, int)]) == 1


@pytest.mark.timeout(600)
def test_processes_lose_no_step_of_a_plain_counter_under_the_lease(tmp_path: Path) -> None:
    workers, steps = (20, 50) if os.environ.get("RECONCILE_TEST_LONG") else (6, 15)
    said = run(
        f"""
def work(n):
    store = connect(busy_wait=30)
    for step in range({steps}):
        while True:
            try:
                lease = grant(store, f"r{{n}}-{{step}}")
                break
            except LeaseBusy:
                time.sleep(0.001)
        with open(PATH + ".counter") as file: seen = int(file.read())
        assert store.commit(lease.fence, 1, [Put(Kind.JOB, "j", "", {{"n": seen + 1}})])
        with open(PATH + ".counter", "w") as file: file.write(str(seen + 1))
        store.release(lease.fence, 2, None)
with open(PATH + ".counter", "w") as file: file.write("0")
said = together({workers}, work)
with open(PATH + ".counter") as file: counter = int(file.read())
record = connect().get(Kind.JOB, "j", "")
print(json.dumps([said, counter, record.value, record.version]))
""",
        tmp_path / "state.db",
    )
    total = workers * steps
    assert said == [[None] * workers, total, {"n": total}, total]


def test_a_creator_killed_half_way_hinders_nobody(tmp_path: Path) -> None:
    # The identity is asked for inside the transaction that makes the schema.
    said = run(
        """
def kill():
    os.kill(os.getpid(), signal.SIGKILL)
first = together(1, lambda n: connect(new_id=kill))
size = os.path.getsize(PATH)
print(json.dumps([first, size, said(lambda: connect().facts().id)]))
""",
        tmp_path / "state.db",
    )
    killed, size, identity = said
    assert killed == ["killed"]
    assert size > 0
    assert len(identity) == 32, identity


def test_a_writer_killed_inside_its_transaction_leaves_nothing_behind(tmp_path: Path) -> None:
    said = run(
        """
class DyingClock(Clock):
    def now(self): os.kill(os.getpid(), signal.SIGKILL)
def work(n):
    store = connect()
    fence = grant(store, "r1").fence
    store.commit(fence, 1, [Put(Kind.JOB, "j", "", {"n": 1})])
    store._clock = DyingClock()
    store.commit(fence, 2, [Put(Kind.JOB, "j", "", {"n": 2})])
first = together(1, work)
store = connect(busy_wait=0.05)
lease = store.lease(KEY)
print(json.dumps([first, store.commit(lease.fence, 2, []), store.get(Kind.JOB, "j", "").value]))
""",
        tmp_path / "state.db",
    )
    assert said == [["killed"], True, {"n": 1}]


def test_opening_an_existing_store_imports_nothing_heavy(tmp_path: Path) -> None:
    run("connect().close(); print(1)", tmp_path / "state.db")
    said = run(
        """
store = connect()
store.facts(); store.get(Kind.JOB, "j", ""); store.scan(Kind.INTERVAL, "j")
heavy = {"filelock", "sqlite_utils", "subprocess", "platformdirs", "sqlalchemy", "asyncio"}
print(json.dumps(sorted(heavy & set(sys.modules))))
""",
        tmp_path / "state.db",
    )
    assert said == []


# --- disks, in a mount namespace of their own


def namespace() -> list[str]:
    """How to get a private mount namespace here; empty where that is forbidden."""
    command = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "-r"]
    try:
        done = subprocess.run(
            [*command, "mount", "-t", "tmpfs", "none", "/mnt"], check=False, capture_output=True
        )
    except FileNotFoundError:
        return []
    return command if done.returncode == 0 else []


@pytest.fixture(scope="module")
def mounted() -> list[str]:
    command = namespace()
    if not command:
        pytest.skip("not run: no private mount namespace here (max_page_count stands in)")
    script = 'mount -t tmpfs -o size=$0 none "$1" && shift && exec "$@"'
    return [*command, "sh", "-c", script]


def test_a_full_disk_is_said_to_be_full(tmp_path: Path, mounted: list[str]) -> None:
    said = run(
        """
store = connect()
store.note([Put(Kind.JOB, "j", "", {"n": 1})])
def fill():
    for n in range(100):
        store.note([Put(Kind.CHANGES, "j", str(n), {}, blob=b"x" * 65536)])
full = said(fill)
value = store.get(Kind.JOB, "j", "").value
filler = os.open(PATH + ".filler", os.O_WRONLY | os.O_CREAT)
try:
    while True: os.write(filler, b"x" * 4096)
except OSError: pass
PATH = os.path.join(os.path.dirname(PATH), "new", "second.db")
print(json.dumps([full, value, said(connect)]))
""",
        tmp_path / "state.db",
        *mounted,
        "1m",
        str(tmp_path),
    )
    full, value, second = said
    assert full.startswith("StoreUnreachable: the disk of the store"), full
    assert value == {"n": 1}
    assert second.startswith("StoreUnreachable: the disk of the store"), second


def test_a_disk_mounted_read_only_is_said_to_be_so(tmp_path: Path, mounted: list[str]) -> None:
    said = run(
        """
import subprocess
connect().close()
subprocess.run(["mount", "-o", "remount,ro", os.path.dirname(PATH)], check=True)
old = said(lambda: connect().note([Put(Kind.JOB, "j", "", {})]))
PATH = PATH + ".new"
print(json.dumps([old, said(connect)]))
""",
        tmp_path / "state.db",
        *mounted,
        "8m",
        str(tmp_path),
    )
    for text in said:
        assert "lies on a file system that is mounted read-only" in text
        assert text.startswith("StoreUnreachable: ")
