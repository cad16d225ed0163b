"""The contract of leases that many ask for at once. See `stores/testing.py`."""

from __future__ import annotations

import sys
from threading import Barrier, Lock, Thread

from ..core.errors import LeaseBusy, ReconcileError
from ..core.model import LeaseKey, RunId
from .testing_support import JOB, TONIGHT, TTL, Harness, grant, holder


class CrowdContract:
    """Each lease key has one holder, however many want it in the same instant."""

    def test_one_of_many_who_ask_at_once_is_granted(self, harness: Harness) -> None:
        stores = [harness.open() for _ in range(8)]
        together = Barrier(len(stores))
        answers: list[tuple[str, str]] = []

        def ask(n: int) -> None:
            for job in jobs:
                together.wait()
                try:
                    stores[n].acquire(
                        LeaseKey(job), RunId(f"r{n}"), holder(str(n)), TTL, interval=TONIGHT
                    )
                    answers.append((job, "granted"))
                except ReconcileError as error:
                    answers.append((job, type(error).__name__))

        jobs = [f"job-{n}" for n in range(10)]
        run_threads([Thread(target=ask, args=(n,)) for n in range(len(stores))])
        once = [(job, "granted") for job in jobs]
        assert sorted(answers) == sorted(once + [(job, "LeaseBusy") for job in jobs * 7])

    def test_a_counter_under_the_lease_loses_no_step(self, harness: Harness) -> None:
        workers, steps = 4, 10
        counter = [0]

        def work(n: int) -> None:
            store = harness.open()
            for step in range(steps):
                lease = None
                while lease is None:
                    try:
                        lease = grant(store, f"r{n}-{step}", holder(f"{n}-{step}"))
                    except LeaseBusy:
                        continue
                seen = counter[0]
                store.renew(lease.fence, 1)
                counter[0] = seen + 1
                store.release(lease.fence, 1, None)

        run_threads([Thread(target=work, args=(n,)) for n in range(workers)])
        assert counter == [workers * steps]

    def test_of_many_who_want_any_of_some_shards_no_more_hold_one_than_there_are(
        self, harness: Harness
    ) -> None:
        workers, steps, shards = 6, 4, 2
        guard, holding, most = Lock(), 0, 0
        ended: list[int] = []

        def work(n: int) -> None:
            nonlocal holding, most
            store = harness.open()
            for step in range(steps):
                lease, tried = None, 0
                while lease is None:
                    key, run = LeaseKey(JOB, (n + tried) % shards), RunId(f"r{n}-{step}-{tried}")
                    tried += 1
                    try:
                        lease = store.acquire(key, run, holder(run), TTL, interval=TONIGHT)
                    except LeaseBusy:
                        continue
                with guard:
                    holding += 1
                    most = max(most, holding)
                for progress in range(4):
                    store.renew(lease.fence, progress)
                with guard:
                    holding -= 1
                store.release(lease.fence, 1, None)
            ended.append(n)

        run_threads([Thread(target=work, args=(n,)) for n in range(workers)])
        assert most <= shards
        assert sorted(ended) == list(range(workers)), "nobody was fenced out"
        # However they met, each had its turns: a generation for each grant, and no other.
        grants = sum(
            lease.fence.generation - int(lease.granted_at.timestamp()) + 1
            for lease in map(harness.open().lease, [LeaseKey(JOB, n) for n in range(shards)])
            if lease is not None
        )
        assert grants == workers * steps


def run_threads(threads: list[Thread]) -> None:
    """Start all, wait for all; they are switched as often as Python can, so that steps that
    only look like one are taken apart."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
