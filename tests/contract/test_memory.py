"""The reference store keeps the contract."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.seeding import seeded

from reconcile.core.errors import LeaseBusy
from reconcile.stores import memory
from reconcile.stores.testing import StoreContract

if TYPE_CHECKING:
    from reconcile.core.model import JsonObject, Kind, LeaseKey
    from reconcile.core.ports import Store


class MemoryHarness:
    def __init__(self, clock, module=memory) -> None:
        self.advance = clock.advance
        self.step_wall_clock = clock.step
        self._server = module.MemoryServer(clock, "5t0re")

    def open(self) -> Store:
        return self._server.connect()

    def peek_generation(self, key: LeaseKey) -> int | None:
        granted = self._server.leases.get(key)
        return None if granted is None else granted.lease.fence.generation

    def peek_record(self, kind: Kind, job: str, key: str) -> JsonObject | None:
        stored = self._server.records.get((kind, job, key))
        return None if stored is None else json.loads(stored.text)


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def harness(self, clock) -> MemoryHarness:
        return MemoryHarness(clock)


# --- the suite notices what a store may get wrong

RENEW = """own = self._own(fence)
            if own.released:
                raise self._fenced_out(fence)
            now ="""
RELEASE = """own = self._own(fence)
            granted = self._server.leases[fence.key]
            if own.released"""
COMMIT = """own = self._own(fence)
            granted = self._server.leases[fence.key]
            if seq <= granted.seq:
                return False
"""
ANYBODY = ("self._own(fence)", "self._stands(fence.key)")
SEEDS = {
    "generation reset on release": (
        "released=True)",
        "released=True, fence=fence._replace(generation=0))",
        "test_the_generation_is_kept_by_a_release",
    ),
    "renew without generation check": (
        RENEW,
        RENEW.replace(*ANYBODY),
        "test_a_renewal_after_a_takeover_is_fenced_out",
    ),
    "expiry from the caller's clock": (
        "self._server.clock.boot() < granted.ends",
        "self._server.clock.now() < granted.lease.expires_at",
        "test_a_stepped_wall_clock_ends_no_lease_and_prolongs_none",
    ),
    "checkpoint accepted after takeover": (
        COMMIT,
        COMMIT.replace(*ANYBODY),
        "test_a_checkpoint_after_a_takeover_is_fenced_out",
    ),
    "release by an old holder": (
        RELEASE,
        RELEASE.replace(*ANYBODY),
        "test_a_release_by_an_old_holder_does_not_end_a_newer_grant",
    ),
    "two acquires granted": (
        "if last is not None and not free and replaces != last.fence.run:",
        "if False:",
        "test_one_of_many_who_ask_at_once_is_granted",
    ),
    "a late renewal revives a released lease": (
        RENEW,
        RENEW.replace("own.released", "False"),
        "test_a_late_renewal_does_not_revive_a_released_lease",
    ),
    "a late checkpoint moves the cursor back": (
        COMMIT,
        COMMIT.replace("seq <= granted.seq", "False"),
        "test_a_late_checkpoint_does_not_move_the_cursor_back",
    ),
    "a late acquire fences out its own holder": (
        "not (last.live or last.holder == holder)",
        "not last.live or last.holder == holder",
        "test_a_late_acquire_does_not_fence_out_its_own_holder",
    ),
    "an overlap noted after the last decision is lost": (
        "if overlaps_seen is not None and own.overlaps > overlaps_seen:",
        "if False:",
        "test_an_overlap_noted_after_the_last_decision_is_not_lost",
    ),
}


@pytest.mark.parametrize("bug", SEEDS)
def test_the_contract_notices_a_seeded_bug(clock, bug: str) -> None:
    right, wrong, name = SEEDS[bug]
    steps = {"step": 86_400.0} if "stepped" in name else {}
    with seeded(memory, right, wrong) as module:
        harness = MemoryHarness(clock, module)
        with pytest.raises((AssertionError, pytest.fail.Exception, LeaseBusy)):
            getattr(StoreContract(), name)(harness, **steps)
