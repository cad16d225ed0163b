"""Ending a set of processes that may fork while it is read.

Whoever reads /proc reads it while it changes: a process may have forked and ended before it is
signalled. But a signal to a process group is one step for the kernel, which lets no member fork
past it. So each group that has one of ours is killed as one, and what is found in none, or has
gone into another meanwhile, is in the next reading; readings go on until there is nobody.
"""

from __future__ import annotations

import os
import signal
import time
from time import monotonic

from .processes import Found, read, send

TYPE_CHECKING = False  # the module typing takes as long to import as all of this
if TYPE_CHECKING:
    from collections.abc import Callable

_PAUSE = 0.005
"""Seconds between two readings."""


def end(
    find: Callable[[], list[Found]], is_over: Callable[[], bool], patience: float
) -> list[tuple[Found, str]]:
    """SIGKILL to all that `find` finds and their groups, until `is_over`, or for `patience`
    seconds.

    A group of theirs holds nobody else: it is of a session that one of them began, or of the
    supervisor's. Returns who lives on, with the reason.
    """
    until = monotonic() + patience
    left = _kill(find())
    while not is_over() and monotonic() < until:
        time.sleep(_PAUSE)
        left = _kill(find())
    if is_over():
        return []
    return [(process, why or _stuck(process)) for process, why in left]


def kill_group(group: int) -> None:
    """SIGKILL to a process group, but for our own."""
    if group in (0, os.getpgrp()):
        return
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass  # it has ended; or not all of it may be killed, and then each is tried


def _kill(found: list[Found]) -> list[tuple[Found, str]]:
    for group in {process.group for process in found}:
        kill_group(group)
    return [(process, send(process, signal.SIGKILL)) for process in found]


def _stuck(process: Found) -> str:
    now = read(process.pid)
    state = now.state if now is not None and now.started == process.started else "?"
    if state == "D":
        return "it is in a system call that does not return"
    return f"it does not end (state {state})"
