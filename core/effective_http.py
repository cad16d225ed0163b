"""What the source of a job means that is an HTTP API, key by key; of secrets only that they are
there. Beside `effective.py`, which needs it for such jobs alone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from .effective import Setting
from .masking import MASK, mask_address
from .model import Rate
from .rates import show_rate
from .toml_http import defaults
from .toml_values import secret_file, show_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .config import SourceConfig
    from .model import Json

_SECRETS = ("bearer", "password", "value", "client_secret")
_AUTH = ("bearer", "user", "password", "header", "value", "token_url", "client_id", "client_secret")
_OF_FILES_TOO = {
    "source.account": "the target's account",
    "source.columns": "the target's columns",
    "source.null": "none",
}


def settings(source: SourceConfig, written: object, job: Mapping[str, object]) -> Iterator[Setting]:
    """All keys of such a source, as `written` in a job's table says it."""
    assert source.http is not None, "that is what makes it one"
    table = written if isinstance(written, dict) else {"url": written}
    path = table.get("url_file")
    if path is not None:
        yield Setting("source.url_file", str(path), True)
    else:
        yield Setting("source.url", mask_address(source.path), True)
    yield Setting("source.type", "http", "type" in table, "from the url")
    for key, told in _OF_FILES_TOO.items():
        name = key.rpartition(".")[2]
        yield _setting(key, getattr(source, name), name in table or name in job, told)
    paging = table.get("paging")
    for key, told in defaults().items():
        _, _, rest = key.partition(".")
        if rest in ("auth", "accounts"):
            continue
        inner, _, name = rest.rpartition(".")
        holder = source.http.paging if inner else source.http
        there = (paging if isinstance(paging, dict) else {}) if inner else table
        yield _setting(key, getattr(holder, name), name in there, told)
    accounts = table.get("accounts")
    if isinstance(accounts, dict):
        yield from _written("source.accounts", accounts)
    elif accounts is not None:
        yield Setting("source.accounts", str(accounts), True)
    auth = table.get("auth")
    if isinstance(auth, dict):
        yield from _auth(auth)


def _written(table: str, values: Mapping[str, Json]) -> Iterator[Setting]:
    """A table as it is written, its inner ones last."""
    for name, value in values.items():
        if not isinstance(value, dict):
            shown = mask_address(value) if isinstance(value, str) else value
            yield Setting(f"{table}.{name}", shown, True)
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _written(f"{table}.{name}", value)


def _auth(auth: Mapping[str, object]) -> Iterator[Setting]:
    for name in (*_AUTH, "scope"):
        path = auth.get(secret_file(name))
        if path is not None:
            yield Setting(f"source.auth.{secret_file(name)}", str(path), True)
        elif name in auth:
            shown = MASK if name in _SECRETS else mask_address(str(auth[name]))
            yield Setting(f"source.auth.{name}", shown, True)


def _setting(key: str, value: object, given: bool, told: str) -> Setting:
    shown: Json = None
    if isinstance(value, timedelta):
        shown = show_duration(value)
    elif isinstance(value, Rate):
        shown = show_rate(value)
    elif key == "source.headers":
        assert isinstance(value, Mapping), "that is how they are read"
        shown = dict.fromkeys(value, MASK) or None
    elif isinstance(value, Mapping):
        shown = {str(k): str(v) for k, v in value.items()} or None
    elif isinstance(value, (int, str)):
        shown = value or None
    elif value:
        shown = list(value)  # type: ignore[call-overload]
    return Setting(key, shown, given, "" if given else told)
