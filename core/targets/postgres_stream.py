"""Reading a table once that has no index in order of accounts.

Sorting it for each range would read it as often as there are ranges. So the server sorts it
once, under one snapshot, and ranges are read off a cursor as they are asked for. That holds
as long as they are asked for in order; a range that is asked for again, because somebody wrote
to it, is read directly, and costs a look at all rows.

The cursor has a connection and a transaction of its own, which live until its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..postgres.link import connect
from .postgres_lines import mended

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..ports import Clock
    from ..postgres.address import Address
    from ..postgres.link import Link
    from ..rows import KeySpan
    from .postgres_table import Table

_BATCH = 5000
_CONNECT_WAIT = 20.0
_BEGIN = """BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
{lift}SET LOCAL statement_timeout = 0;
SET LOCAL idle_in_transaction_session_timeout = 0;
SET LOCAL DateStyle = 'ISO, YMD';
SET LOCAL TimeZone = 'UTC';
SET LOCAL extra_float_digits = 1;
SET LOCAL jit = off"""


class Stream:
    """Ranges in order, from any one on. psycopg's errors come out as they are."""

    def __init__(self, address: Address, clock: Clock, watch: Callable[[], None]) -> None:
        self._address = address
        self._clock = clock
        self._watch = watch
        self._link: Link | None = None
        self._rows: list[tuple[Any, bytes]] = []
        self._position: Any = None
        self._begun = False

    def bound(self, table: Table, span: KeySpan, rows: int) -> str | None:
        """See `endpoints.Target.bound`; None also where the span is not the next one."""
        if not self._is_next(table, span):
            return None
        upper = _value(table, span.upper)
        while len(self._rows) <= rows and self._fetch(table):
            if upper is not None and self._rows[-1][0] > upper:
                break
        if len(self._rows) <= rows:
            return None
        found = self._rows[rows][0]
        return str(found) if upper is None or found < upper else None

    def lines(self, table: Table, span: KeySpan) -> list[bytes] | None:
        """The lines of a span; None where it is not the next one."""
        if not self._is_next(table, span):
            return None
        upper, lower = _value(table, span.upper), _value(table, span.lower)
        lines: list[bytes] = []
        while self._rows or self._fetch(table):
            end = len(self._rows)
            if upper is not None:
                end = next((i for i, row in enumerate(self._rows) if row[0] > upper), end)
            lines += [line for at, line in self._rows[:end] if lower is None or at > lower]
            more = end < len(self._rows)
            del self._rows[:end]
            if more:
                break
        self._position = upper
        if upper is None:
            self.close()
        return mended(table.schema, lines)

    def close(self) -> None:
        """End it; what is asked for next but the very first range is not the next one."""
        link, self._link = self._link, None
        self._rows.clear()
        if link is not None:
            link.close()

    # --- parts

    def _is_next(self, table: Table, span: KeySpan) -> bool:
        lower = _value(table, span.lower)
        if lower is None:
            if self._link is None or self._position is not None:
                self._open(table, span)
            return True
        if not self._begun:
            self._open(table, span)
            return True
        return self._link is not None and self._position is not None and lower >= self._position

    def _open(self, table: Table, span: KeySpan) -> None:
        self.close()
        self._link = connect(self._address, _CONNECT_WAIT, self._clock, self._watch)
        self._link.execute(_BEGIN.format(lift=self._link.lift).encode())
        sql, bounds = table.select_all(span.lower)
        declare = f"DECLARE reconcile_stream NO SCROLL CURSOR FOR {sql}"
        self._link.execute(declare.encode(), bounds)
        self._begun, self._position = True, _value(table, span.lower)

    def _fetch(self, table: Table) -> bool:
        """More rows into memory; False where there are none."""
        if self._link is None:
            return False
        fetch = f"FETCH FORWARD {_BATCH:d} FROM reconcile_stream"
        found = self._link.execute(fetch.encode(), binary=True).fetchall()
        self._rows += [(table.schema.sort_value(account), line) for account, line in found]
        return bool(found)


def _value(table: Table, account: str | None) -> Any:
    return None if account is None else table.schema.sort_value(account)
