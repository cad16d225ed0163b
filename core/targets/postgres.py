"""A table of a PostgreSQL database as a target that keeps its own fence.

One range is one transaction in READ COMMITTED. Its first statement locks the fence row, which
must name this very generation and run; each change is applied where the row still is its
before-image; then the span is read again, by a later statement, which sees what others have
committed meanwhile too, and must sum up to what it should. Changes, log, marker and fence
row become durable as one, or not at all.

Nothing keeps others from writing to the table at the same time. A row that we have changed is
locked until the end, so what is odd about it is the table's doing (a trigger, a type that
rounds); what is odd about another is somebody else's, and compared again.

How long: see `postgres_session.py`. A COMMIT whose answer is lost is asked for again on a new
connection: under the lock of the fence row, which its old transaction has until it is over,
the marker says whether it was made.
"""

from __future__ import annotations

from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from ..checksum import checksum, without
from ..endpoints import Committed
from ..errors import FenceIsHigher, LeaseLapsed, TargetUnusable
from ..model import FenceRow
from ..postgres.address import PATIENT, read_address
from ..records import to_text
from .books import Query, Worked, is_of
from .postgres_blockers import BlockerWatch
from .postgres_books import PostgresBooks
from .postgres_changes import Application
from .postgres_lines import lines_of
from .postgres_look import read_table
from .postgres_refusals import refusal
from .postgres_session import SETTING, Session
from .postgres_stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import timedelta

    from ..config import TargetConfig
    from ..model import Fence, Interval, JsonObject, LeaseKey, PlanId, Proof
    from ..ports import Clock
    from ..rows import Change, KeySpan, RangeChanges, Schema
    from .postgres_table import Table

WAIT = 30.0
"""Seconds that reading and completing wait for another session's lock."""

QUICK = 60.0
"""Seconds for what is looked up and not read in full: a server that hangs is not waited for."""

GRACE = 5.0
"""Seconds that a raised fence waits for an old holder's session to be gone once it was ended."""


class _Looked(NamedTuple):
    """The table, and our tables beside it."""

    table: Table
    books: PostgresBooks


