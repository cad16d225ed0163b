"""A proxy on the loopback interface that does to a connection what networks do."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from threading import Event, Lock, Thread

PIECE = 65536


class Proxy:
    """Listens on `port` and passes everything on to another port, unless told otherwise.

    `lose(mark, times)`: a request that holds `mark` is passed on; once it was answered, which
    nobody learns, the connection ends. `delay(mark, seconds)`: such answers are late. `cut`:
    nothing passes either way, and nobody is told, until `mend`.
    """

    def __init__(self, to: int) -> None:
        self._to = to
        self._lock = Lock()
        self._lose: tuple[bytes, int] = (b"", 0)
        self._delay: tuple[bytes, float] = (b"", 0.0)
        self._whole = Event()
        self._whole.set()
        self._open: list[socket.socket] = []
        self.lost = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        Thread(target=self._accept, daemon=True).start()

    def lose(self, mark: bytes, times: int = 1) -> None:
        """Lose the answers to the next `times` requests that hold the mark."""
        self._lose = (mark, times)

    def delay(self, mark: bytes, seconds: float) -> None:
        """Hand on the answers to such requests only after so long."""
        self._delay = (mark, seconds)

    def cut(self) -> None:
        """From now on nothing arrives."""
        self._whole.clear()

    def mend(self) -> None:
        """What waited arrives."""
        self._whole.set()

    def close(self) -> None:
        """End everything."""
        self._listener.close()
        self.mend()
        for end in self._open:
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        self._whole.wait()
        try:
            far = socket.create_connection(("127.0.0.1", self._to))
        except OSError:
            near.close()
            return
        self._open += [near, far]
        Pair(self, near, far).run()

    def _to_lose(self, request: bytes) -> bool:
        with self._lock:
            mark, times = self._lose
            if times == 0 or mark not in request:
                return False
            self._lose = (mark, times - 1)
            self.lost += 1
            return True

    def _lateness(self, request: bytes) -> float:
        mark, seconds = self._delay
        return seconds if seconds and mark in request else 0.0


class Pair:
    """One connection through the proxy."""

    def __init__(self, proxy: Proxy, near: socket.socket, far: socket.socket) -> None:
        self._proxy, self._near, self._far = proxy, near, far
        self._answer_is_lost = False
        self._late = 0.0

    def run(self) -> None:
        """Pass on both ways until either end is gone."""
        Thread(target=self._pass, args=(self._far, self._near, False), daemon=True).start()
        self._pass(self._near, self._far, True)

    def _pass(self, source: socket.socket, drain: socket.socket, outward: bool) -> None:
        with suppress(OSError):
            while data := source.recv(PIECE):
                self._proxy._whole.wait()
                if outward:
                    self._answer_is_lost = self._answer_is_lost or self._proxy._to_lose(data)
                    self._late = self._proxy._lateness(data)
                elif self._answer_is_lost:
                    break
                else:
                    time.sleep(self._late)
                drain.sendall(data)
        for end in (source, drain):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
