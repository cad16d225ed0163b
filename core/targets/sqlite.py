"""A table of an SQLite database as a target that keeps its own fence.

One range is one ``BEGIN IMMEDIATE`` transaction, so from the check of the fence to the
commit nobody else writes. The fence row must name this very generation and run; each change
is applied where the row still is its before-image; the span is read again and must sum up
to what it should. Changes, log, marker and fence row become durable as one, or not at all.

Where rows or sums disagree the changes are taken back and, still under the same lock, it is
looked up why: did somebody else write since the range was compared (`ChangedMeanwhile`:
compare it again), or does the table not hold what is written to it (`TargetUnusable`: a
trigger, the scope, a column's type)?
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING

from ..checksum import checksum, without
from ..config import single_host, sqlite_path
from ..endpoints import Committed
from ..errors import FenceIsHigher, TargetUnusable
from ..model import FenceRow
from ..records import to_text
from .books import Query, Worked, is_of
from .change_log import named
from .names import text
from .sqlite_accounts import accounts, functions
from .sqlite_books import SqliteBooks
from .sqlite_changes import Application, why_unequal
from .sqlite_database import Database
from .sqlite_ddl import ddl
from .sqlite_lines import lines_of
from .sqlite_table import read_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import timedelta

    from ..config import TargetConfig
    from ..errors import ReconcileError
    from ..model import Fence, Interval, JsonObject, LeaseKey, PlanId, Proof
    from ..ports import Clock
    from ..rows import Change, KeySpan, RangeChanges, Schema
    from .sqlite_table import Table

__all__ = ["SqliteTarget", "ddl"]

WAIT = 30.0
"""Seconds that reading and completing wait for another program's lock."""

LEAST = 1.0
"""Seconds that a raised fence may take to be committed, however little it may wait."""

_BATCH = 4096


