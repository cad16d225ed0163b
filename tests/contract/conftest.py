"""A clock that tests move, for the harnesses of the stores."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from threading import Event


class MovedClock:
    """Wall clock and boot time, moved together by `advance`, apart by `step`."""

    def __init__(self) -> None:
        self.wall = datetime(2026, 11, 30, 2, 30, 0, 250_000, tzinfo=UTC)
        self.booted = 1000.5

    def now(self) -> datetime:
        return self.wall

    def boot(self) -> float:
        return self.booted

    def wait(self, seconds: float, wake: Event) -> bool:
        self.advance(seconds)
        return wake.is_set()

    def advance(self, seconds: float) -> None:
        self.booted += seconds
        self.wall += timedelta(seconds=seconds)

    def step(self, seconds: float) -> None:
        self.wall += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()
