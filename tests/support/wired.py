"""A store's server as two hosts see it: one directly, one through a proxy that does to its
connections what networks do."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg.conninfo import conninfo_to_dict

from .postgres_server import fresh_name, shared_server
from .proxy import Proxy, proxy
from .valkey import fresh_url, start

if TYPE_CHECKING:
    from collections.abc import Iterator


class Wired(NamedTuple):
    """The addresses of one store."""

    direct: str
    near: str
    """Through the proxy."""
    proxy: Proxy


@cache
def valkey() -> Any:
    """A server of this process that a proxy can stand before."""
    folder = Path(tempfile.mkdtemp(prefix="valkey-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    server = start(folder, tcp=True)
    atexit.register(server.stop)
    return server


def postgres_at() -> tuple[str, int]:
    """Host and port of the server."""
    known = conninfo_to_dict(shared_server().base)
    return str(known["host"]), int(known.get("port") or 5432)


def begin(*kinds: str) -> None:
    """Start their servers, which end with the thread that does."""
    if "postgres" in kinds:
        shared_server()
    if "valkey" in kinds:
        valkey()


@contextmanager
def wired(kind: str) -> Iterator[Wired]:
    """A store that is new, gone afterwards."""
    if kind == "postgres":
        schema = fresh_name("wired")
        with proxy(*postgres_at()) as between:
            near = shared_server().url(schema, host="127.0.0.1", port=str(between.port))
            try:
                yield Wired(shared_server().url(schema), near, between)
            finally:
                shared_server().drop(schema)
    else:
        with proxy("127.0.0.1", valkey().port) as between:
            direct = fresh_url(f"redis://127.0.0.1:{valkey().port}/0")
            near = direct.replace(f":{valkey().port}", f":{between.port}")
            yield Wired(direct, near, between)
