"""A database read for one interval: its rows first, whole, then in order of account.

One statement is executed, in one read-only transaction, so that all its rows are of one instant.
They are streamed into a spool (`../spool.py`) and sorted there, as an unsorted file is; only
then is anything planned, and ranges that have to be compared again are read from the spool. So

- nothing depends on how the database orders text. Its collations, and an index that a new libc has
  made wrong, decide neither which rows come nor where a range ends; no index is asked for, and
  the database is asked once, for one look at the rows, however many ranges there are;
- an error in the middle is the end of the reading, and never of the rows: what is planned from is
  a spool, and a spool is made of what came to its end;
- the connection is closed before the first change is applied, also where both sides are in one
  database.

A run that is killed begins the reading again, or goes on with the spool where that was complete;
another host, or one that comes later than `plan_age`, reads anew. A plan is for one reading: where
that is gone, a new plan is made (`Unordered`). The fingerprint is of the settings: what the
database says is only known when it was asked, and a knock must not ask it.

While the database is silent nothing counts as progress, so that `progress_deadline` bounds it.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from ...config import sqlite_path, sqlite_url
from ...endpoints import Unordered
from ...masking import server_shown
from ...placeholders import is_dated
from ...rows import Page
from ...sql_text import bound
from ..rows import Rows
from ..spooling import fill, sorter_for
from . import kept
from .database import Result, needs_sqlalchemy
from .records import SqlRecords, fetched, names_there

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import timedelta
    from pathlib import Path

    from ...config import SourceConfig
    from ...endpoints import Calls
    from ...model import Interval, Json
    from ...rows import Schema
    from ...sql_config import SqlConfig
    from ..spool import Draft, Spool, Spools
    from .kept import Kept


class SqlSource:
    """A database. `spools` is where its rows are kept, `max_age` how long."""

    def __init__(
        self,
        config: SourceConfig,
        spools: Spools,
        fill_in: Callable[[str, Interval], str],
        max_age: timedelta,
    ) -> None:
        assert config.sql is not None, "that is what makes it one"
        self._config = config
        self.sql = config.sql
        self._spools = spools
        self._fill = fill_in
        self._max_age = max_age
        self.dated = config.sql.dated or (self._is_file and is_dated(config.path))

    def describe(self, interval: Interval | None) -> str:
        """Type, address and table, without what stands in the address's query."""
        url = self._config.path if interval is None else self.address(interval)
        where = str(sqlite_path(url)) if self._is_file else server_shown(url)
        return f"sql {where} {self.sql.table or 'query'}"

    def open(self, interval: Interval, schema: Schema, calls: Calls | None = None) -> SqlReading:
        """See `endpoints.Source`. Nothing is asked for yet."""
        reading = SqlReading(self, self._config, schema, interval, self._spools)
        if calls is not None:
            needs_sqlalchemy()
            reading.begin(calls, self._max_age)
        return reading

    def address(self, interval: Interval) -> str:
        """The address for an interval; of a server it is always the same."""
        if not self._is_file or not is_dated(self._config.path):
            return self._config.path
        return sqlite_url(PurePath(self._fill(str(sqlite_path(self._config.path)), interval)))

    @property
    def _is_file(self) -> bool:
        return self._config.path.startswith("sqlite:")


