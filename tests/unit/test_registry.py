"""From a store's URL to its connections."""

from __future__ import annotations

import shlex
import subprocess
import sys
from importlib.metadata import EntryPoint
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from reconcile.core.config import TTL_ONE_HOST, sqlite_url
from reconcile.core.errors import ConfigError, StoreUnreachable
from reconcile.core.model import Kind, Put
from reconcile.stores import registry
from reconcile.stores.registry import opener
from reconcile.stores.testing import MovedClock
from reconcile.stores.testing_support import A

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from reconcile.core.ports import Store


def opened_by(url: str) -> Callable[[], Store]:
    host = SimpleNamespace(holder=lambda: A)
    return opener(url, clock=MovedClock(), host=host, entropy=SimpleNamespace(token=lambda: "id"))


def other_store(url: str, **_: object) -> Callable[[], Store]:
    return lambda: url  # type: ignore[return-value]


@pytest.mark.parametrize("query", ["", "single_host=yes", "single_host=no"])
def test_a_sqlite_url_opens_the_file_it_names(tmp_path: Path, query: str) -> None:
    path = tmp_path / "50%#?.db"
    connect = opened_by(sqlite_url(path, query))
    assert not path.exists()
    first, second = connect(), connect()
    first.note([Put(Kind.JOB, "j", "", {"n": 1})])
    assert second.get(Kind.JOB, "j", "") is not None
    facts = second.facts()
    assert (facts.location, facts.id, facts.durable) == (str(path), "id", True)
    assert facts.default_ttl == TTL_ONE_HOST
    first.close()
    second.close()


def test_connections_of_one_opener_in_memory_share_a_server() -> None:
    connect = opened_by("memory:")
    connect().note([Put(Kind.JOB, "j", "", {"n": 1})])
    assert connect().get(Kind.JOB, "j", "") is not None
    assert opened_by("memory:")().get(Kind.JOB, "j", "") is None
    assert connect().facts().durable is False
    assert connect().facts().default_ttl == TTL_ONE_HOST


KNOWN = (
    "memory:, postgres:, postgresql:, redis:, redis+sentinel:, redis+unix:, rediss:, "
    "rediss+sentinel:, sqlite:, unix:, valkey:, valkey+sentinel:, valkey+unix:, valkeys:, "
    "valkeys+sentinel:"
)


@pytest.mark.parametrize(
    ("url", "message", "hint"),
    [
        ("mysql://host/db", "is not a kind of store", f"known are {KNOWN}"),
        ("state.db", "is not a kind of store", f"known are {KNOWN}"),
        ("postgresql://h/db?schema=", "its schema is not one name", "?schema=NAME"),
        ("postgres://h/db?port", "libpq cannot read this address", "postgresql://USER@HOST"),
        ("redis://h/name", "no number for the database", "redis://HOST/0"),
        ("sqlite://", "names no file", "sqlite:///absolute/path"),
        ("sqlite:///", "names no file", "sqlite:///absolute/path"),
        ("sqlite:state.db", "names no file", "sqlite:///absolute/path"),
        ("sqlite:///a.db?mode=ro", "?mode=ro has options", "single_host=yes"),
        ("sqlite:///a.db?single_host=maybe", "?single_host=maybe has options", "single_host=yes"),
        ("memory:shared", "something behind memory:", "write memory: alone"),
    ],
)
def test_a_url_that_names_no_store_is_refused_before_it_is_opened(
    url: str, message: str, hint: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        opened_by(url)
    assert message in str(refused.value)
    assert hint in refused.value.hint


def test_a_password_is_not_shown() -> None:
    for url in (
        "rediss://:hunter2@host/name",
        "mysql://root:hunter2@host/db",
        "postgresql://root:hunter2@host/db?unheard=of",
    ):
        with pytest.raises(ConfigError) as refused:
            opened_by(url)
        assert "hunter2" not in str(refused.value) + refused.value.hint


def test_a_store_of_somebody_else_is_found_by_its_scheme(monkeypatch) -> None:
    module = ModuleType("other_store_module")
    module.other_store = other_store
    monkeypatch.setitem(sys.modules, module.__name__, module)
    point = EntryPoint("etcd", "other_store_module:other_store", registry.ENTRY_POINTS)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point])
    assert opened_by("etcd://host")() == "etcd://host"
    with pytest.raises(ConfigError) as refused:
        opened_by("mysql://host")
    assert refused.value.hint == f"known are etcd:, {KNOWN}"


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_a_postgres_store_connects_when_it_is_opened(scheme: str) -> None:
    connect = opened_by(f"{scheme}://ops@127.0.0.1:1/rec")
    with pytest.raises(StoreUnreachable, match="refused"):
        connect()


@pytest.mark.parametrize(
    ("url", "driver", "message", "extra"),
    [
        ("postgresql://h/db", "psycopg", "a Postgres store needs psycopg", "postgres"),
        ("valkey://h", "redis", "a Redis or Valkey store needs redis-py", "redis"),
    ],
)
def test_a_store_without_its_driver_says_how_to_install_it(
    url: str, driver: str, message: str, extra: str, monkeypatch
) -> None:
    for name in list(sys.modules):
        if name.startswith(("reconcile.stores.redis", "redis.")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(ConfigError, match=message) as refused:
        opened_by(url)
    pip = f"{shlex.quote(sys.executable)} -m pip"
    assert refused.value.hint == f"{pip} install 'reconcile[{extra}]'"


def test_no_store_is_imported_before_it_is_opened() -> None:
    program = (
        "import sys, reconcile.stores.registry\n"
        "drivers = {'sqlite3', 'psycopg', 'redis'}\n"
        "late = drivers | {'reconcile.stores.sqlite', 'reconcile.stores.memory'}\n"
        "print(late & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout == "set()\n"
