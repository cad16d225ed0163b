"""One connection to a Postgres server: bounded in time, one transaction a method.

Text. Statements are sent as one text with their values in it (quoted by libpq), so that a
transaction's begin, its limits and its first statements are one round trip, and nothing is
prepared: no state outlives a transaction, and PgBouncer may give each one to another server
connection.

Limits. Each transaction begins by telling the server, for itself alone, how long a statement,
a lock and this client's own silence may take: what is left of `patience`; what a role or database
has of such limits is overruled. A client that was
stopped in the middle is so rolled back by the server, and its locks with it. The client
does not believe in that: it waits for no answer longer than `patience` either, then drops
the connection, for a server or network that hangs says nothing.

Lost connections. A connection that breaks before COMMIT was sent has changed nothing, so
the method is done again on a new one, once. One that breaks after that may have: the method
is done again where asking twice is harmless, which is true of every fenced write (run ids
and sequence numbers tell it from another), else the answer is `StoreUnreachable`, and what
became of it is unknown.
"""

from __future__ import annotations

import re
from math import ceil
from threading import Event, Lock
from typing import TYPE_CHECKING, TypeVar

import psycopg
from psycopg import ClientCursor, pq

from ..core.errors import StoreUnreachable
from ..core.postgres.errors import NoAnswer, is_lost, is_undone
from ..core.postgres.link import connect
from .postgres_errors import gone, refusal, replaced
from .postgres_rows import Answer, Ask, Row, Values
from .postgres_schema import create_or_migrate, read_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..core.ports import Clock
    from ..core.postgres.link import Link
    from .postgres_address import Address

_T = TypeVar("_T")

_BEGIN = """BEGIN ISOLATION LEVEL READ COMMITTED{mode};
{lift}SET LOCAL statement_timeout = {limit};
SET LOCAL lock_timeout = {sooner};
SET LOCAL idle_in_transaction_session_timeout = {limit};
"""
_READ_ONLY = " READ ONLY"
_PLACE = re.compile(r"%%|%\(")
_SERVER_SHARE = 0.8
"""Of what is left; the rest is the server's refusal on its way back."""
_LOCK_SHARE = 0.9
"""Of the server's; sooner than the statement's own end, so that a lock is called a lock."""
_LEAST_LIMIT = 50
"""Milliseconds."""
_RECONNECT_EVERY = 0.1
"""Seconds between attempts to reach a server that was there a moment ago."""
_CREATION_WAIT = 30.0
"""Seconds to wait for another process that creates or migrates the tables."""


class Transaction:
    """What a method does its work with. The first `run` begins the transaction."""

    def __init__(self, link: Link, left: Callable[[], float], mode: str) -> None:
        self._link = link
        self._left = left
        self._mode = mode
        self.committing = False
        """COMMIT was sent, so that a lost connection leaves its end unknown."""

    def run(self, *asks: Ask, last: bool = False) -> list[Answer]:
        """Run statements in one round trip; `last` commits in the same."""
        text, values = _as_one(asks)
        skipped = 0
        if self._link.is_idle:
            limit = max(_LEAST_LIMIT, ceil(self._left() * _SERVER_SHARE * 1000))
            sooner = ceil(limit * _LOCK_SHARE)
            lift = self._link.lift
            begin = _BEGIN.format(mode=self._mode, lift=lift, limit=limit, sooner=sooner)
            text, skipped = begin + text, begin.count(";")
        self.committing = last
        cursor = ClientCursor(self._link)
        cursor.execute((text + ";\nCOMMIT" if last else text).encode(), values)
        return _answers(cursor)[skipped : skipped + len(asks)]

    def commit(self) -> None:
        """Make it durable."""
        self.committing = True
        self._link.execute("COMMIT")


def _as_one(asks: Sequence[Ask]) -> tuple[str, Values]:
    """One text of several, each with its values under names of its own."""
    if len(asks) == 1:
        return asks[0]
    texts = [_numbered(ask.text, n) for n, ask in enumerate(asks)]
    values = {f"{n}_{name}": v for n, ask in enumerate(asks) for name, v in ask.values.items()}
    return ";\n".join(texts), values


def _numbered(text: str, n: int) -> str:
    """A statement whose values have names of its own; a doubled % is none of them."""
    return _PLACE.sub(lambda found: found[0] if found[0] == "%%" else f"%({n}_", text)


def _answers(cursor: ClientCursor[Row]) -> list[Answer]:
    answers = []
    while True:
        rows = cursor.fetchall() if cursor.description else []
        answers.append(Answer(rows, cursor.rowcount))
        if not cursor.nextset():
            return answers


class _Insisted(Exception):
    """A statement that had to change something did not."""


