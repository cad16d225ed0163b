"""Kills at every step that a command takes with files and databases.

A step is what Python's audit hooks see of a folder (open, link, remove, mkdir, lock) and each
statement that SQLite is given. The command runs in a fork of this process, which costs a
hundredth of a start; it is killed right before its number-th step.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

EVENTS = ("open", "os.", "fcntl.flock", "sqlite3.connect", "shutil.")


def killed_before(number: int, folder: Path, act: Callable[[], object]) -> bool:
    """Whether it was killed there; False where it had ended before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads of pytest's
        pid = os.fork()
    if pid == 0:
        try:
            _die_before(number, os.fsencode(folder))
            act()
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def _name(of: object) -> bytes:
    return os.fsencode(of) if isinstance(of, str | bytes | Path) else b""


def _die_before(number: int, folder: bytes) -> None:
    left = number

    def step() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(event: str, args: tuple[Any, ...]) -> None:
        if event in ("fcntl.flock", "os.link") or (
            event.startswith(EVENTS) and args and folder in _name(args[0])
        ):
            step()

    class Watched(sqlite3.Connection):
        def execute(self, *args: Any) -> sqlite3.Cursor:
            step()
            return super().execute(*args)

    connect = sqlite3.connect

    def watched(*args: Any, **options: Any) -> sqlite3.Connection:
        return connect(*args, factory=Watched, **options)

    sqlite3.connect = watched  # type: ignore[assignment]
    sys.addaudithook(watch)