class SqlReading:
    """A database opened for one interval. Implements `endpoints.Reading`."""

    def __init__(
        self,
        source: SqlSource,
        config: SourceConfig,
        schema: Schema,
        interval: Interval,
        spools: Spools,
    ) -> None:
        self._source = source
        self._config = config
        self._schema = schema
        self._interval = interval
        self._spools = spools
        self.fingerprint = _fingerprint(
            config, source.sql, source.describe(interval), schema, interval
        )
        self._records = SqlRecords(config, schema)
        self._rows = Rows(self._records, schema)
        self._kept: Kept | None = None
        self._spool: Spool | None = None
        self._draft: Draft | None = None

    def begin(self, calls: Calls, max_age: timedelta) -> None:
        """Have what it takes to ask the database."""
        self._calls = calls
        self._max_age = max_age

    def pages(self, after: str | None = None, resume: Json = None) -> Iterator[Page]:
        """See `endpoints.Reading`."""
        wanted = resume.get("reading") if isinstance(resume, dict) else None
        try:
            if self._spool is None:
                self._open_kept()
            if wanted is not None and (self._kept is None or wanted != self._kept.id):
                raise Unordered
            if self._spool is None or (wanted is None and self._is_old()):
                for _ in self._read():
                    yield Page([])
            assert self._spool is not None, "it was made"
            assert self._kept is not None, "it has a name"
            begin: Json = {"reading": self._kept.id}
            above = None if after is None else self._schema.sort_value(after)
            for rows, bad in self._spool.pages(above):
                yield Page(rows, begin, bad)
        except OSError as error:
            raise self._spools.refusal(error) from error

    def close(self) -> None:
        """Give up what is not complete; a complete reading stays for another run."""
        if self._draft is not None:
            self._draft.discard()
        if self._spool is not None:
            self._spool.close()

    # --- one reading

    def _open_kept(self) -> None:
        """The reading that another run left."""
        note = self._note()
        found = kept.read(note)
        if found is not None:
            self._spool = self._spools.open(self._name(found.id))
        self._kept = found if self._spool is not None else None
        if self._kept is None:
            self._spools.sweep()
        else:
            self._spools.sweep(self._name(self._kept.id), note)

    def _is_old(self) -> bool:
        assert self._kept is not None, "it is there"
        return self._calls.now() - self._kept.at > self._max_age

    def _read(self) -> Iterator[None]:
        """Read all rows, and sort them; comes back every now and then."""
        if self._spool is not None:
            self._spool.close()
            self._spool = None
        new = kept.Kept(self._calls.new_id(), self._calls.now())
        draft = self._draft = self._spools.draft(self._name(new.id))
        try:
            sorter = sorter_for(draft, self._schema)
            for items, size in self._items():
                sorter.add(items, size)
                yield
            yield from fill(draft, sorter, self._rows, self._schema)
            self._spool = draft.finish()
        finally:
            draft.discard()
        self._kept = new
        kept.write(self._note(), new)
        self._spools.sweep(self._name(new.id), self._note())

    def _items(self) -> Iterator[tuple[list[tuple[str | None, ...]], int]]:
        """The rows as items, and how many characters they take."""
        from .dialects import dialect_of
        from .statement import statement

        name, first = self._source.describe(self._interval), 1
        result = Result(dialect_of(self._source.address(self._interval)), self._calls.stand_by)
        try:
            columns = names_there(self._config, self._schema)
            asked = statement(self._source.sql, columns, self._interval, quotes=result.quotes)
            result.execute(asked)
            self._records.begin(name, result.columns, result.mend)
            for rows in result.rows():
                self._calls.go_on()
                items, count = self._rows.items(fetched(name, rows, first))
                first += count
                yield items, sum(len(value) for item in items for value in item if value)
        finally:
            result.close()

    def _name(self, reading: str) -> str:
        return f"{self.fingerprint}-{reading}"

    def _note(self) -> Path:
        return self._spools.place(f"{self.fingerprint.rpartition(':')[2]}.reading")


def _fingerprint(
    config: SourceConfig, sql: SqlConfig, name: str, schema: Schema, interval: Interval
) -> str:
    """Of all that says what is read, and how; of no secret."""
    from hashlib import sha256

    reading = (
        name,
        interval.key,
        [list(bound(text or "", interval)) for text in (sql.query, sql.scope)],
        sql.table,
        config.account,
        config.columns,
        config.null,
        sorted(config.rename.items()),
        [(column.name, column.kind.value) for column in schema.columns],
        schema.key,
        schema.policy.value,
    )
    found = sha256(repr(reading).encode("utf-8", "surrogatepass"))
    return f"sha256:{found.hexdigest()}"
