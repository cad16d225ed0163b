"""One connection to the SQLite file: a read is one statement, a write one transaction."""

from __future__ import annotations

import os
import sqlite3
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from ..core.errors import StoreUnreachable
from .sqlite_files import open_file, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from .sqlite_rows import Row

_T = TypeVar("_T")


class SqliteConnection:
    """Runs statements, and turns SQLite's errors into ours. Safe to share by threads."""

    def __init__(
        self,
        path: Path,
        *,
        single_host: bool,
        busy_wait: float,
        new_id: Callable[[], str],
    ) -> None:
        """See `sqlite_files.open_file`."""
        self._path = path
        self._name = str(path)
        self._guard = Lock()
        self._db = open_file(path, single_host=single_host, busy_wait=busy_wait, new_id=new_id)
        self._file = self._file_at_path()

    def read(self, statement: str, values: Mapping[str, Any] | None = None) -> list[Row]:
        """All rows of one SELECT; takes no lock that a writer could keep."""
        with self._guard:
            try:
                return self._db.execute(statement, values or {}).fetchall()
            except sqlite3.Error as error:
                raise refusal(error, self._path) from error

    def write(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run `work` in a transaction that has the write lock from its beginning.

        Whatever it raises undoes all of it. `StoreBusy` when the lock was not had in time.
        """
        with self._guard:
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
