"""The address of a Postgres store: what of it is ours, what libpq's, and what may be shown.

``postgresql://user@host:port/database?schema=reconcile&sslmode=verify-full``. `schema` is
ours and is taken out; everything else, several hosts, TLS and service files included, is
libpq's, as are its variables (PGPASSWORD, PGSSLROOTCERT …) and its password file.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, unquote

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ..core.errors import ConfigError

SCHEMA = "reconcile"
_LONGEST_NAME = 63
_FALLBACKS = {"fallback_application_name": "reconcile", "target_session_attrs": "read-write"}
"""A store is written to, so of several hosts the one that takes writes is meant."""


class Address(NamedTuple):
    """Where a store is. `conninfo` may hold a password; `shown` never does."""

    conninfo: str
    schema: str
    shown: str


def read_address(url: str) -> Address:
    """Take a URL apart. `ConfigError` where it is none; the message never quotes it."""
    login, at, rest = url.partition("://")[2].partition("@")
    if at and ("/" in login or "@" in rest):
        # libpq would take a part of the password for the host or the database, and show it.
        raise _unreadable("it cannot be told where the password in this address ends")
    before, schema = _without_schema(url)
    try:
        parts = conninfo_to_dict(before)
    except ProgrammingError:
        # libpq's own words quote the part that it could not read, which may be the password.
        raise _unreadable("libpq cannot read this address") from None
    texts = {name: str(value) for name, value in parts.items() if value is not None}
    named = {name: value for name, value in texts.items() if name != "target_session_attrs"}
    given = {**_FALLBACKS, **texts, "client_encoding": "utf8"}
    return Address(make_conninfo("", **given), schema, _shown(named, schema))


def _unreadable(why: str) -> ConfigError:
    return ConfigError(
        f"[store] url: {why}",
        hint="write postgresql://USER@HOST:PORT/DATABASE?sslmode=verify-full; in a "
        "password, / @ ? % and : are percent-encoded (%2F %40 %3F %25 %3A)",
    )


def _without_schema(url: str) -> tuple[str, str]:
    """The address without our own option, and the schema."""
    begin = url.find("://") + 3
    end_of_user = next((n for n in range(begin, len(url)) if url[n] in "@/"), len(url))
    start = end_of_user if url[end_of_user : end_of_user + 1] == "@" else begin
    head, mark, query = url[start:].partition("?")
    options = query.split("&") if mark else []
    ours = [option for option in options if option.partition("=")[0] == "schema"]
    rest = "&".join(option for option in options if option not in ours)
    schemas = {unquote(option.partition("=")[2]) for option in ours} or {SCHEMA}
    schema = schemas.pop()
    too_long = len(schema.encode(errors="replace")) > _LONGEST_NAME
    if schemas or not schema or too_long or "\0" in schema or schema.startswith("pg_"):
        raise ConfigError(
            "[store] url: its schema is not one name that Postgres could give to a schema",
            hint=f"leave it out for the schema {SCHEMA}, or write ?schema=NAME once, of at most "
            f"{_LONGEST_NAME} bytes, not beginning with pg_",
        )
    return url[:start] + head + (f"?{rest}" if rest else ""), schema


def _shown(parts: dict[str, str], schema: str) -> str:
    """The address for people: user, hosts, ports, database and schema, and nothing else."""
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
    if schema != SCHEMA:
        options.append(f"schema={quote(schema)}")
    query = "?" + "&".join(options) if options else ""
    return f"postgresql://{user}{where}/{quote(parts.get('dbname', ''))}{query}"
