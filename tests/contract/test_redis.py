"""The Redis store keeps the contract, on a Valkey server from a wheel or on one that
`RECONCILE_TEST_REDIS` names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from support.redis_harness import RedisHarness
from support.valkey import GIVEN, fresh_url, start, url_of

from reconcile.stores.testing import StoreContract

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for the whole session."""
    given = os.environ.get(GIVEN)
    if given:
        yield given
        return
    server = start(tmp_path_factory.mktemp("valkey"))
    yield url_of(server)
    server.stop()


@pytest.fixture
def harness(server_url: str, clock) -> Iterator[RedisHarness]:
    harness = RedisHarness(fresh_url(server_url), clock)
    yield harness
    harness.close()


class TestRedisStore(StoreContract):
    pass
