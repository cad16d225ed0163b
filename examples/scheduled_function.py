"""A night in a scheduled function that its platform ends after fifteen minutes.

Point the platform's schedule at `handler`, every ten minutes; as with cron, it only knocks. A
night that needs longer ends at a checkpoint, and the next event goes on where it stood. What
two events at once must not do, the lease prevents. The configuration is the one that
RECONCILE_CONFIG names; source, target and store are files so far, so they lie on a disk that
all events see (not a network file system).
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Protocol

import reconcile

MARGIN = timedelta(seconds=30)
"""Left of the platform's limit to finish the account range under way."""

FINE = {0, 75, 124}
"""Completed or nothing due; another event is at work; out of time, the next one goes on."""


class Context(Protocol):
    """What the platform says of this call."""

    def get_remaining_time_in_millis(self) -> int:
        """How long the platform lets it run on."""
        ...


def handler(event: object, context: Context) -> dict[str, object]:
    """What the platform calls. Raises where a person has to look, so that its alarm rings."""
    del event
    left = timedelta(milliseconds=context.get_remaining_time_in_millis()) - MARGIN
    outcome = reconcile.run("entitlements", max_runtime=max(left, timedelta(0)))
    for line in outcome.text.splitlines():
        logging.getLogger(__name__).info("%s", line)
    if outcome.exit not in FINE:
        raise RuntimeError(outcome.text) from outcome.error
    return {
        "outcome": outcome.outcome.value,
        "intervals": [one.interval for one in outcome.intervals],
    }
