"""What systemd is told of a call: that it has begun, how far it is, that it ends, that it lives.

Only where `NOTIFY_SOCKET` names a socket, as for a service of `Type=notify` (sd_notify(3),
https://www.freedesktop.org/software/systemd/man/sd_notify.html); everybody else pays for one look
at the environment. The protocol is one datagram of `KEY=value` lines: a library would be longer
to explain than this.

The watchdog hears of a call from two sides. The thread that renews the lease tells of it each
time that renewal's rule of progress lets it renew (`core/renewal.py`), so work that hangs is
silent after `progress_deadline`, though it will have ended by itself. The thread that works tells
of each step that it has passed, which covers the time before the first grant and after the
release, where nothing is renewed. A process that is stopped, or hangs as a whole, is silent at
once.

Telling may fail, and never waits: systemd that is busy misses one of five signs of life.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...core.ports import Clock

SOCKET = "NOTIFY_SOCKET"
WATCHDOG = ("WATCHDOG_USEC", "WATCHDOG_PID")
VARIABLES = (SOCKET, *WATCHDOG)
"""What concerns this process alone, and no child of it."""
PATIENCE = 5.0
"""Seconds that the first word may wait for: a service that lost it would never have started."""
PER_TIMEOUT = 4
"""Signs of life in the time that the watchdog waits for one, at most."""
BETWEEN_STATUSES = 1.0
"""Seconds."""


class ServiceManager:
    """systemd, as the process that it started as a service sees it."""

    def __init__(self, environ: Mapping[str, str], clock: Clock) -> None:
        address = environ[SOCKET]
        # An abstract socket's name begins with a NUL, for which the variable has an @.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._clock = clock
        self._between = _between(environ)
        self._sign_at = self._status_at = float("-inf")

    def ready(self) -> None:
        """The call has begun: whatever comes of it, the service was started."""
        self._send("READY=1", patience=PATIENCE)

    def status(self, text: str, *, passing: bool = False) -> None:
        """What `systemctl status` shows; "" leaves it as it is. A `passing` one, as of a bar that
        moves, may be left out."""
        if not text:
            return
        now = self._clock.boot()
        if passing and now - self._status_at < BETWEEN_STATUSES:
            return
        self._status_at = now
        first = text.partition("\n")[0]
        self._send(f"STATUS={first}")

    def stopping(self) -> None:
        """It ends; from now on systemd waits for `TimeoutStopSec=`."""
        self._send("STOPPING=1")

    def alive(self) -> None:
        """It lives, and something moves. Called by two threads, from time to time."""
        if self._between is None:
            return
        now = self._clock.boot()
        if now - self._sign_at >= self._between:
            self._sign_at = now
            self._send("WATCHDOG=1")

    def _send(self, text: str, patience: float = 0.0) -> None:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
            one.settimeout(patience)  # 0: not at all
            one.connect(self._address)
            one.send(text.encode("utf-8", "backslashreplace"))


def _between(environ: Mapping[str, str]) -> float | None:
    """Seconds between signs of life; None where nobody waits for ours."""
    usec, pid = (environ.get(name, "") for name in WATCHDOG)
    if not usec.isdecimal() or int(usec) == 0 or pid not in ("", str(os.getpid())):
        return None
    return int(usec) / 1e6 / PER_TIMEOUT


def without_manager(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child, which must not speak for this process."""
    return {name: value for name, value in environ.items() if name not in VARIABLES}
