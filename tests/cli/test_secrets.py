"""A secret in an address is shown nowhere, whatever is wrong with it, and never stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cli import Cli, Shown
from support.small import write_source, write_target

from reconcile.cli.options import GlobalOptions
from reconcile.core.masking import MASK, mask, mask_address

SECRET = "hunter2-Zq9x"
JOB = """
[jobs.entitlements]
schedule = "30 2 * * *"
start = 2026-11-30
source = "export.csv"
"""
TARGET = 'target = "app.db"\n'
URLS = [
    f"postgresql://u:{SECRET}@h/db",
    f"postgresql://u:{SECRET}@h:x/db",
    f"postgres://u:a@{SECRET}/b@h/db",
    f"redis://:{SECRET}@h/0",
    f"mysql://u:{SECRET}@h/db",
    f"sqlite://u:{SECRET}@h/db",
    f"sqlite:u:{SECRET}@h",
    f"sqlite:////x.db?password={SECRET}",
    f"sqlite:///x.db?single_host=yes&token={SECRET}",
    f"https://{SECRET}@h/x",
    f"https://h/x?api_key={SECRET}#there",
    f"memory://?auth={SECRET}",
    f"host=h password={SECRET} dbname=x",
    f"service={SECRET}",
]
COMMANDS = [
    ("run", "entitlements"),
    ("run", "entitlements", "--dry-run"),
    ("-v", "run", "entitlements"),
    ("-q", "run", "entitlements"),
    ("run", "nobody"),
    ("resume",),
    ("status",),
    ("status", "entitlements"),
    ("status", "entitlements", "latest"),
    ("changes", "entitlements"),
    ("changes", "entitlements", "--planned"),
    ("rerun", "entitlements", "2026-11-30", "-m", "why"),
    ("skip", "entitlements", "2026-11-30", "-m", "why"),
    ("stop", "entitlements", "-m", "why"),
    ("config",),
    ("config", "entitlements"),
]


def every(cli: Cli, *more: str) -> Iterator[Shown]:
    """What each command shows, in words and as JSON."""
    for argv in COMMANDS:
        yield cli(*argv, *more)
        yield cli("--json", *argv, *more)


def said_nothing(cli: Cli, shown: Shown) -> None:
    assert SECRET not in shown.data + shown.words, f"{shown}"
    assert "Traceback" not in shown.words
    assert shown.code != 70, f"{shown}"


def wrote_nothing(folder: Path, *but: str) -> None:
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in {"reconcile.toml", *but}:
            assert SECRET.encode() not in path.read_bytes(), path


@pytest.fixture
def small(cli: Cli) -> Cli:
    write_source(cli.folder / "export.csv")
    write_target(cli.folder / "app.db")
    return cli


def _configurations() -> Iterator[str]:
    for url in URLS:
        yield f'[store]\nurl = "{url}"\n{JOB}{TARGET}'
        yield f'{JOB}target = "{url}"\n'
        yield f'{JOB}[jobs.entitlements.target]\nurl = "{url}"\n'
        yield f"{JOB.replace('export.csv', url)}{TARGET}"
    yield f'{JOB}{TARGET}password = "{SECRET}"\n'
    yield f'{JOB}{TARGET}heartbeat = "https://h/{SECRET}#"\n'
    for value in (
        f'["mailto://u:{SECRET}@h", 3]',
        f'["{SECRET}"]',
        f'["s://{SECRET}", "s://{SECRET}"]',
    ):
        yield f"[alerts]\nnotify = {value}\n{JOB}{TARGET}"
    yield f'[store]\nurl = "redis://:{SECRET}@h" oops\n{JOB}{TARGET}'
    yield f'[store]\nurl = "redis://:{SECRET}@h\n{JOB}{TARGET}'
    yield f"[store]\nurl = redis://:{SECRET}@h\n{JOB}{TARGET}"
    yield f'[store]\nurl = "sqlite:///x.db"\nurl = "{SECRET}"\n{JOB}{TARGET}'
    yield f'{JOB}{TARGET}timezone = "redis://:{SECRET}@h"\n'
    yield f'{JOB}{TARGET}deadline = "redis://:{SECRET}@h"\n'


@pytest.mark.parametrize("text", list(_configurations()))
def test_a_configuration_that_is_refused_keeps_its_secret(cli: Cli, text: str) -> None:
    cli.configure(text)
    for argv in (("config",), ("--json", "run", "entitlements"), ("status",)):
        shown = cli(*argv)
        said_nothing(cli, shown)
        # Only `run` asks a server, so the others take what may be a server's address.
        assert shown.code in ({69, 78} if "run" in argv else {0, 69, 78}), f"{shown}"
    wrote_nothing(cli.folder)


@pytest.mark.parametrize("url", URLS)
def test_the_environment_and_files_keep_theirs(cli: Cli, url: str) -> None:
    cli.environ = {"ADDRESS": url, "PASSWORD": SECRET}
    (cli.folder / "secret").write_text(url + "\n")
    for said in ('url = "${ADDRESS}"', 'url_file = "secret"', 'url = "redis://:${PASSWORD}@h"'):
        cli.configure(f"[store]\n{said}\n{JOB}{TARGET}")
        said_nothing(cli, cli("config"))
        cli.configure(f"{JOB}[jobs.entitlements.target]\n{said}\n")
        said_nothing(cli, cli("run", "entitlements"))
    wrote_nothing(cli.folder, "secret")


@pytest.mark.parametrize(
    "said",
    [
        f'[store]\nurl = "sqlite:${{PW}}"\n{JOB}{TARGET}',
        f'{JOB}{TARGET}encoding = "${{PW}}"\n',
        JOB.replace('"export.csv"', '{ path = "x.csv", encoding = "${PW}" }') + TARGET,
        JOB.replace('"export.csv"', '{ path = "x.csv", type = "${PW}" }') + TARGET,
        JOB.replace("export.csv", "{${PW}}.csv") + TARGET,
        JOB.replace("30 2 * * *", "${PW}") + TARGET,
        JOB.replace("30 2 * * *", "30 ${PW} * * *") + TARGET,
        f'{JOB}{TARGET}timezone = "${{PW}}"\n',
        f'{JOB}{TARGET}key_policy = "${{PW}}"\n',
        f'{JOB}{TARGET}deadline = "${{PW}}"\n',
        f'{JOB}{TARGET}range_size = "${{PW}}"\n',
        f'{JOB}{TARGET}account = "${{PW}}"\ncolumns = ["${{PW}}"]\n',
        f'{JOB}{TARGET}account = "a"\ncolumns = ["b"]\nkey = ["a", "${{PW}}"]\n',
        f'{JOB}{TARGET}columns = ["${{PW}}", "${{PW}}"]\n',
        f'[store]\nurl_file = "${{PW}}"\n{JOB}{TARGET}',
    ],
)
@pytest.mark.parametrize("secret", [SECRET, f"x.{SECRET}+y", f"{SECRET}'\\"])
def test_what_a_variable_says_is_in_no_refusal(cli: Cli, said: str, secret: str) -> None:
    cli.environ = {"PW": secret}
    cli.configure(said)
    for argv in (("config",), ("--json", "run", "entitlements")):
        shown = cli(*argv)
        said_nothing(cli, shown)
        assert shown.code == 78, f"{shown}"


def test_the_kind_of_a_store_may_be_a_secret_by_mistake(cli: Cli) -> None:
    cli.environ = {"PW": SECRET}
    cli.configure(f'[store]\nurl = "${{PW}}://h/x"\n{JOB}{TARGET}')
    for argv in (("config",), ("--json", "run", "entitlements")):
        shown = cli(*argv)
        said_nothing(cli, shown)
        assert shown.code == 78, f"{shown}"


def test_what_a_variable_says_is_shown_as_it_is_written(cli: Cli) -> None:
    cli.environ = {"PW": SECRET}
    cli.configure(JOB.replace("30 2 * * *", "30 ${PW} * * *") + f'{TARGET}timezone = "${{PW}}"\n')
    shown = cli("config")
    assert "schedule: is '30 ${PW} * * *', which cannot be used" in shown.words
    assert "timezone: is '${PW}', which cannot be used" in shown.words
    assert 'write a name such as "Europe/Berlin"' in shown.words


@pytest.mark.parametrize("url", URLS)
def test_a_store_of_the_command_line_keeps_its_secret(cli: Cli, url: str) -> None:
    cli.configure(JOB + TARGET)
    for shown in (cli("run", "entitlements", "--store", url), cli("--store", url, "status")):
        said_nothing(cli, shown)
        assert shown.code in {69, 78}, f"{shown}"


def test_no_command_shows_or_stores_one(small: Cli) -> None:
    """A night that works, then every command with a secret wherever one can be said."""
    small.environ = {"ADDRESS": URLS[0]}
    small.configure(JOB + TARGET)
    assert [small("run", "entitlements").code, small("run", "entitlements").code] == [0, 0]
    for shown in every(small, "--store", URLS[0]):
        said_nothing(small, shown)
    small.configure(f'[store]\nurl = "${{ADDRESS}}"\n{JOB}{TARGET}')
    for shown in every(small):
        said_nothing(small, shown)
    for shown in every(small, "-c", f"https://u:{SECRET}@h/reconcile.toml"):
        said_nothing(small, shown)
    wrote_nothing(small.folder)


def test_a_command_to_type_leaves_it_out() -> None:
    options = GlobalOptions(store=URLS[0])
    assert options.program("reconcile") == "reconcile --store 'postgresql://u:***@h/db'"


def test_a_defect_is_reported_without_it(small: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    small.configure(JOB + TARGET)
    small.fails_with("run", RuntimeError(f"connect to redis://:{SECRET}@h"))
    small.configure(JOB + TARGET)
    shown = small("run", "entitlements")
    assert shown.code == 70
    assert SECRET not in shown.words
    wrote_nothing(small.folder)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("postgresql://u:p@h/db", f"postgresql://u:{MASK}@h/db"),
        ("postgresql://u@h/db", "postgresql://u@h/db"),
        ("two: http://a:b@c and redis://:d@e.", f"two: http://a:{MASK}@c and redis://:{MASK}@e."),
        ("https://h:80/a?b=c&Token=d&e=f", f"https://h:80/a?b=c&Token={MASK}&e=f"),
        ("host=h password=p user=u", f"host=h password={MASK} user=u"),
        ("https://h/?key=k", f"https://h/?key={MASK}"),
        ("key = 1, author: x", "key = 1, author: x"),
        ("alice@example.org: 5", "alice@example.org: 5"),
    ],
)
def test_what_is_masked_and_what_is_not(text: str, masked: str) -> None:
    assert mask(text) == masked
    assert mask(masked) == masked


@settings(max_examples=40)
@given(
    password=st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(
        lambda text: text.strip() and "*" not in text
    ),
    user=st.from_regex(r"[a-z]{0,8}", fullmatch=True),
    scheme=st.sampled_from(["postgresql", "redis", "https", "scim", "mailto"]),
)
def test_no_letter_of_a_password_ends_it_early(password: str, user: str, scheme: str) -> None:
    secret = f"<{password}>"
    assert mask_address(f"{scheme}://{user}:{secret}@host/x") == f"{scheme}://{user}:{MASK}@host/x"


def test_json_is_json_with_masked_texts(cli: Cli) -> None:
    cli.configure(f'[store]\nurl = "sqlite://u:{SECRET}@h/db"\n')
    error = json.loads(cli("--json", "config").data)["error"]
    assert error["name"] == "configuration"
