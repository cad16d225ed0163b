"""One connection to the SQLite file: a read is one statement, a write one transaction."""

from __future__ import annotations

import os
import sqlite3
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from ..core.errors import StoreBusy, StoreUnreachable
from .sqlite_files import open_file, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from .sqlite_rows import Row

_T = TypeVar("_T")


class SqliteConnection:
    """Runs statements, and turns SQLite's errors into ours. Safe to share by threads.

    `make_way` is called when a lock was not had in time. If it comes back, the same is tried
    once more; else it raises what is to be said.
    """

    def __init__(
        self,
        path: Path,
        *,
        single_host: bool,
        busy_wait: float,
        new_id: Callable[[], str],
        make_way: Callable[[StoreBusy], None],
    ) -> None:
        """See `sqlite_files.open_file`."""
        self._path = path
        self._name = str(path)
        self._guard = Lock()
        self._make_way = make_way
        self._db = self._patiently(
            lambda: open_file(path, single_host=single_host, busy_wait=busy_wait, new_id=new_id)
        )
        self._file = self._file_at_path()

    def read(self, statement: str, values: Mapping[str, Any] | None = None) -> list[Row]:
        """All rows of one SELECT; takes no lock that a writer could keep for long."""

        def ask() -> list[Row]:
            try:
                return self._db.execute(statement, values or {}).fetchall()
            except sqlite3.Error as error:
                raise refusal(error, self._path) from error

        with self._guard:
            return self._patiently(ask)

    def write(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run `work` in a transaction that has the write lock from its beginning, once or, where
        a lock was not had in time, twice.

        Whatever it raises undoes all of it. `StoreBusy` when the lock was not had in time.
        """
        with self._guard:
            return self._patiently(lambda: self._transaction(work))

    def _transaction(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._refuse_replaced_file()
            result = work(self._db)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise refusal(error, self._path) from error
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        return result

    def _patiently(self, do: Callable[[], _T]) -> _T:
        try:
            return do()
        except StoreBusy as busy:
            self._make_way(busy)
        return do()

    def close(self) -> None:
        """Give the file back; harmless when repeated."""
        with self._guard:
            self._db.close()

    def _refuse_replaced_file(self) -> None:
        if self._file_at_path() != self._file:
            raise StoreUnreachable(
                f"the store {self._path} was moved away or replaced while it was open",
                hint="run again: the next run opens what is there now",
            )

    def _file_at_path(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._name)
        except OSError:
            return None
        return found.st_dev, found.st_ino
