"""What is decided: values, each about one interval, and all of them together."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ..model import Interval
    from ..records import IntervalRecord
    from .pauses import Pause


class Due(NamedTuple):
    """An interval to work. `record` is None, and `version` 0, where it has none yet."""

    interval: Interval
    record: IntervalRecord | None = None
    version: int = 0


class Skip(NamedTuple):
    """An interval to record as skipped, or `span` of them up to `until` (inclusive).

    `version` is the one to expect of the record, 0 where there is none yet. `pause` is the
    one that it fell into.
    """

    interval: Interval
    reason: str
    record: IntervalRecord | None = None
    version: int = 0
    span: int = 1
    until: Interval | None = None
    pause: Pause | None = None


class Waiting(NamedTuple):
    """A begun interval that no trigger may touch yet.

    `why` is `retry`, not before `until`, or `approval`. Whether a guard's source or settings
    have changed, which makes it worth judging again, only the caller can see.
    """

    interval: Interval
    record: IntervalRecord
    version: int
    why: str
    until: datetime | None = None


class Blocked(NamedTuple):
    """New intervals that are due, and are not begun before a person or a retry has finished an
    older one: that of `record`. `failed`: it has failed for good."""

    record: IntervalRecord
    held: Sequence[Due]
    failed: bool


class Decision(NamedTuple):
    """What to do now. `due` is in order of work, and holds no more than the limit of those
    that are new; `backlog` counts all that are due or unfinished, tried ones too. Those in
    `overtaken` are to be recorded as failed, with that reason.

    `pause` is in force now: no trigger may take any of these. `paused` counts the scheduled
    instants that fell into it, of which nothing is decided before it is over.

    `settled`: once the skips are written, every scheduled instant from the horizon up to it,
    exclusive, has a record.
    """

    due: Sequence[Due]
    skips: Sequence[Skip]
    waiting: Sequence[Waiting]
    next_due: Interval | None
    backlog: int
    settled: datetime
    overtaken: Sequence[Skip] = ()
    pause: Pause | None = None
    paused: int = 0
    blocked: Blocked | None = None

    @property
    def owed(self) -> Sequence[Due]:
        """All that is due, whether or not an older one blocks it."""
        return self.due if self.blocked is None else [*self.due, *self.blocked.held]
