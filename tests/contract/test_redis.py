"""The Redis store keeps the contract, and what only it can promise, on a Valkey server from
a wheel or on one that `RECONCILE_TEST_REDIS` names."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from support.redis_harness import RedisHarness
from support.valkey import fresh_url

from reconcile.core.errors import FencedOut, LeaseBusy, StoreUnreachable, StoreUnusable
from reconcile.core.model import Append, Delete, Kind, LeaseKey, Put, Rate, RunId
from reconcile.stores.redis_rows import job_keys, lease_keys, store_keys
from reconcile.stores.redis_scripts import load
from reconcile.stores.testing import BucketContract, StoreContract
from reconcile.stores.testing_support import JOB, KEY, TONIGHT, TTL, B, cursor_at, grant, keys

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def harness(server_url: str, clock) -> Iterator[RedisHarness]:
    harness = RedisHarness(fresh_url(server_url), clock)
    yield harness
    harness.close()


class TestRedisStore(StoreContract):
    pass


# --- bugs put into the scripts, each found by the contract


class Seed(NamedTuple):
    """A bug: in which script, what is written instead of what, and which test must notice."""

    script: str
    right: str
    wrong: str
    test: str
    arguments: tuple[object, ...] = ()


OWN = "if not is_own(last, generation, run) then return answer('fenced', at) end"
SEEDS = {
    "generation reset on release": Seed(
        "release",
        "'released', '1', 'seq', seq",
        "'released', '1', 'seq', seq, 'generation', '1'",
        "test_the_generation_grows_across_a_clean_release",
    ),
    "renew without generation check": Seed(
        "renew",
        "not is_own(last, generation, run) or",
        "not last or",
        "test_a_renewal_after_a_takeover_is_fenced_out",
    ),
    "expiry from the caller's clock, ahead": Seed(
        "acquire",
        "redis.call('TIME')",
        "CALLERS_TIME",
        "test_a_stepped_wall_clock_ends_no_lease_and_prolongs_none",
        (86_400.0,),
    ),
    "expiry from the caller's clock, behind": Seed(
        "acquire",
        "redis.call('TIME')",
        "CALLERS_TIME",
        "test_a_stepped_wall_clock_ends_no_lease_and_prolongs_none",
        (-86_400.0,),
    ),
    "checkpoint accepted after takeover": Seed(
        "commit", OWN, "", "test_a_checkpoint_after_a_takeover_is_fenced_out"
    ),
    "release by an old holder": Seed(
        "release", OWN, "", "test_a_release_by_an_old_holder_does_not_end_a_newer_grant"
    ),
    "two acquires granted": Seed(
        "acquire",
        "if not free and last.run ~= replaces",
        "if false",
        "test_one_of_many_who_ask_at_once_is_granted",
    ),
    "a late renewal revives a released lease": Seed(
        "renew",
        "not is_own(last, generation, run) or last.released == '1'",
        "not is_own(last, generation, run)",
        "test_a_late_renewal_does_not_revive_a_released_lease",
    ),
    "a late checkpoint moves the cursor back": Seed(
        "commit",
        "if tonumber(seq) <= tonumber(last.seq) then return {'applied'} end",
        "",
        "test_a_late_checkpoint_does_not_move_the_cursor_back",
    ),
    "a late acquire fences out its own holder": Seed(
        "acquire",
        "not (is_live(last, at) or last.holder == holder)",
        "not is_live(last, at) or last.holder == holder",
        "test_a_late_acquire_does_not_fence_out_its_own_holder",
    ),
    "an overlap noted after the last decision is lost": Seed(
        "release",
        "tonumber(last.overlaps) > tonumber(seen)",
        "false",
        "test_an_overlap_noted_after_the_last_decision_is_not_lost",
    ),
}


@pytest.mark.parametrize("seed", SEEDS.values(), ids=SEEDS.keys())
def test_a_seeded_bug_makes_the_contract_fail(server_url: str, clock, seed: Seed) -> None:
    seeded = []

    def change(name: str, text: str) -> str:
        if name == seed.script:
            seeded.append(seed.right in text)
            return text.replace(seed.right, seed.wrong)
        return text

    harness = RedisHarness(fresh_url(server_url), clock, change)
    try:
        with pytest.raises((AssertionError, pytest.fail.Exception, LeaseBusy)):
            getattr(StoreContract(), seed.test)(harness, *seed.arguments)
    finally:
        harness.close()
    assert all(seeded)


def test_a_bucket_by_the_callers_clock_makes_the_contract_fail(server_url: str, clock) -> None:
    harness = RedisHarness(
        fresh_url(server_url),
        clock,
        lambda _, text: text.replace("redis.call('TIME')", "CALLERS_TIME"),
    )
    try:
        with pytest.raises(AssertionError):
            BucketContract().test_a_stepped_wall_clock_grants_nothing(harness, 86_400.0)
    finally:
        harness.close()


# --- what is stored


class TestKeysOfRedisStore:
    """Where things are, and that nothing goes by itself."""

    def test_no_key_has_a_time_to_live(self, harness) -> None:
        self.fill(harness)
        found = list(harness.raw.scan_iter(f"{harness.address.prefix}:*"))
        assert len(found) == 9
        assert {harness.raw.ttl(key) for key in found} == {-1}

    def test_all_keys_of_a_job_have_its_hash_tag(self, harness) -> None:
        self.fill(harness)
        prefix = harness.address.prefix
        found = {key.decode() for key in harness.raw.scan_iter(f"{prefix}:*")}
        of_job = {*job_keys(prefix, JOB), *lease_keys(prefix, KEY)}
        assert found == {*of_job, *store_keys(prefix)}
        assert all(key.startswith(f"{prefix}:{{{JOB}}}:") for key in of_job)

    def test_events_are_a_stream_that_gets_shorter_where_they_are_dropped(self, harness) -> None:
        store = self.fill(harness)
        events = job_keys(harness.address.prefix, JOB)[6]
        entries = harness.raw.xrange(events)
        assert [entry_id for entry_id, _ in entries] == [b"1-0", b"2-0"]
        assert entries[0][1][b"key"] == f"{TONIGHT}/{1:020d}".encode()
        store.note([Delete(Kind.EVENT, JOB, key) for key in keys(store.scan(Kind.EVENT, JOB))])
        assert harness.raw.xlen(events) == 0
        store.note([Append(Kind.EVENT, JOB, "x", {})])
        assert keys(store.scan(Kind.EVENT, JOB)) == [f"x/{3:020d}"]

    def test_an_event_is_had_by_its_whole_key_only(self, harness) -> None:
        store = self.fill(harness)
        key = f"{TONIGHT}/{2:020d}"
        found = store.get(Kind.EVENT, JOB, key)
        assert found is not None
        assert (found.key, found.value, found.version) == (key, {"n": 2}, 1)
        assert store.get(Kind.EVENT, JOB, f"x/{2:020d}") is None
        assert store.get(Kind.EVENT, JOB, TONIGHT) is None

    def test_scripts_that_the_server_forgot_are_sent_again(self, harness) -> None:
        store = harness.open()
        lease = grant(store, "r1")
        harness.raw.script_flush()
        assert store.renew(lease.fence, 1).live

    @staticmethod
    def fill(harness) -> object:
        store = harness.open()
        fence = grant(store, "r1").fence
        store.commit(fence, 1, [Put(Kind.CHANGES, JOB, "p/1", {}, tag="open", blob=b"\0")])
        store.commit(fence, 2, [Append(Kind.EVENT, JOB, TONIGHT, {"n": n}) for n in (1, 2)])
        store.take("api", Rate(1, TTL))
        return store


# --- a store that is not the one it was


class TestAnotherRedisStore:
    """Wiped, restored, or newer."""

    @staticmethod
    def wipe(harness) -> None:
        for key in harness.raw.scan_iter(f"{harness.address.prefix}:*"):
            harness.raw.delete(key)

    def test_a_wiped_store_is_known_by_those_who_had_it_open(self, harness) -> None:
        store = harness.open()
        lease = grant(store, "r1")
        self.wipe(harness)
        for call in (
            store.facts,
            lambda: grant(store, "r2", replaces="r1"),
            lambda: store.note([cursor_at(1)]),
            lambda: store.take("api", Rate(1, TTL)),
        ):
            with pytest.raises(StoreUnreachable, match="wiped or replaced"):
                call()
        for call in (
            lambda: store.renew(lease.fence, 1),
            lambda: store.commit(lease.fence, 1, [cursor_at(1)]),
            lambda: store.release(lease.fence, 1, 0),
        ):
            with pytest.raises(FencedOut, match="wiped or restored"):
                call()
        assert not list(harness.raw.scan_iter(f"{harness.address.prefix}:*"))

    def test_what_was_only_read_is_known_to_have_been_there(self, harness) -> None:
        harness.open().note([cursor_at(1)])
        for read in (
            lambda store: store.scan(Kind.INTERVAL, JOB),
            lambda store: store.get(Kind.INTERVAL, JOB, TONIGHT),
            lambda store: store.lease(KEY),
        ):
            store = harness.open()
            read(store)
            self.wipe(harness)
            with pytest.raises(StoreUnreachable, match="wiped or replaced"):
                grant(store, "r1")
            harness.open().note([cursor_at(1)])

    def test_a_wiped_store_goes_on_upwards_under_another_id(self, harness) -> None:
        store = harness.open()
        lease = grant(store, "r1")
        store.release(lease.fence, 1, 0)
        self.wipe(harness)
        harness.advance(2)
        other = harness.open(new_id="0ther")
        assert other.facts().id == "0ther"
        assert grant(other, "r2", B).fence.generation > lease.fence.generation

    def test_a_new_store_takes_over_what_an_old_connection_left_in_it(self, harness) -> None:
        stale = harness.open()
        self.wipe(harness)
        fence = grant(stale, "r1").fence
        current = harness.open(new_id="0ther")
        current.note([cursor_at(1)])
        with pytest.raises(StoreUnreachable, match="wiped or replaced"):
            grant(stale, "r2", replaces="r1")
        with pytest.raises(StoreUnreachable, match="wiped or replaced"):
            stale.facts()
        assert current.lease(KEY).fence == fence
        assert grant(current, "r3", B, replaces="r1").live

    def test_a_newer_schema_is_refused(self, harness) -> None:
        harness.open()
        harness.raw.hset(store_keys(harness.address.prefix)[0], "schema", "2")
        with pytest.raises(StoreUnusable, match="schema version 2; this program knows 1") as newer:
            harness.open()
        assert "upgrade reconcile" in newer.value.hint

    @pytest.mark.parametrize("number", range(7))
    def test_a_key_of_another_type_is_damage_and_stops_a_batch_whole(
        self, harness, number: int
    ) -> None:
        store = harness.open()
        fence = grant(store, "r1").fence
        store.commit(fence, 1, [cursor_at(1), Append(Kind.EVENT, JOB, "x", {})])
        names = job_keys(harness.address.prefix, JOB)
        harness.raw.delete(names[number])
        harness.raw.set(names[number], "x")
        kept = {name: harness.raw.dump(name) for name in names}
        batch = [
            Put(Kind.CHANGES, JOB, "1", {}, tag="open", blob=b"x"),
            Append(Kind.EVENT, JOB, "x", {}),
        ]
        with pytest.raises(StoreUnusable, match="is damaged") as damaged:
            store.commit(fence, 2, batch)
        assert "restore it from a copy" in damaged.value.hint
        assert {name: harness.raw.dump(name) for name in names} == kept

    def test_values_that_cannot_be_read_are_damage(self, harness) -> None:
        store = harness.open()
        grant(store, "r1")
        store.note([cursor_at(1)])
        names = job_keys(harness.address.prefix, JOB)
        harness.raw.hset(names[2], f"interval/{TONIGHT}", "nonsense")
        for read in (
            lambda: store.get(Kind.INTERVAL, JOB, TONIGHT),
            lambda: store.scan(Kind.INTERVAL, JOB),
        ):
            with pytest.raises(StoreUnusable, match="is damaged"):
                read()
        harness.raw.hset(names[2], f"interval/{TONIGHT}", "1 2 0 0:{")
        with pytest.raises(StoreUnusable, match="is damaged"):
            store.get(Kind.INTERVAL, JOB, TONIGHT)
        harness.raw.hset(names[1], "holder", "[]")
        with pytest.raises(StoreUnusable, match="is damaged"):
            store.lease(KEY)

    def test_a_target_fenced_beyond_what_the_store_can_count_is_refused(self, harness) -> None:
        store = harness.open()
        with pytest.raises(StoreUnusable, match="cannot count"):
            grant(store, "r1", above=2**53 - 1)
        lease = grant(store, "r1", above=2**53 - 3)
        assert lease.fence.generation == 2**53 - 2
        second = grant(store, "r2", replaces="r1")
        assert second.fence.generation == 2**53 - 1
        with pytest.raises(StoreUnusable, match="cannot count"):
            grant(store, "r3", replaces="r2")
        assert store.renew(second.fence, 1).live


def test_the_servers_own_clock_decides(harness) -> None:
    harness.scripts.update(load())
    store = harness.open()
    lease = store.acquire(LeaseKey("short"), RunId("r1"), B, TTL / 600, interval=TONIGHT)
    seconds, micros = harness.raw.time()
    assert abs(lease.granted_at.timestamp() - seconds - micros / 1e6) < 5
    while store.lease(LeaseKey("short")).live:
        pass
    assert store.facts().now >= lease.expires_at
