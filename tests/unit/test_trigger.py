"""How soon a trigger that waits for a lease looks again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from reconcile.core.model import Fence, Holder, Lease, LeaseKey, RunId
from reconcile.core.operations import trigger

NOW = datetime(2026, 11, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("ends", "pause"),
    [
        (5, 1),  # it may be released sooner
        (1, 1),
        (0.4, 0.41),
        (0, 0.01),
        (-0.002, 0.01),  # it ended between two questions
        (-1, 1),  # a wall clock that was put forward
        (-600, 1),
    ],
)
def test_a_lease_is_asked_for_right_after_its_end_and_every_second_until_then(
    ends: float, pause: float
) -> None:
    lease = Lease(
        fence=Fence(LeaseKey("job"), 1, RunId("run")),
        holder=Holder("host", "machine", "boot", "namespace", 1, 1, "token"),
        interval="interval",
        ttl=timedelta(seconds=3),
        granted_at=NOW,
        expires_at=NOW + timedelta(seconds=ends),
        progress=0,
        progress_at=NOW,
        live=True,
    )
    assert trigger._pause(lease, NOW) == pytest.approx(pause)
