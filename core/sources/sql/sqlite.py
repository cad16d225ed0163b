"""An SQLite file as the source: opened to be read only, and never made."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sqlalchemy import URL, create_engine
from sqlalchemy.pool import NullPool

from ...config import sqlite_path
from ...errors import AccessDenied, SourceUnreachable
from .dialects import Other

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from ...errors import ReconcileError

BUSY_SECONDS = 20.0
_AWAY = ("locked", "busy", "unable to open", "disk i/o", "interrupted")


class Sqlite(Other):
    """Implements `dialects.Dialect`."""

    quotes = True

    def __init__(self, url: str) -> None:
        self._path = sqlite_path(url)
        super().__init__("sqlite://", "source.url")
        self.shown = str(self._path)

    def engine(self, url: URL) -> Engine:
        """See `Other`."""
        query = {"mode": "ro", "uri": "true"}
        return create_engine(
            URL.create("sqlite+pysqlite", database=f"file:{quote(str(self._path))}", query=query),
            poolclass=NullPool,
            hide_parameters=True,
            connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False},
        )

    def connect(self) -> Connection:
        """See `Other`. Raises `SourceUnreachable`, `AccessDenied`."""
        if not self._path.exists():
            raise SourceUnreachable(f"there is no file {self._path}", hint="see the source's url")
        # Not opened to find out: to close it would drop this process's own locks on it.
        if not os.access(self._path, os.R_OK, effective_ids=True):
            raise AccessDenied(f"{self._path} may not be read", hint=f"see ls -l {self._path}")
        return super().connect()

    def begin(self, connection: Connection) -> None:
        """See `Other`. A text that is no UTF-8 is an error, by the driver."""
        connection.exec_driver_sql("PRAGMA query_only = 1")

    def refusal(self, error: Exception) -> ReconcileError:
        """See `Other`."""
        said = self.said(error)
        if any(word in said.lower() for word in _AWAY):
            return self.unreachable(said)
        return self.unusable(said)

    def interrupt(self, driver: Any) -> None:
        """See `Other`."""
        if driver is not None:
            driver.interrupt()
