"""The contract of leases. See `stores/testing.py`."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from ..core.errors import FencedOut, LeaseBusy, OverlapIsNewer, StoreUnreachable
from ..core.model import Fence, Grant, LeaseKey, RunId
from .testing_faults import DelaysRequests, DoublesRequests, LosesAnswers
from .testing_support import KEY, TOMORROW, TONIGHT, TTL, A, B, C, Harness, grant


class GrantContract:
    """Who is granted a lease, and under which generation."""

    def test_the_first_generation_is_the_stores_clock_in_whole_seconds(
        self, harness: Harness
    ) -> None:
        store = harness.open()
        earliest = int(store.facts().now.timestamp())
        generation = grant(store, "r1").fence.generation
        assert earliest <= generation <= int(store.facts().now.timestamp())
        assert harness.peek_generation(KEY) == generation

    def test_the_generation_grows_across_a_clean_release(self, harness: Harness) -> None:
        store = harness.open()
        first = grant(store, "r1")
        store.release(first.fence, 1, 0)
        second = grant(store, "r2", B)
        assert second.fence.generation == first.fence.generation + 1
        assert harness.peek_generation(KEY) == second.fence.generation

    def test_the_generation_is_kept_by_a_release(self, harness: Harness) -> None:
        store = harness.open()
        first = grant(store, "r1")
        store.release(first.fence, 1, 0)
        assert harness.peek_generation(KEY) == first.fence.generation

    def test_the_generation_grows_across_expiry(self, harness: Harness) -> None:
        store = harness.open()
        first = grant(store, "r1")
        harness.advance(TTL.total_seconds())
        assert grant(store, "r2", B).fence.generation == first.fence.generation + 1

    def test_the_generation_grows_above_what_a_target_has_seen(self, harness: Harness) -> None:
        store = harness.open()
        first = grant(store, "r1")
        floor = first.fence.generation + 40
        second = grant(store, "r2", above=floor, replaces="r1")
        assert second.fence.generation == floor + 1
        third = grant(store, "r3", above=5, replaces="r2")
        assert third.fence.generation == floor + 2

    def test_an_unknown_key_too_starts_above_what_a_target_has_seen(self, harness: Harness) -> None:
        floor = 10_000_000_000
        assert grant(harness.open(), "r1", above=floor).fence.generation == floor + 1

    def test_a_grant_is_seen_by_all_connections(self, harness: Harness) -> None:
        lease = grant(harness.open(), "r1")
        seen = harness.open().lease(KEY)
        assert seen == lease
        assert (lease.live, lease.released, lease.overlaps, lease.stop) == (True, False, 0, None)
        assert (lease.holder, lease.interval, lease.ttl) == (A, TONIGHT, TTL)
        assert lease.expires_at == lease.granted_at + TTL
        assert lease.progress_at == lease.granted_at

    def test_a_live_lease_is_busy_and_names_its_holder(self, harness: Harness) -> None:
        lease = grant(harness.open(), "r1")
        harness.advance(TTL.total_seconds() - 1)
        with pytest.raises(LeaseBusy) as busy:
            grant(harness.open(), "r2", B)
        assert busy.value.lease == lease

    def test_leases_of_other_jobs_and_shards_are_apart(self, harness: Harness) -> None:
        store = harness.open()
        grant(store, "r1")
        for other in (LeaseKey("backup"), LeaseKey(KEY.job, shard=1)):
            lease = store.acquire(other, RunId("r2"), B, TTL, interval=TONIGHT)
            assert lease.fence.key == other
        assert store.lease(LeaseKey("unknown")) is None

    def test_asking_again_for_the_same_run_gives_the_same_grant(self, harness: Harness) -> None:
        store = harness.open()
        lease = grant(store, "r1")
        harness.advance(1)
        assert grant(harness.open(), "r1", above=99) == lease
        renewed = store.renew(lease.fence, 1)
        assert grant(store, "r1") == renewed
        store.release(lease.fence, 1, 0)
        again = grant(store, "r1")
        assert (again.fence, again.released, again.live) == (lease.fence, True, False)

    def test_a_grant_whose_answer_was_lost_is_had_by_asking_again(self, harness: Harness) -> None:
        store = LosesAnswers(harness.open(), {"acquire"})
        with pytest.raises(StoreUnreachable):
            grant(store, "r1")
        lease = grant(store, "r1")
        assert lease.live
        assert harness.peek_generation(KEY) == lease.fence.generation

    def test_the_run_of_a_dead_holder_may_be_replaced_at_once(self, harness: Harness) -> None:
        first = grant(harness.open(), "r1")
        store = harness.open()
        second = grant(store, "r2", B, replaces="r1")
        assert second.fence.generation == first.fence.generation + 1
        assert second.previous == Grant(
            fence=first.fence,
            holder=A,
            interval=TONIGHT,
            progress_at=first.progress_at,
            expires_at=first.expires_at,
            released=False,
        )
        assert grant(store, "r2", B).previous == second.previous
        seen = store.lease(KEY)
        assert seen is not None
        assert seen.previous is None

    def test_replacing_a_run_that_no_longer_has_the_lease_is_busy(self, harness: Harness) -> None:
        store = harness.open()
        grant(store, "r1")
        second = grant(store, "r2", B, replaces="r1")
        with pytest.raises(LeaseBusy) as busy:
            grant(store, "r3", C, replaces="r1")
        assert busy.value.lease.fence == second.fence

    def test_a_late_acquire_does_not_fence_out_its_own_holder(self, harness: Harness) -> None:
        store = harness.open()
        network = DelaysRequests(store, {"acquire"})
        with pytest.raises(StoreUnreachable):
            grant(network, "r1")
        second = grant(store, "r2")
        with pytest.raises(LeaseBusy):
            network.deliver()
        assert store.renew(second.fence, 1).fence == second.fence

    def test_a_late_acquire_of_a_holder_that_went_on_is_busy(self, harness: Harness) -> None:
        store = harness.open()
        grant(store, "r1")
        second = grant(store, "r2", replaces="r1")
        with pytest.raises(LeaseBusy):
            grant(store, "r1")
        harness.advance(TTL.total_seconds() + 1)
        with pytest.raises(LeaseBusy):
            grant(store, "r1")
        store.release(second.fence, 1, 0)
        with pytest.raises(LeaseBusy):
            grant(store, "r1")
        assert harness.peek_generation(KEY) == second.fence.generation

    def test_a_holder_that_released_may_go_on_by_naming_its_last_run(
        self, harness: Harness
    ) -> None:
        store = harness.open()
        first = grant(store, "r1")
        store.release(first.fence, 1, 0)
        second = grant(store, "r2", replaces="r1")
        assert second.fence.generation == first.fence.generation + 1
        assert second.previous is not None
        assert second.previous.released


class KeepContract:
    """How a lease is renewed, lapses and ends."""

    def test_a_renewal_counts_from_now(self, harness: Harness) -> None:
        store = harness.open()
        lease = grant(store, "r1")
        harness.advance(40)
        renewed = store.renew(lease.fence, 1)
        assert renewed.expires_at == lease.expires_at + timedelta(seconds=40)
        harness.advance(59)
        with pytest.raises(LeaseBusy):
            grant(store, "r2", B)
        harness.advance(1)
        assert grant(store, "r2", B).live

    def test_progress_moves_only_forward(self, harness: Harness) -> None:
        store = harness.open()
        lease = grant(store, "r1")
        harness.advance(10)
        moved = store.renew(lease.fence, 7)
        assert (moved.progress, moved.progress_at) == (7, lease.granted_at + timedelta(seconds=10))
        harness.advance(10)
        still = store.renew(lease.fence, 7)
        assert (still.progress, still.progress_at) == (7, moved.progress_at)
        late = store.renew(lease.fence, 3)
        assert (late.progress, late.progress_at) == (7, moved.progress_at)

    def test_an_expired_lease_that_nobody_took_is_renewed(self, harness: Harness) -> None:
        store = harness.open()
        lease = grant(store, "r1")
        harness.advance(10 * TTL.total_seconds())
        seen = store.lease(KEY)
        assert seen is not None
        assert not seen.live
        assert store.renew(lease.fence, 1).live
        with pytest.raises(LeaseBusy):
            grant(store, "r2", B)

    def test_a_renewal_after_a_takeover_is_fenced_out(self, harness: Harness) -> None:
        store = harness.open()
        stale = grant(store, "r1")
        harness.advance(TTL.total_seconds())
        newer = grant(store, "r2", B)
        with pytest.raises(FencedOut) as refused:
            store.renew(stale.fence, 1)
        assert refused.value.newer is not None
        assert refused.value.newer.fence == newer.fence
        assert store.lease(KEY) == replace(newer, previous=None)

    def test_a_late_renewal_does_not_revive_a_released_lease(self, harness: Harness) -> None:
        store = harness.open()
        network = DelaysRequests(store, {"renew"})
        lease = grant(store, "r1")
        with pytest.raises(StoreUnreachable):
            network.renew(lease.fence, 1)
        store.release(lease.fence, 1, 0)
        with pytest.raises(FencedOut):
            network.deliver()
        assert grant(store, "r2", B).live

    def test_only_the_exact_generation_and_run_renew(self, harness: Harness) -> None:
        store = harness.open()
        lease = grant(store, "r1")
        for wrong in (
            Fence(KEY, lease.fence.generation - 1, lease.fence.run),
            Fence(KEY, lease.fence.generation + 1, lease.fence.run),
            Fence(KEY, lease.fence.generation, RunId("r0")),
            Fence(LeaseKey("unknown"), lease.fence.generation, lease.fence.run),
        ):
            with pytest.raises(FencedOut):
                store.renew(wrong, 1)
            with pytest.raises(FencedOut):
                store.release(wrong, 1, None)
        assert store.lease(KEY) == lease

    @pytest.mark.parametrize("step", [-86_400.0, 86_400.0])
    def test_a_stepped_wall_clock_ends_no_lease_and_prolongs_none(
        self, harness: Harness, step: float
    ) -> None:
        store = harness.open()
        grant(store, "r1")
        harness.step_wall_clock(step)
        with pytest.raises(LeaseBusy):
            grant(harness.open(), "r2", B)
        harness.advance(TTL.total_seconds())
        assert grant(harness.open(), "r2", B).live

    def test_a_release_by_an_old_holder_does_not_end_a_newer_grant(self, harness: Harness) -> None:
        store = harness.open()
        stale = grant(store, "r1")
        harness.advance(TTL.total_seconds())
        grant(store, "r2", B)
        with pytest.raises(FencedOut):
            store.release(stale.fence, 9, None)
        with pytest.raises(LeaseBusy):
            grant(store, "r3", C)

    def test_a_release_that_arrives_twice_or_late_changes_nothing(self, harness: Harness) -> None:
        inner = harness.open()
        store = DoublesRequests(inner, {"acquire", "renew", "release"})
        lease = grant(store, "r1")
        store.renew(lease.fence, 1)
        inner.commit(lease.fence, 2, [])
        inner.release(lease.fence, 2, None)
        with pytest.raises(LeaseBusy):
            grant(inner, "r2", B)
        store.release(lease.fence, 3, 0)
        assert grant(inner, "r2", B).fence.generation == lease.fence.generation + 1

    def test_an_overlap_noted_after_the_last_decision_is_not_lost(self, harness: Harness) -> None:
        store, other = harness.open(), harness.open()
        lease = grant(store, "r1")
        with pytest.raises(LeaseBusy) as busy:
            grant(other, "r2", B, interval=TOMORROW, overlap=True)
        assert busy.value.lease.overlaps == 1
        with pytest.raises(OverlapIsNewer):
            store.release(lease.fence, 1, 0)
        assert store.renew(lease.fence, 1).overlaps == 1
        store.release(lease.fence, 1, 1)
        assert grant(store, "r3", B).overlaps == 0

    def test_an_overlap_is_not_lost_when_its_holder_takes_the_next_grant(
        self, harness: Harness
    ) -> None:
        store, other = harness.open(), harness.open()
        grant(store, "r1")
        for run in ("r2", "r3"):
            with pytest.raises(LeaseBusy):
                grant(other, run, B, interval=TOMORROW, overlap=True)
        second = grant(store, "r4", replaces="r1", interval="2026-12-02T02:30:00Z")
        assert second.overlaps == 2
        with pytest.raises(LeaseBusy):
            grant(other, "r5", B, interval=TOMORROW, overlap=True)
        with pytest.raises(OverlapIsNewer):
            store.release(second.fence, 1, 2)

    def test_a_release_without_a_decision_ends_the_lease_whatever_was_noted(
        self, harness: Harness
    ) -> None:
        store = harness.open()
        lease = grant(store, "r1")
        with pytest.raises(LeaseBusy):
            grant(store, "r2", B, interval=TOMORROW, overlap=True)
        store.release(lease.fence, 1, None)
        assert grant(store, "r3", B).live

    def test_only_overlaps_for_another_interval_are_noted(self, harness: Harness) -> None:
        store = harness.open()
        lease = grant(store, "r1")
        for interval, overlap in ((TONIGHT, True), (TOMORROW, False)):
            with pytest.raises(LeaseBusy) as busy:
                grant(store, "r2", B, interval=interval, overlap=overlap)
            assert busy.value.lease.overlaps == 0
        store.release(lease.fence, 1, 0)

    def test_a_request_to_stop_reaches_the_holder(self, harness: Harness) -> None:
        store = harness.open()
        lease = grant(store, "r1")
        request = {"actor": "ops", "reason": "deploy", "at": TONIGHT}
        assert harness.open().ask_stop(KEY, lease.fence.generation, request)
        assert store.renew(lease.fence, 1).stop == request
        second = grant(store, "r2", replaces="r1")
        assert second.stop == request

    def test_a_request_to_stop_is_refused_once_the_lease_has_ended(self, harness: Harness) -> None:
        store = harness.open()
        lease = grant(store, "r1")
        generation = lease.fence.generation
        assert not store.ask_stop(KEY, generation - 1, {})
        assert not store.ask_stop(LeaseKey("unknown"), generation, {})
        harness.advance(TTL.total_seconds())
        assert not store.ask_stop(KEY, generation, {})
        store.renew(lease.fence, 1)
        store.release(lease.fence, 1, 0)
        assert not store.ask_stop(KEY, generation, {})
        assert grant(store, "r2", B).stop is None
