"""Connections of redis-py whose waits end with the call that they are for.

redis-py bounds each piece of an answer, and begins anew with the next: an answer that comes
letter by letter, or in very many pieces, would be waited for without end. Here a piece is waited
for no longer than the whole call may still take, and so is a host's name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.background import Background

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

_LEAST = 0.001
"""Seconds; none would mean not to wait, which is another error."""


class _InTime:
    """A socket; see the module."""

    def __init__(self, plain: socket.socket, left: Callable[[], float]) -> None:
        self._plain = plain
        self._left = left
        self._usual = plain.gettimeout()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def settimeout(self, seconds: float | None) -> None:
        self._usual = seconds
        self._plain.settimeout(seconds)

    def recv(self, *how: Any) -> bytes:
        self._hurry()
        return self._plain.recv(*how)

    def recv_into(self, *how: Any) -> int:
        self._hurry()
        return self._plain.recv_into(*how)

    def sendall(self, *how: Any) -> None:
        self._hurry()
        self._plain.sendall(*how)

    def _hurry(self) -> None:
        """Raises TimeoutError where no time is left."""
        if self._usual == 0:
            return
        left = self._left()
        if left <= 0:
            raise TimeoutError
        self._plain.settimeout(left if self._usual is None else min(self._usual, left))


def _closed(plain: socket.socket) -> None:
    plain.close()


def hurried(kind: type[Any], left: Callable[[], float]) -> type[Any]:
    """A kind of connections, as one that waits no longer than the seconds that are `left`."""

    def watch() -> None:
        if left() <= 0:
            raise TimeoutError

    class Hurried(kind):  # type: ignore[misc]
        def _connect(self) -> _InTime:
            usual: float = self.socket_connect_timeout  # type: ignore[has-type]
            self.socket_connect_timeout = max(_LEAST, min(usual, left()))
            return _InTime(Background(super()._connect, _closed).result(watch), left)

    return Hurried