class PostgresConnection:
    """Runs statements, and turns the driver's errors into ours. Safe to share by threads."""

    def __init__(self, address: Address, *, clock: Clock, patience: float) -> None:
        """Connect; creates or migrates the tables if need be, and if it may.

        `patience`: seconds that one method may take. Raises what `core.ports.Store` says,
        and `AccessDenied` or `ConfigError`.
        """
        self.address = address
        self.id = ""
        self._clock = clock
        self._patience = patience
        self._guard = Lock()
        self._link: Link | None = None
        with self._guard:
            self._attempts(lambda _: None, self._until(), again=True)

    def read(self, *asks: Ask) -> list[Answer]:
        """Run SELECTs in a transaction of their own, in one round trip."""
        with self._guard:
            return self._attempts(
                lambda db: db.run(*asks, last=True), self._until(), again=True, mode=_READ_ONLY
            )

    def write(
        self,
        work: Callable[[Transaction], _T],
        *,
        again: bool = True,
        otherwise: Callable[[Transaction], _T] | None = None,
    ) -> _T:
        """Run `work` in one transaction. Whatever it raises undoes all of it.

        `again`: doing it twice is harmless, should the end of the first try be unknown.
        `otherwise`: what to run instead where a statement of `work` that had to change
        something (see `insisted`) did not.
        """
        with self._guard:
            until = self._until()
            try:
                return self._attempts(work, until, again=again)
            except _Insisted:
                assert otherwise is not None
                return self._attempts(otherwise, until, again=again)

    def close(self) -> None:
        """Give the connection back; harmless when repeated."""
        with self._guard:
            self._drop()

    # --- inside, all under the guard

    def _until(self) -> float:
        """When the method that begins now must have ended, on the clock of boot time."""
        return self._clock.boot() + self._patience

    def _attempts(
        self,
        work: Callable[[Transaction], _T],
        until: float,
        *,
        again: bool,
        mode: str = "",
    ) -> _T:
        lost = False
        while True:
            db = None
            try:
                link = self._linked(until)
                db = Transaction(link, lambda: until - self._clock.boot(), mode)
                return self._transaction(link, db, work)
            except psycopg.errors.DivisionByZero as error:
                raise _Insisted from error
            except psycopg.Error as error:
                in_doubt = db is not None and db.committing and is_lost(error)
                first = self.id == ""
                refused = refusal(error, self.address, in_doubt=in_doubt, first=first)
                left = until - self._clock.boot()
                if db is None:
                    repeat = not first and isinstance(refused, StoreUnreachable)
                elif is_undone(error):
                    repeat = True
                else:
                    repeat = is_lost(error) and not lost and (again or not in_doubt)
                    lost = True
                if left <= 0 or not repeat:
                    raise refused from error
                if db is None:
                    self._clock.wait(min(left, _RECONNECT_EVERY), Event())

    def _transaction(self, link: Link, db: Transaction, work: Callable[[Transaction], _T]) -> _T:
        try:
            result = work(db)
            if not link.is_idle:
                db.commit()
        except BaseException as error:
            self._undo(link, error)
            raise
        return result

    def _undo(self, link: Link, error: BaseException) -> None:
        """Leave no transaction open, if need be by closing the connection."""
        lost = isinstance(error, psycopg.Error) and is_lost(error)
        status = link.pgconn.transaction_status
        try:
            if not lost and status in (pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR):
                link.execute("ROLLBACK")
        except psycopg.Error:
            lost = True
        if lost or not link.is_idle:
            self._drop()

    def _drop(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def _linked(self, until: float) -> Link:
        """The connection, made anew where it was lost; then it must lead to the same store."""
        if self._link is not None and not self._link.closed:
            self._link.watch = self._in_time(until)
            return self._link
        self._link = link = self._connect(until)
        try:
            identity = self._identity(link, until)
        except BaseException:
            self._drop()
            raise
        if self.id not in ("", identity):
            self._drop()
            raise replaced(self.address)
        self.id = identity
        return link

    def _connect(self, until: float) -> Link:
        left = until - self._clock.boot()
        return connect(self.address, left, self._clock, self._in_time(until))

    def _in_time(self, until: float) -> Callable[[], None]:
        """What breaks off a wait that has taken too long."""

        def watch() -> None:
            if self._clock.boot() >= until:
                raise NoAnswer

        return watch

    def _identity(self, link: Link, until: float) -> str:
        """The store's id. Without tables: made on the first connection, gone on any other."""
        db = Transaction(link, lambda: until - self._clock.boot(), _READ_ONLY)
        found = self._transaction(link, db, lambda db: read_schema(db, self.address))
        if found is not None and found.is_current:
            return found.id
        if found is None and self.id:
            raise gone(self.address)
        later = max(until, self._clock.boot() + _CREATION_WAIT)
        link.watch = self._in_time(later)
        db = Transaction(link, lambda: later - self._clock.boot(), "")
        made = self._transaction(link, db, lambda db: create_or_migrate(db, self.address))
        link.watch = self._in_time(until)
        return made
