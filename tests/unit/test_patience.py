"""How soon somebody who waits for a lease looks again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from reconcile.core.errors import StoreBusy, StoreUnreachable
from reconcile.core.model import Fence, Holder, Lease, LeaseKey, RunId
from reconcile.core.operations import patience

if TYPE_CHECKING:
    from threading import Event

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def ending(seconds: float) -> Lease:
    """A live lease that ends so long after NOW."""
    return Lease(
        fence=Fence(LeaseKey("job"), 1, RunId("run")),
        holder=Holder("host", "machine", "boot", "namespace", 1, 1, "token"),
        interval="interval",
        ttl=timedelta(seconds=3),
        granted_at=NOW,
        expires_at=NOW + timedelta(seconds=seconds),
        progress=0,
        progress_at=NOW,
        live=True,
    )


class Asked:
    """A store that gives these answers, of which an error is raised; and clock and the rest of
    what is asked of while somebody waits."""

    def __init__(self, *answers: Lease | Exception | None) -> None:
        self._answers = list(answers)
        self._boot = 0.0
        self.runtime: Any = SimpleNamespace(clock=self, stop=SimpleNamespace(reason=None))

    def lease(self, key: LeaseKey) -> Lease | None:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def facts(self) -> Any:
        return SimpleNamespace(now=NOW)

    def boot(self) -> float:
        return self._boot

    def wait(self, seconds: float, wake: Event) -> bool:
        self._boot += seconds
        return False

    def stay(self) -> bool:
        """Wait for up to a minute."""
        asked: Any = self
        job: Any = SimpleNamespace(name="job", lease=SimpleNamespace(detect_dead=False))
        return patience.until_free(asked, asked, job, ending(5), NOW, 60)


@pytest.mark.parametrize("error", [StoreUnreachable("silent"), StoreBusy("busy")])
def test_who_waits_asks_again_where_the_store_gives_no_answer(error: Exception) -> None:
    assert Asked(error, ending(5), *[error] * 9, None).stay()


def test_who_waits_gives_up_a_store_that_gives_no_answer_for_as_long_as_who_acquires() -> None:
    with pytest.raises(StoreUnreachable):
        Asked(*[StoreUnreachable("silent")] * 12).stay()


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
    lease = ending(ends)
    assert patience._pause(lease, NOW) == pytest.approx(pause)
