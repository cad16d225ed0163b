"""The file of a SQLite store: where it may lie, how it is opened, created and refused.

File systems. A lease here rests on one kernel's clock and SQLite's WAL on one kernel's
shared memory: see `core/targets/file_systems.py`.

Creation. The first process to come takes a lock file beside the store (an flock: one left
over blocks nobody), switches the empty file to WAL and makes the schema in one
transaction; the others wait for it. Everything is created for its owner only (0600; SQLite
gives its -wal and -shm files the mode of the main file). Only the last component of a
missing folder is created (0700), so that a mistyped path does not grow a tree.

Opening an existing store reads four pragmas and takes no lock.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import sys
from typing import TYPE_CHECKING

from ..core.errors import (
    AccessDenied,
    ReconcileError,
    StoreBusy,
    StoreUnreachable,
    StoreUnusable,
    UnsupportedPlatform,
)
from ..core.targets.file_systems import refuse_shared

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

APPLICATION_ID = 0x7265636F
"""`reco` in ASCII; `file` and `PRAGMA application_id` show it."""
SCHEMA_VERSION = 1
CREATION_WAIT = 30.0
"""Seconds to wait for another process that creates or migrates the store."""

_FULL_BELOW = 64 * 1024


def open_file(
    path: Path,
    *,
    single_host: bool,
    busy_wait: float,
    new_id: Callable[[], str],
) -> sqlite3.Connection:
    """A connection to the store at `path` (absolute, without symbolic links), created or
    migrated if need be. Waits at most `busy_wait` seconds for the lock of a running store.

    Raises `StoreUnusable`, `StoreUnreachable`, `StoreBusy`, `AccessDenied` or
    `UnsupportedPlatform`.
    """
    if not sys.platform.startswith("linux"):
        raise UnsupportedPlatform(
            f"a SQLite store cannot be trusted on {sys.platform}: only Linux has the clock "
            "and the process facts that its leases rest on",
            hint="run reconcile on Linux",
        )
    try:
        _make_folder(path.parent)
        if not single_host:
            refuse_shared(path, "store", StoreUnusable)
        if _size(path) > 0:
            connection = connect_existing(path, busy_wait)
            if _is_current(connection, path):
                return connection
            connection.close()
        return _create(path, busy_wait, new_id)
    except sqlite3.Error as error:
        raise refusal(error, path) from error
    except UnicodeDecodeError as error:
        # A damaged schema comes back in the text of SQLite's own error, which is then no text.
        raise StoreUnusable(
            f"the store {path} is damaged",
            hint=f'check it: sqlite3 {path} "PRAGMA integrity_check"',
        ) from error
    except OSError as error:
        raise file_refusal(error, path) from error


# --- where it may lie


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    if not folder.parent.is_dir():
        raise StoreUnreachable(
            f"the folder {folder} of the store does not exist, nor does {folder.parent}",
            hint=f"mkdir -p {folder}",
        )
    try:
        folder.mkdir(0o700)
    except FileExistsError:
        if not folder.is_dir():
            raise


def _size(path: Path) -> int:
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0
    if not stat.S_ISREG(found.st_mode):
        raise StoreUnusable(
            f"{path} is not a regular file, so it is no SQLite store",
            hint="name a file in [store] url",
        )
    return found.st_size


# --- open and create


def connect_existing(path: Path, busy_wait: float) -> sqlite3.Connection:
    """Never creates the file: SQLite would do so with the umask's mode."""
    escaped = str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    connection = sqlite3.connect(
        f"file://{escaped}?mode=rw",
        timeout=busy_wait,
        isolation_level=None,
        check_same_thread=False,
        uri=True,
    )
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _pragma(connection: sqlite3.Connection, name: str) -> int | str:
    value: int | str = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value


