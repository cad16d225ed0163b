"""Whether a file lies where one kernel alone can reach it.

SQLite's locks and shared memory, the fence in a target and the clock of a lease in a store
all rest on one kernel. A file system with several kernels behind it has neither. Only those in
`ONE_KERNEL` are accepted, unless the user vouches for one with ``?single_host=yes``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..errors import ReconcileError

ONE_KERNEL = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "tmpfs", "overlay"},
)

_MOUNTS = Path("/proc/self/mountinfo")


def refuse_shared(path: Path, what: str, error: type[ReconcileError]) -> None:
    """Raise `error` unless one kernel alone can have the file system of `path`, which has no
    symbolic links in it. `what` the file is goes into the message. `OSError` where its folder
    cannot be looked at."""
    device = path.parent.stat().st_dev
    try:
        with _MOUNTS.open("rb") as mounts:
            found = file_system_of(path.parent, device, mounts)
    except OSError:
        found = ""
    if found not in ONE_KERNEL:
        raise error(
            f"the SQLite {what} {path} lies on {found or 'an unknown file system'}, which "
            "other hosts may write to at the same time",
            hint="keep it on a local disk, or say sqlite://…?single_host=yes where no "
            "other host ever uses it",
        )


def file_system_of(folder: Path, device: int, mounts: Iterable[bytes]) -> str:
    """The type of the file system that has `folder`, "" when no mount says so.

    Found by device number, else by the longest mount point above it: btrfs and overlay
    show device numbers of their own.
    """
    number = f"{os.major(device)}:{os.minor(device)}".encode()
    target = os.fsencode(folder) + b"/"
    longest, found = b"", b""
    for line in mounts:
        left, _, right = line.partition(b" - ")
        fields = left.split(b" ", 5)
        kind = right.split(b" ", 1)[0]
        if fields[2] == number:
            return kind.decode()
        point = fields[4].replace(b"\\040", b" ").replace(b"\\134", b"\\").rstrip(b"/") + b"/"
        if target.startswith(point) and len(point) >= len(longest):
            longest, found = point, kind
    return found.decode()
