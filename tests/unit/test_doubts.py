"""What people are told of a store before they rely on it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from reconcile.core.config import TTL_NETWORK
from reconcile.core.model import StoreFacts
from reconcile.core.operations.doubts import doubts

NOW = datetime(2026, 11, 30, 2, 30, tzinfo=UTC)


def facts(*, single_host: bool, warnings: tuple[str, ...] = ()) -> StoreFacts:
    return StoreFacts("5t0re", NOW, single_host, True, TTL_NETWORK, "redis://h:6379/0", warnings)


@pytest.mark.parametrize(
    ("out", "says"),
    [
        (600.0, ["this host's clock is 600s ahead of the store's"]),
        (-600.0, ["this host's clock is 600s behind the store's"]),
        (5.0, []),
        (-5.0, []),
        (5.5, ["this host's clock is 6s ahead of the store's"]),
    ],
)
def test_a_host_whose_clock_is_out_is_told_so(out: float, says: list[str]) -> None:
    told = list(doubts(facts(single_host=False), NOW, NOW + timedelta(seconds=out)))
    assert [text.partition(";")[0] for text in told] == says


def test_a_store_of_one_host_has_that_hosts_clock() -> None:
    assert not list(doubts(facts(single_host=True), NOW, NOW + timedelta(hours=1)))


def test_what_the_store_says_of_itself_is_told_on() -> None:
    told = doubts(facts(single_host=False, warnings=("it forgets",)), NOW, NOW)
    assert list(told) == ["it forgets"]
