"""How much one trigger takes: how many intervals, until when, and unless somebody stops it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..model import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..events import IntervalReport
    from ..ports import Runtime

MOST = 5000
"""So many intervals does one call take where a backfill runs: it reports each."""
GOING_ON = (Outcome.COMPLETED, Outcome.NEEDS_APPROVAL, Outcome.FAILED, Outcome.INCOMPLETE)
"""Outcomes of one interval after which a trigger may take another."""


class Limits(NamedTuple):
    """`until` is a boot time in seconds, None without a bound; `most` a number of intervals."""

    runtime: Runtime
    until: float | None
    most: int | None

    def allow(self, reports: Sequence[IntervalReport]) -> bool:
        """Whether this trigger may take another interval. The first one is always begun, so
        that a time budget, however small, gets a range further."""
        if self.runtime.stop.reason is not None:
            return False
        return not reports or (self._lets_on(reports) and not self._is_over)

    def time_alone_forbids(self, reports: Sequence[IntervalReport]) -> bool:
        """Whether another one would be taken if there were time for it."""
        stopped = self.runtime.stop.reason is not None
        return not stopped and bool(reports) and self._lets_on(reports) and self._is_over

    def _lets_on(self, reports: Sequence[IntervalReport]) -> bool:
        return reports[-1].outcome in GOING_ON and (self.most is None or len(reports) < self.most)

    @property
    def _is_over(self) -> bool:
        return self.until is not None and self.runtime.clock.boot() >= self.until
