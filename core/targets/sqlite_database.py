"""One connection to a target's SQLite database: opened, waited for, broken off.

The file is the user's. It is never created, and its journal mode is never changed. What is
set holds for this connection only: `synchronous=FULL`, so that a committed range survives a
power failure before the store calls it done; `foreign_keys=ON`, so that what the table
declares holds for our changes too; and no spilling of a transaction's pages before its
commit, which would lock out readers early.

Waiting for a lock is done in slices: SQLite's own wait cannot be broken off. Text comes and
goes as bytes, because a column may hold what is no UTF-8.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import contextmanager
from threading import Event
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..canonical import float_text
from ..errors import (
    AccessDenied,
    LeaseLapsed,
    ReconcileError,
    TargetLocked,
    TargetUnreachable,
    TargetUnusable,
)
from .file_systems import refuse_shared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ..ports import Clock

SLICE = 0.2
"""Seconds that SQLite itself waits for a lock before we look whether to go on waiting."""

_STEPS = 100_000
"""Steps of SQLite's machine, a millisecond or two, between looks whether to break off."""

_NONE: Mapping[str, Callable[[Any], Any]] = MappingProxyType({})
_PRIMARY = 0xFF
_LOCKED = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_PROTOCOL,  # readers have waited ten seconds for one who stopped half way
}
_BROKEN_DISK = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_NOLFS,
}
_MEANINGS: tuple[tuple[set[int], type[ReconcileError], str], ...] = (
    (
        {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH},
        AccessDenied,
        "let this user write it and its folder: ls -ld {path}",
    ),
    (_BROKEN_DISK, TargetUnreachable, "look at space and state of its disk: df -h {path}"),
    (
        {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT},
        TargetUnusable,
        'check it: sqlite3 {path} "PRAGMA integrity_check"',
    ),
    (
        {sqlite3.SQLITE_CONSTRAINT},
        TargetUnusable,
        "mend the row in the source, or the table's constraint or trigger",
    ),
)


