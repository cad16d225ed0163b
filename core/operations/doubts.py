"""What people should know of a store before they rely on it, in whole sentences.

Only stores of several hosts have a clock of their own. It decides everything, so a host that
is out does no harm; but its logs, and what people read off its clock, do not fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from ..model import StoreFacts

TOLERATED = 5.0
"""Seconds by which a host's clock may be out before anybody is told."""


def doubts(facts: StoreFacts, store: datetime, host: datetime) -> Iterator[str]:
    """The store's own warnings; and one where the host's clock, read at the same time as the
    store's, is out."""
    yield from facts.warnings
    out = (host - store).total_seconds()
    if facts.single_host or abs(out) <= TOLERATED:
        return
    way = "ahead of" if out > 0 else "behind"
    yield (
        f"this host's clock is {abs(out):.0f}s {way} the store's; the store's decides what is "
        "due and what has expired"
    )
