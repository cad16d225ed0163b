"""What the command line says of a target in PostgreSQL that it cannot work on: exit status, one
message with a hint, and never the password."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.cli import Cli
from support.pgbouncer import PASSWORD, shared_bouncer
from support.postgres_bed import PostgresBed
from support.postgres_server import free_port

SECRET = "S3cr3t/word"
QUOTED = "S3cr3t%2Fword"


@pytest.fixture
def bed() -> Iterator[PostgresBed]:
    made = PostgresBed()
    made.insert(("a1", "sso", "1"), ("a2", "sso", "1"))
    yield made
    made.close()


def configure(cli: Cli, url: str, table: str, more: str = "") -> None:
    (cli.folder / "export.csv").write_text("account_id,entitlement,level\na1,sso,2\na2,sso,1\n")
    cli.configure(
        '[jobs.entitlements]\nschedule = "30 2 * * *"\nstart = 2026-11-30\nsource = "export.csv"\n'
        f'[jobs.entitlements.target]\nurl = "{url}"\ntable = "{table}"\n{more}'
    )


def of(bed: PostgresBed, **parts: str) -> str:
    return bed.server.url(**parts)


BAD: dict[str, tuple[Callable[[PostgresBed], tuple[str, str, str]], int, str, str]] = {
    "no server": (
        lambda bed: (of(bed, port=str(free_port())), f"{bed.schema}.entitlements", ""),
        69,
        "cannot be reached",
        "check that the server runs",
    ),
    "no such user": (
        lambda bed: (of(bed, user="nobody", password=SECRET), f"{bed.schema}.entitlements", ""),
        77,
        "refuses this user or password",
        "pg_hba.conf",
    ),
    "no such database": (
        lambda bed: (of(bed, dbname="nowhere"), f"{bed.schema}.entitlements", ""),
        78,
        "target.url: database",
        "create the database",
    ),
    "an address that libpq does not read": (
        lambda bed: (f"postgresql://u:{QUOTED}@h/db?nonsense=1", "t", ""),
        78,
        "target.url: libpq cannot read this address",
        "percent-encoded",
    ),
    "a password that is not percent-encoded": (
        lambda bed: (f"postgresql://u:{SECRET}@h/db", "t", ""),
        78,
        "cannot be told where the password in this address ends",
        "percent-encoded",
    ),
    "a certificate that is not there": (
        lambda bed: (of(bed, sslmode="verify-full", sslrootcert="/none"), "t", ""),
        78,
        "the connection is not made as asked for",
        "sslrootcert",
    ),
    "no such table": (
        lambda bed: (of(bed), f"{bed.schema}.grants", ""),
        65,
        "has no table",
        "set the target's table",
    ),
    "no right to the table": (
        lambda bed: (
            of(bed, user=bed.role("REFERENCES", "GRANT CREATE ON SCHEMA {schema} TO {role}")),
            f"{bed.schema}.entitlements",
            "",
        ),
        77,
        "permission denied for table entitlements",
        "the rights that the manual lists",
    ),
    "no right to create ours": (
        lambda bed: (
            of(bed, user=bed.role("SELECT, INSERT, UPDATE, DELETE")),
            f"{bed.schema}.entitlements",
            "",
        ),
        77,
        "may not create them",
        "CREATE TABLE IF NOT EXISTS",
    ),
    "a scope that is no condition": (
        lambda bed: (of(bed), f"{bed.schema}.entitlements", 'scope = "level ="'),
        65,
        "scope 'level =' cannot be used",
        "SQL condition",
    ),
    "our schema missing": (
        lambda bed: (of(bed), f"{bed.schema}.entitlements", 'schema = "nowhere"'),
        77,
        "are not in schema nowhere",
        'CREATE SCHEMA IF NOT EXISTS "nowhere"',
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_worked_on_has_its_exit_status_and_one_message(
    cli: Cli, bed: PostgresBed, what: str
) -> None:
    make, code, says, hint = BAD[what]
    configure(cli, *make(bed))
    shown = cli("run", "entitlements")
    assert shown.code == code, f"{shown}"
    told = shown.data + shown.words
    assert says in told
    assert hint in told
    assert "Traceback" not in told
    assert not any(word in told for word in (SECRET, QUOTED, "S3cr3t"))
    assert bed.rows() == [("a1", "sso", "1"), ("a2", "sso", "1")]


def test_without_psycopg_the_line_that_installs_it_is_said(
    cli: Cli, bed: PostgresBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(cli, of(bed), f"{bed.schema}.entitlements")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    shown = cli("run", "entitlements")
    assert shown.code == 78, f"{shown}"
    assert "pip install 'reconcile[postgres]'" in shown.words


def test_the_address_may_be_in_a_file_and_nothing_of_its_secret_is_shown(
    cli: Cli, bed: PostgresBed
) -> None:
    url = of(bed, password=SECRET)
    configure(cli, "x", f"{bed.schema}.entitlements")
    config = cli.folder / "reconcile.toml"
    config.write_text(config.read_text().replace('url = "x"', 'url_file = "address"'))
    (cli.folder / "address").write_text(url + "\n")
    (cli.folder / "address").chmod(0o600)
    done = cli("run", "entitlements")
    assert done.code == 0, f"{done}"
    assert bed.rows() == [("a1", "sso", "2"), ("a2", "sso", "1")]
    for argv in (("status", "entitlements"), ("config",), ("changes", "entitlements"), ("status",)):
        shown = cli(*argv)
        assert shown.code == 0, f"{shown}"
        assert "S3cr3t" not in shown.data + shown.words
    assert "S3cr3t" not in "".join(
        path.read_bytes().decode(errors="replace")
        for path in Path(cli.folder).glob("reconcile.db*")
    )


def test_a_night_goes_through_pgbouncer_in_transaction_mode(cli: Cli, bed: PostgresBed) -> None:
    bouncer = shared_bouncer()
    configure(cli, bouncer.url("x").replace("schema=x&", ""), f"{bed.schema}.entitlements")
    done = cli("run", "entitlements")
    assert done.code == 0, f"{done}"
    assert bed.rows() == [("a1", "sso", "2"), ("a2", "sso", "1")]
    assert PASSWORD not in done.data + done.words
