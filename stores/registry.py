"""From a store's URL to its connections; a store's module is imported when it is used.

Further stores register a function like `opener` under the entry-point group
``reconcile.stores``, by the name of their URL scheme.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..core.config import single_host, sqlite_path
from ..core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from importlib.metadata import EntryPoint

    from ..core.findings import StoreLook
    from ..core.ports import Clock, Entropy, Host, Store

ENTRY_POINTS = "reconcile.stores"
_LOOK = 5.0
"""Seconds that a look waits for somebody else's lock."""


class Opener(Protocol):
    """What a store registers. Raises `ConfigError` for a URL it cannot read; connects to
    nothing before the function it returns is called, once for each connection."""

    def __call__(
        self,
        url: str,
        *,
        clock: Clock,
        host: Host,
        entropy: Entropy,
        patience: float,
    ) -> Callable[[], Store]: ...


def opener(
    url: str, *, clock: Clock, host: Host, entropy: Entropy, patience: float = 5.0
) -> Callable[[], Store]:
    """A function that opens one more connection to the store at `url` with each call.

    `patience`: seconds that one call may wait for others, or for an answer; shorter than
    half of what a lease's trust window ends before the lease (`Terms.patience`).

    ``sqlite:///absolute/path?single_host=yes`` (see `core.config.sqlite_url`),
    ``postgresql://…`` (see `stores/postgres_address.py`), ``redis://…`` and its kin (see
    `stores/redis_url.py`), or ``memory:``. Raises `ConfigError` where the URL names no store.
    """
    scheme = url.partition(":")[0]
    if scheme in _BUILT_IN:
        return _BUILT_IN[scheme](url, clock=clock, host=host, entropy=entropy, patience=patience)
    others = _registered()
    if scheme in others:
        open_other: Opener = others[scheme].load()
        return open_other(url, clock=clock, host=host, entropy=entropy, patience=patience)
    # Not quoted: where no colon ends a scheme, or a variable gave it, it may hold a secret.
    raise ConfigError(
        "[store] url: what it begins with is not a kind of store",
        hint=_schemes([*_BUILT_IN, *others]),
    )


def look(url: str, *, clock: Clock) -> StoreLook:
    """What `doctor` finds of the store at `url`, which is not made, migrated or written.

    A store of somebody else's cannot be looked at: it is opened, as each run does.
    """
    from ..core.findings import STORE, StoreLook, warn

    scheme = url.partition(":")[0]
    if scheme == "sqlite":
        from .sqlite_look import look as at_sqlite

        path = Path(os.path.realpath(sqlite_path(url)))
        return at_sqlite(path, single_host=bool(single_host(url)), busy_wait=_LOOK, clock=clock)
    if scheme in {"postgres", "postgresql"}:
        from .postgres_look import look as at_postgres

        return at_postgres(url, clock)
    if scheme == "memory":
        text = "memory: keeps nothing beyond one call: every call begins as if it were the first"
        return StoreLook([warn(STORE, text, "name a file in [store] url")], ready=False)
    if scheme in _BUILT_IN:
        from .redis_look import look as at_redis
        from .redis_url import parse

        return at_redis(parse(url), clock)
    return StoreLook([], ready=True)


def is_made(url: str, *, seconds: float, clock: Clock) -> bool:
    """Whether the store at `url` is there, so that opening it makes nothing. A server is waited
    for so long. Of somebody else's store nobody can tell: False."""
    scheme = url.partition(":")[0]
    if scheme == "sqlite":
        try:
            return sqlite_path(url).stat().st_size > 0
        except OSError:
            return False
    if scheme in {"postgres", "postgresql"}:
        from .postgres_look import is_made as at_postgres

        return at_postgres(url, seconds, clock)
    if scheme == "memory" or scheme not in _BUILT_IN:
        return False
    from .redis_look import is_made as at_redis
    from .redis_url import parse

    return at_redis(parse(url), seconds, clock)


def owner(url: str) -> str | None:
    """Whose file the store at `url` is; None where it is none."""
    if not url.startswith("sqlite:"):
        return None
    from .sqlite_look import owner as of_file

    return of_file(sqlite_path(url))


def ddl(url: str) -> str:
    """What an administrator has to run so that a role can work with the store at `url` with least
    rights; "" where a store needs nothing of the kind. Connects to nothing."""
    if url.partition(":")[0] not in {"postgres", "postgresql"}:
        return ""
    from .postgres_schema import script

    return script(url)


def _sqlite(
    url: str, *, clock: Clock, host: Host, entropy: Entropy, patience: float
) -> Callable[[], Store]:
    from .sqlite import SqliteStore

    path = sqlite_path(url)
    if not url.startswith("sqlite:///") or path.name == "":
        raise ConfigError(
            f"[store] url: {_shown(url)} names no file",
            hint="write sqlite:///absolute/path",
        )
    vouched = single_host(url)
    if vouched is None:
        raise ConfigError(
            f"[store] url: {_shown(url)} has options that are not known",
            hint="a SQLite store takes ?single_host=yes or ?single_host=no only",
        )

    def connect() -> Store:
        return SqliteStore(
            path,
            clock=clock,
            boot_id=host.holder().boot_id,
            new_id=entropy.token,
            single_host=vouched,
            busy_wait=patience,
            host=host,
        )

    return connect


def _shown(url: str) -> str:
    """An address that is refused, without its secret."""
    from ..core.masking import mask_address

    return mask_address(url)


def _postgres(
    url: str, *, clock: Clock, host: Host, entropy: Entropy, patience: float
) -> Callable[[], Store]:
    try:
        import psycopg  # noqa: F401
    except ImportError:  # also where psycopg is there, and libpq is not
        from ..core.extras import install

        raise ConfigError(
            "[store] url: a Postgres store needs psycopg, which is not installed",
            hint=install("postgres"),
        ) from None
    from .postgres import opener as open_postgres

    return open_postgres(url, clock=clock, host=host, entropy=entropy, patience=patience)


def _memory(
    url: str, *, clock: Clock, host: Host, entropy: Entropy, patience: float
) -> Callable[[], Store]:
    del host, patience  # one lock, never held for long
    from .memory import MemoryServer

    if url != "memory:":
        raise ConfigError(
            f"[store] url: {_shown(url)} has something behind memory:",
            hint="write memory: alone",
        )
    server = MemoryServer(clock, entropy.token())
    return server.connect


def _redis(
    url: str, *, clock: Clock, host: Host, entropy: Entropy, patience: float
) -> Callable[[], Store]:
    del host
    from .redis_url import parse

    address = parse(url)
    try:
        from .redis import connector
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] != "redis":
            raise
        from ..core.extras import install

        raise ConfigError(
            "[store] url: a Redis or Valkey store needs redis-py, which is not installed",
            hint=install("redis"),
        ) from error
    return connector(address, patience=patience, clock=clock, new_id=entropy.token)


_REDIS = tuple(
    f"{server}{how}"
    for server in ("redis", "rediss", "valkey", "valkeys")
    for how in ("", "+sentinel")
)
_BUILT_IN: dict[str, Opener] = {
    "sqlite": _sqlite,
    "memory": _memory,
    **dict.fromkeys(["postgres", "postgresql"], _postgres),
    **dict.fromkeys([*_REDIS, "unix", "redis+unix", "valkey+unix"], _redis),
}


def _registered() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {found.name: found for found in entry_points(group=ENTRY_POINTS)}


def _schemes(names: Iterable[str]) -> str:
    return "known are " + ", ".join(f"{name}:" for name in sorted(names))