class SqliteTarget:
    """One job's table. Calls of several threads wait for each other; `interrupt` does not."""

    fenced = True

    def __init__(
        self,
        config: TargetConfig,
        job: str,
        clock: Clock,
        source_columns: Sequence[str] | None = None,
        *,
        fence_wait: float = WAIT,
    ) -> None:
        """`fence_wait` is for how many seconds a lock may keep us from looking at the fence."""
        self._config = config
        self._job = job
        self._clock = clock
        self._source_columns = source_columns
        self._fence_wait = fence_wait
        self._database = Database(
            sqlite_path(config.url),
            clock,
            functions(config.key_policy),
            single_host=bool(single_host(config.url)),
        )
        self._books = SqliteBooks(self._database)
        self._accounts = accounts(self._database, config.key_policy)
        self._interval: str | None = None
        self._table: Table | None = None
        self._version: int | None = None
        self._lock = RLock()

    def describe(self) -> str:
        """Type, path and table."""
        return f"sqlite {self._database.path}, table {self._config.table}"

    def work_on(self, interval: Interval) -> None:
        """See `endpoints.Target`."""
        with self._lock:
            self._interval, self._table = interval.id, None

    def schema(self) -> Schema:
        """See `endpoints.Target`."""
        with self._lock, self._database.reading(WAIT):
            return self._current_table().schema

    def lines(self, span: KeySpan) -> list[bytes]:
        """See `endpoints.Target`. The order is that of the index which begins with the account."""
        with self._lock, self._reading_accounts(WAIT) as table:
            return self._lines(table, span)

    def bound(self, span: KeySpan, rows: int) -> str | None:
        """See `endpoints.Target`. Not under a key policy, where no index is in order."""
        if self._accounts.looks:
            return None
        with self._lock, self._database.reading(WAIT):
            found = self._database.rows(*self._current_table().select_bound(span, rows))
            account = text(found[0][0]) if found else None
            return None if account == span.upper else account

    def collisions(self, span: KeySpan) -> Mapping[str, str]:
        """See `endpoints.Target`."""
        with self._lock, self._reading_accounts(WAIT) as table:
            return self._accounts.collisions(table, span)

    def floor(self, key: LeaseKey) -> FenceRow | None:
        """See `endpoints.Target`."""
        with self._lock, self._database.reading(self._fence_wait):
            return self._books.standing(key)

    def raise_fence(self, fence: Fence, store_id: str, wait: timedelta) -> FenceRow:
        """See `endpoints.Target`. Creates our tables; the new row where there was none.

        `TargetUnusable` where another job is fenced on the same rows.
        """
        with self._lock, self._database.writing(wait.total_seconds()):
            table = self._current_table()
            self._books.create_tables()
            before = self._books.fence_row(fence.key)
            if before is not None and before.generation >= fence.generation:
                if not is_of(before, fence):
                    raise FenceIsHigher(before)
                return before
            newest = before.newest if before is not None else None
            row = FenceRow(store_id, fence.generation, fence.run, newest)
            worked = Worked(table.name, table.scope or "")
            self._books.write_fence(fence, row, worked, self._now(), is_new=before is None)
            # Whoever reads may delay it, and may be an old holder that was stopped.
            self._database.commit(self._clock.boot() + max(LEAST, wait.total_seconds()))
            return before or row

    def commit(self, fence: Fence, part: RangeChanges, by: float) -> Committed:
        """See `endpoints.Target`."""
        with self._lock:
            if self._accounts.looks:
                # So that under the lock only what is newer than this has to be looked at.
                with self._reading_accounts(by - self._clock.boot()):
                    pass
            with self._database.writing(by - self._clock.boot()):
                return self._commit(fence, part, by)

    def marker(self, plan: PlanId, number: int) -> Committed | None:
        """See `endpoints.Target`."""
        with self._lock, self._database.reading(WAIT):
            return self._books.marker(plan, number) if self._books.has_tables() else None

    def complete(self, fence: Fence, proof: Proof) -> None:
        """See `endpoints.Target`. Markers of the interval itself stay until the next completion."""
        with self._lock, self._database.writing(WAIT):
            newest = self._books.checked(fence).newest
            if self._config.interval_column is not None:
                self._books.write_own(fence, newest, proof, self._clock.now())
            else:
                self._books.refuse_older(newest, proof, self._clock.now())
                self._books.write_newest(fence, proof, self._now())
            self._database.commit(self._clock.boot() + WAIT)

    def changes(
        self, *, interval: str | None = None, account: str | None = None
    ) -> Iterator[tuple[JsonObject, Change]]:
        """See `endpoints.Target`; those of this job. Holds no lock between pages."""
        # As it was logged under this policy, and under `exact` before.
        names = () if account is None else (self._accounts.normalise(account), account)
        query = Query(self._job, interval, names)
        last: int | None = 0
        while last is not None:
            with self._lock, self._database.reading(WAIT):
                if not self._books.has_tables():
                    return
                schema = self._current_table().schema
                found, last = self._books.log(schema, query, last)
            yield from found

    def interrupt(self) -> None:
        """See `endpoints.Target`. Final: all later calls raise `LeaseLapsed`."""
        self._database.interrupt()

    def close(self) -> None:
        """See `endpoints.Target`. Harmless when repeated."""
        with self._lock:
            self._database.close()

    # --- parts

    def _commit(self, fence: Fence, part: RangeChanges, by: float) -> Committed:
        database, table = self._database, self._current_table()
        self._books.checked(fence)
        standing = self._books.marker(part.plan, part.number)
        if standing is not None:
            return standing
        self._accounts.look(table)
        changes = self._accounts.own(table, part)
        database.execute("SAVEPOINT changes")
        application = Application(database, table, changes, self._accounts.normalise)
        before = database.changed()
        applied = application.run()
        after: list[bytes] = []
        if applied:
            self._accounts.written(table, changes, database.changed() - before)
            after = self._summed(table, part)
        done = Committed(checksum(after), application.counts)
        if not applied or done.checksum != part.expected:
            database.execute("ROLLBACK TO changes")
            raise self._why(table, part, application, after if applied else None)
        now = self._now()
        self._books.write_log(table.schema, fence, part, changes, now)
        self._books.write_marker(fence, part, done, now)
        database.commit(by)
        return done

    @contextmanager
    def _reading_accounts(self, wait: float) -> Iterator[Table]:
        with self._database.reading(wait, keep=self._accounts.looks):
            table = self._current_table()
            self._accounts.look(table)
            yield table

    def _now(self) -> str:
        return to_text(self._clock.now())

    def _current_table(self) -> Table:
        """The table, looked at again when the database's schema changed since."""
        (version,) = self._database.rows("PRAGMA schema_version")[0]
        if self._table is None or version != self._version:
            table = read_table(self._database, self._config, self._source_columns, self._interval)
            if self._table is not None and table != self._table:
                raise TargetUnusable(
                    f"table {table.name} in {self._database.path} was altered while it was"
                    " worked on",
                    hint="the next run looks at it anew",
                )
            self._table, self._version = table, version
        return self._table

    def _lines(self, table: Table, span: KeySpan) -> list[bytes]:
        database = self._database
        odd = table.select_odd_account(span)
        for (found,) in database.rows(f"{odd} LIMIT 1") if odd else ():
            raise TargetUnusable(
                f"table {table.name} in {database.path} has a row whose account"
                f" {table.schema.account.name} is {text(found)}",
                hint="mend or delete such rows, or leave them out by the target's scope",
            )
        lines: list[bytes] = []
        cursor = database.cursor(*self._accounts.select(table, span))
        try:
            while rows := cursor.fetchmany(_BATCH):
                lines += lines_of(rows)
        except sqlite3.Error as error:
            raise database.error_for(error) from error
        return lines

    def _summed(self, table: Table, part: RangeChanges) -> list[bytes]:
        lines = self._lines(table, part.span)
        return without(lines, part.apart) if part.apart else lines

    def _why(
        self, table: Table, part: RangeChanges, application: Application, after: list[bytes] | None
    ) -> ReconcileError:
        """Why changes did not lead to what was expected; they are rolled back, the lock is not."""
        found = application.why()
        if found is not None:
            return found
        if after is not None:
            return why_unequal(self._database, part, self._summed(table, part), after)
        refused = application.first_refused()
        what = f", {named(refused)}" if refused else ""
        return TargetUnusable(
            f"{self._database.path}{what}: the table ignores the change",
            hint="look for a trigger that says RAISE(IGNORE)",
        )
