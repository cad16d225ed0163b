"""A psycopg connection that does not wait blindly.

psycopg looks up ten times a second while it waits for the server, while connecting too. Then
`watch` is called; what it raises breaks the wait off, and the connection is of no more use. It
is called too whenever another piece of an answer comes: one that trickles in is never complete
and never silent. The first piece is taken as it is, so that who was stopped while an answer came
still reads it.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

from ..background import Background

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from typing import Self

    from ..ports import Clock
    from .address import Reachable

_T = TypeVar("_T")
_WITH_TRANSACTION_TIMEOUT = 170000
_LEAST = 2
"""Seconds; psycopg knows no fewer."""


class Link(psycopg.Connection[Any]):
    """See the module."""

    watch: Callable[[], None] = staticmethod(lambda: None)

    @classmethod
    def _connect_gen(cls, conninfo: str = "") -> Generator[Any, Any, Self]:
        return _watched(super()._connect_gen(conninfo), cls.attempt())

    @classmethod
    def attempt(cls) -> Callable[[], None]:
        """What is called while it waits for one host."""
        return cls.watch

    def wait(self, gen: Generator[Any, Any, _T], *args: Any, **kwargs: Any) -> _T:
        """See `psycopg.Connection.wait`. Raises what `watch` raises."""
        return super().wait(_watched(gen, self.watch), *args, **kwargs)

    @property
    def lift(self) -> str:
        """What comes right behind BEGIN, so that the `transaction_timeout` of a role or database
        does not end what we do: its clock runs on whatever other limit is set later. A session's
        own setting would be anybody's behind PgBouncer."""
        has = self.info.server_version >= _WITH_TRANSACTION_TIMEOUT
        return "SET LOCAL transaction_timeout = 0;\n" if has else ""

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is open."""
        return self.pgconn.transaction_status == pq.TransactionStatus.IDLE

    @property
    def is_usable(self) -> bool:
        """Whether something can be asked, a rollback too."""
        return self.pgconn.transaction_status in (
            pq.TransactionStatus.IDLE,
            pq.TransactionStatus.INTRANS,
            pq.TransactionStatus.INERROR,
        )


def connect(
    address: Reachable, seconds: float, clock: Clock, watch: Callable[[], None] = Link.watch
) -> Link:
    """A new connection, made within so many seconds, or within those of the address for each host
    where they are fewer. Of several hosts each has its share: one that is silent leaves time for
    the next. psycopg itself waits for two seconds at least. Transactions are begun by hand;
    nothing is prepared, so that a pooler may give each one to another server connection.
    """
    parts = conninfo_to_dict(address.conninfo)
    hosts = str(parts.get("host") or parts.get("hostaddr") or "").count(",") + 1
    has_names = _has_names(parts)
    share = seconds / hosts
    asked = int(parts.get("connect_timeout") or 0)
    if asked > 0:
        share = min(share, asked)

    class Watched(Link):
        @classmethod
        def attempt(cls) -> Callable[[], None]:
            until = clock.boot() + share
            # While connecting there is no connection yet that could be told.
            others = Link.watch if has_names else watch

            def in_its_share() -> None:
                others()
                if clock.boot() >= until:
                    raise psycopg.errors.ConnectionTimeout("connection timeout expired")

            return in_its_share

    def made() -> Link:
        return Watched.connect(
            address.conninfo,
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=max(_LEAST, ceil(share)),
        )

    link = Background(made, Link.close).result(watch) if has_names else made()
    link.watch = watch
    return link


def _has_names(parts: Mapping[str, Any]) -> bool:
    """Whether a host's name is to be looked up, which takes as long as it takes."""
    hosts = "" if parts.get("hostaddr") else str(parts.get("host") or "")
    return any(
        host and not host.startswith(("/", "@")) and _is_name(host) for host in hosts.split(",")
    )


def _is_name(host: str) -> bool:
    from ipaddress import ip_address

    try:
        ip_address(host)
    except ValueError:
        return True
    return False


def _watched(gen: Generator[Any, Any, _T], watch: Callable[[], None]) -> Generator[Any, Any, _T]:
    """A generator of psycopg's; `watch` is called whenever nothing has come, or one more piece."""
    try:
        wanted = next(gen)
        begun = False
        while True:
            ready = yield wanted
            if begun or not ready:
                watch()
            begun = bool(ready)
            wanted = gen.send(ready)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
