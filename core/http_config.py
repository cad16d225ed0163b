"""What `[jobs.NAME.source]` says of an HTTP API, as values.

`core/toml_http.py` reads them; nothing of this is imported where no job has such a source.
JSON paths are kept as they are written, see `core/json_paths.py`.
"""

from __future__ import annotations

from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .model import Rate


ACCOUNT = "{account}"
"""Where the account stands in the address of a look-up."""


class PagingConfig(NamedTuple):
    """`[jobs.NAME.source.paging]`. `by`: `none`, `cursor`, `page`, `offset` or `link`.

    `size` is how many items are asked for, in the parameter `size_param`; `param` is the
    parameter that says which. Where an answer says the next cursor or address (`next`), whether
    there is more (`more`), and how many items there are in all (`total`) are JSON paths, or
    `header:NAME`. `last` is the path in a page's last item that is the next cursor. `first` is
    the number of the first page.
    """

    by: str = "none"
    size: int | None = None
    size_param: str = "limit"
    param: str = ""
    next: str | None = None
    last: str | None = None
    more: str | None = None
    total: str | None = None
    first: int = 1


class AuthConfig(NamedTuple):
    """`[jobs.NAME.source.auth]`. `kind`: `bearer`, `basic`, `header` or `oauth`. `name` is the
    user, the header, or the client's id; `secret` the token, password, value or client's
    secret."""

    kind: str
    name: str
    secret: str
    token_url: str = ""
    scope: str | None = None


class AccountsConfig(NamedTuple):
    """`[jobs.NAME.source.accounts]`: the listing of the accounts that are looked up one by one.
    `value` is the path of the account in a row. `url` None: those that the target has."""

    url: str | None
    rows: str = ""
    value: str = "id"
    paging: PagingConfig = PagingConfig()


class HttpConfig(NamedTuple):
    """An HTTP API as a source. `rows` is the path of the rows in an answer, `values` leads from
    our columns to paths in a row. `rate` bounds the calls of all processes, `budget` those of
    one run, `timeout` how long one may be silent. `concurrency` calls are under way at a time.
    With `accounts` each of them is looked up; of one that is not there (404) `missing` says whether
    it is left `apart` or has `nothing`.
    """

    rows: str = ""
    values: Mapping[str, str] = MappingProxyType({})
    paging: PagingConfig = PagingConfig()
    auth: AuthConfig | None = None
    headers: Mapping[str, str] = MappingProxyType({})
    rate: Rate | None = None
    budget: int | None = None
    timeout: timedelta = timedelta(seconds=30)
    concurrency: int = 1
    accounts: AccountsConfig | None = None
    missing: str = "apart"
