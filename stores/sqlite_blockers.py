"""Who keeps a SQLite store locked, and whether that process may be ended.

A process that is stopped (SIGSTOP) keeps what locks it has. Inside a transaction that is the
write lock, and others can still read whose lease it is. But there are instants in which SQLite
keeps readers away too, so that nobody can ask the store whose lease it is:

- the last connection closes, and puts the log back into the database: PENDING and SHARED of the
  database file are locked (bytes 2**30 and 2**30 + 2 to 511);
- the first one opens: byte 128 of the -shm file; it reads the log again: bytes 120 to 127;
- a writer is half way through noting its commit in the -shm file (byte 120), whose two headers
  then differ.

Then the files stand as still as their process: nobody else may write them, and what a SIGKILL
would leave at this moment is what there is. So they are copied, the -shm file excepted, and the
copy is asked, into which SQLite recovers the log as after a crash. The process is ended if

1. all its threads are stopped, and were from before the copy was begun until it was read;
2. the copy says that it is a holder: host, machine, boot, process namespace, pid and start time
   (which `Host.kill` verifies, by pidfd);
3. no lease that it was granted has time left, by boot time, be it released or not.

The first makes the copy true, the others make it nobody that has a right to work. Whatever it
is, ending it is as harmless as any crash; what is judged is whether it is ours to end.

Anything else is left alone, a trigger too that was stopped before it was granted anything: it
is in no record, and might be any program.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..core.errors import ReconcileError, StoreBlocked, StoreBusy
from ..core.model import LeaseKey
from ..core.targets.file_locks import lockers, standstill
from .sqlite_rows import SQL, previous_of, to_lease

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from ..core.model import Holder
    from ..core.ports import Clock, Host
    from ..core.targets.file_locks import Locker

_kept_open: dict[tuple[int, int], int] = {}
"""Descriptors of stores that were copied, by device and inode. They are never closed: that would
take this process's own locks on the store away from all its connections."""


class _Claim(NamedTuple):
    """A grant as the copy has it. `ends` is for display; `over`: it gives no right any more, and
    its time is over."""

    holder: Holder
    job: str
    ends: datetime
    over: bool


@dataclass(frozen=True, slots=True)
class Blockers:
    """Finds, and where it is proved that one may, ends who keeps the store at `path` locked."""

    path: Path
    clock: Clock
    host: Host

    def make_way(self, busy: StoreBusy) -> None:
        """End whoever is in the way, so that it is worth asking again.

        Raises `StoreBlocked` where a person has to see to it, else `busy`, naming who it is.
        """
        found = [
            locker for locker in lockers(self.path, _beside(self.path, "-shm")) if locker.exclusive
        ]
        stopped = [locker for locker in found if locker.stopped]
        for locker in stopped:
            self._end(locker, busy)
        if not stopped:
            raise _named(self.path, found, busy)

    def _end(self, locker: Locker, busy: StoreBusy) -> None:
        claims = self._claims(locker.pid)
        where = f"the store {self.path} is locked by {locker}, which is stopped"
        wake = f"kill -CONT {locker.pid}"
        if not claims:
            raise StoreBlocked(
                f"{where}, and not known to be a holder",
                hint=f"let it go on: {wake}\nor end it, which harms no record: "
                f"kill -KILL {locker.pid}",
            ) from busy
        last = max(claims, key=lambda claim: (not claim.over, claim.ends))
        if not last.over:
            raise StoreBusy(
                f"{where}; it has the lease of {last.job} until {last.ends:%Y-%m-%d %H:%M:%SZ}",
                hint=f"let it go on: {wake}\nonce that time is over, the next trigger ends it",
            ) from busy
        if not self.host.kill(last.holder):
            raise StoreBlocked(
                f"{where}; its lease of {last.job} was over at {last.ends:%Y-%m-%d %H:%M:%SZ}",
                hint=f"the next trigger of a user who may ends it; or: kill -KILL {locker.pid}",
            ) from busy

    def _claims(self, pid: int) -> list[_Claim]:
        """What a process was granted that stands still; nothing where that is not certain."""
        before = standstill(pid)
        if before is None:
            return []
        try:
            grants = _granted_in_copy(self.path, self.clock.boot(), self.host.holder().boot_id)
        except (OSError, sqlite3.Error, ReconcileError):
            return []
        claims = [claim for claim in grants if self._is(claim.holder, pid)]
        return claims if standstill(pid) == before else []

    def _is(self, holder: Holder, pid: int) -> bool:
        """Whether a process of that number is, as far as can be told, that holder."""
        me = self.host.holder()
        here = (me.host, me.machine_id, me.boot_id, me.pid_namespace)
        there = (holder.host, holder.machine_id, holder.boot_id, holder.pid_namespace)
        return holder.pid == pid and here == there and not self.host.is_dead(holder)


def _named(path: Path, found: list[Locker], busy: StoreBusy) -> StoreBusy:
    if not found:
        return busy
    first = found[0]
    return StoreBusy(
        f"the store {path} is locked by {first}",
        hint=f"try again; if it stays so, see what it does: ps -fp {first.pid}",
    )


# --- the copy


def _granted_in_copy(path: Path, boot: float, boot_id: str) -> list[_Claim]:
    """Every grant that a copy of the store knows of. `OSError` where there is no room for one."""
    from tempfile import TemporaryDirectory, gettempdir

    log = _beside(path, "-wal")
    size = path.stat().st_size + (log.stat().st_size if log.exists() else 0)
    room = os.statvfs(gettempdir())
    if room.f_bavail * room.f_frsize < 2 * size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with TemporaryDirectory(prefix="reconcile-") as folder:  # 0700
        copy = Path(folder) / "store.db"
        _copy(path, copy)
        if log.exists():
            shutil.copyfile(log, _beside(copy, "-wal"))
        with closing(sqlite3.connect(copy, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous = OFF")
            return list(_grants(db, boot, boot_id))


def _grants(db: sqlite3.Connection, boot: float, boot_id: str) -> Iterator[_Claim]:
    for job, shard in db.execute(SQL["lease_keys"]).fetchall():
        key = LeaseKey(job, shard)
        row = db.execute(SQL["lease"], {"job": job, "shard": shard}).fetchone()
        lease = to_lease(key, row, boot, boot_id)
        yield _Claim(lease.holder, job, lease.expires_at, row[8] != boot_id or row[7] <= boot)
        previous = previous_of(key, row)
        if previous is not None:
            yield _Claim(previous.holder, job, previous.expires_at, over=True)


def _copy(path: Path, to: Path) -> None:
    found = path.stat()
    which = (found.st_dev, found.st_ino)
    if which not in _kept_open:
        _kept_open[which] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    with to.open("xb") as file:
        done = 0
        while sent := os.sendfile(file.fileno(), _kept_open[which], done, found.st_size):
            done += sent


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
