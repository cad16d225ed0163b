"""`doctor` on stores and targets that are servers: what is missing is named, `--ddl` is enough for
a role with least privileges, and nothing is made."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cli import Cli, Shown
from support.postgres_bed import PostgresBed
from support.postgres_server import fresh_name
from support.target import RealClock
from support.valkey import fresh_url, shared_url, start, url_of

from reconcile.cli import premises

RUN = ("run", "entitlements")


@pytest.fixture(autouse=True)
def empty_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(premises, "ROOT", tmp_path / "host")


@pytest.fixture
def bed() -> Iterator[PostgresBed]:
    made = PostgresBed()
    made.insert(("a1", "sso", "1"), ("a2", "sso", "1"))
    yield made
    made.close()


def configure(cli: Cli, url: str, table: str, store: str) -> None:
    cli.environ = {"PATH": "/nowhere"}
    (cli.folder / "export.csv").write_text("account_id,entitlement,level\na1,sso,2\na2,sso,1\n")
    cli.configure(
        f'[store]\nurl = "{store}"\n'
        '[jobs.entitlements]\nschedule = "30 2 * * *"\nsource = "export.csv"\n'
        f'[jobs.entitlements.target]\nurl = "{url}"\ntable = "{table}"\n'
    )


def told(shown: Shown, level: str = "fail") -> list[tuple[str, str, str]]:
    return [
        (one["subject"], one["text"], one["mend"])
        for one in json.loads(shown.data)["findings"]
        if one["level"] == level
    ]


def test_a_role_with_least_privileges_has_all_that_it_needs_once_the_statements_were_run(
    cli: Cli, bed: PostgresBed
) -> None:
    clock: Any = RealClock()
    cli.clock = clock
    role = bed.role("SELECT")
    schema = fresh_name("store")
    url = bed.server.url(user=role)
    store = bed.server.url(schema, user=role)
    try:
        bed.do(f"REVOKE CREATE ON SCHEMA public FROM {role}")
        configure(cli, url, f"{bed.schema}.entitlements", store)
        before = told(cli("doctor", "--json"))
        texts = [text for _, text, _ in before]
        assert any("has no tables, and role" in text for text in texts), texts
        assert any("lacks INSERT, UPDATE, DELETE on" in text for text in texts), texts
        assert any("reconcile_ tables are not in schema" in text for text in texts), texts
        ours = (mend for _, text, mend in before if "tables" in text)
        assert set(ours) == {"reconcile doctor --ddl"}
        assert bed.server.ask("SELECT count(*) FROM pg_namespace WHERE nspname = %s", schema) == 0

        script = cli("doctor", "--ddl")
        assert script.code == 0
        bed.server.do(script.data)
        between = told(cli("doctor", "--json"))
        assert between == [], between
        assert cli(*RUN, "--now", "-m", "to see").code == 0
        after = cli("doctor", "--json")
        assert (after.code, told(after)) == (0, [])
        assert "fenced: fence row and change log are in the target" in after.data
        bed.server.do(f'REVOKE UPDATE ON "{schema}".lease FROM {role}')
        bed.do(f"REVOKE INSERT ON reconcile_changes FROM {role}")
        lacking = [text for _, text, _ in told(cli("doctor", "--json"))]
        assert f"role {role} lacks UPDATE on lease" in lacking
        assert f"role {role} lacks INSERT on reconcile_changes" in lacking
    finally:
        bed.server.drop(schema)
        bed.do(f"DROP OWNED BY {role}")


def test_the_index_that_is_missing_is_named_and_mends_it(cli: Cli, bed: PostgresBed) -> None:
    bed.do(
        "ALTER TABLE entitlements DROP CONSTRAINT entitlements_pkey,"
        " ADD PRIMARY KEY (entitlement, account_id)"
    )
    configure(cli, bed.server.url(), f"{bed.schema}.entitlements", "reconcile.db")
    path = cli.folder / "reconcile.toml"
    path.write_text(f'{path.read_text()}account = "account_id"\n')
    (found,) = told(cli("doctor", "--json"))
    assert "no index in account order" in found[1]
    bed.do(found[2])
    assert told(cli("doctor", "--json")) == []


def test_a_valkey_store_is_looked_at_and_not_made(cli: Cli, tmp_path: Path) -> None:
    url = fresh_url(shared_url())
    configure(cli, "app.db", "entitlements", url)
    shown = cli("doctor", "--json")
    texts = [text for subject, text, _ in told(shown, "warn") if subject == "store"]
    assert any("has no store yet" in text for text in texts), texts
    assert any("has no store yet" in one[1] for one in told(cli("doctor", "--json"), "warn"))
    (name,) = re.findall(r"Valkey \d+|Redis \d+", shown.data)
    assert name
    cli("status")  # opens it
    shown = cli("doctor", "--json")
    assert not any("has no store yet" in text for _, text, _ in told(shown, "warn"))
    assert any(
        text.endswith("s from the store's (±0.000)") for _, text, _ in told(shown, "ok")
    ) or any("set it by NTP" in mend for *_, mend in told(shown))


@pytest.mark.parametrize(
    ("config", "text", "mend"),
    [
        ({"appendonly": "no", "save": ""}, "keeps nothing on a disk", "appendonly yes would"),
        ({"maxmemory_policy": "allkeys-lru"}, "may evict keys", "maxmemory-policy noeviction"),
    ],
)
def test_what_a_server_may_forget_is_said_with_what_would_mend_it(
    config: dict[str, str], text: str, mend: str, cli: Cli, tmp_path: Path
) -> None:
    folder = tmp_path / "valkey"
    folder.mkdir()
    server = start(folder, **config)
    try:
        configure(cli, "app.db", "entitlements", fresh_url(url_of(server)))
        shown = cli("doctor", "--json")
    finally:
        server.stop()
    found = [*told(shown), *told(shown, "warn")]
    assert [one for one in found if text in one[1] and mend in one[2]], found


@pytest.mark.parametrize("scheme", ["postgresql", "redis"])
def test_a_server_that_says_nothing_is_not_waited_for_without_end(
    scheme: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reconcile.core.targets import postgres_examine
    from reconcile.stores import postgres_look, redis_look

    for module in (postgres_look, redis_look, postgres_examine):
        monkeypatch.setattr(module, "SECONDS", 0.6)
    monkeypatch.setattr(postgres_examine, "_WAIT", 0.3)
    clock: Any = RealClock()
    cli.clock = clock
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        address = f"{scheme}://u:hunter2@127.0.0.1:{deaf.getsockname()[1]}"
        configure(
            cli, "app.db", "entitlements", f"{address}/0" if scheme == "redis" else f"{address}/d"
        )
        begin = time.monotonic()
        shown = cli("doctor", "--json")
        assert time.monotonic() - begin < 6
    assert shown.code == 1
    assert next(subject for subject, *_ in told(shown)) == "store"
    assert "hunter2" not in shown.data + shown.words
