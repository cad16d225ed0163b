"""Writing a store: what it must do, and the suite that proves it.

A store is a class with the methods of `core.ports.Store`, a function that opens it (see
`stores.registry.Opener`), and one entry of the entry-point group ``reconcile.stores``, by the
scheme of its URLs::

    [project.entry-points."reconcile.stores"]
    jsonfile = "reconcile_jsonfile:opener"

Installed beside `reconcile`, it is what ``[store] url = "jsonfile:///PATH"`` means. It
holds no domain rule: a lease, fenced batches, ordered scans, token buckets. Values, holders and
bounds become text and numbers by `stores.encoding`. ``tests/third_party`` is such a store, a
distribution of its own, and reconcile-stores(7) says all this to those who only install.

Its test file is this suite and a `Harness`; ``tests/contract/test_third_party.py`` is one::

    from reconcile.stores.testing import StoreContract

    class TestMyStore(StoreContract):
        @pytest.fixture
        def harness(self):
            with MyHarness() as harness:
                yield harness

The suite moves the store's clock by minutes. A store that decides by the `clock` it is opened
with is given a `MovedClock`; of one whose server has a clock, the tests put theirs in its place.

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
12. A connection that finds another store in the place of the one it opened writes nothing:
    `StoreUnreachable`, or `FencedOut` for what was fenced.

The suite shows what one process can. Show as well that twenty processes that add to a plain
counter under the lease lose no step, and that one killed inside a step leaves nothing behind. The
wrappers of `stores/testing_faults.py` lose answers, double and delay requests; use them for your
own tests too. Then break each rule on purpose, and see the suite fail.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    "reconcile.stores.testing_batches",
    "reconcile.stores.testing_crowds",
    "reconcile.stores.testing_drops",
    "reconcile.stores.testing_leases",
    "reconcile.stores.testing_records",
)

from .testing_batches import BatchContract  # noqa: E402  (asserts are rewritten before that)
from .testing_crowds import CrowdContract  # noqa: E402
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
    CrowdContract,
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
    "CrowdContract",
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