class PostgresTarget:
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
        self._session = Session(read_address(config.url, SETTING, PATIENT), clock)
        self._stream = Stream(self._session.address, clock, self._session.go_on)
        self._looked: _Looked | None = None
        self._raised: tuple[Fence, FenceRow] | None = None
        self._lock = RLock()

    def describe(self) -> str:
        """Type, address and table."""
        return f"postgres {self._session.shown}, table {self._config.table}"

    def work_on(self, interval: Interval) -> None:
        """See `endpoints.Target`. The configuration asks for it with SQLite alone so far."""

    def schema(self) -> Schema:
        """See `endpoints.Target`."""
        with self._reading(WAIT) as looked:
            return looked.table.schema

    def lines(self, span: KeySpan) -> list[bytes]:
        """See `endpoints.Target`. In order of accounts."""
        with self._reading(WAIT, None) as looked:
            self._refuse_odd(looked.table, span)
            if looked.table.ordered:
                return self._lines(looked.table, span)
        with self._streaming(looked.table) as stream:
            lines = stream.lines(looked.table, span)
        if lines is None:
            with self._reading(WAIT, None):
                lines = self._lines(looked.table, span)
        return lines

    def bound(self, span: KeySpan, rows: int) -> str | None:
        """See `endpoints.Target`."""
        with self._reading(WAIT, None) as looked:
            if looked.table.ordered:
                found = self._session.rows(*looked.table.select_bound(span, rows))
                account = found[0][0] if found else None
                return None if account == span.upper else account
        with self._streaming(looked.table) as stream:
            return stream.bound(looked.table, span, rows)

    def collisions(self, span: KeySpan) -> Mapping[str, str]:
        """See `endpoints.Target`. There are none: keys are compared exactly."""
        return {}

    def floor(self, key: LeaseKey) -> FenceRow | None:
        """See `endpoints.Target`."""
        with self._reading(self._fence_wait) as (_, books):
            return books.fence_row(key) if books.has_tables() else None

    def raise_fence(self, fence: Fence, store_id: str, wait: timedelta) -> FenceRow:
        """See `endpoints.Target`. Creates our tables; the new row where there was none.

        `TargetUnusable` where another job is fenced on the same rows; `TargetLocked` where
        somebody keeps the fence row locked whose session may not be ended.
        """
        seconds = wait.total_seconds()
        with self._lock:
            self._raised = None
            until = self._clock.boot() + seconds + GRACE
            return self._session.again(lambda: self._raise(fence, store_id, seconds), until)

    def commit(self, fence: Fence, part: RangeChanges, by: float) -> Committed:
        """See `endpoints.Target`."""
        with self._lock:
            self._stream.close()
            return self._session.again(lambda: self._commit(fence, part, by), by)

    def marker(self, plan: PlanId, number: int) -> Committed | None:
        """See `endpoints.Target`."""
        with self._reading(WAIT) as (_, books):
            return books.marker(plan, number) if books.has_tables() else None

    def complete(self, fence: Fence, proof: Proof) -> None:
        """See `endpoints.Target`. Markers of the interval itself stay until the next completion."""
        with self._lock:
            until = self._clock.boot() + WAIT
            self._session.again(lambda: self._complete(fence, proof), until)

    def changes(
        self, *, interval: str | None = None, account: str | None = None
    ) -> Iterator[tuple[JsonObject, Change]]:
        """See `endpoints.Target`; those of this job. No transaction is open between pages."""
        query = Query(self._job, interval, () if account is None else (account,))
        last: int | None = 0
        while last is not None:
            with self._reading(WAIT) as (table, books):
                if not books.has_tables():
                    return
                found, last = books.log(table.schema, query, last)
            yield from found

    def interrupt(self) -> None:
        """See `endpoints.Target`. Final: all later calls raise `LeaseLapsed`."""
        self._session.interrupt()

    def close(self) -> None:
        """See `endpoints.Target`. Harmless when repeated."""
        with self._lock:
            self._stream.close()
            self._session.close()

    # --- parts

    def _raise(self, fence: Fence, store_id: str, wait: float) -> FenceRow:
        session = self._session
        watch = BlockerWatch(session.address, self._clock, wait)
        with session.writing(wait + GRACE, watch=watch):
            table, books = self._look(anew=True)
            books.create_tables()
            # From here on only those can block us who keep the fence row.
            watch.pid = session.rows("SELECT pg_catalog.pg_backend_pid()")[0][0]
            before = books.fence_row(fence.key, lock=True)
            if before is None:
                watch.pid = None
                books.wait_for_others()
                before = books.fence_row(fence.key, lock=True)
            if before is not None and before.generation >= fence.generation:
                if not is_of(before, fence):
                    raise FenceIsHigher(before)
                # Ours; by a COMMIT whose answer was lost, maybe, and then it was lower before.
                known = self._raised
                return known[1] if known is not None and known[0] == fence else before
            newest = before.newest if before is not None else None
            row = FenceRow(store_id, fence.generation, fence.run, newest)
            worked = Worked(table.relation.shown, table.scope or "")
            books.write_fence(fence, row, worked, self._now(), is_new=before is None)
            self._raised = (fence, before or row)
            session.commit(self._clock.boot() + wait + GRACE)
            return before or row

    def _commit(self, fence: Fence, part: RangeChanges, by: float) -> Committed:
        session = self._session
        left = by - self._clock.boot()
        if left <= 0:
            raise LeaseLapsed(
                f"the lease's time was over before {session.shown} could be written to",
                hint="the next trigger goes on; a longer lease.ttl leaves more time",
            )
        table, books = self._look_outside()
        with session.writing(left):
            books.checked(fence)
            standing = books.marker(part.plan, part.number)
            if standing is not None:
                return standing
            application = Application(session, table, part.changes)
            if not application.run():
                raise application.why()
            after = self._summed(table, part)
            done = Committed(checksum(after), application.counts)
            if done.checksum != part.expected:
                application.take_back()
                raise application.why_unequal(after, self._summed(table, part))
            now = self._now()
            books.write_log(table.schema, fence, part, part.changes, now)
            books.write_marker(fence, part, done, now)
            session.commit(by)
            return done

    def _complete(self, fence: Fence, proof: Proof) -> None:
        _, books = self._look_outside()
        with self._session.writing(WAIT):
            newest = books.checked(fence).newest
            books.refuse_older(newest, proof, self._clock.now())
            books.write_newest(fence, proof, self._now())
            self._session.commit(self._clock.boot() + WAIT)

    @contextmanager
    def _reading(self, wait: float, limit: float | None = QUICK) -> Iterator[_Looked]:
        with self._lock, self._session.reading(wait, limit):
            yield self._look()

    @contextmanager
    def _streaming(self, table: Table) -> Iterator[Stream]:
        with self._lock:
            try:
                yield self._stream
            except psycopg.Error as error:
                self._stream.close()
                raise refusal(error, self._session.address) from error

    def _now(self) -> str:
        return to_text(self._clock.now())

    def _look(self, *, anew: bool = False) -> _Looked:
        """The table as it is, in the transaction under way; looked at once a run."""
        known = self._looked
        if known is not None and not anew:
            return known
        table = read_table(self._session, self._config, self._source_columns)
        if known is not None and known.table != table:
            raise TargetUnusable(
                f"table {table.relation.shown} in {self._session.shown} was altered while it was"
                " worked on",
                hint="the next run looks at it anew",
            )
        schema = self._config.schema or table.relation.schema
        books = PostgresBooks(self._session, schema, table.relation)
        self._looked = known or _Looked(table, books)
        return self._looked

    def _look_outside(self) -> _Looked:
        """The same in a transaction of its own, so that the next one can begin with the fence."""
        if self._looked is None or not self._looked.books.has_them:
            with self._session.reading(WAIT):
                self._look().books.has_tables()
        assert self._looked is not None
        return self._looked

    def _refuse_odd(self, table: Table, span: KeySpan) -> None:
        odd = table.select_odd_account() if span.lower is None else None
        for (found,) in self._session.rows(odd) if odd else ():
            raise TargetUnusable(
                f"table {table.relation.shown} in {self._session.shown} has a row whose account"
                f" {table.schema.account.name} is {found}",
                hint="mend or delete such rows, or leave them out by the target's scope",
            )

    def _lines(self, table: Table, span: KeySpan) -> list[bytes]:
        count, data = self._session.row(*table.select_lines(span))
        return lines_of(table.schema, count, data)

    def _summed(self, table: Table, part: RangeChanges) -> list[bytes]:
        lines = self._lines(table, part.span)
        return without(lines, part.apart) if part.apart else lines
