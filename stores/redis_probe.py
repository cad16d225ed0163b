"""What a Redis or Valkey server says of itself when a process first connects.

Refused: a server older than 7, and one that may evict keys without a time to live
(`allkeys-…`): it could throw away a generation, and two holders would have the same one.
The `volatile-…` policies evict keys with a time to live only; no key of a store has one.

Warned of: a server that keeps nothing on a disk, one with replicas that are not waited for,
and one that does not let us look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.errors import ConfigError, StoreUnusable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .redis_connection import RedisConnection

OLDEST = 7
"""The first release whose scripts say beforehand what they will do."""


class Probe(NamedTuple):
    """`durable`: what was answered is on a disk. `warnings` are for people."""

    durable: bool
    warnings: tuple[str, ...]


def probe(connection: RedisConnection) -> Probe:
    """Look at the server. Raises `ConfigError` or `StoreUnusable` where it cannot be used."""
    name = connection.location
    info = _info(connection)
    _refuse_old(name, info)
    config = _config(connection)
    policy = info.get("maxmemory_policy") or config.get("maxmemory-policy")
    if str(policy).startswith("allkeys"):
        raise ConfigError(
            f"the server of the store {name} may evict keys that a store must not lose "
            f"(maxmemory-policy {policy})",
            hint="let it refuse writes instead: redis-cli config set maxmemory-policy "
            "noeviction, and in its configuration file",
        )
    warnings = []
    if policy is None:
        warnings.append(
            f"the store {name} lets this user read neither INFO nor CONFIG, so nobody has "
            "looked whether it may evict keys or keeps them on a disk (let it: ACL SETUSER NAME "
            "+info +config|get)",
        )
    appends = _is_yes(info.get("aof_enabled", config.get("appendonly")))
    saves = config.get("save")
    if not appends and policy is not None:
        if saves is None:
            warnings.append(
                f"the store {name} has no append-only file; whether it saves snapshots "
                "cannot be seen (permit its user CONFIG GET)",
            )
        elif not saves:
            warnings.append(
                f"the store {name} keeps nothing on a disk: a restart forgets every lease "
                "and record (appendonly yes would keep them)",
            )
    replicas = int(info.get("connected_slaves", 0))
    if replicas and not connection.address.wait:
        warnings.append(
            f"the store {name} has replicas that follow with a delay: a failover may forget "
            "the last writes (add ?wait=1 to [store] url)",
        )
    return Probe(appends and config.get("appendfsync") == "always", tuple(warnings))


def _info(connection: RedisConnection) -> Mapping[str, Any]:
    return connection.ask("INFO") or {}


def _config(connection: RedisConnection) -> Mapping[str, str]:
    """Some of the server's settings; empty where nobody may see them."""
    names = ("save", "appendonly", "appendfsync", "maxmemory-policy")
    texts = [bytes(part).decode() for part in connection.ask("CONFIG", "GET", *names) or ()]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def _refuse_old(name: str, info: Mapping[str, Any]) -> None:
    version = str(info.get("redis_version", OLDEST))
    if int(version.partition(".")[0]) < OLDEST:
        raise StoreUnusable(
            f"the server of the store {name} is Redis {version}; {OLDEST}.0 is the oldest that "
            "can be a store",
            hint="upgrade it, or use Valkey",
        )


def _is_yes(value: object) -> bool:
    return value in (1, "1", "yes")
