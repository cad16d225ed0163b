"""What `[jobs.NAME.source]` says of a database, as values.

`core/toml_sql.py` reads them; nothing of this is imported where no job has such a source.
"""

from __future__ import annotations

from typing import NamedTuple

from .sql_text import is_dated


class SqlConfig(NamedTuple):
    """A database as a source: the rows of a `query`, or those of a `table` in `scope`, which is a
    condition. In `query` and `scope` the placeholders of the interval stand for values."""

    query: str | None = None
    table: str | None = None
    scope: str | None = None

    @property
    def dated(self) -> bool:
        """Whether the query, or the scope, names the interval."""
        return any(text is not None and is_dated(text) for text in (self.query, self.scope))
