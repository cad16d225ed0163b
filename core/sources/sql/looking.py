"""The first rows of a database, for a person who wants to know whether it can serve."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...errors import SourceUnreachable
from ...sources.rows import Rows
from .database import Result, needs_sqlalchemy
from .records import SqlRecords, fetched, names_there

if TYPE_CHECKING:
    from ...config import SourceConfig
    from ...model import Interval
    from ...ports import Clock
    from ...rows import Schema
    from .reading import SqlSource

SECONDS = 10.0
"""No longer is a database waited for."""


class FirstRows(NamedTuple):
    """What came: from where, how many rows, whether there are more, and an account that would be
    set apart, with the reason."""

    name: str
    rows: int
    more: bool
    bad: tuple[str, str] | None
    notes: tuple[str, ...]


def look(
    source: SqlSource, config: SourceConfig, interval: Interval, schema: Schema, clock: Clock
) -> FirstRows:
    """Ask once, for some rows. Raises `SourceUnreachable`, `SourceUnusable`, `AccessDenied`,
    `ConfigError`."""
    needs_sqlalchemy()
    from .dialects import dialect_of
    from .statement import statement

    name, until = source.describe(interval), clock.boot() + SECONDS

    def watch() -> None:
        if clock.boot() >= until:
            raise SourceUnreachable(
                f"{name} gave no row in {SECONDS:.0f} s",
                hint="a run waits as long as lease.progress_deadline; see what the database does",
            )

    records = SqlRecords(config, schema)
    result = Result(dialect_of(source.address(interval)), watch)
    try:
        columns = names_there(config, schema)
        result.execute(statement(source.sql, columns, interval, quotes=result.quotes))
        records.begin(name, result.columns, result.mend)
        pages = result.rows()
        rows = next(pages, [])
        more = next(pages, None) is not None
        items, _ = Rows(records, schema).items(fetched(name, rows, 1))
        width = len(schema.columns) + 2
        bad = next(((str(i[0]), str(i[-1])) for i in items if len(i) == width), None)
        return FirstRows(name, len(rows), more, bad, tuple(result.notes()))
    finally:
        result.close()
