"""The reference store keeps the contract."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from reconcile.stores.memory import MemoryServer
from reconcile.stores.testing import StoreContract

if TYPE_CHECKING:
    from reconcile.core.model import JsonObject, Kind, LeaseKey
    from reconcile.core.ports import Store


class MemoryHarness:
    def __init__(self, clock) -> None:
        self.advance = clock.advance
        self.step_wall_clock = clock.step
        self._server = MemoryServer(clock, "5t0re")

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
