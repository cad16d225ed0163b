"""The contract of records as they are read, and of buckets. See `stores/testing.py`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from ..core.model import Delete, Kind, Put, Rate
from .testing_support import JOB, Harness, keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..core.ports import Store


class ScanContract:
    """Records in order of key, bounded every way."""

    NAMES: Sequence[str] = ("", "A", "a", "a%", "a/1", "a/2", "aa", "a_", "b", "ż", "\uffee", "🌍")

    def filled(self, harness: Harness) -> Store:
        """A store with one record for each name, beside others."""
        store = harness.open()
        store.note([Put(Kind.PLAN, JOB, name, {"name": name}) for name in reversed(self.NAMES)])
        store.note([Put(Kind.RUN, JOB, "a", {})])
        store.note([Put(Kind.PLAN, "other", "a", {})])
        return store

    def test_keys_are_in_order_of_code_points(self, harness: Harness) -> None:
        store = self.filled(harness)
        assert keys(store.scan(Kind.PLAN, JOB)) == sorted(self.NAMES)
        newest = store.scan(Kind.PLAN, JOB, newest_first=True)
        assert keys(newest) == sorted(self.NAMES, reverse=True)
        assert [record.value["name"] for record in newest] == keys(newest)

    @pytest.mark.parametrize("prefix", ["a", "a/", "a%", "a_", "🌍", "\U0010ffff", "zz"])
    def test_a_prefix_is_no_pattern(self, harness: Harness, prefix: str) -> None:
        store = self.filled(harness)
        store.note([Put(Kind.PLAN, JOB, "\U0010ffffx", {})])
        names = sorted([*self.NAMES, "\U0010ffffx"])
        wanted = [name for name in names if name.startswith(prefix)]
        assert keys(store.scan(Kind.PLAN, JOB, prefix=prefix)) == wanted

    def test_bounds_are_strict(self, harness: Harness) -> None:
        store = self.filled(harness)
        assert keys(store.scan(Kind.PLAN, JOB, after="a", before="b")) == [
            "a%",
            "a/1",
            "a/2",
            "a_",
            "aa",
        ]
        assert keys(store.scan(Kind.PLAN, JOB, prefix="a/", after="a/1")) == ["a/2"]
        assert keys(store.scan(Kind.PLAN, JOB, prefix="a/", before="a/2")) == ["a/1"]
        assert keys(store.scan(Kind.PLAN, JOB, prefix="a/", after="a")) == ["a/1", "a/2"]
        assert not store.scan(Kind.PLAN, JOB, after="b", before="a")

    def test_a_limit_takes_from_the_end_asked_for(self, harness: Harness) -> None:
        store = self.filled(harness)
        assert keys(store.scan(Kind.PLAN, JOB, limit=2)) == ["", "A"]
        assert keys(store.scan(Kind.PLAN, JOB, limit=2, newest_first=True)) == ["🌍", "\uffee"]
        assert not store.scan(Kind.PLAN, JOB, limit=0)

    def test_a_tag_is_found_and_follows_its_record(self, harness: Harness) -> None:
        store = self.filled(harness)
        store.note([Put(Kind.PLAN, JOB, name, {}, tag="open") for name in ("a", "b", "ż")])
        store.note([Put(Kind.PLAN, JOB, "A", {}, tag="other")])
        store.note([Put(Kind.PLAN, JOB, "b", {})])
        assert keys(store.scan(Kind.PLAN, JOB, tag="open")) == ["a", "ż"]
        assert keys(store.scan(Kind.PLAN, JOB, tag="open", after="a")) == ["ż"]
        newest = store.scan(Kind.PLAN, JOB, tag="open", newest_first=True, limit=1)
        assert keys(newest) == ["ż"]
        store.note([Delete(Kind.PLAN, JOB, "a")])
        assert keys(store.scan(Kind.PLAN, JOB, tag="open")) == ["ż"]

    def test_a_scan_brings_blobs(self, harness: Harness) -> None:
        store = harness.open()
        store.note([Put(Kind.CHANGES, JOB, "1", {}, blob=b"1"), Put(Kind.CHANGES, JOB, "2", {})])
        assert [record.blob for record in store.scan(Kind.CHANGES, JOB)] == [b"1", None]


class BucketContract:
    """Calls are granted by the store's clock, shared by all who ask."""

    RATE = Rate(3, timedelta(seconds=6))

    def test_an_idle_bucket_grants_its_amount_at_once_and_then_one_by_one(
        self, harness: Harness
    ) -> None:
        stores = [harness.open(), harness.open()]
        waits = [stores[n % 2].take("api", self.RATE) for n in range(4)]
        assert waits == [0, 0, 0, pytest.approx(2)]
        harness.advance(1.5)
        assert stores[0].take("api", self.RATE) == pytest.approx(0.5)
        harness.advance(0.5)
        assert stores[1].take("api", self.RATE) == 0
        assert stores[1].take("api", self.RATE) == pytest.approx(2)

    def test_an_idle_bucket_does_not_overflow(self, harness: Harness) -> None:
        store = harness.open()
        store.take("api", self.RATE)
        harness.advance(1000)
        assert [store.take("api", self.RATE) > 0 for _ in range(4)] == [False] * 3 + [True]

    def test_a_bucket_of_one_spaces_its_calls_and_saves_none_up(self, harness: Harness) -> None:
        """Then no time as long as `amount * per` sees more than `amount` calls."""
        stores = [harness.open(), harness.open()]
        spaced = Rate(1, timedelta(milliseconds=102))
        harness.advance(1000)
        assert stores[0].take("api", spaced) == 0
        assert stores[1].take("api", spaced) == pytest.approx(0.102)
        harness.advance(0.05)
        assert stores[0].take("api", spaced) == pytest.approx(0.052)
        harness.advance(0.06)
        assert stores[1].take("api", spaced) == 0
        assert stores[0].take("api", spaced) == pytest.approx(0.102)

    def test_several_calls_are_had_together_or_not_at_all(self, harness: Harness) -> None:
        store = harness.open()
        assert store.take("api", self.RATE, 2) == 0
        assert store.take("api", self.RATE, 2) == pytest.approx(2)
        assert store.take("api", self.RATE, 1) == 0
        assert store.take("api", self.RATE, 3) == pytest.approx(6)

    def test_buckets_are_apart(self, harness: Harness) -> None:
        store = harness.open()
        assert store.take("api", self.RATE, 3) == 0
        assert store.take("other", self.RATE, 3) == 0

    def test_another_rate_holds_at_once(self, harness: Harness) -> None:
        store = harness.open()
        assert store.take("api", Rate(1, timedelta(hours=1))) == 0
        faster = Rate(10, timedelta(seconds=10))
        assert store.take("api", faster) == pytest.approx(1)
        harness.advance(1)
        assert store.take("api", faster) == 0

    @pytest.mark.parametrize("step", [-86_400.0, 86_400.0])
    def test_a_stepped_wall_clock_grants_nothing(self, harness: Harness, step: float) -> None:
        store = harness.open()
        store.take("api", self.RATE, 3)
        harness.step_wall_clock(step)
        assert store.take("api", self.RATE) == pytest.approx(2)

    def test_calls_that_can_never_be_had_are_refused(self, harness: Harness) -> None:
        store = harness.open()
        for rate, n in ((self.RATE, 4), (self.RATE, 0), (Rate(0, timedelta(seconds=1)), 1)):
            with pytest.raises(ValueError, match="cannot be had"):
                store.take("api", rate, n)
