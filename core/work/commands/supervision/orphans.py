"""Processes of a command whose supervisor is gone, found by what they have inherited.

Who loses supervisor and parent is adopted by somebody else, and nothing in its place in the tree
says any more where it comes from; its variables do, unless it has given itself others. That is
the one way by which a descendant escapes, and only when the supervisor was killed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .events import Process
from .supervisor import cgroups, ending, processes

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 2.0
"""Seconds from SIGKILL until what is left counts as a survivor."""


def mark_of(holder: str, run: str = "") -> str:
    """What a command of that holder, and of that run where one is named, has inherited, or how
    it begins."""
    return f"{holder}/{run}"


def orphans(holder: str, run: str) -> list[Process]:
    """What lives of a run, but for this process."""
    return [Process(one.pid, one.name) for one in _living(holder, run)]


def end_orphans(holder: str, run: str) -> tuple[Process, ...]:
    """End what a killed supervisor has left behind. Returns what could not be ended."""
    group = cgroups.of_run(run)
    if group:
        group.kill()

    def living() -> list[processes.Found]:
        return _living(holder, run)

    left = ending.end(living, lambda: not living(), PATIENCE)
    if group:
        group.remove()
    return tuple(Process(one.pid, one.name, why) for one, why in left)


def _living(holder: str, run: str) -> list[processes.Found]:
    mark = mark_of(holder, run).encode()
    return [
        one
        for one in processes.everyone()
        if one.pid != os.getpid() and not one.has_ended and processes.bears(one.pid, mark)
    ]


def something_lives(holder: str, started: int, may_be_its: Callable[[int], bool]) -> bool:
    """Whether a supervisor of that holder, or a descendant of its commands, may live.

    `started` is the holder's start time in ticks since boot, as this time namespace counts them:
    nothing of it began before. Of a process whose variables may not be read, `may_be_its` says
    by its number whether it could be one.
    """
    mark = mark_of(holder).encode()
    for process in processes.everyone():
        if process.has_ended or process.started < started - 1:
            continue
        bears = processes.bears(process.pid, mark)
        if bears or (bears is None and may_be_its(process.pid)):
            return True
    return False
