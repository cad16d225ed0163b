"""A connection to whichever database an address names, on which one statement is read.

Whatever a database is, it is asked in one read-only transaction, and the rows come as a stream: one
statement is one snapshot in all of them. What is particular about one stands in `dialects.py`.
"""

from __future__ import annotations

from contextlib import suppress
from logging import NullHandler, getLogger
from typing import TYPE_CHECKING, Any

from ...background import Background
from ...errors import ConfigError
from ...extras import install

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy import Connection, CursorResult

    from .dialects import Dialect

ROWS = 2000
"""Fetched at a time."""


def needs_sqlalchemy() -> None:
    """Raise `ConfigError` where the extra is not installed."""
    try:
        import sqlalchemy
    except ImportError as error:
        raise ConfigError(
            "a database as the source needs SQLAlchemy, which is not installed",
            hint=install("sql"),
        ) from error
    # Else what a driver says while a broken connection is closed would be printed, by Python.
    getLogger(sqlalchemy.__name__).addHandler(NullHandler())


class Result:
    """What a statement gives. `columns` are its names, `mend` what some of their values are put
    right with, by position; errors come out as `dialects` has them."""

    def __init__(self, dialect: Dialect, watch: Callable[[], None]) -> None:
        """`watch` is called while the database is waited for; what it raises ends that."""
        self._dialect = dialect
        self._watch = watch
        self._connection: Connection | None = None
        self._driver: Any = None
        self._result: CursorResult[Any] | None = None
        self.columns: list[str] = []
        self.mend: dict[int, Callable[[Any], Any]] = {}

    @property
    def quotes(self) -> bool:
        """See `Dialect.quotes`."""
        return self._dialect.quotes

    def execute(self, statement: Any) -> None:
        """Connect, and have the statement executed."""
        result = self._result = self._waited(lambda: self._executed(statement))
        cursor = result.cursor
        found = [] if cursor is None or cursor.description is None else cursor.description
        self.columns = [str(column[0]) for column in found]
        self.mend = self._dialect.mend([(str(column[0]), column[1]) for column in found])

    def rows(self) -> Iterator[Sequence[Any]]:
        """All rows, some at a time; what ends without an error is complete."""
        result = self._result
        assert result is not None, "it was executed"
        while found := self._waited(lambda: result.fetchmany(ROWS)):
            yield found

    def notes(self) -> list[str]:
        """What a person ought to know of the database; for `doctor`."""
        found: list[str] = self._waited(self._dialect.notes)
        return found

    def close(self) -> None:
        """End the transaction and the connection, unless somebody still waits on it."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        self._dialect.abandon(self._driver)
        for one in (self._result, connection):
            if one is not None:
                with suppress(*self._dialect.errors):
                    one.close()

    def _executed(self, statement: Any) -> CursorResult[Any]:
        connection = self._connection = self._dialect.connect()
        self._driver = connection.connection.dbapi_connection
        self._dialect.begin(connection)
        found: CursorResult[Any] = connection.execution_options(stream_results=True).execute(
            statement
        )
        return found

    def _waited(self, call: Callable[[], Any]) -> Any:
        try:
            return Background(call, lambda _: None).result(self._watch)
        except self._dialect.errors as error:
            self._dialect.abandon(self._driver)
            raise self._dialect.refusal(error) from error
        except BaseException:
            # The thread may be in the driver still: it is told to come back, and left to itself.
            self._connection = None
            self._dialect.interrupt(self._driver)
            raise
