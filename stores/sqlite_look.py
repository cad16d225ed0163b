"""`doctor` on a SQLite store: looked at without making, migrating or writing it."""

from __future__ import annotations

import os
import pwd
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from ..core.errors import ReconcileError, StoreUnusable
from ..core.findings import STORE, StoreLook, fail, ok, refused, size_text, space, warn
from ..core.targets.file_systems import file_system_of, refuse_shared
from .sqlite_files import APPLICATION_ID, SCHEMA_VERSION, connect_existing, file_refusal, refusal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ..core.findings import Finding
    from ..core.ports import Clock

CHECK_SECONDS = 3.0
"""So long does the check of the file's pages take at most."""
_STEPS = 50_000
_FIRST = "call a job: reconcile run JOB"


def look(path: Path, *, single_host: bool, busy_wait: float, clock: Clock) -> StoreLook:
    """Look at the store at `path`, which has no symbolic links in it."""
    found: list[Finding] = []
    try:
        if not path.parent.is_dir():
            return _no_folder(path)
        if not single_host:
            refuse_shared(path, "store", StoreUnusable)
        found += space(STORE, str(path.parent), _free(path.parent))
        found += _folder(path)
        if not path.exists() or not path.stat().st_size:
            text = f"sqlite {path}: not there yet; the first run makes it"
            return StoreLook([*found, warn(STORE, text, _FIRST)], ready=False)
        found += _file(path)
        if not _may(path):
            return StoreLook(found, ready=False)
        return _opened(path, busy_wait, clock, found)
    except ReconcileError as error:
        return StoreLook([*found, refused(STORE, error)], ready=False)
    except OSError as error:
        return StoreLook([*found, refused(STORE, file_refusal(error, path))], ready=False)


def owner(path: Path) -> str | None:
    """Whose file the store is; None where it is not there."""
    try:
        number = path.stat().st_uid
    except OSError:
        return None
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _no_folder(path: Path) -> StoreLook:
    parent = path.parent.parent
    if parent.is_dir() and os.access(parent, os.W_OK, effective_ids=True):
        text = f"sqlite {path}: not there yet; the first run makes it, and its folder"
        return StoreLook([warn(STORE, text, _FIRST)], ready=False)
    text = f"the folder {path.parent} of the store is not there, and this user may not make it"
    return StoreLook([fail(STORE, text, f"install -d -m 0700 {path.parent}")], ready=False)


def _folder(path: Path) -> Iterator[Finding]:
    folder = path.parent
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
        yield fail(
            STORE,
            f"this user may not write the folder {folder} of the store",
            f"run it as the user that owns it: ls -ld {folder}",
        )
    mode = folder.stat().st_mode
    if mode & 0o002 and not mode & 0o1000:
        yield fail(
            STORE,
            f"the folder {folder} is writable for all users, so anybody may replace the store",
            f"chmod o-w {folder}",
        )


def _may(path: Path) -> bool:
    return os.access(path, os.R_OK | os.W_OK, effective_ids=True)


def _free(folder: Path) -> int:
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def _file(path: Path) -> Iterator[Finding]:
    if not _may(path):
        yield fail(
            STORE,
            f"this user may not read and write {path}, which belongs to {owner(path)}",
            f"run it as that user: sudo -u {owner(path)} reconcile doctor",
        )
    mode = path.stat().st_mode
    if mode & 0o022:
        yield fail(
            STORE,
            f"{path} may be written by others than its owner, so by whoever wants a lease",
            f"chmod 0600 {path}",
        )


def _opened(path: Path, busy_wait: float, clock: Clock, found: list[Finding]) -> StoreLook:
    try:
        with closing(connect_existing(path, busy_wait)) as db:
            (application,) = db.execute("PRAGMA application_id").fetchone()
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if application != APPLICATION_ID:
                text = f"{path} is a SQLite database, but not a store of reconcile"
                mend = "name another file in [store] url; a new one is created there"
                return StoreLook([*found, fail(STORE, text, mend)], ready=False)
            if version != SCHEMA_VERSION:
                return StoreLook([*found, _other_version(path, version)], ready=False)
            sound = _check(db, path, clock)
    except sqlite3.Error as error:
        raise refusal(error, path) from error
    if isinstance(sound, str):
        return StoreLook([ok(STORE, f"{_shown(path)}, {sound}"), *found], ready=True)
    return StoreLook([ok(STORE, _shown(path)), *found, sound], ready=False)


def _other_version(path: Path, version: int) -> Finding:
    if version > SCHEMA_VERSION:
        return fail(
            STORE,
            f"the store {path} has schema version {version}; this program knows {SCHEMA_VERSION}",
            "upgrade reconcile on this host to the version that wrote the store",
        )
    return warn(
        STORE,
        f"the store {path} has schema version {version}; the next run brings it to"
        f" {SCHEMA_VERSION}",
        "copy it first, if you may want to go back",
    )


def _shown(path: Path) -> str:
    size = sum(
        one.stat().st_size for one in (path, path.with_name(f"{path.name}-wal")) if one.exists()
    )
    kind = ""
    with suppress(OSError), open("/proc/self/mountinfo", "rb") as mounts:
        kind = file_system_of(path.parent, path.parent.stat().st_dev, mounts)
    parts = [f"sqlite {path}", size_text(size), f"owner {owner(path)}"]
    if kind:
        parts.append(f"{kind} with {size_text(_free(path.parent))} free")
    return ", ".join(parts)


def _check(db: sqlite3.Connection, path: Path, clock: Clock) -> str | Finding:
    """Whether the pages are sound; only a part of a large file is looked at."""
    until = clock.boot() + CHECK_SECONDS
    db.set_progress_handler(lambda: clock.boot() >= until, _STEPS)
    try:
        faults = [str(row[0]) for row in db.execute("PRAGMA quick_check(3)")]
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            return f"no fault within {CHECK_SECONDS:g} s"
        raise
    finally:
        db.set_progress_handler(None, 0)
    if faults == ["ok"]:
        return "sound"
    return fail(
        STORE,
        f"{path} is damaged: {faults[0]}",
        "stop what runs, and restore it from a copy, or move it and its -wal and -shm files away: a"
        " new one goes on from what the target knows",
    )
