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

    from .address import Reachable

_T = TypeVar("_T")


class Link(psycopg.Connection[Any]):
    """See the module."""

    watch: Callable[[], None] = staticmethod(lambda: None)

    @classmethod
    def _connect_gen(cls, conninfo: str = "") -> Generator[Any, Any, Self]:
        return _watched(super()._connect_gen(conninfo), cls.watch)

    def wait(self, gen: Generator[Any, Any, _T], *args: Any, **kwargs: Any) -> _T:
        """See `psycopg.Connection.wait`. Raises what `watch` raises."""
        return super().wait(_watched(gen, self.watch), *args, **kwargs)

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


def connect(address: Reachable, seconds: float, watch: Callable[[], None] = Link.watch) -> Link:
    """A new connection, made within so many seconds (psycopg waits for two at least, `watch` may
    end that), or within those of the address where they are fewer. Of several hosts each has its
    share: one that is silent leaves time for the next. Transactions are begun by hand; nothing is
    prepared, so that a pooler may give each one to another server connection.
    """
    parts = conninfo_to_dict(address.conninfo)
    hosts = str(parts.get("host") or parts.get("hostaddr") or "").count(",") + 1
    wait = max(1, ceil(seconds / hosts))
    asked = int(parts.get("connect_timeout") or wait)

    class Watched(Link):
        pass

    def made() -> Link:
        return Watched.connect(
            address.conninfo,
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=min(wait, asked) if asked > 0 else wait,
        )

    if _has_names(parts):
        link = Background(made, Link.close).result(watch)
        link.watch = watch
        return link
    # While connecting there is no connection yet that could be told.
    Watched.watch = staticmethod(watch)
    return made()


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
