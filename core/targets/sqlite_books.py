"""Our tables in an SQLite database."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from .books import Books, Dialect
from .change_log import texts
from .names import bindable
from .sqlite_ddl import NAMES, STATEMENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..model import Fence, LeaseKey
    from ..model import FenceRow as Row
    from ..rows import Change, RangeChanges, Schema
    from .sqlite_database import Database


class SqliteBooks(Books):
    """See `Books`. Nobody else writes in a transaction that does, so nothing is locked."""

    def __init__(self, database: Database) -> None:
        dialect = Dialect(fold=" COLLATE NOCASE", bound=bindable)
        super().__init__(database, str(database.path), dialect)
        self._database = database

    def has_tables(self) -> bool:
        """Whether all our tables are there."""
        places = ", ".join("?" * len(NAMES))
        found = self._database.rows(
            f"SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ({places})",
            NAMES,
        )
        return bool(found[0][0] == len(NAMES))

    def create_tables(self) -> None:
        """Create what is missing, in the transaction under way."""
        if not self.has_tables():
            for statement in STATEMENTS:
                self._database.execute(statement)

    def checked(self, fence: Fence) -> Row:
        """The fence row; `FencedOut` when it is not of this very grant."""
        return self.check(self.standing(fence.key), fence)

    def standing(self, key: LeaseKey) -> Row | None:
        """The fence row, None also where our tables are not there."""
        return self.fence_row(key) if self.has_tables() else None

    def write_log(
        self,
        schema: Schema,
        fence: Fence,
        part: RangeChanges,
        changes: Sequence[Change],
        now: str,
    ) -> None:
        """Log each change of a range.

        `changes` are those of `part` in the table's own spellings, as they were applied; key,
        before and after are logged so, and the column `account` is the normalised one, by which
        a change is found however its account is spelled.
        """
        accounts = [change.row[0] for change in part.changes]
        same = (part.job, part.interval, part.rerun, part.number, fence.run, fence.generation, now)
        try:
            self._database.execute_many(
                'INSERT INTO reconcile_changes (job, interval, rerun, "range", run_id, generation,'
                ' time, action, account, "key", "before", "after")'
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, CAST(? AS TEXT), ?, ?, ?)",
                (
                    (*same, action, bindable(account), key, before, after)
                    for account, action, key, before, after in zip(
                        accounts, *texts(schema, changes), strict=True
                    )
                ),
            )
        except sqlite3.Error as error:
            raise self._database.error_for(error, ", table reconcile_changes") from error
