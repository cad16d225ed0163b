"""Ending a set of processes that may fork while it is read.

Who is only killed may have forked a moment before, and whoever reads /proc reads it while it
changes. So all are stopped first: a stopped process forks no more, and once a reading shows nobody
new, everybody is known. Then they are killed. A process that is adopted between shows itself in
the next round, and rounds go on until there is nobody.
"""

from __future__ import annotations

import signal
import time
from time import monotonic

from .processes import Found, read, send

TYPE_CHECKING = False  # the module typing takes as long to import as all of this
if TYPE_CHECKING:
    from collections.abc import Callable

_ROUNDS = 50
"""Readings after which everybody known is killed all the same: a fork bomb that is faster than
the reading loses its older processes in each."""
_PAUSE = 0.005
"""Seconds between two looks at processes that are being ended."""


def end(
    find: Callable[[], list[Found]], is_over: Callable[[], bool], patience: float
) -> list[tuple[Found, str]]:
    """SIGKILL to all that `find` finds, until `is_over`, or for `patience` seconds.

    Returns who lives on, with the reason.
    """
    until = monotonic() + patience
    left = _kill(find)
    while not is_over() and monotonic() < until:
        time.sleep(_PAUSE)
        left = _kill(find)
    if is_over():
        return []
    return [(process, why or _stuck(process)) for process, why in left]


def _kill(find: Callable[[], list[Found]]) -> list[tuple[Found, str]]:
    known: dict[tuple[int, int], Found] = {}
    for _ in range(_ROUNDS):
        new = [one for one in find() if (one.pid, one.started) not in known]
        if not new:
            break
        for process in new:
            known[process.pid, process.started] = process
            send(process, signal.SIGSTOP)
    return [(process, send(process, signal.SIGKILL)) for process in known.values()]


def _stuck(process: Found) -> str:
    now = read(process.pid)
    state = now.state if now is not None and now.started == process.started else "?"
    if state == "D":
        return "it is in a system call that does not return"
    return f"it does not end (state {state})"
