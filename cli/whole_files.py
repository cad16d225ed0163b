"""Files that are there with all of their content, or not at all.

A process may be killed at any instruction, and what it leaves must mislead nobody: half a
configuration would be refused with a message about its last line, and `init` would not write
another over it. So a file is written without a name, and given its name when it is complete.
That needs `O_TMPFILE`, which all usual file systems of Linux have; on the others the file has
its name from the beginning.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_NO_TMPFILE = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL})
_MODE = 0o644
"""Whatever the umask: a configuration that others may write is refused when it is read."""


def write_whole(path: Path, content: bytes) -> None:
    """Make the file. Raises `FileExistsError` where the name is taken, and `OSError`."""
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    try:
        file = os.open(path.parent, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, _MODE)
    except OSError as error:
        if error.errno not in _NO_TMPFILE:
            raise
        _write_named(path, content)
        return
    try:
        _write(file, content)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # With a folder given, Python follows the link in /proc instead of linking to it.
            os.link(f"/proc/self/fd/{file}", path.name, dst_dir_fd=folder)
        finally:
            os.close(folder)
    finally:
        os.close(file)


def replace_whole(path: Path, content: bytes) -> None:
    """Put another content into a file's place, with its mode and, where it may be given, its owner.

    Whoever reads it meanwhile finds the one or the other. Raises `OSError`, having changed nothing.
    """
    found = path.stat()
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            _write(file, content)
            if (found.st_uid, found.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(file, found.st_uid, found.st_gid)
            os.fchmod(file, stat.S_IMODE(found.st_mode))
        finally:
            os.close(file)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def holds(path: Path, content: bytes) -> bool:
    """Whether there is a file of exactly that content."""
    try:
        found = path.lstat()
        return (
            stat.S_ISREG(found.st_mode)
            and found.st_size == len(content)
            and path.read_bytes() == content
        )
    except OSError:
        return False


def _write_named(path: Path, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    file = os.open(path, flags, _MODE)
    try:
        _write(file, content)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(file)


def _write(file: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]
    os.fsync(file)
