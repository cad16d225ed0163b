"""The address of a Postgres store: what of it is ours, what libpq's, and what may be shown.

``postgresql://user@host:port/database?schema=reconcile&sslmode=verify-full``. `schema` is
ours and is taken out; everything else, several hosts, TLS and service files included, is
libpq's, as are its variables (PGPASSWORD, PGSSLROOTCERT …) and its password file.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, unquote

from ..core.errors import ConfigError
from ..core.postgres import address

SCHEMA = "reconcile"
_LONGEST_NAME = 63


class Address(NamedTuple):
    """Where a store is. `conninfo` may hold a password; `shown` never does."""

    conninfo: str
    schema: str
    shown: str


def read_address(url: str) -> Address:
    """Take a URL apart. `ConfigError` where it is none; the message never quotes it."""
    before, schema = _without_schema(url)
    conninfo, shown = address.read_address(before, "[store] url")
    if schema != SCHEMA:
        shown += ("&" if "?" in shown else "?") + f"schema={quote(schema)}"
    return Address(conninfo, schema, shown)


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
