"""Which other processes have a file locked, and whether one of them stands still, from /proc.

SQLite's locks are POSIX locks on bytes of its files, which the kernel shows in /proc/locks
with the pid of their owner, and drops when that process ends. A process that is stopped
(SIGSTOP, Ctrl-Z, a debugger) keeps them for as long as it is.

None of the files is opened here: a process that closes a descriptor of a file loses all its
own POSIX locks on it, and with them those that SQLite has for another connection.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_STOPPED = "Tt"
_ENDED = "ZXx"


class Locker(NamedTuple):
    """A process that has a lock. `name` is its command's, "" where nobody may know."""

    pid: int
    name: str
    exclusive: bool
    """Whether it keeps readers of those bytes away too."""
    stopped: bool

    def __str__(self) -> str:
        return f"process {self.pid} ({self.name})" if self.name else f"process {self.pid}"


def lockers(*paths: Path) -> list[Locker]:
    """The other processes with POSIX locks on one of the files, by pid. Of another process
    namespace, or of another user with `hidepid`, nothing is seen."""
    found: dict[int, bool] = {}
    for file in paths:
        try:
            ours = file.stat()
        except OSError:
            continue
        for pid, exclusive, device in _locks_on(ours.st_ino):
            here = f"{os.major(ours.st_dev):02x}:{os.minor(ours.st_dev):02x}" == device
            if pid not in (0, os.getpid()) and (here or _has_open(pid, ours)):
                found[pid] = exclusive or found.get(pid, False)
    return [
        Locker(pid, _name(pid), found[pid], standstill(pid) is not None) for pid in sorted(found)
    ]


def standstill(pid: int) -> str | None:
    """What is the same at two moments only if a process was stopped in all its threads from
    the one to the other; None for one that goes on, or of which that cannot be told."""
    threads = []
    stopped = False
    try:
        for task in sorted((_PROC / str(pid) / "task").iterdir()):
            state = (task / "stat").read_text(encoding="utf-8", errors="replace")
            letter = state[state.rindex(")") + 2]
            if letter not in _STOPPED + _ENDED:
                return None
            stopped = stopped or letter in _STOPPED
            # A thread that is let go on for a moment is switched to, and away from again.
            status = (task / "status").read_text(encoding="utf-8", errors="replace")
            switches = [line for line in status.splitlines() if "ctxt_switches" in line]
            threads.append(" ".join([task.name, letter, *switches]))
    except (OSError, ValueError):
        return None
    return "\n".join(threads) if stopped else None


def _locks_on(inode: int) -> list[tuple[int, bool, str]]:
    """Pid, whether exclusive, and the file system's device of each POSIX lock on an inode."""
    try:
        lines = (_PROC / "locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        # 1: POSIX  ADVISORY  WRITE 4711 fe:00:3334183 120 120; who waits has -> before POSIX
        fields = line.split()
        if fields[1:2] == ["POSIX"] and len(fields) == 8:
            device, _, number = fields[5].rpartition(":")
            if number == str(inode):
                found.append((int(fields[4]), fields[3] == "WRITE", device))
    return found


def _has_open(pid: int, ours: os.stat_result) -> bool:
    """Whether a process has the very file open: btrfs and overlay show a file under another
    device number than its locks."""
    try:
        return any(
            os.path.samestat(file.stat(), ours) for file in (_PROC / str(pid) / "fd").iterdir()
        )
    except OSError:
        return False


def _name(pid: int) -> str:
    try:
        text = (_PROC / str(pid) / "comm").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return "".join(letter for letter in text if letter.isprintable())
