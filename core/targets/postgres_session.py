"""One connection to a target's PostgreSQL database: bounded in time, broken off, made anew.

Each transaction begins by telling the server, for itself alone, how long a lock, a statement
and this client's own silence may take, so that a holder that was stopped in the middle is
rolled back by the server before its lease could be another's. The client does not believe
in that, and waits for no answer past its own deadline either.

Nothing is prepared and nothing outlives a transaction, so PgBouncer may give each one to
another server connection. Values are bound, names are quoted; `%` in SQL of ours or the
user's is doubled, because psycopg takes it for a place.

A connection that is lost before COMMIT was sent has changed nothing. One that is lost after
that may have: whoever committed asks again on a new connection (`again`), and finds out by
the fence row and the marker.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from math import ceil
from threading import Event
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import psycopg

from ..errors import LeaseLapsed, ReconcileError, TargetUnusable
from ..postgres.errors import Meaning, NoAnswer, fault_of, is_lost
from ..postgres.link import connect
from .postgres_refusals import refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..ports import Clock
    from ..postgres.address import Address
    from ..postgres.link import Link

_T = TypeVar("_T")

SETTING = "target.url"
CONNECT_WAIT = 20.0
"""Seconds for a first connection."""
RECONNECT_WAIT = 10.0
"""Seconds to reach a server that was there a moment ago."""
TRIES = 5
"""So often a transaction is done again that the server undid for another's sake."""
_GRACE = 2.0
"""Seconds that the client waits longer than the server may take."""
_LOCK_SHARE = 0.9
"""Of a transaction's time; sooner than its end, so that a lock is called a lock."""
_OLDEST = 130000
_LEAST, _MOST = 10, 2**31 - 1
"""Milliseconds; 0 would mean without end."""

_BEGIN = """BEGIN ISOLATION LEVEL READ COMMITTED{mode};
{lift}SET LOCAL lock_timeout = {lock};
SET LOCAL statement_timeout = {limit};
SET LOCAL idle_in_transaction_session_timeout = {limit};
SET LOCAL DateStyle = 'ISO, YMD';
SET LOCAL TimeZone = 'UTC';
SET LOCAL extra_float_digits = 1;
SET LOCAL jit = off"""
_TO_WRITE = """;
SET CONSTRAINTS ALL IMMEDIATE;
SELECT set_config('synchronous_commit', 'local', true)
  WHERE current_setting('synchronous_commit') = 'off'"""
"""Constraints speak up where it is known whose row it is; and what is committed is on disk."""


