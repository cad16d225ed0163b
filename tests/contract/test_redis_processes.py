"""The Redis store under many processes at once, and under a network that loses answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from support.proxy import proxy
from support.valkey import fresh_url, start

from reconcile.core.errors import FencedOut, StoreUnreachable
from reconcile.core.model import Append, Kind, Rate
from reconcile.stores.registry import opener
from reconcile.stores.testing import MovedClock
from reconcile.stores.testing_support import JOB, KEY, TTL, A, B, cursor_at, grant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.proxy import Proxy

    from reconcile.core.ports import Store

LONG = bool(os.environ.get("RECONCILE_TEST_LONG"))
WORKERS, TURNS = (20, 50) if LONG else (8, 10)

WORKER = """
import json, os, random, sys, time
from datetime import timedelta
from types import SimpleNamespace
from reconcile.cli.environment import SystemClock
from reconcile.core.errors import LeaseBusy
from reconcile.core.model import Holder, Kind, LeaseKey, Put, RunId
from reconcile.stores.registry import opener

url, path, workers, turns = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

def work(n):
    names = SimpleNamespace(token=lambda: f"store-{n}")
    store = opener(url, clock=SystemClock(), host=None, entropy=names)()
    for turn in range(turns):
        run = f"r{n}-{turn}"
        holder = Holder("web-2", "5f7c", "b001", "pid", os.getpid(), 1, run)
        while True:
            try:
                lease = store.acquire(
                    LeaseKey("j"), RunId(run), holder, timedelta(seconds=60), interval="i"
                )
                break
            except LeaseBusy:
                time.sleep(random.uniform(0.005, 0.03))
        with open(path) as file: seen = int(file.read())
        assert store.commit(lease.fence, 1, [Put(Kind.JOB, "j", "", {"n": seen + 1})])
        with open(path, "w") as file: file.write(str(seen + 1))
        store.release(lease.fence, 2, None)
    return store.facts().id

gate, open_gate = os.pipe()
answers = []
for n in range(workers):
    answer, tell = os.pipe()
    if os.fork() == 0:
        os.close(open_gate)
        os.read(gate, 1)
        os.write(tell, work(n).encode())
        os._exit(0)
    os.close(tell)
    answers.append(answer)
os.close(open_gate)
print(json.dumps([open(answer).read() for answer in answers]))
"""


@pytest.mark.timeout(600)
def test_processes_lose_no_step_of_a_plain_counter_under_the_lease(
    server_url: str, tmp_path: Path
) -> None:
    url, path = fresh_url(server_url), tmp_path / "counter"
    path.write_text("0")
    done = subprocess.run(
        [sys.executable, "-c", WORKER, url, str(path), str(WORKERS), str(TURNS)],
        check=False,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    ids = json.loads(done.stdout)
    assert len(ids) == WORKERS
    assert len(set(ids)) == 1, "all opened the one store that the first made"
    total = WORKERS * TURNS
    assert int(path.read_text()) == total
    with closing(opened(url)) as store:
        record = store.get(Kind.JOB, "j", "")
        assert record is not None
        assert (record.value, record.version) == ({"n": total}, total)


def test_a_process_that_only_opens_the_store_imports_no_other() -> None:
    program = (
        "import sys, reconcile.stores.redis\n"
        "print({'sqlite3', 'psycopg', 'reconcile.stores.sqlite'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout == "set()\n"


# --- answers that are lost after the server has done what was asked


def opened(url: str, patience: float = 60.0) -> Store:
    names = SimpleNamespace(token=lambda: "5t0re")
    host: Any = SimpleNamespace(holder=lambda: A)
    clock: Any = MovedClock()
    return opener(url, clock=clock, host=host, entropy=names, patience=patience)()


@pytest.fixture(scope="module")
def between(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A proxy before a server of its own."""
    server = start(tmp_path_factory.mktemp("valkey"), tcp=True)
    with proxy("127.0.0.1", server.port) as between:
        yield between
    server.stop()


@pytest.fixture
def lose(between: Proxy) -> Iterator[Callable[..., None]]:
    """Loses the next answers to scripts."""

    def lose_next(times: int = 1) -> None:
        between.lose(b"EVAL", times)

    yield lose_next
    between.answer = lambda request: 0.0


@pytest.fixture
def store(between: Proxy) -> Iterator[Store]:
    store = opened(fresh_url(f"redis://127.0.0.1:{between.port}"))
    warm_up(store)
    yield store
    store.close()


def warm_up(store: Store) -> None:
    """The server knows each script by its name, so that no answer is the one that it does not."""
    lease = grant(store, "r0", B)
    store.renew(lease.fence, 1)
    store.commit(lease.fence, 1, [])
    store.note([cursor_at(0)])
    store.take("warm", Rate(1, TTL))
    store.ask_stop(KEY, lease.fence.generation, {})
    store.release(lease.fence, 2, None)


