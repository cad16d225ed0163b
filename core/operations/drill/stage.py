"""What a drill needs from outside, and what it hands over: processes, folders, plain SQL.

Implemented by `cli/rehearsal`. A process that is rehearsed with is a real `reconcile run -v`,
whose standard error is a pipe that has room for one line. So it goes on only as its lines are
read: with one line unread, it stops in the write of the next, and stays there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from ...config import Job
    from ...endpoints import Target

ScratchRow = tuple[str, str, str]
"""Account, entitlement, level."""


class Script(NamedTuple):
    """One scratch job: what its source says, what its target has, how it is to be run.

    `start` is the first instant of its schedule, which is daily at that time of day.
    """

    job: str
    start: datetime
    source: Sequence[ScratchRow]
    target: Sequence[ScratchRow]
    range_size: int
    ttl: timedelta
    progress_deadline: timedelta


class Actor(Protocol):
    """A real process that runs `reconcile run` of a scratch job."""

    @property
    def pid(self) -> int: ...

    @property
    def steps(self) -> Sequence[str]:
        """The steps of `core/engine.py` that it was heard to pass, in order."""
        ...

    def hear(self, seconds: float) -> bool:
        """Take one line from the pipe, waiting so long for it; False where none came."""
        ...

    def let_go(self) -> None:
        """Take whatever it says from now on, so that nothing stops it any more."""
        ...

    def freeze(self) -> None:
        """SIGSTOP, and see it stopped."""
        ...

    def thaw(self) -> None:
        """SIGCONT."""
        ...

    def kill(self) -> None:
        """SIGKILL, and see it ended."""
        ...

    def ended(self) -> int | None:
        """Its exit status, negative for a signal; None while it lives."""
        ...

    def last_words(self) -> str:
        """The last thing that it said, for a message."""
        ...


class Scene(Protocol):
    """The folder of one scratch job, with its configuration, source and target."""

    @property
    def job(self) -> Job:
        """The scratch job as its configuration was read."""
        ...

    def start(self) -> Actor:
        """A further process that runs the job."""
        ...

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Plain SQL, put to the scratch target past all of this program; no rows where a table is
        not there yet."""
        ...

    def target(self) -> Target:
        """The scratch target as this program opens it."""
        ...


class Stage(Protocol):
    """Where scenes are made. A context manager: at its end no process of it lives, and its folder
    is gone."""

    def scene(self, script: Script) -> Scene:
        """Write the files of one scratch job."""
        ...

    def __enter__(self) -> Stage: ...

    def __exit__(self, *raised: object) -> None: ...
