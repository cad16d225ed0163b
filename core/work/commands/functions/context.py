"""What a function is told, and what it yields."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

    from ....model import Json


class Checkpoint(TypedDict, total=False):
    """What a function yields: any of these, and a plain dict will do.

    `cursor`: where the next call goes on, any JSON value; when the generator goes on, it is
    durable. `count`, `checksum`: of all that is done so far, the newest stand. `expected_count`,
    `expected_checksum`: what they have to be in the end. `progress`: anything; it only shows that
    work goes on, and so does a bare `yield`.
    """

    cursor: Json
    count: int
    checksum: str
    expected_count: int
    expected_checksum: str
    progress: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What a function is called for.

    `interval` is the interval's id, `scheduled_at` its instant, in UTC. `run_id` and `generation`
    are the fence, to be shown with what is written elsewhere. `trigger` is one of schedule, resume,
    rerun, backfill, manual. `cursor` is that of the last checkpoint, None at the beginning.
    `range` of `ranges` is this call's, from 1; 1 of 1 for a job without `ranges`.
    """

    job: str
    interval: str
    scheduled_at: datetime
    run_id: str
    trigger: str
    generation: int
    cursor: Any = None
    range: int = 1
    ranges: int = 1

    @property
    def is_stopping(self) -> bool:
        """Whether the run was asked to stop. The next yield is the last in any case; work whose
        steps take longer than `kill_after` may look here between them."""
        return _asked.to_stop


class _Asked:
    """Whether this process was asked to stop."""

    def __init__(self) -> None:
        self.to_stop = False

    def by_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.to_stop = True


_asked = _Asked()


def heed_stop() -> None:
    """Take SIGTERM for a request to stop at the next yield."""
    signal.signal(signal.SIGTERM, _asked.by_signal)


def from_environment(environ: Mapping[str, str]) -> RunContext:
    """What `surroundings.variables` said. KeyError where this is no call of ours."""
    import json

    cursor = environ["RECONCILE_CURSOR"]
    return RunContext(
        job=environ["RECONCILE_JOB"],
        interval=environ["RECONCILE_INTERVAL"],
        scheduled_at=datetime.fromisoformat(environ["RECONCILE_SCHEDULED_AT"]),
        run_id=environ["RECONCILE_RUN_ID"],
        trigger=environ["RECONCILE_TRIGGER"],
        generation=int(environ["RECONCILE_GENERATION"]),
        cursor=json.loads(cursor) if cursor else None,
        range=int(environ["RECONCILE_RANGE"]),
        ranges=int(environ["RECONCILE_RANGES"]),
    )