class Database:
    """The connection, opened at first use. Not for two threads at once, but for `interrupt`."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        functions: Mapping[str, Callable[[Any], Any]] = _NONE,
        *,
        single_host: bool = False,
    ) -> None:
        """`functions` are SQL's, of one argument and deterministic, by name. `single_host`: the
        user vouches that no other host uses the file, wherever it lies."""
        self.path = path
        self._clock = clock
        self._single_host = single_host
        self._functions = {"reconcile_float": float_text, **functions}
        self._connection: sqlite3.Connection | None = None
        self._interrupted = Event()

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Any]:
        """All rows of a query."""
        with self._translated():
            return self._open().execute(sql, parameters).fetchall()

    def cursor(self, sql: str, parameters: Sequence[object] = ()) -> sqlite3.Cursor:
        """A query still running. What goes wrong while it is read is for `error_for`."""
        with self._translated():
            return self._open().execute(sql, parameters)

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> int:
        """One statement; how many rows it changed."""
        with self._translated():
            return self._open().execute(sql, parameters).rowcount

    def changed(self) -> int:
        """How many rows this connection has changed so far, triggers' changes too."""
        return self._open().total_changes

    def execute_many(self, sql: str, rows: Iterable[Sequence[object]]) -> int:
        """One statement for each row; how many rows all of them changed. sqlite3's own
        errors come out as they are: the caller knows which row it was."""
        self._go_on()
        return self._open().executemany(sql, rows).rowcount

    @contextmanager
    def reading(self, wait: float, *, keep: bool = False) -> Iterator[None]:
        """A transaction that sees one state of the database. Waits at most `wait` seconds.

        With `keep` what it wrote into temporary tables stays, unless it ends in an error.
        """
        # A deferred BEGIN takes no lock; the first read does, and it is what may have to wait.
        self.patiently(self._begin_reading, wait)
        try:
            yield
            if keep:
                self.execute("COMMIT")
        finally:
            self._roll_back()

    @contextmanager
    def writing(self, wait: float) -> Iterator[None]:
        """A transaction that alone may write, rolled back unless `commit` ends it.

        Waits at most `wait` seconds for others (`TargetUnreachable`).
        """
        self.patiently(lambda: self.execute("BEGIN IMMEDIATE"), wait)
        try:
            yield
        finally:
            self._roll_back()

    def commit(self, by: float) -> None:
        """Commit, not after `by` of the boot clock (`LeaseLapsed`).

        Readers of a database without a write-ahead log can delay it; what cannot be
        committed is rolled back.
        """
        self._go_on()
        if self._clock.boot() >= by:
            raise LeaseLapsed(
                f"the lease's time was over before {self.path} could be committed",
                hint="the next trigger goes on; a longer lease.ttl leaves more time",
            )
        self.patiently(lambda: self.execute("COMMIT"), by - self._clock.boot())

    def patiently(self, action: Callable[[], object], wait: float) -> None:
        """Do something that another connection's lock may delay, for `wait` seconds."""
        until = self._clock.boot() + wait
        while True:
            self._go_on()
            try:
                action()
            except TargetUnreachable as error:
                if not _is_lock(error.__cause__) or self._clock.boot() >= until:
                    raise
                self._clock.wait(0.01, self._interrupted)
            else:
                return

    def error_for(self, error: sqlite3.Error | sqlite3.Warning, what: str = "") -> ReconcileError:
        """What an error of sqlite3 is to us; `what` says to which row it happened."""
        code = _code(error)
        if code == sqlite3.SQLITE_INTERRUPT:
            return _broken_off(self.path)
        if code in _LOCKED:
            return _locked(self.path)
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN) and self._is_mounted_so():
            return TargetUnreachable(
                f"{self.path} lies on a file system that is mounted read-only",
                hint=f"mount it for writing, see: findmnt --target {self.path.parent}",
            )
        if code == sqlite3.SQLITE_CANTOPEN and not self._may_open():
            return AccessDenied(
                f"{self.path} may not be opened by this user",
                hint=f"let this user read and write it and its folder: ls -ld {self.path}",
            )
        for codes, kind, hint in _MEANINGS:
            if code in codes:
                return kind(f"{self.path}{what}: {error}", hint=hint.format(path=self.path))
        return TargetUnusable(
            f"{self.path}{what}: {error}", hint="look at the table, its columns and triggers"
        )

    def interrupt(self) -> None:
        """Break off what runs, from any thread. From now on all calls raise `LeaseLapsed`.

        SQLite asks for it every few thousand rows; its own `interrupt` would miss a statement
        that is just about to begin.
        """
        self._interrupted.set()

    def close(self) -> None:
        """Roll back and close. Harmless when repeated."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # --- parts

    def _begin_reading(self) -> None:
        try:
            self.execute("BEGIN")
            self.rows("SELECT 1 FROM sqlite_master LIMIT 1")
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        connection = self._connection
        if connection is None or not connection.in_transaction:
            return
        try:
            connection.execute("ROLLBACK")
        except sqlite3.Error:
            # Whatever keeps it from rolling back: closing does too, and leaves no lock.
            self.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        self._go_on()
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise self.error_for(error) from error
        except UnicodeDecodeError as error:
            # A damaged schema comes back in the text of SQLite's own error, then no text.
            raise TargetUnusable(
                f"{self.path} is damaged",
                hint=f'check it: sqlite3 {self.path} "PRAGMA integrity_check"',
            ) from error

    def _go_on(self) -> None:
        if self._interrupted.is_set():
            raise _broken_off(self.path)

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._check_file()
            connection = sqlite3.connect(
                f"{self.path.as_uri()}?mode=rw",
                uri=True,
                timeout=SLICE,
                isolation_level=None,
                check_same_thread=False,
            )
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _check_file(self) -> None:
        try:
            mode = self.path.stat().st_mode
        except PermissionError as error:
            raise AccessDenied(
                f"{self.path} may not be read by this user",
                hint=f"let this user read and write it: ls -l {self.path}",
            ) from error
        except OSError as error:
            raise TargetUnreachable(
                f"{self.path} does not exist",
                hint="look at the target's url; the database is never created by reconcile",
            ) from error
        if not stat.S_ISREG(mode):
            raise TargetUnusable(
                f"{self.path} is not a file", hint="set the target's url to an SQLite database"
            )
        if not self._single_host:
            refuse_shared(self.path.resolve(), "target", TargetUnusable)

    def _is_mounted_so(self) -> bool:
        try:
            return bool(os.statvfs(self.path.parent).f_flag & os.ST_RDONLY)
        except OSError:
            return False

    def _may_open(self) -> bool:
        """Whether the file may be read, and files made beside it, as a write-ahead log needs."""
        try:
            return os.access(self.path, os.R_OK, effective_ids=True) and os.access(
                self.path.parent, os.W_OK, effective_ids=True
            )
        except OSError:
            return False

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.text_factory = bytes
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA cache_spill=OFF")
        connection.set_progress_handler(self._interrupted.is_set, _STEPS)
        for name, function in self._functions.items():
            connection.create_function(name, 1, function, deterministic=True)
        (encoding,) = connection.execute("PRAGMA encoding").fetchone()
        if encoding != b"UTF-8":
            raise TargetUnusable(
                f"{self.path} keeps text as {encoding.decode()}, not as UTF-8",
                hint="dump it and load it into a new database: order and checksums need UTF-8",
            )


def _code(error: BaseException | None) -> int:
    found: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return found & _PRIMARY


def _is_lock(error: BaseException | None) -> bool:
    """Whether another connection's lock is why, so that it is worth asking again."""
    return _code(error) in _LOCKED


def _locked(path: Path) -> TargetLocked:
    """Who has it locked, as far as that can be seen: one who is stopped before all others."""
    from .file_locks import lockers  # only where something is locked

    found = lockers(path, path.with_name(f"{path.name}-shm"))
    found.sort(key=lambda locker: (not locker.stopped, not locker.exclusive))
    who, hint = "", f"find it with: fuser -v {path}"
    if found and found[0].stopped:
        who = f": {found[0]}, which is stopped"
        hint = f"let it go on: kill -CONT {found[0].pid}\nor end it: kill -KILL {found[0].pid}"
    elif found:
        who, hint = f": {found[0]}", f"see what it does: ps -fp {found[0].pid}"
    error = TargetLocked(f"{path} is locked by another program{who}", hint=hint)
    error.stopped = [locker.pid for locker in found if locker.stopped]
    return error


def _broken_off(path: Path) -> LeaseLapsed:
    return LeaseLapsed(
        f"work on {path} was broken off: the lease may no longer be trusted",
        hint="the next trigger goes on where this one stopped",
    )
