"""How a command ended, in words, and which refusal that is.

Exit statuses of a command are recorded and shown, never passed on: whoever calls must be able to
tell a backup that exited 75 from a lease that is busy.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from ...errors import (
    CommandDenied,
    CommandFailed,
    CommandNotStarted,
    CommandUnusable,
    ReconcileError,
)
from .functions import refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...model import JsonObject
    from .supervision import Ended, NotExecuted

_DENIED = {errno.EACCES, errno.EPERM}
_NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}
_NO_PROGRAM = {errno.ENOEXEC, errno.E2BIG, errno.EINVAL, errno.EISDIR, errno.ELIBBAD}


def fault(
    ended: Ended,
    program: str,
    *,
    job: str,
    interval: str,
    tail: Sequence[str],
    at_range: str,
    is_function: bool = False,
) -> ReconcileError | None:
    """Why a command did not end well; None where it did. `at_range` follows what happened."""
    if ended.not_executed is not None:
        return not_started(ended.not_executed)
    if ended.status == 0:
        return None
    if is_function and (said := refusal(ended.status, tail)) is not None:
        return CommandUnusable(said, hint="mend the function, or python in the configuration")
    facts: JsonObject = {}
    if ended.status is not None:
        text, facts = f"{program} exited {ended.status}", {"exit_status": ended.status}
    elif ended.signal is not None:
        name = signal_name(ended.signal)
        text, facts = f"{program} was ended by {name}", {"signal": name}
    else:
        text = f"{program} was ended with its supervisor, which somebody killed"
    if ended.why == "signal":
        text += ", as its supervisor was told to by a signal"
    if is_function and ended.status == 1 and tail:
        text = f"{program} raised {tail[-1].strip()}"
    hint = f"all its output: reconcile logs {job} {interval}"
    return CommandFailed(f"{text}{at_range}", hint=hint, tail=tail, facts=facts)


def not_started(found: NotExecuted) -> ReconcileError:
    """Why no program was begun: what is missing may be there again (69), what is denied is 77,
    and what is no program will not become one by waiting (78)."""
    if found.what == "supervisor":
        return CommandNotStarted(found.text, hint="see what this system lacks: memory, processes")
    what = "cwd" if found.what == "cwd" else "command"
    if found.errno in _DENIED:
        mend = "let this user in" if what == "cwd" else "make it executable for this user: chmod +x"
        return CommandDenied(found.text, hint=f"{mend}, or run the job as another user")
    if found.errno in _NOT_THERE:
        return CommandNotStarted(
            found.text, hint=f"mend {what} in the configuration, or PATH where cron has a short one"
        )
    if found.errno in _NO_PROGRAM:
        return CommandUnusable(
            found.text,
            hint='a script begins with a line such as #!/bin/sh; or write ["sh", "-c", "…"]',
        )
    return CommandNotStarted(found.text, hint="the next trigger tries again")


def signal_name(number: int) -> str:
    """`SIGKILL`; real-time signals have no name of their own."""
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
