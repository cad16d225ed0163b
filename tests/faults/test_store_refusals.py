"""A store on a server that does not let us in, as the command line says it: one message, its own
exit status, no secret; and nothing is made, neither there nor here."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
import redis
from support.cli import CONFIG, Cli
from support.ports import free_port
from support.postgres_server import SECRET, fresh_name, strict_server
from support.valkey import start

from reconcile.cli.environment import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WRONG = "s3cr3t-word"


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A server with a user that may only read."""
    server = start(tmp_path_factory.mktemp("valkey"), tcp=True)
    with closing(redis.Redis(port=server.port)) as admin:
        rules = ("on", f">{WRONG}", "~*", "+@read", "+@connection", "+evalsha", "+eval", "+time")
        admin.execute_command("ACL", "SETUSER", "reader", *rules)
    yield server
    server.terminate()


def everything(valkey: Any) -> tuple[object, ...]:
    """What there is on both servers: databases, schemas, keys."""
    with closing(redis.Redis(port=valkey.port)) as admin:
        keys = admin.info("keyspace")
    databases = "SELECT array_agg(datname ORDER BY 1) FROM pg_database"
    schemas = "SELECT array_agg(nspname ORDER BY 1) FROM pg_namespace WHERE nspname !~ '^pg_'"
    return strict_server().ask(databases), strict_server().ask(schemas), keys


CASES = [
    ("postgresql://scram:{wrong}@127.0.0.1:{pg}/postgres", 77, "password authentication failed"),
    ("postgresql://scram:{right}@127.0.0.1:{pg}/postgress", 78, 'database "postgress"'),
    ("postgresql://scram:{right}@127.0.0.1:{pg}/postgres?schema={new}", 77, "permission denied"),
    ("postgresql://scram:{right}@127.0.0.1:{closed}/postgres", 69, "refused"),
    ("postgresql://scram:{right}@nowhere.invalid/postgres", 69, "nowhere.invalid"),
    ("redis://reader:{wrong}x@127.0.0.1:{valkey}", 77, "refuses this user or password"),
    ("redis://127.0.0.1:{valkey}/99", 78, "no such database"),
    ("redis://reader:{wrong}@127.0.0.1:{valkey}/0", 77, "does not let this user"),
    ("redis://:{wrong}@127.0.0.1:{closed}", 69, "refused"),
    ("rediss://:{wrong}@nowhere.invalid", 69, "nowhere.invalid"),
]


@pytest.mark.parametrize(("address", "code", "text"), CASES)
@pytest.mark.parametrize("command", ["run entitlements", "status", "--json run entitlements"])
def test_a_store_that_does_not_let_us_in_is_one_message_and_makes_nothing(
    valkey: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    address: str,
    code: int,
    text: str,
    command: str,
) -> None:
    clock: Any = SystemClock()
    cli = Cli(tmp_path, monkeypatch, clock=clock)
    url = address.format(
        wrong=WRONG,
        right=quote(SECRET, safe=""),
        pg=strict_server().port,
        valkey=valkey.port,
        closed=free_port(),
        new=fresh_name("new"),
    )
    cli.configure(f'{CONFIG}[store]\nurl = "{url}"\n')
    before = everything(valkey)
    shown = cli(*command.split())
    assert shown.code == code, f"{shown}"
    said = shown.data + shown.words
    assert text in said.replace("\\", "").replace("\n ", ""), said
    assert said.count("reconcile: " if "--json" not in command else '"message"') == 1, said
    assert "Traceback" not in said
    assert not any(secret in said for secret in (WRONG, SECRET, quote(SECRET, safe="")))
    assert everything(valkey) == before
    assert [path.name for path in tmp_path.iterdir()] == ["reconcile.toml"]
