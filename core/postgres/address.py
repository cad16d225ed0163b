"""The address of a PostgreSQL database: what libpq takes, and what may be shown of it.

``postgresql://user@host:port/database?sslmode=verify-full``. Everything in it is libpq's,
several hosts, TLS and service files included, as are its variables (PGPASSWORD,
PGSSLROOTCERT …) and its password file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol
from urllib.parse import quote

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ..errors import ConfigError

_NONE: Mapping[str, str] = MappingProxyType({})
_FALLBACKS = {"fallback_application_name": "reconcile", "target_session_attrs": "read-write"}
"""Of several hosts the one that takes writes is meant."""
PATIENT = {"keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3"}
"""For who waits long for answers: a server that is gone is noticed in a minute."""


class Reachable(Protocol):
    """What leads to a database, in libpq's words. May hold a password."""

    @property
    def conninfo(self) -> str: ...


class Address(NamedTuple):
    """Where a database is. `conninfo` may hold a password; `shown` never does."""

    conninfo: str
    shown: str


def read_address(url: str, setting: str, fallbacks: Mapping[str, str] = _NONE) -> Address:
    """Take a URL apart; `fallbacks` are what libpq is told where the URL does not say.

    `ConfigError` where it is none; the message names the setting that holds it, and never
    quotes it.
    """
    login, at, rest = url.partition("://")[2].partition("@")
    if at and ("/" in login or "@" in rest):
        # libpq would take a part of the password for the host or the database, and show it.
        raise _unreadable(setting, "it cannot be told where the password in this address ends")
    try:
        parts = conninfo_to_dict(url)
    except ProgrammingError:
        # libpq's own words quote the part that it could not read, which may be the password.
        raise _unreadable(setting, "libpq cannot read this address") from None
    texts = {name: str(value) for name, value in parts.items() if value is not None}
    if not re.fullmatch(r"\s*[+-]?[0-9]{0,9}\s*", texts.get("connect_timeout", "")):
        raise ConfigError(
            f"{setting}: its connect_timeout is not a whole number",
            hint="write seconds, as in connect_timeout=5, or leave it out",
        )
    encoding = texts.get("client_encoding", "utf8")
    if encoding.lower().replace("-", "") != "utf8":
        raise ConfigError(
            f"{setting}: its client_encoding is another than UTF8",
            hint="leave it out: all text is sent as UTF8, and the server keeps it as it does",
        )
    given = {**_FALLBACKS, **fallbacks, **texts, "client_encoding": "utf8"}
    return Address(make_conninfo("", **given), _shown(texts))


def _unreadable(setting: str, why: str) -> ConfigError:
    return ConfigError(
        f"{setting}: {why}",
        hint="write postgresql://USER@HOST:PORT/DATABASE?sslmode=verify-full; in a "
        "password, / @ ? % and : are percent-encoded (%2F %40 %3F %25 %3A)",
    )


def _shown(parts: dict[str, str]) -> str:
    """The address for people: user, hosts, ports and database, and nothing else."""
    user = f"{quote(parts['user'])}@" if "user" in parts else ""
    hosts = parts.get("host", parts.get("hostaddr", "")).split(",")
    ports = parts.get("port", "").split(",")
    if len(ports) < len(hosts):
        ports = ports * len(hosts)
    folders = [host for host in hosts if host.startswith("/")]
    where = ",".join(
        ("" if host in folders else host) + (f":{port}" if port else "")
        for host, port in zip(hosts, ports, strict=False)
    )
    options = [f"host={folder}" for folder in folders]
    if "service" in parts:
        options.append(f"service={parts['service']}")
    query = "?" + "&".join(options) if options else ""
    return f"postgresql://{user}{where}/{quote(parts.get('dbname', ''))}{query}"
