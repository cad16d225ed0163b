"""What a source on a network is given: the run's order, and the accounts that the target has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...checksum import decode
from ...endpoints import AsksEach, BrokenOff
from ...rows import KeySpan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from ...endpoints import Reading, Target
    from ...model import Rate
    from ...ports import WorkOrder
    from ...rows import Schema

ROWS = 5000
"""So many rows of the target are read at a time, more or less."""


class Asking:
    """Implements `endpoints.Calls`."""

    def __init__(self, order: WorkOrder, target: Target, schema: Schema) -> None:
        self._order = order
        self._target = target
        self._schema = schema

    def now(self) -> datetime:
        """See `endpoints.Calls`."""
        return self._order.now()

    def take(self, bucket: str, rate: Rate) -> float:
        """See `endpoints.Calls`."""
        return self._order.take(bucket, rate)

    def wait(self, seconds: float) -> None:
        """See `endpoints.Calls`."""
        self._order.wait(seconds)

    def go_on(self) -> None:
        """See `endpoints.Calls`."""
        self._order.go_on()

    def stand_by(self) -> None:
        """See `endpoints.Calls`."""
        self._order.check()
        if self._order.stop_asked():
            raise BrokenOff

    def new_id(self) -> str:
        """See `endpoints.Calls`."""
        return self._order.new_id()

    def accounts(self) -> Iterator[str]:
        """See `endpoints.Calls`."""
        lower: str | None = None
        while True:
            upper = self._target.bound(KeySpan(lower, None), ROWS)
            lines = self._target.lines(KeySpan(lower, upper))
            yield from sorted({_account(line) for line in lines}, key=self._schema.sort_value)
            if upper is None:
                return
            lower = upper


def unasked(reading: Reading, observed: Sequence[bytes]) -> Mapping[str, str]:
    """The accounts of the target's lines that the source was not asked for: nobody knows what they
    should have."""
    if not isinstance(reading, AsksEach):
        return {}
    return reading.unasked({_account(line) for line in observed})


def _account(line: bytes) -> str:
    return decode(line)[0] or ""
