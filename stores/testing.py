"""Writing a store: what it must do, and the suite that proves it.

A store is a class with the methods of `core.ports.Store`, a function that opens it (see
`stores.registry.Opener`), and one entry of the entry-point group ``reconcile.stores``. It
holds no domain rule: a lease, fenced batches, ordered scans, token buckets. Its test file
is this suite and a `Harness`::

    from reconcile.stores.testing import StoreContract

    class TestMyStore(StoreContract):
        @pytest.fixture
        def harness(self):
            with MyHarness() as harness:
                yield harness

Checklist:

1.  Each method is one step on the server: one transaction that begins and ends inside it,
    or one script. Never a transaction of the caller, never read now and write later.
2.  Expiry is computed and compared on the store's side, by one clock that all callers
    share. The caller's clock decides nothing.
3.  The row with the generation is never deleted and never expires: not by release, not by
    pruning, not by eviction. Unknown keys start at the clock's whole seconds.
4.  Every fenced write compares the exact generation and run id in the statement that
    writes. Zero rows changed is an answer; look afterwards why.
5.  Sequence numbers begin anew with each generation. One not above the last applied
    changes nothing, so requests may come late or twice. A conflict uses up no number.
6.  `acquire` is idempotent in the run id, and refuses a late request of the very holder
    that has gone on. Busy, and the overlap noted, are one step.
7.  What a holder was told (overlaps, the request to stop) outlives its regrant.
8.  When a method returns, what it wrote is durable (or `facts().durable` is false).
9.  Keys are ordered by code point, whatever the collation. JSON comes back as it was.
10. Every wait is bounded, and ends in `StoreBusy` or `StoreUnreachable`. No error of a
    driver escapes; each message says what happened, to what, and what to do.
11. Secrets of the URL appear in no message, nor in `facts().location`.

The wrappers of `stores/testing_faults.py` lose answers, double and delay requests; use them
for your own tests too.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    "reconcile.stores.testing_batches",
    "reconcile.stores.testing_drops",
    "reconcile.stores.testing_leases",
    "reconcile.stores.testing_records",
)

from .testing_batches import BatchContract  # noqa: E402  (asserts are rewritten before that)
from .testing_drops import DropContract  # noqa: E402
from .testing_faults import (  # noqa: E402
    DelaysRequests,
    DoublesRequests,
    LosesAnswers,
    WrappedStore,
)
from .testing_leases import GrantContract, KeepContract  # noqa: E402
from .testing_records import BucketContract, ScanContract  # noqa: E402
from .testing_support import KEY, Harness, MovedClock, grant  # noqa: E402


class StoreContract(
    GrantContract,
    KeepContract,
    BatchContract,
    ScanContract,
    DropContract,
    BucketContract,
):
    """Every store passes this. Subclass it and provide a `harness` fixture."""

    def test_connections_agree_on_the_store(self, harness: Harness) -> None:
        first, second = harness.open().facts(), harness.open().facts()
        assert first.id == second.id != ""
        assert first.now.utcoffset() is not None
        assert (first.single_host, first.durable) == (second.single_host, second.durable)

    def test_closing_releases_nothing(self, harness: Harness) -> None:
        store = harness.open()
        lease = grant(store, "r1")
        store.close()
        assert harness.open().lease(KEY) == lease


__all__ = [
    "BatchContract",
    "BucketContract",
    "DelaysRequests",
    "DoublesRequests",
    "DropContract",
    "GrantContract",
    "Harness",
    "KeepContract",
    "LosesAnswers",
    "MovedClock",
    "ScanContract",
    "StoreContract",
    "WrappedStore",
]
