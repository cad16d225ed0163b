"""A proxy on loopback that does to a connection what networks do."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from threading import Event, Lock, Thread

PIECE = 1 << 16
TRICKLE = 0.01


class Proxy:
    """Passes requests on as they come, and each answer as it is told to.

    `cut` ends connections, and turns new ones away; `silence` lets them stand, but nothing
    passes either way, and nobody is told of an end. `mend` ends both, and what waited arrives.
    """

    def __init__(self, server: tuple[str, int]) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.answer: Callable[[bytes], float | None] = lambda request: 0.0
        """From a request to the seconds by which its answer is late; None where the answer is
        lost, and the connection with it."""
        self.trickles = False
        """Whether answers come letter by letter, each a hundredth of a second after the last."""
        self.lost = 0
        """So many answers were lost,"""
        self.turned_away = 0
        """and so many calls came while nobody gets through."""
        self._is_cut = False
        self._speaks = Event()
        self._speaks.set()
        self._open: set[socket.socket] = set()
        Thread(target=self._accept, daemon=True).start()

    def lose(self, mark: bytes, times: int = 1) -> None:
        """Lose the answers to the next `times` requests that hold the mark."""
        left, lock = [times], Lock()

        def answer(request: bytes) -> float | None:
            with lock:
                if left[0] == 0 or mark not in request:
                    return 0.0
                left[0] -= 1
                return None

        self.answer = answer

    def delay(self, mark: bytes, seconds: float) -> None:
        """Hand on the answers to requests that hold the mark only after so long."""
        self.answer = lambda request: seconds if mark in request else 0.0

    def cut(self) -> None:
        """Nobody gets through any more, and all are told."""
        self._is_cut = True
        for one in list(self._open):
            _shut(one)

    def silence(self) -> None:
        """From now on nothing arrives."""
        self._speaks.clear()

    def mend(self) -> None:
        """All is as it was."""
        self._is_cut = False
        self._speaks.set()

    def close(self) -> None:
        """End everything."""
        _shut(self._listener)
        self._listener.close()
        self._speaks.set()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._is_cut:
                    self.turned_away += 1
                    client.close()
                else:
                    Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._speaks.wait()
        with (
            closing(client),
            suppress(OSError),
            closing(socket.create_connection(self._server)) as server,
        ):
            self._open |= {client, server}
            Pair(self, client, server).run()
            self._open -= {client, server}


class Pair:
    """One connection through the proxy."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._late: float | None = 0.0

    def run(self) -> None:
        """Pass on both ways until either end is gone."""
        back = Thread(target=self._answers, daemon=True)
        back.start()
        with suppress(OSError):
            while asked := self._client.recv(PIECE):
                self._proxy._speaks.wait()
                if self._late is not None:
                    self._late = self._proxy.answer(asked)
                self._server.sendall(asked)
        self._proxy._speaks.wait()
        _shut(self._server)
        back.join()

    def _answers(self) -> None:
        with suppress(OSError):
            while said := self._server.recv(PIECE):
                self._proxy._speaks.wait()
                if self._late is None:
                    self._proxy.lost += 1
                    break
                time.sleep(self._late)
                for piece in self._pieces(said):
                    self._client.sendall(piece)
        self._proxy._speaks.wait()
        _shut(self._client)

    def _pieces(self, said: bytes) -> Iterator[bytes]:
        while self._proxy.trickles and said:
            yield said[:1]
            said = said[1:]
            time.sleep(TRICKLE)
        yield said


def _shut(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy(host: str, port: int) -> Iterator[Proxy]:
    """A proxy before that server."""
    with closing(Proxy((host, port))) as between:
        yield between
