"""A clock that tests move, for the harnesses of the stores."""

from __future__ import annotations

import pytest

from reconcile.stores.testing import MovedClock


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()