def test_a_grant_whose_answer_was_lost_is_had_by_asking_again(store: Store, lose) -> None:
    lose()
    with pytest.raises(StoreUnreachable, match="connection was lost"):
        grant(store, "r1")
    there = store.lease(KEY)
    assert there is not None
    lease = grant(store, "r1")
    assert lease.fence == there.fence
    assert lease.expires_at == there.expires_at


def test_a_renewal_whose_answer_was_lost_counted(store: Store, lose) -> None:
    lease = grant(store, "r1")
    lose()
    with pytest.raises(StoreUnreachable):
        store.renew(lease.fence, 5)
    there = store.lease(KEY)
    assert there is not None
    assert (there.progress, there.expires_at > lease.expires_at) == (5, True)
    assert store.renew(lease.fence, 5).live


def test_a_batch_whose_answer_was_lost_is_applied_once(store: Store, lose) -> None:
    lease = grant(store, "r1")
    batch = [cursor_at(1), Append(Kind.EVENT, JOB, "x", {})]
    lose()
    with pytest.raises(StoreUnreachable):
        store.commit(lease.fence, 1, batch)
    assert store.commit(lease.fence, 1, batch) is False
    assert len(store.scan(Kind.EVENT, JOB)) == 1


def test_a_release_whose_answer_was_lost_is_done(store: Store, lose) -> None:
    lease = grant(store, "r1")
    lose()
    with pytest.raises(StoreUnreachable):
        store.release(lease.fence, 1, 0)
    store.release(lease.fence, 1, 0)
    assert store.lease(KEY).released
    with pytest.raises(FencedOut):
        store.renew(lease.fence, 1)


def test_a_request_to_stop_whose_answer_was_lost_arrived(store: Store, lose) -> None:
    lease = grant(store, "r1")
    lose()
    with pytest.raises(StoreUnreachable):
        store.ask_stop(KEY, lease.fence.generation, {"actor": "ops"})
    assert store.renew(lease.fence, 1).stop == {"actor": "ops"}


def test_notes_and_calls_are_not_sent_twice_behind_the_callers_back(store: Store, lose) -> None:
    lose()
    with pytest.raises(StoreUnreachable):
        store.note([Append(Kind.EVENT, JOB, "x", {})])
    assert len(store.scan(Kind.EVENT, JOB)) == 1
    lose()
    with pytest.raises(StoreUnreachable):
        store.take("api", Rate(2, TTL))
    assert store.take("api", Rate(2, TTL)) == 0
    assert store.take("api", Rate(2, TTL)) > 0


def test_what_is_only_read_is_asked_once_more(store: Store, lose) -> None:
    store.note([cursor_at(1)])
    for read in (
        lambda: store.get(Kind.INTERVAL, JOB, cursor_at(1).key),
        lambda: store.scan(Kind.INTERVAL, JOB),
        lambda: store.lease(KEY),
        store.facts,
    ):
        lose()
        assert read()
        lose(2)
        with pytest.raises(StoreUnreachable):
            read()


def test_an_answer_that_comes_too_late_is_not_taken_for_the_next(between: Proxy) -> None:
    store = opened(fresh_url(f"redis://127.0.0.1:{between.port}"), 1.2)
    try:
        lease = grant(store, "r1")
        between.answer = lambda request: 0.8
        with pytest.raises(StoreUnreachable, match="did not answer in time"):
            store.commit(lease.fence, 1, [cursor_at(1)])
        between.answer = lambda request: 0.0
        assert store.renew(lease.fence, 7).progress == 7
        assert store.commit(lease.fence, 1, [cursor_at(1)]) is False
    finally:
        between.answer = lambda request: 0.0
        store.close()


def test_a_connection_that_was_cut_is_made_again(between: Proxy, store: Store) -> None:
    lease = grant(store, "r1")
    between.cut()
    between.mend()
    with pytest.raises(StoreUnreachable):
        store.renew(lease.fence, 1)
    assert store.renew(lease.fence, 1).live
    store.facts()


def test_a_server_that_restarts_with_its_data_is_the_same_store(tmp_path: Path) -> None:
    server = start(tmp_path, appendfsync="always")
    try:
        store = opened(f"unix://{server.unix_socket_path}")
        lease = grant(store, "r1")
        store.commit(lease.fence, 1, [cursor_at(1)])
        server.terminate()
        with pytest.raises(StoreUnreachable, match="cannot be reached"):
            store.facts()
        server.start(60)
        assert store.facts().id == "5t0re"
        assert store.commit(lease.fence, 1, [cursor_at(1)]) is False
        assert store.commit(lease.fence, 2, [cursor_at(2)])
        store.close()
    finally:
        server.terminate()
