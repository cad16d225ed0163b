"""Reading the configuration of an HTTP API."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from reconcile.core.config import SourceConfig
from reconcile.core.effective import effective
from reconcile.core.errors import ConfigError
from reconcile.core.http_config import AccountsConfig, AuthConfig, HttpConfig, PagingConfig
from reconcile.core.masking import MASK
from reconcile.core.rates import parse_rate
from reconcile.core.toml import parse
from reconcile.core.toml_http import defaults

FILE = Path("/srv/rec/reconcile.toml")
HEAD = '[jobs.j]\nschedule = "@daily"\ntarget = "app.db"\n'
FULL = """\
[jobs.j.source]
type = "http"
url = "https://h/u/{account}"
account = "acct"
columns = ["entitlement"]
null = ["-"]
rows = "data"
values = { entitlement = "name" }
headers = { X-Tenant = "t" }
rate = "50/s"
budget = 1000
timeout = "5s"
concurrency = 8
missing = "nothing"
[jobs.j.source.accounts]
url = "https://h/u"
rows = "users"
value = "id"
paging = { by = "page", size = 50, size_param = "n", param = "p", first = 0, total = "t" }
[jobs.j.source.auth]
header = "X-Key"
value = "secret-key"
"""
CURSOR = 'by = "cursor"\nnext = "n"\n'


def source(text: str) -> SourceConfig:
    return parse([(FILE, HEAD + text)], {}).jobs["j"].work.source


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as error:
        source(text)
    return f"{error.value}\n{error.value.hint}"


def test_an_address_alone_is_an_api_that_answers_with_all_rows() -> None:
    found = parse([(FILE, f'{HEAD}source = "https://h/{{date}}"\n')], {}).jobs["j"].work
    assert found.source == SourceConfig("http", "https://h/{date}", http=HttpConfig())
    assert (found.dated, found.range_size) == (True, 1000)


def test_every_key_is_read() -> None:
    found = source(FULL)
    assert found == SourceConfig(
        "http",
        "https://h/u/{account}",
        account="acct",
        columns=("entitlement",),
        null=("-",),
        http=HttpConfig(
            rows="data",
            values={"entitlement": "name"},
            auth=AuthConfig("header", "X-Key", "secret-key"),
            headers={"X-Tenant": "t"},
            rate=parse_rate("50/s"),
            budget=1000,
            timeout=timedelta(seconds=5),
            concurrency=8,
            accounts=AccountsConfig(
                "https://h/u",
                "users",
                "id",
                PagingConfig("page", 50, "n", "p", total="t", first=0),
            ),
            missing="nothing",
        ),
    )
    assert parse([(FILE, HEAD + FULL)], {}).jobs["j"].work.dated is False


@pytest.mark.parametrize(
    ("auth", "kind"),
    [
        ('bearer = "t"', AuthConfig("bearer", "", "t")),
        ('user = "u"\npassword = "p"', AuthConfig("basic", "u", "p")),
        (
            'token_url = "https://h/t"\nclient_id = "c"\nclient_secret = "s"\nscope = "r"',
            AuthConfig("oauth", "c", "s", "https://h/t", "r"),
        ),
    ],
)
def test_there_are_four_ways_to_be_let_in(auth: str, kind: AuthConfig) -> None:
    http = source(f'[jobs.j.source]\nurl = "https://h"\n[jobs.j.source.auth]\n{auth}\n').http
    assert http is not None
    assert http.auth == kind


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('source = "http://"', "is no address of the web"),
        ('source = "https://u:p@h/x"', "has a name, a password or a # in it"),
        ('source = "https://h:0/x"', "is no address of the web"),
        ('source = "https://h/{dat}"', "{dat} is no placeholder"),
        ('source = "https://h/{account}"', "nothing says which accounts"),
        ('source = { url = "https://h", path = "e.csv" }', "is for files only"),
        ('source = { type = "http" }', "has no url"),
        ('source = { url = "https://h", rows = "a..b" }', "'a..b' is no path"),
        ('source = { url = "https://h", values = { a = "[" } }', "is no path"),
        ('source = { url = "https://h", rate = "5" }', "not a rate"),
        ('source = { url = "https://h", concurrency = 65 }', "write at most 64"),
        ('source = { url = "https://h", headers = { Host = "x" } }', "no header that can be set"),
        ('source = { url = "https://h", missing = "nothing" }', "that are looked up"),
        ('source = { url = "https://h", paging = { by = "next" } }', "is 'next'"),
        ('source = { url = "https://h", paging = { by = "cursor" } }', "either next or last"),
        (
            'source = { url = "https://h", paging = { by = "cursor", last = "id" } }',
            "does not say where the listing ends",
        ),
        ('source = { url = "https://h", paging = { by = "page" } }', "needs a total"),
        (
            'source = { url = "https://h", paging = { by = "offset", total = "t", size = 1 } }',
            "write a number from 2 on",
        ),
        ('source = { url = "https://h", auth = { user = "u" } }', "one way to be let in"),
        ('source = { url = "https://h", auth = { bearer = "a\\nb" } }', "no header can carry"),
        ('source = { url = "https://h", accounts = { url = "https://h" } }', "has no {account}"),
        ('source = { url = "https://h/{account}", accounts = "listing" }', "is 'listing'"),
        (
            'key_policy = "nfc"\nsource = { url = "https://h/{account}", accounts = "target" }',
            "several spellings are one account",
        ),
        ('source = { url = "https://h", pagin = { by = "page" } }', "did you mean paging?"),
    ],
)
def test_what_cannot_work_is_refused(text: str, says: str) -> None:
    assert says in refusal(text + "\n")


def test_what_holds_is_shown_key_by_key_and_no_secret_with_it() -> None:
    text = HEAD + FULL
    config = parse([(FILE, text)], {})
    job = config.jobs["j"]
    (shown,) = effective(config, [(FILE, text)], job.start or _now()).jobs
    values = {one.key: one.value for one in shown.settings}
    assert {key for key in defaults() if key not in ("source.auth", "source.accounts")} < {*values}
    assert values["source.auth.value"] == values["source.headers"]["X-Tenant"] == MASK  # type: ignore[index,call-overload]
    assert values["source.accounts.paging.size"] == 50
    assert "source.path" not in values
    assert "secret-key" not in str(values)


def _now():  # type: ignore[no-untyped-def]
    from datetime import UTC, datetime

    return datetime(2026, 11, 30, tzinfo=UTC)
