"""The first page of a listing, for a person who wants to know whether an API can serve."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...errors import ConfigError, SourceUnusable
from ..rows import Rows
from .answers import AnswerReader, Garbled
from .auth import Auth
from .calls import headers_of, refusal
from .client import Client, Unanswered, shown, unreachable
from .lookups import accounts_alone, accounts_of
from .paging import Inconsistent, Pager, Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...config import SourceConfig
    from ...rows import Schema

SECONDS = 10.0
"""No longer is an API waited for."""


class FirstPage(NamedTuple):
    """What came: from where, how many rows, and whether there are further pages."""

    name: str
    rows: int
    more: bool


def look(config: SourceConfig, fill_in: Callable[[str], str], schema: Schema) -> FirstPage:
    """Ask once; where accounts are looked up, for the listing of those. `fill_in` puts an interval
    into an address. Raises `SourceUnreachable`, `SourceUnusable`, `AccessDenied`, `ConfigError`."""
    http = config.http
    assert http is not None, "that is what makes it an API"
    if http.accounts is not None and http.accounts.url is None:
        raise ConfigError("the accounts to look up are the target's: there is no page to ask for")
    url = fill_in(http.accounts.url if http.accounts and http.accounts.url else config.path)
    if http.accounts is not None:
        name = config.account or schema.account.name
        http, schema = accounts_of(http, http.accounts, name), accounts_alone(schema)
    client = Client(min(SECONDS, http.timeout.total_seconds()), 1)
    try:
        auth = Auth(http.auth, client)
        auth.prepare()
        pager = Pager(http.paging, url)
        asked = pager.address(Place(), http.paging.size)
        try:
            reply = client.get(asked, headers_of(http, auth))
        except Unanswered as error:
            raise unreachable(url, str(error)) from error
        if reply.status != 200:
            raise refusal(url, reply)
        answers = AnswerReader(config, http, schema)
        name = f"http {shown(url)}"
        try:
            page, following = pager.after(Place(), answers.read(reply.body, reply.headers, name))
        except Garbled as garbled:
            raise garbled.error from garbled
        except Inconsistent as error:
            raise SourceUnusable(f"{name}: {error}", hint="see source.paging") from error
        Rows(answers, schema).items(page)
        return FirstPage(name, len(page.rows), following is not None)
    finally:
        client.close()
