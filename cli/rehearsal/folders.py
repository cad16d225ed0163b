"""The folders of drills, one for each, which none outlives for long.

A drill has a file of its folder locked while it is alive. The kernel lets go of that lock with the
process, so whoever gets it may remove the folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.config import RESERVED

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCKED = "locked"


def make_folder() -> tuple[Path, int]:
    """A folder of this drill's, and the open file that is locked."""
    folder = Path(tempfile.mkdtemp(prefix=f"{RESERVED}-"))
    lock = os.open(folder / LOCKED, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return folder, lock


def sweep_folders() -> None:
    """Remove the folders of drills of this user that are not alive any more."""
    for folder in _folders():
        try:
            lock = os.open(folder / LOCKED, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue  # it is being made, or removed
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            continue
        finally:
            os.close(lock)


def _folders() -> Iterator[Path]:
    for path in Path(tempfile.gettempdir()).glob(f"{RESERVED}-*"):
        try:
            facts = path.lstat()
        except OSError:
            continue
        if stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid():
            yield path
