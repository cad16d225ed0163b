"""What goes wrong outside while a scene is made or looked at, as errors with a hint."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...core.errors import TargetUnreachable

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def scratch_files() -> Iterator[None]:
    """Raises `TargetUnreachable` where a scratch file cannot be written, or read any more."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TargetUnreachable(
            f"a scratch file in {_folder()} cannot be used: {reason}",
            hint="free some space there, or name another folder: TMPDIR=/var/tmp",
        ) from error


@contextmanager
def processes() -> Iterator[None]:
    """Raises `TargetUnreachable` where no further process can be started."""
    try:
        yield
    except OSError as error:
        raise TargetUnreachable(
            f"a process cannot be started: {error.strerror}",
            hint="see what this user may have of processes and open files: ulimit -a",
        ) from error


def _folder() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:
        return "TMPDIR"
