"""Lets a process of the tests see SQLite's own locking calls as they happen.

SQLite's VFS calls the system through a table that may be replaced. `fcntl` in it becomes a
function of ours, which makes the call and then tells what was locked, so that a process can be
stopped in the very instant in which SQLite has a lock, with nothing of ours on the way.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import fcntl
from collections.abc import Callable
from pathlib import Path
from typing import Any

_METHODS_BEFORE = 13
_INT, _POINTER = ctypes.c_int, ctypes.c_void_p


class _Vfs(ctypes.Structure):
    _fields_ = (
        ("version", _INT),
        ("size_of_file", _INT),
        ("longest_path", _INT),
        ("next", _POINTER),
        ("name", ctypes.c_char_p),
        ("data", _POINTER),
        ("methods", _POINTER * _METHODS_BEFORE),
        ("set_call", ctypes.CFUNCTYPE(_INT, _POINTER, ctypes.c_char_p, _POINTER)),
        ("get_call", ctypes.CFUNCTYPE(_POINTER, _POINTER, ctypes.c_char_p)),
    )


class _Lock(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_short),
        ("whence", ctypes.c_short),
        ("start", ctypes.c_int64),
        ("length", ctypes.c_int64),
        ("pid", _INT),
    )


_replaced: list[Any] = []
"""What SQLite calls must not be collected."""


def watch_locks(told: Callable[[str, int, int], None]) -> None:
    """Have `told` called after each locking call of this process that succeeded: the file's name,
    `fcntl.F_RDLCK`, `F_WRLCK` or `F_UNLCK`, and the first byte.

    AttributeError where Python's SQLite is hidden in another library, as in a static build.
    """
    library = ctypes.CDLL(_sqlite3.__file__)
    library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
    vfs = library.sqlite3_vfs_find(None)
    kind = ctypes.CFUNCTYPE(_INT, _INT, _INT, _POINTER, use_errno=True)
    real = kind(vfs.contents.get_call(vfs, b"fcntl"))

    def call(descriptor: int, command: int, argument: int) -> int:
        answer: int = real(descriptor, command, argument)
        if command == fcntl.F_SETLK and answer == 0:
            errno = ctypes.get_errno()
            lock = _Lock.from_address(argument)
            file = Path(f"/proc/self/fd/{descriptor}").readlink()
            told(file.name, lock.type, lock.start)
            ctypes.set_errno(errno)
        return answer

    _replaced.append(kind(call))
    vfs.contents.set_call(vfs, b"fcntl", ctypes.cast(_replaced[-1], _POINTER))
