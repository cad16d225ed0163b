"""`doctor` on a Redis or Valkey store: looked at without making it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from ..core.errors import ReconcileError
from ..core.findings import STORE, StoreLook, noted, ok, refused, size_text, warn
from .redis_connection import RedisConnection
from .redis_probe import probe
from .redis_rows import store_keys
from .redis_scripts import load

if TYPE_CHECKING:
    from ..core.findings import Finding
    from ..core.ports import Clock
    from .redis_url import RedisAddress

_STORE = "@store"
SECONDS = 9.0
"""So long may one question take, connecting included."""


def look(address: RedisAddress, clock: Clock) -> StoreLook:
    """Look at the server, and whether it has a store."""
    try:
        with closing(RedisConnection(address, SECONDS, clock)) as connection:
            probed = probe(connection)
            made = _is_made(connection)
            found = [ok(STORE, _shown(connection))]
            if not made:
                found += map(noted, probed.warnings)
                found.append(_not_made(connection))
            return StoreLook(found, ready=made)
    except ReconcileError as error:
        return StoreLook([refused(STORE, error)], ready=False)


def is_made(address: RedisAddress, seconds: float, clock: Clock) -> bool:
    """Whether there is a store, asked for so long. False where nobody answers."""
    try:
        with closing(RedisConnection(address, seconds, clock)) as connection:
            return _is_made(connection)
    except ReconcileError:
        return False


def _is_made(connection: RedisConnection) -> bool:
    """Whether there is a store; the script that opens one is given no id to make another of."""
    keys = store_keys(connection.address.prefix)[:1]
    answer = connection.run(load()["open"], _STORE, keys, ("", 0), writes=False)
    return bool(answer[0])


def _not_made(connection: RedisConnection) -> Finding:
    return warn(
        STORE,
        f"{connection.location} has no store yet; the first run makes it",
        "call a job: reconcile run JOB",
    )


def _shown(connection: RedisConnection) -> str:
    info = connection.ask("INFO") or {}
    kind = "Valkey" if info.get("valkey_version") else "Redis"
    version = info.get("valkey_version") or info.get("redis_version")
    parts = [f"redis {connection.location}"]
    if version:
        parts.append(f"{kind} {version}")
    if "used_memory" in info:
        limit = int(info.get("maxmemory", 0))
        of = f" of {size_text(limit)}" if limit else ""
        parts.append(f"{size_text(int(info['used_memory']))}{of} of memory in use")
    return ", ".join(parts)
