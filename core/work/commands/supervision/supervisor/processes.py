"""Other processes, from /proc: whose child each is, and which belong to a command.

A number is not a process: between reading it and sending a signal it may be given to another.
So signals go through a pidfd that was opened before the start time was compared.
"""

from __future__ import annotations

import os
import signal

MARK = "RECONCILE_SUPERVISED"
"""The variable that a command and its descendants inherit: `<holder token>/<run id>`, and before
it, with a space between, what the holder inherited when it is a descendant of a command itself."""

_ENDED = "ZXx"


class Found:
    """A process as /proc showed it at one moment. `started` in ticks since boot, as this time
    namespace counts them."""

    __slots__ = ("group", "name", "parent", "pid", "started", "state")

    def __init__(self, pid: int, stat: bytes) -> None:
        # The name is in parentheses, and may hold any byte, parentheses too.
        opening, closing = stat.index(b"("), stat.rindex(b")")
        fields = stat[closing + 2 :].split()
        self.pid = pid
        self.name = stat[opening + 1 : closing].decode("utf-8", "replace")
        self.state = fields[0].decode("ascii")
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.started = int(fields[19])

    @property
    def has_ended(self) -> bool:
        """A zombie: it writes nothing any more, and waits for its parent to ask."""
        return self.state in _ENDED


def read(pid: int) -> Found | None:
    """The process, None where there is none of that number that we may see."""
    try:
        return Found(pid, _bytes(f"/proc/{pid}/stat"))
    except (OSError, ValueError, IndexError):
        return None


def everyone() -> list[Found]:
    """Every process that /proc shows."""
    pids = (int(name) for name in os.listdir("/proc") if name.isdecimal())
    return [found for pid in pids if (found := read(pid)) is not None]


def descendants(of: int) -> list[Found]:
    """The living descendants of a process. One that was forked meanwhile may be missing."""
    children: dict[int, list[Found]] = {}
    for process in everyone():
        children.setdefault(process.parent, []).append(process)
    found: list[Found] = []
    parents = [of]
    while parents:
        below = children.pop(parents.pop(), [])
        found += below
        parents += [process.pid for process in below]
    return [process for process in found if not process.has_ended]


def bears(pid: int, mark: bytes) -> bool | None:
    """Whether the process has inherited a mark that begins so, or is the supervisor that gave it
    (which has it on its command line, for all to see). None where its variables may not be read."""
    try:
        if any(one.startswith(mark) for one in _bytes(f"/proc/{pid}/cmdline").split(b"\0")):
            return True
        variables = _bytes(f"/proc/{pid}/environ").split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    except OSError:
        return None
    name = MARK.encode() + b"="
    inherited = (one[len(name) :].split() for one in variables if one.startswith(name))
    return any(one.startswith(mark) for marks in inherited for one in marks)


def send(process: Found, *numbers: int) -> str:
    """Send signals to that very process. Why that is not possible; "" where it was, or where
    the process is gone."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return ""
    try:
        now = read(process.pid)
        if now is None or now.started != process.started:
            return ""
        for number in numbers:
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return ""
    except PermissionError:
        return f"user {os.geteuid()} may not end it"
    finally:
        os.close(handle)
    return ""


def _bytes(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        parts = []
        while part := file.read(1 << 16):
            parts.append(part)
    return b"".join(parts)
