"""A rate is a sliding window: no span of its length, wherever it begins, holds more."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.deciding import HOUR, MINUTE, utc

from reconcile.core.errors import ConfigError
from reconcile.core.model import Rate
from reconcile.core.rates import may_start_at, parse_rate, show_rate, with_start

NOW = utc("2026-11-30T12:00")
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize("text", ["100/s", "30/m", "4/h", "1/d"])
def test_a_rate_is_shown_as_it_is_read(text: str) -> None:
    assert show_rate(parse_rate(text)) == text


@pytest.mark.parametrize("text", ["", "4", "0/h", "4/w", "4 /h", "-1/h", "1.5/h", "4/h ", "/h"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_rate(text)


@given(
    amount=st.integers(1, 5),
    asks=st.lists(st.integers(0, 40), min_size=1, max_size=200),
)
def test_no_window_holds_more_than_the_amount_and_none_is_refused_that_would_fit(
    amount: int, asks: list[int]
) -> None:
    rate = Rate(amount, MINUTE)
    starts, kept, now = [], [], NOW
    for step in asks:
        now += step * SECOND
        in_window = [start for start in starts if start > now - MINUTE]
        at = may_start_at(kept, rate, now)
        assert (at <= now) == (len(in_window) < amount)
        if at <= now:
            starts.append(now)
            kept = with_start(kept, rate, now)
        else:
            assert at == in_window[-amount] + MINUTE
    for first in starts:
        assert len([s for s in starts if first <= s < first + MINUTE]) <= amount
    assert len(kept) <= amount


def test_a_start_that_seems_to_be_about_to_come_counts() -> None:
    """Two looks at one clock differ by microseconds, two hosts by more."""
    rate = Rate(2, MINUTE)
    kept = with_start(with_start([], rate, NOW + SECOND), rate, NOW)
    assert kept == [NOW, NOW + SECOND]
    assert may_start_at(kept, rate, NOW - SECOND) == NOW + MINUTE


def test_starts_of_a_clock_that_was_ahead_are_void() -> None:
    rate = Rate(1, HOUR)
    ahead = with_start([], rate, NOW + 300 * HOUR)
    assert may_start_at(ahead, rate, NOW) == NOW
    assert with_start(ahead, rate, NOW) == [NOW]
