"""The Postgres store under many processes at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from support.postgres_server import fresh_name, shared_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LONG = bool(os.environ.get("RECONCILE_TEST_LONG"))
WORKERS, STEPS = (20, 50) if LONG else (8, 10)

PROGRAM = '''
import ctypes, json, os, sys, time, traceback
from datetime import timedelta
from reconcile.cli.environment import SystemClock
from reconcile.core.errors import LeaseBusy
from reconcile.core.model import Holder, Kind, LeaseKey, Put, RunId
from reconcile.stores.postgres import PostgresStore
from reconcile.stores.postgres_address import read_address

URL, COUNTER, WORKERS, STEPS = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
KEY, TTL = LeaseKey("j"), timedelta(seconds=60)

def granted(store, run):
    """The lease, however often it takes."""
    holder = Holder("web-2", "5f7c", "b001", "pid", os.getpid(), 1, run)
    while True:
        try:
            return store.acquire(KEY, RunId(run), holder, TTL, interval="i")
        except LeaseBusy:
            time.sleep(0.002)

def work(n):
    store = PostgresStore(read_address(URL), clock=SystemClock(), patience=30)
    generations = []
    for step in range(STEPS):
        lease = granted(store, f"r{n}-{step}")
        with open(COUNTER) as file: seen = int(file.read())
        assert store.commit(lease.fence, 1, [Put(Kind.JOB, "j", "", {"n": seen + 1})])
        with open(COUNTER, "w") as file: file.write(str(seen + 1))
        generations.append(lease.fence.generation)
        store.release(lease.fence, 2, None)
    return generations

with open(COUNTER, "w") as file: file.write("0")
answers = []
for n in range(WORKERS):
    answer, tell = os.pipe()
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(1, 9)  # dies with this process
        try: said = work(n)
        except BaseException: said = traceback.format_exc()
        with os.fdopen(tell, "w") as out: out.write(json.dumps(said))
        os._exit(0)
    os.close(tell)
    answers.append(answer)
found = [json.loads(open(answer).read() or '"killed"') for answer in answers]
for _ in range(WORKERS): os.wait()
store = PostgresStore(read_address(URL), clock=SystemClock(), patience=30)
record = store.get(Kind.JOB, "j", "")
with open(COUNTER) as file: counter = int(file.read())
print(json.dumps([found, counter, record.value, record.version]))
'''


@pytest.fixture
def schema() -> Iterator[str]:
    name = fresh_name("many")
    yield name
    shared_server().drop(name)


pytestmark = pytest.mark.timeout(1200 if LONG else 120)


def count(url: str, folder: Path) -> None:
    """Many processes count under one lease, and no step is lost."""
    argv = [url, str(folder / "counter"), str(WORKERS), str(STEPS)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *argv],
        check=False,
        capture_output=True,
        text=True,
        timeout=1000 if LONG else 110,
    )
    assert done.returncode == 0, done.stderr
    answers: list[Any]
    answers, counter, value, version = json.loads(done.stdout)
    assert all(isinstance(answer, list) for answer in answers), answers
    generations = sorted(number for answer in answers for number in answer)
    total = WORKERS * STEPS
    assert len(set(generations)) == total
    assert generations[-1] - generations[0] == total - 1
    assert (counter, value, version) == (total, {"n": total}, total)


def test_processes_lose_no_step_of_a_plain_counter_under_the_lease(
    schema: str, tmp_path: Path
) -> None:
    count(shared_server().url(schema), tmp_path)