def _is_current(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether nothing is left to do; False for an empty or older store of ours."""
    try:
        # One snapshot: read one by one, a store that another process is just creating would
        # show tables and still no identity.
        connection.execute("BEGIN")
        application = _pragma(connection, "application_id")
        version = int(_pragma(connection, "user_version"))
        is_new = application == 0 and version == 0 and _has_no_tables(connection)
        connection.execute("COMMIT")
        if is_new:
            return False
        if application != APPLICATION_ID:
            raise StoreUnusable(
                f"{path} is a SQLite database, but not a store of reconcile",
                hint="name another file in [store] url; a new one is created there",
            )
        if version > SCHEMA_VERSION:
            raise StoreUnusable(
                f"the store {path} has schema version {version}; this program knows "
                f"{SCHEMA_VERSION} at most",
                hint="upgrade reconcile on this host to the version that wrote the store",
            )
        return version == SCHEMA_VERSION and _pragma(connection, "journal_mode") == "wal"
    except BaseException:
        connection.close()
        raise


def _has_no_tables(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None


def _create(path: Path, busy_wait: float, new_id: Callable[[], str]) -> sqlite3.Connection:
    from filelock import FileLock, Timeout  # 30 ms, only when creating

    # Soft locks, filelock's way out where there is no flock, would outlive their process.
    lock = FileLock(
        f"{path}.lock",
        timeout=CREATION_WAIT,
        mode=0o600,
        poll_interval=0.02,
        fallback_to_soft=False,
    )
    try:
        lock.acquire()
    except Timeout as timeout:
        raise StoreBusy(
            f"another process has been creating or migrating the store {path} for "
            f"{CREATION_WAIT:.0f} s",
            hint=f"find it with: fuser {path}.lock",
        ) from timeout
    try:
        if _size(path) == 0:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = connect_existing(path, busy_wait)
        if not _is_current(connection, path):
            try:
                _make_schema(connection, new_id)
            except BaseException:
                connection.close()
                raise
        return connection
    finally:
        lock.release()


def _make_schema(connection: sqlite3.Connection, new_id: Callable[[], str]) -> None:
    from .sqlite_schema import migrate  # 60 ms, only when creating

    if _pragma(connection, "journal_mode = WAL") != "wal":
        raise StoreUnusable(
            "SQLite cannot keep a write-ahead log in the folder of the store",
            hint="keep the store on a local disk",
        )
    if int(_pragma(connection, "user_version")) < SCHEMA_VERSION:
        migrate(connection, SCHEMA_VERSION, APPLICATION_ID, new_id)


# --- refusals


def refusal(error: sqlite3.Error, path: Path) -> ReconcileError:
    """What an error of SQLite means to the user. Errors that can only be a mistake of ours
    (a closed connection, a wrong statement) are raised again as they are."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE) & 0xFF
    said = str(error)
    if "Could not decode" in said:  # raised by Python, without a code of SQLite's
        code, said = sqlite3.SQLITE_CORRUPT, "a text in it is no UTF-8"
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL):
        return StoreBusy(
            f"another process has kept the store {path} locked",
            hint=f"try again; if it stays so, find the process with: fuser {path}",
        )
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return StoreUnusable(
            f"the store {path} is damaged or no SQLite database ({said})",
            hint="restore it from a copy, or move it and its -wal and -shm files away: "
            "a new store is created and goes on from what the target knows",
        )
    if code == sqlite3.SQLITE_ERROR:
        return StoreUnusable(
            f"the store {path} lacks a table or column ({error})",
            hint="restore it from a copy, or move it away",
        )
    if code in _DISK:
        return _disk_refusal(path, str(error), full=code == sqlite3.SQLITE_FULL)
    raise error


def file_refusal(error: OSError, path: Path) -> ReconcileError:
    """What an error of the operating system about the store's file means to the user."""
    if isinstance(error, PermissionError):
        return _denied(path)
    if isinstance(error, IsADirectoryError | NotADirectoryError | FileExistsError):
        return StoreUnusable(
            f"{path} cannot be a SQLite store ({error.strerror})",
            hint="name a file in an existing folder in [store] url",
        )
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return _disk_refusal(path, error.strerror or str(error), full=full)


_DISK = frozenset(
    {
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_AUTH,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_NOLFS,
    },
)


def _disk_refusal(path: Path, text: str, *, full: bool) -> ReconcileError:
    """Read-only, full, forbidden or broken: SQLite's own words do not tell these apart."""
    folder = path.parent
    try:
        disk = os.statvfs(folder)
    except OSError:
        return StoreUnreachable(
            f"the folder {folder} of the store is not there or cannot be read ({text})",
            hint=f"ls -ld {folder}",
        )
    if disk.f_flag & os.ST_RDONLY:
        return StoreUnreachable(
            f"the store {path} lies on a file system that is mounted read-only",
            hint=f"mount it for writing, see: findmnt --target {folder}",
        )
    if full or disk.f_bavail * disk.f_frsize < _FULL_BELOW:
        return StoreUnreachable(
            f"the disk of the store {path} is full; nothing was written",
            hint=f"free space, see: df -h {folder}",
        )
    if not _may_write(folder) or (path.exists() and not _may_write(path)):
        return _denied(path)
    return StoreUnreachable(
        f"the store {path} cannot be read or written ({text})",
        hint=f"check the disk and the file: ls -l {path}*",
    )


def _may_write(path: Path) -> bool:
    enough = os.R_OK | os.W_OK | (os.X_OK if path.is_dir() else 0)
    return os.access(path, enough, effective_ids=True)


def _denied(path: Path) -> AccessDenied:
    return AccessDenied(
        f"this user may not read and write the store {path} and its folder",
        hint=f"run as the user that owns it: ls -ld {path.parent} {path}*",
    )
