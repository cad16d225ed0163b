"""The contract of batches of records, under a fence and without. See `stores/testing.py`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from ..core.errors import FencedOut, StoreUnreachable, WriteConflict
from ..core.model import ABSENT, Append, Delete, Fence, Kind, LeaseKey, Put, RunId
from .testing_faults import DelaysRequests, DoublesRequests, LosesAnswers
from .testing_support import JOB, KEY, TONIGHT, TTL, B, Harness, cursor_at, grant

if TYPE_CHECKING:
    from ..core.model import Write

NESTED = {"a": [1, {"b": None}], "c": {"d": [[], {}]}}
LOSSLESS: list[Any] = [
    {},
    NESTED,
    {"big": 2**80, "negative": -(2**63), "zero": 0, "true": True, "none": None},
    {"float": 0.1, "tiny": 5e-324, "large": 1.7976931348623157e308, "minus": -0.0, "one": 1.0},
    {"text": "żółć 🌍 \u2028 \x00 \"'\\", "surrogate": "\udc80", "": "empty key"},
]
NOT_JSON: list[Any] = [
    {"x": float("nan")},
    {"x": [float("inf")]},
    {"x": {1: "a number as a key"}},
    {"x": b"bytes"},
    {"x": {1, 2}},
    {"x": timedelta(seconds=1)},
]


class BatchContract:
    """Batches land whole, once, under the newest fence, or not at all."""

    def test_a_batch_lands_whole(self, harness: Harness) -> None:
        store = harness.open()
        fence = grant(store, "r1").fence
        assert store.commit(fence, 1, [cursor_at(17), Append(Kind.EVENT, JOB, TONIGHT, {"n": 1})])
        assert harness.peek_record(Kind.INTERVAL, JOB, TONIGHT) == {"cursor": 17}
        found = harness.open().scan(Kind.EVENT, JOB, prefix=TONIGHT + "/")
        assert [record.value for record in found] == [{"n": 1}]

    def test_a_batch_that_arrives_twice_is_applied_once(self, harness: Harness) -> None:
        inner = harness.open()
        fence = grant(inner, "r1").fence
        store = DoublesRequests(inner, {"commit"})
        assert not store.commit(fence, 1, [Append(Kind.EVENT, JOB, TONIGHT, {})])
        assert len(inner.scan(Kind.EVENT, JOB)) == 1

    def test_a_batch_whose_answer_was_lost_is_sent_again(self, harness: Harness) -> None:
        inner = harness.open()
        fence = grant(inner, "r1").fence
        store = LosesAnswers(inner, {"commit"})
        batch = [Append(Kind.EVENT, JOB, TONIGHT, {})]
        with pytest.raises(StoreUnreachable):
            store.commit(fence, 1, batch)
        assert not store.commit(fence, 1, batch)
        assert len(inner.scan(Kind.EVENT, JOB)) == 1

    def test_a_late_checkpoint_does_not_move_the_cursor_back(self, harness: Harness) -> None:
        store = harness.open()
        fence = grant(store, "r1").fence
        network = DelaysRequests(store, {"commit"})
        with pytest.raises(StoreUnreachable):
            network.commit(fence, 1, [cursor_at(17)])
        assert store.commit(fence, 2, [cursor_at(18)])
        assert network.deliver() is False
        assert harness.peek_record(Kind.INTERVAL, JOB, TONIGHT) == {"cursor": 18}

    def test_a_checkpoint_after_a_takeover_is_fenced_out(self, harness: Harness) -> None:
        store = harness.open()
        stale = grant(store, "r1").fence
        assert store.commit(stale, 1, [cursor_at(17)])
        harness.advance(TTL.total_seconds())
        newer = grant(store, "r2", B)
        with pytest.raises(FencedOut) as refused:
            store.commit(stale, 2, [cursor_at(18)])
        assert refused.value.newer is not None
        assert refused.value.newer.fence == newer.fence
        assert harness.peek_record(Kind.INTERVAL, JOB, TONIGHT) == {"cursor": 17}

    def test_only_the_exact_generation_and_run_write(self, harness: Harness) -> None:
        store = harness.open()
        fence = grant(store, "r1").fence
        for wrong in (
            Fence(KEY, fence.generation - 1, fence.run),
            Fence(KEY, fence.generation + 1, fence.run),
            Fence(KEY, fence.generation, RunId("r0")),
            Fence(LeaseKey(JOB, shard=1), fence.generation, fence.run),
        ):
            with pytest.raises(FencedOut):
                store.commit(wrong, 1, [cursor_at(1)])
        assert harness.peek_record(Kind.INTERVAL, JOB, TONIGHT) is None

    def test_an_expired_holder_may_write_while_nobody_took_over(self, harness: Harness) -> None:
        store = harness.open()
        fence = grant(store, "r1").fence
        harness.advance(2 * TTL.total_seconds())
        assert store.commit(fence, 1, [cursor_at(17)])

    def test_nothing_is_written_under_a_released_lease(self, harness: Harness) -> None:
        store = harness.open()
        fence = grant(store, "r1").fence
        assert store.commit(fence, 1, [cursor_at(17)])
        store.release(fence, 2, 0)
        assert not store.commit(fence, 1, [cursor_at(16)])
        with pytest.raises(FencedOut):
            store.commit(fence, 3, [cursor_at(18)])
        assert harness.peek_record(Kind.INTERVAL, JOB, TONIGHT) == {"cursor": 17}

    def test_sequence_numbers_begin_anew_with_each_generation(self, harness: Harness) -> None:
        store = harness.open()
        fence = grant(store, "r1").fence
        assert store.commit(fence, 500, [cursor_at(17)])
        assert store.commit(grant(store, "r2", replaces="r1").fence, 1, [cursor_at(18)])

    def test_a_conflict_refuses_the_whole_batch_and_uses_up_no_number(
        self, harness: Harness
    ) -> None:
        store = harness.open()
        fence = grant(store, "r1").fence
        other = Put(Kind.PLAN, JOB, "p1", {}, expect=3)
        with pytest.raises(WriteConflict):
            store.commit(fence, 1, [cursor_at(17), Append(Kind.EVENT, JOB, "x", {}), other])
        assert harness.peek_record(Kind.INTERVAL, JOB, TONIGHT) is None
        assert not store.scan(Kind.EVENT, JOB)
        assert store.commit(fence, 1, [cursor_at(17)])

    def test_a_record_is_written_only_over_the_version_expected(self, harness: Harness) -> None:
        store = harness.open()
        absent = Put(Kind.JOB, JOB, "", {"v": 1}, expect=ABSENT)
        store.note([absent])
        with pytest.raises(WriteConflict):
            store.note([absent])
        store.note([Put(Kind.JOB, JOB, "", {"v": 2}, expect=1)])
        with pytest.raises(WriteConflict):
            store.note([Put(Kind.JOB, JOB, "", {"v": 3}, expect=1)])
        with pytest.raises(WriteConflict):
            store.note([Put(Kind.JOB, "other", "", {}, expect=1)])
        store.note([Put(Kind.JOB, JOB, "", {"v": 4})])
        record = store.get(Kind.JOB, JOB, "")
        assert record is not None
        assert (record.value, record.version) == ({"v": 4}, 3)

    def test_a_batch_sees_what_it_wrote(self, harness: Harness) -> None:
        store = harness.open()
        store.note(
            [
                Put(Kind.PLAN, JOB, "p", {"v": 1}, expect=ABSENT),
                Put(Kind.PLAN, JOB, "p", {"v": 2}, expect=1),
                Delete(Kind.PLAN, JOB, "p"),
                Put(Kind.PLAN, JOB, "p", {"v": 3}, expect=ABSENT),
            ],
        )
        assert harness.peek_record(Kind.PLAN, JOB, "p") == {"v": 3}

    def test_a_record_comes_back_with_its_time_tag_and_blob(self, harness: Harness) -> None:
        store = harness.open()
        harness.advance(5)
        now = store.facts().now
        store.note([Put(Kind.CHANGES, JOB, "p/1", {"n": 1}, tag="open", blob=b"\x00\xff")])
        record = harness.open().get(Kind.CHANGES, JOB, "p/1")
        assert record is not None
        assert (record.kind, record.job, record.key) == (Kind.CHANGES, JOB, "p/1")
        assert (record.tag, record.blob, record.version) == ("open", b"\x00\xff", 1)
        assert now <= record.at <= store.facts().now

    def test_a_blob_goes_when_its_record_is_written_without(self, harness: Harness) -> None:
        store = harness.open()
        store.note([Put(Kind.CHANGES, JOB, "a", {}, blob=b"a"), cursor_at(1)])
        for write in (
            Put(Kind.CHANGES, JOB, "a", {}),
            Put(Kind.CHANGES, JOB, "a", {}, blob=b""),
            Put(Kind.CHANGES, JOB, "a", {}, blob=b"second"),
        ):
            store.note([write])
            record = store.get(Kind.CHANGES, JOB, "a")
            assert record is not None
            assert record.blob == write.blob
        store.note([Delete(Kind.CHANGES, JOB, "a"), Put(Kind.CHANGES, JOB, "a", {}, expect=ABSENT)])
        record = store.get(Kind.CHANGES, JOB, "a")
        assert record is not None
        assert record.blob is None

    def test_deleting_what_is_not_there_is_no_error(self, harness: Harness) -> None:
        store = harness.open()
        store.note([cursor_at(1)])
        for _ in range(2):
            store.note([Delete(Kind.INTERVAL, JOB, TONIGHT)])
            assert store.get(Kind.INTERVAL, JOB, TONIGHT) is None

    def test_appended_records_come_back_in_order(self, harness: Harness) -> None:
        stores = [harness.open(), harness.open()]
        for n in range(12):
            stores[n % 2].note([Append(Kind.EVENT, JOB, f"x{n % 3}", {"n": n})])
        numbers = []
        for prefix in ("x0/", "x1/", "x2/"):
            found = stores[0].scan(Kind.EVENT, JOB, prefix=prefix)
            assert [record.value["n"] for record in found] == list(range(int(prefix[1]), 12, 3))
            numbers += [record.key.removeprefix(prefix) for record in found]
        assert {len(number) for number in numbers} == {20}
        assert len(set(numbers)) == 12

    @pytest.mark.parametrize("value", LOSSLESS)
    def test_values_come_back_as_they_were(self, harness: Harness, value: Any) -> None:
        harness.open().note([Put(Kind.JOB, JOB, "", value)])
        record = harness.open().get(Kind.JOB, JOB, "")
        assert record is not None
        assert repr(record.value) == repr(value)
        assert harness.peek_record(Kind.JOB, JOB, "") == value

    @pytest.mark.parametrize("value", NOT_JSON)
    def test_what_json_cannot_carry_is_refused_whole(self, harness: Harness, value: Any) -> None:
        store = harness.open()
        with pytest.raises(ValueError, match=r".+"):
            store.note([cursor_at(1), Put(Kind.JOB, JOB, "", value)])
        assert store.get(Kind.INTERVAL, JOB, TONIGHT) is None

    def test_what_is_stored_cannot_be_changed_from_outside(self, harness: Harness) -> None:
        store = harness.open()
        inner: list[int] = [1]
        store.note([Put(Kind.JOB, JOB, "", {"list": inner})])
        inner.append(2)
        record = store.get(Kind.JOB, JOB, "")
        assert record is not None
        record.value["list"].append(3)  # type: ignore[union-attr]
        assert harness.peek_record(Kind.JOB, JOB, "") == {"list": [1]}

    def test_a_batch_is_about_one_job(self, harness: Harness) -> None:
        store = harness.open()
        fence = grant(store, "r1").fence
        other = Put(Kind.PLAN, "other", "p", {})
        batches: list[list[Write]] = [
            [cursor_at(1), other],
            [other, cursor_at(1)],
            [Append(Kind.EVENT, JOB, "x", {}), Delete(Kind.RUN, "other", "r")],
        ]
        for batch in batches:
            with pytest.raises(ValueError, match="about one job"):
                store.note(batch)
            with pytest.raises(ValueError, match="about one job"):
                store.commit(fence, 1, batch)
        with pytest.raises(ValueError, match=f"the lease of {JOB} .* other"):
            store.commit(fence, 1, [other])
        assert store.get(Kind.INTERVAL, JOB, TONIGHT) is None
        assert store.get(Kind.PLAN, "other", "p") is None
        assert not store.scan(Kind.EVENT, JOB)
        assert store.commit(fence, 1, [cursor_at(1)]), "nothing was counted"
        store.note([other])
        assert store.get(Kind.PLAN, "other", "p") is not None
