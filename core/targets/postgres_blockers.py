"""Ending an old holder that keeps the fence row locked.

A holder that was stopped in the middle of a transaction, or whose network is gone, keeps its
locks until the server ends it, which its own limits make sure of; a server that was told to
wait longer, or a session of another program, may keep them for ever. So after `wait` seconds
the sessions that block us are looked up on a connection of their own. Those of our own role
are ended; where one may not be, it is named.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import psycopg

from ..errors import TargetLocked
from ..postgres.link import connect

if TYPE_CHECKING:
    from ..ports import Clock
    from ..postgres.address import Address

EVERY = 0.5
"""Seconds between looks."""
CONNECT_WAIT = 5.0
_WHO = """SELECT pid, coalesce(usename, '?'), coalesce(application_name, ''),
 coalesce(client_addr::text, 'this host'), usename = current_user
 FROM pg_catalog.pg_stat_activity WHERE pid = ANY(pg_catalog.pg_blocking_pids(%s))"""


class BlockerWatch:
    """Called while a session waits for a lock. Raises `TargetLocked`."""

    def __init__(self, address: Address, clock: Clock, wait: float) -> None:
        self._address = address
        self._clock = clock
        self._next = clock.boot() + wait
        self.pid: int | None = None
        """The server's process that waits, once that is known."""

    def __call__(self) -> None:
        """Look, when it is time."""
        if self.pid is None or self._clock.boot() < self._next:
            return
        self._next = self._clock.boot() + EVERY
        with closing(connect(self._address, CONNECT_WAIT, self._clock)) as link:
            for pid, user, program, client, ours in link.execute(_WHO, (self.pid,)).fetchall():
                try:
                    ended = ours and link.execute("SELECT pg_terminate_backend(%s)", (pid,))
                except psycopg.errors.InsufficientPrivilege:
                    ended = None
                if not ended:
                    raise TargetLocked(
                        f"the fence row in {self._address.shown} is locked by session {pid} of"
                        f" role {user} ({program or 'no name'}, from {client}), which may not be"
                        " ended from here",
                        hint=f"end it: SELECT pg_terminate_backend({pid}), as {user} or superuser",
                    )
