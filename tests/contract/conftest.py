"""A clock that tests move, for the harnesses of the stores; and a server for one of them."""

from __future__ import annotations

import pytest

from reconcile.stores.testing import MovedClock


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture(scope="session")
def server_url() -> str:
    """A Redis or Valkey server for the whole session."""
    from support.valkey import shared_url

    return shared_url()
