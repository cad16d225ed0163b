"""A web server on the loopback that keeps what it was asked for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class Requests(BaseHTTPRequestHandler):
    """Keeps what it was asked for."""

    server: Any

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append((self.command, self.path, body))
        self.server.hold.wait(5)
        self.send_response(self.server.status)
        self.end_headers()

    do_GET = do_POST = _answer

    def log_message(self, *args: Any) -> None:
        """Nothing."""


@contextmanager
def serving(status: int = 200) -> Iterator[Any]:
    server: Any = HTTPServer(("127.0.0.1", 0), Requests)
    server.asked, server.status, server.hold = [], status, threading.Event()
    server.hold.set()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.hold.set()
        server.shutdown()
        thread.join()
        server.server_close()
