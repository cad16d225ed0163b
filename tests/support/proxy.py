"""A proxy on loopback that does to a connection what networks do."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress


class Proxy:
    """Passes requests on as they come, and each answer as it is told to."""

    def __init__(self, server: tuple[str, int]) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.answer: Callable[[bytes], float | None] = lambda request: 0.0
        """From the last request on a connection to the seconds by which its answer is late;
        None where the answer is lost, and the connection with it."""
        self.is_cut = False
        """Whether nobody gets through; connections that stand are cut by `cut`."""
        self.lost = 0
        """So many answers were lost,"""
        self.turned_away = 0
        """and so many calls came while nobody gets through."""
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Nobody gets through any more."""
        self.is_cut = True
        for one in list(self._open):
            _shut(one)

    def close(self) -> None:
        _shut(self._listener)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.is_cut:
                    self.turned_away += 1
                    client.close()
                else:
                    threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        last = [b""]
        with closing(client), closing(socket.create_connection(self._server)) as server:
            self._open |= {client, server}
            back = threading.Thread(target=self._answers, args=(server, client, last), daemon=True)
            back.start()
            with suppress(OSError):
                while asked := client.recv(1 << 16):
                    last[0] = asked
                    server.sendall(asked)
            _shut(server)
            back.join()
            self._open -= {client, server}

    def _answers(self, server: socket.socket, client: socket.socket, last: list[bytes]) -> None:
        with suppress(OSError):
            while said := server.recv(1 << 16):
                late = self.answer(last[0])
                if late is None:
                    self.lost += 1
                    break
                time.sleep(late)
                client.sendall(said)
        _shut(client)


def _shut(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy(host: str, port: int) -> Iterator[Proxy]:
    """A proxy before that server."""
    with closing(Proxy((host, port))) as between:
        yield between