class Session:
    """The connection, opened at first use. Not for two threads at once, but for `interrupt`."""

    def __init__(self, address: Address, clock: Clock) -> None:
        self.address = address
        self._clock = clock
        self._link: Link | None = None
        self._interrupted = Event()
        self._deadline: float | None = None
        self._watch: Callable[[], None] | None = None
        self._known = False

    # --- asking

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Any]:
        """All rows of a query."""
        with self._translated():
            return self._running().execute(sql.encode(), parameters).fetchall()

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> int:
        """One statement; how many rows it changed. psycopg's errors are ours."""
        with self._translated():
            return self._running().execute(sql.encode(), parameters).rowcount

    def row(self, sql: str, parameters: Sequence[object] = ()) -> Any:
        """The one row of a query, its values as the server sends them in binary form."""
        with self._translated():
            return self._running().execute(sql.encode(), parameters, binary=True).fetchone()

    def tried(self, sql: str, parameters: Sequence[object]) -> int | psycopg.Error:
        """One statement: how many rows it changed, or why the server refuses a row of it; then
        nothing else goes on before a rollback."""
        with self._translated():
            try:
                return self._running().execute(sql.encode(), parameters).rowcount
            except psycopg.Error as error:
                if fault_of(error, self.address).meaning is not Meaning.ROW:
                    raise
                return error

    def attempt(
        self, sql: str, parameters: Sequence[object], wanted: int
    ) -> int | psycopg.Error | None:
        """As `tried`, but where it did not change as many rows as wanted it is as if it had not
        been tried; None where it did."""
        self.execute("SAVEPOINT reconcile_attempt")
        found = self.tried(sql, parameters)
        if found == wanted:
            self.execute("RELEASE SAVEPOINT reconcile_attempt")
            return None
        self.execute("ROLLBACK TO SAVEPOINT reconcile_attempt")
        return found

    # --- transactions

    @contextmanager
    def reading(self, wait: float, limit: float | None = None) -> Iterator[None]:
        """A transaction that writes nothing. Waits at most `wait` seconds for a lock, and takes at
        most `limit` in all; without, as long as nobody interrupts it."""
        with self._transaction(f" {_READ_ONLY}", wait, limit, None):
            yield

    @contextmanager
    def writing(
        self, wait: float, limit: float | None = None, watch: Callable[[], None] | None = None
    ) -> Iterator[None]:
        """A transaction that is rolled back unless `commit` ends it.

        Waits at most `wait` seconds for a lock, and is ended by the server when a statement,
        or we, take longer than `limit` seconds. `watch` is called while it waits.
        """
        with self._transaction("", wait, wait if limit is None else limit, watch):
            yield

    def commit(self, by: float) -> None:
        """Commit, not after `by` of the boot clock (`LeaseLapsed`)."""
        self.go_on()
        if self._clock.boot() >= by:
            raise LeaseLapsed(
                f"the lease's time was over before {self.shown} could be committed",
                hint="the next trigger goes on; a longer lease.ttl leaves more time",
            )
        with self._translated():
            self._running().execute("COMMIT")

    def again(self, act: Callable[[], _T], until: float) -> _T:
        """Do something in a transaction, and do it again, but not after `until` of the boot
        clock, where its connection was lost or the server undid it for another's sake. It must
        be harmless when it is repeated."""
        undone, lost = 0, False
        patience = until
        while True:
            try:
                return act()
            except ReconcileError as error:
                cause = error.__cause__
                if not isinstance(cause, psycopg.Error):
                    raise
                meaning = fault_of(cause, self.address).meaning
                if meaning is Meaning.UNDONE and undone < TRIES:
                    undone += 1
                elif is_lost(cause) and self._known and meaning is not Meaning.SILENT:
                    if not lost:
                        patience = min(until, self._clock.boot() + RECONNECT_WAIT)
                    lost = True
                else:
                    raise
                if self._clock.boot() >= patience:
                    raise
                self._clock.wait(0.05, self._interrupted)
                self.go_on()

    @property
    def shown(self) -> str:
        """The database in messages."""
        return self.address.shown

    def go_on(self) -> None:
        """Raises `LeaseLapsed` once it was interrupted."""
        if self._interrupted.is_set():
            raise LeaseLapsed(
                f"work on {self.shown} was broken off: the lease may no longer be trusted",
                hint="the next trigger goes on where this one stopped",
            )

    @property
    def user(self) -> str:
        """The role that we are."""
        return self._running().info.user

    def interrupt(self) -> None:
        """Break off what runs, from any thread. From now on all calls raise `LeaseLapsed`."""
        self._interrupted.set()

    def close(self) -> None:
        """Roll back and close. Harmless when repeated."""
        link, self._link = self._link, None
        if link is not None:
            link.close()

    # --- parts

    @contextmanager
    def _transaction(
        self,
        mode: str,
        wait: float,
        limit: float | None,
        watch: Callable[[], None] | None,
    ) -> Iterator[None]:
        self._watch = watch
        self._deadline = None if limit is None else self._clock.boot() + limit + _GRACE
        try:
            # A connection may have been lost since it was last used.
            self.again(lambda: self._begin(mode, wait, limit), self._clock.boot() + wait)
            yield
            if mode:
                with self._translated():
                    self._running().execute("COMMIT")
        finally:
            self._deadline, self._watch = None, None
            self._leave()

    def _begin(self, mode: str, wait: float, limit: float | None) -> None:
        link = self._open()
        most = 0 if limit is None else _milliseconds(limit)
        lock = wait if limit is None else min(wait, limit * _LOCK_SHARE)
        text = _BEGIN.format(mode=mode, lift=link.lift, lock=_milliseconds(lock), limit=most)
        if not mode:
            if link.lift:
                text += f";\nSET LOCAL transaction_timeout = {most}"
            text += _TO_WRITE
        with self._translated():
            link.execute(text.encode())

    def _leave(self) -> None:
        """Leave no transaction open, if need be by closing the connection."""
        link = self._link
        if link is None or link.is_idle:
            return
        try:
            if link.is_usable and not self._interrupted.is_set():
                self._deadline = self._clock.boot() + _GRACE
                link.execute("ROLLBACK")
        except psycopg.Error:
            pass  # closing rolls back too
        finally:
            self._deadline = None
            if not link.is_idle:
                self._cancel(link)
                self.close()

    def _cancel(self, link: Link) -> None:
        """So that the server lets go of its locks now, and not when it notices that we left."""
        if link.closed or link.is_usable:
            return
        with suppress(psycopg.Error):  # a server that cannot be reached will notice
            link.cancel_safe(timeout=1.0)

    def _open(self) -> Link:
        self.go_on()
        if self._link is not None and not self._link.closed:
            return self._link
        with self._translated():
            link = connect(self.address, CONNECT_WAIT, self._clock, self._look_up)
        try:
            self._check(link)
        except BaseException:
            link.close()
            raise
        self._link, self._known = link, True
        return link

    def _check(self, link: Link) -> None:
        """The server must be one whose order and checksums we understand."""
        version = link.info.server_version
        if version < _OLDEST:
            raise TargetUnusable(
                f"{self.shown} is PostgreSQL {version // 10000}, and this needs 13 or newer",
                hint="upgrade the server",
            )
        encoding = link.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise TargetUnusable(
                f"{self.shown} keeps text as {encoding}, not as UTF8",
                hint="dump it and load it into a database with ENCODING 'UTF8': order and"
                " checksums need it",
            )

    def _running(self) -> Link:
        self.go_on()
        assert self._link is not None, "a transaction comes first"
        return self._link

    def _look_up(self) -> None:
        """Called while nothing comes from the server."""
        self.go_on()
        if self._deadline is not None and self._clock.boot() >= self._deadline:
            raise NoAnswer
        if self._watch is not None:
            self._watch()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            self._refuse(error)

    def _refuse(self, error: psycopg.Error) -> NoReturn:
        if is_lost(error):
            if isinstance(error, NoAnswer) and self._link is not None:
                self._cancel(self._link)
            self.close()
        raise refusal(error, self.address) from error


_READ_ONLY = "READ ONLY"


def _milliseconds(seconds: float) -> int:
    return min(_MOST, max(_LEAST, ceil(seconds * 1000)))
