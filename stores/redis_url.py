"""Where a Redis or Valkey store is, as its URL says.

::

    redis://[[USER]:PASSWORD@]HOST[:6379][/DATABASE]      valkey:// is the same
    rediss://…                                            over TLS; valkeys:// too
    unix:///PATH/TO/SOCKET?db=DATABASE                    redis+unix:// and valkey+unix:// too
    redis+sentinel://[[USER]:PASSWORD@]HOST[:26379][,HOST[:26379]…]/SERVICE[/DATABASE]
                                                          rediss+, valkey+, valkeys+ too

What may follow behind a ``?``, joined by ``&``:

``wait=N``       each write waits until N replicas have it; where they do not in time, the
                 write counts as unknown and is asked for again
``prefix=TEXT``  what the store's keys begin with, instead of ``reconcile``
``db=N``         the database, for a socket
``ca=FILE``, ``cert=FILE``, ``key=FILE``
                 for TLS: whom to trust instead of the system, and our own certificate
``sentinel_user=``, ``sentinel_password=``
                 for the sentinels themselves, where they ask

User, password and the rest are percent-decoded. No message ever shows them.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from ..core.errors import ConfigError

PREFIX = "reconcile"
PORT = 6379
SENTINEL_PORT = 26379
_TLS = {"redis": False, "valkey": False, "rediss": True, "valkeys": True}
_SOCKETS = ("unix", "redis+unix", "valkey+unix")
_SENTINELS = tuple(f"{name}+sentinel" for name in _TLS)
SCHEMES = (*_TLS, *_SOCKETS, *_SENTINELS)

_ALWAYS = ("wait", "prefix")
_FILES = ("ca", "cert", "key")


class RedisAddress(NamedTuple):
    """A store's address. `nodes` are its server, or the sentinels that know it by `service`;
    empty for a socket."""

    location: str
    """The address for people: without user and password."""
    nodes: tuple[tuple[str, int], ...] = ()
    socket: str = ""
    service: str = ""
    database: int = 0
    user: str | None = None
    password: str | None = None
    sentinel_user: str | None = None
    sentinel_password: str | None = None
    tls: bool = False
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    wait: int = 0
    prefix: str = PREFIX


def parse(url: str) -> RedisAddress:
    """The address that a URL names. Raises `ConfigError`, which never shows a secret."""
    scheme, _, rest = url.partition("://")
    scheme = scheme.lower()
    if scheme not in SCHEMES:
        raise _wrong("this is no address of a Redis or Valkey server", "write redis://HOST/0")
    rest, _, query = rest.partition("?")
    login, _, place = rest.rpartition("@")
    user, colon, password = login.partition(":")
    is_socket, is_sentinel = scheme in _SOCKETS, scheme in _SENTINELS
    tls = not is_socket and _TLS[scheme.removesuffix("+sentinel")]
    options = _options(query, is_socket=is_socket, is_sentinel=is_sentinel, tls=tls)
    address = RedisAddress(
        location="",
        user=unquote(user) or None,
        password=unquote(password) if colon else None,
        sentinel_user=options.get("sentinel_user"),
        sentinel_password=options.get("sentinel_password"),
        tls=tls,
        ca=options.get("ca"),
        cert=options.get("cert"),
        key=options.get("key"),
        wait=_number("wait", options.get("wait", "0")),
        prefix=_prefix(options.get("prefix", PREFIX)),
    )
    if is_socket:
        return _at_socket(scheme, address, place, options.get("db", "0"))
    return _at_hosts(scheme, address, place)


def _at_socket(scheme: str, address: RedisAddress, place: str, database: str) -> RedisAddress:
    path = unquote(place)
    if not path.startswith("/") or path == "/":
        raise _wrong("names no socket", f"write {scheme}:///absolute/path/to/socket")
    number = _number("db", database)
    location = f"{scheme}://{place}" + (f"?db={number}" if number else "")
    return address._replace(location=_shown(location, address), socket=path, database=number)


def _at_hosts(scheme: str, address: RedisAddress, place: str) -> RedisAddress:
    hosts, _, path = place.partition("/")
    is_sentinel = scheme in _SENTINELS
    nodes = tuple(_node(text, SENTINEL_PORT if is_sentinel else PORT) for text in hosts.split(","))
    service = ""
    if is_sentinel:
        service, _, path = path.partition("/")
        if not service:
            raise _wrong("names no service", f"write {scheme}://HOST:26379/SERVICE/DATABASE")
    elif len(nodes) > 1:
        raise _wrong(
            "names several hosts",
            "name one; of a cluster any node will do, it knows the others. Sentinels are "
            "redis+sentinel://HOST,HOST/SERVICE",
        )
    database = _number("the database", path or "0")
    names = ",".join(
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in nodes
    )
    location = f"{scheme}://{names}/{service + '/' if service else ''}{database}"
    return address._replace(
        location=_shown(location, address),
        nodes=nodes,
        service=unquote(service),
        database=database,
    )


def _shown(location: str, address: RedisAddress) -> str:
    if address.prefix == PREFIX:
        return location
    return f"{location}{'&' if '?' in location else '?'}prefix={address.prefix}"


def _node(text: str, usual_port: int) -> tuple[str, int]:
    if text.startswith("["):
        host, end, port = text[1:].partition("]")
        if not end or (port and not port.startswith(":")):
            raise _wrong(
                "has a [ that no ] ends right before the port", "write redis://[::1]:6379/0"
            )
        port = port.removeprefix(":")
    else:
        host, _, port = text.partition(":")
    # A password with a raw / or ? in it ends up here: the text is not to be shown.
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise _wrong(
            "has a port that is no number",
            "percent-encode / ? # @ and % in user and password, as in p%2Fw for p/w",
        )
    return unquote(host) or "localhost", int(port) if port else usual_port


def _options(query: str, *, is_socket: bool, is_sentinel: bool, tls: bool) -> dict[str, str]:
    known = [*_ALWAYS]
    known += ["db"] if is_socket else []
    known += _FILES if tls else []
    known += ["sentinel_user", "sentinel_password"] if is_sentinel else []
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in known:
            # A password with a raw ? in it ends up here: only known names may be shown.
            raise _wrong("has an option that is not known here", f"known are {', '.join(known)}")
        if name in options:
            raise _wrong(f"has {name} twice", "write it once")
        options[name] = value
    return options


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 6):
        raise _wrong(f"has no number for {name}", "write a whole number, as in redis://HOST/0")
    return int(text)


def _prefix(text: str) -> str:
    """Braces would make one hash tag of all keys, or none."""
    if not text or not text.isprintable() or set("{}") & set(text):
        raise _wrong("has a prefix that keys cannot begin with", "write letters and digits")
    return text


def _wrong(text: str, hint: str) -> ConfigError:
    return ConfigError(f"[store] url: the address of the Redis store {text}", hint=hint)
