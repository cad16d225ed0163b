"""A clock that tests move, for the harnesses of the stores; and a server for one of them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from reconcile.stores.testing import MovedClock


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture(scope="session")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis or Valkey server for the whole session."""
    from support.valkey import GIVEN, start, url_of

    given = os.environ.get(GIVEN)
    if given:
        yield given
        return
    server = start(tmp_path_factory.mktemp("valkey"))
    yield url_of(server)
    server.stop()
