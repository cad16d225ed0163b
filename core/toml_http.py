"""Reading the `source` of a job that is an HTTP API."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from . import placeholders
from .config import SourceConfig
from .errors import ConfigError
from .http_config import ACCOUNT, AccountsConfig, AuthConfig, HttpConfig, PagingConfig
from .json_paths import PathError, parse_rows, parse_value
from .keys import KeyPolicy
from .rates import parse_rate
from .toml_endpoints import refuse_policy

if TYPE_CHECKING:
    from .model import Rate
    from .toml_endpoints import Shared
    from .toml_values import Section

MISSING = ("apart", "nothing")
PAGINGS = ("none", "cursor", "page", "offset", "link")
_PARAMS = {"cursor": "cursor", "page": "page", "offset": "offset"}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_OWN_HEADERS = ("authorization", "host", "content-length", "transfer-encoding", "accept-encoding")
MOST_AT_A_TIME = 64


def defaults() -> dict[str, str]:
    """What holds where the file says nothing, by key, as the manual's table words it."""
    plain, paging = HttpConfig(), PagingConfig()
    return {
        "source.rows": "the answer itself",
        "source.values": "under the columns' own names",
        "source.headers": "none",
        "source.rate": "none",
        "source.budget": "none",
        "source.timeout": f"{plain.timeout.total_seconds():.0f}s",
        "source.concurrency": str(plain.concurrency),
        "source.missing": plain.missing,
        "source.paging.by": paging.by,
        "source.paging.size": "none: as many as the API gives",
        "source.paging.size_param": paging.size_param,
        "source.paging.param": "cursor, page or offset, as by says",
        "source.paging.next": "none",
        "source.paging.last": "none",
        "source.paging.more": "none",
        "source.paging.total": "none",
        "source.paging.first": str(paging.first),
        "source.auth": "none",
        "source.accounts": "none",
    }


def read_http_source(job: Section, shared: Shared) -> SourceConfig | None:
    """The job's source, in its short or its long form; None where something it cannot do
    without is wrong."""
    if isinstance(job.raw("source"), str):
        url = _address(job, "source", job.text("source"))
        if url is None:
            return None
        if ACCOUNT in url:
            _refuse_account(job, "source")
        return SourceConfig("http", url, shared.account, shared.columns, http=HttpConfig())
    section = job.section("source")
    refuse_policy(section)
    kind = section.choice("type", ("http",), ("sql", "scim", "ldap"))
    for name in ("path", "rename", "delimiter", "encoding", "fields", "manifest"):
        if section.raw(name) is not None:
            section.wrong(name, "is for files only", "take it out; source.values names columns")
    if not section.has("url"):
        section.wrong("", "has no url", 'write for example url = "https://HOST/grants"')
    key = "url_file" if "url_file" in section else "url"
    url = _address(section, key, section.secret("url"))
    account, columns = section.text("account"), section.texts("columns")
    null = section.texts("null", empty=True)
    http = _http(section)
    _check_lookups(section, key, url or "", http, shared.key_policy)
    section.finish()
    if url is None or ("type" in section and kind is None):
        return None
    return SourceConfig(
        type="http",
        path=url,
        account=account or shared.account,
        columns=columns or shared.columns,
        null=null or (),
        http=http,
    )


def _check_lookups(
    section: Section, key: str, url: str, http: HttpConfig, policy: KeyPolicy
) -> None:
    """Refuse half of what it takes to look accounts up."""
    if "accounts" not in section:
        if ACCOUNT in url:
            _refuse_account(section, key)
        if "missing" in section:
            section.wrong("missing", "is for accounts that are looked up", "take it out")
        return
    if url and ACCOUNT not in url:
        section.wrong(key, f"has no {ACCOUNT} in it", "write where it stands, or no accounts")
    alike = http.accounts is not None and http.accounts.url is None
    if alike and policy is not KeyPolicy.EXACT:
        text = "cannot be those of the target where several spellings are one account"
        section.wrong("accounts", text, "name a listing, which has the API's own spelling")
    if http.paging.by != "none":
        section.wrong("paging", "is not for look-ups", "take it out; see accounts.paging")


def _refuse_account(section: Section, key: str) -> None:
    text = f"has {ACCOUNT} in it, and nothing says which accounts there are"
    section.wrong(key, text, 'write [source.accounts] with url = "https://HOST/users"')


def _http(section: Section) -> HttpConfig:
    plain = HttpConfig()
    rows = section.text("rows") or plain.rows
    _check_rows(section, rows)
    values = section.section("values")
    paths = {name: values.text(name) for name in values.names()}
    for name, path in paths.items():
        _check_path(values, name, path)
    headers = _headers(section.section("headers"))
    timeout = section.duration("timeout") or plain.timeout
    accounts = _accounts(section)
    missing = section.choice("missing", MISSING) or plain.missing
    concurrency = section.whole("concurrency", 1) or plain.concurrency
    if concurrency > MOST_AT_A_TIME:
        section.wrong("concurrency", f"is {concurrency}", f"write at most {MOST_AT_A_TIME}")
    return HttpConfig(
        rows=rows,
        values={name: path for name, path in paths.items() if path is not None},
        paging=_paging(section.section("paging")),
        auth=_auth(section.section("auth")),
        headers=headers,
        rate=_rate(section),
        budget=section.whole("budget", 1),
        timeout=timeout,
        concurrency=concurrency,
        accounts=accounts,
        missing=missing,
    )


def _accounts(source: Section) -> AccountsConfig | None:
    """Where the accounts come from; None where something it cannot do without is wrong."""
    if source.raw("accounts") is None:
        return None
    if isinstance(source.raw("accounts"), str):
        source.choice("accounts", ("target",))
        return AccountsConfig(None)
    section = source.section("accounts")
    url = _address(section, "url", section.text("url"))
    if "url" not in section:
        section.wrong("", "has no url", 'write for example url = "https://HOST/users"')
    rows, value = section.text("rows") or "", section.text("value") or "id"
    _check_rows(section, rows)
    _check_path(section, "value", value)
    paging = _paging(section.section("paging"))
    section.finish()
    return None if url is None else AccountsConfig(url, rows, value, paging)


def _paging(section: Section) -> PagingConfig:
    plain = PagingConfig()
    by = section.choice("by", PAGINGS) or plain.by
    said = {name: section.text(name) for name in ("next", "last", "more", "total")}
    for name, path in said.items():
        _check_path(section, name, path)
    size_param, param = section.text("size_param"), section.text("param")
    found = PagingConfig(
        by=by,
        size=section.whole("size", 2 if by == "offset" else 1),
        size_param=size_param or plain.size_param,
        param=param or _PARAMS.get(by, ""),
        first=_or(section.whole("first", 0), plain.first),
        **said,
    )
    section.finish()
    if by == "cursor" and (found.next is None) == (found.last is None):
        section.wrong(
            "",
            "by cursor needs either next or last",
            'write for example next = "next_cursor", or last = "id" and more = "has_more"',
        )
    if found.last is not None and found.more is None:
        section.wrong("last", "does not say where the listing ends", 'write more = "has_more"')
    if by in ("page", "offset") and found.total is None:
        section.wrong(
            "",
            f"by {by} needs a total: without it nobody knows whether all items came",
            'write for example total = "total", or total = "header:X-Total-Count"',
        )
    return found


def _auth(section: Section) -> AuthConfig | None:
    bearer = section.secret("bearer")
    user, password = section.text("user"), section.secret("password")
    header, value = section.text("header"), section.secret("value")
    token_url, scope = section.text("token_url"), section.text("scope")
    client_id, client_secret = section.text("client_id"), section.secret("client_secret")
    section.finish()
    kinds = {
        "bearer": ("bearer",),
        "basic": ("user", "password"),
        "header": ("header", "value"),
        "oauth": ("token_url", "client_id", "client_secret"),
    }
    there = [kind for kind, keys in kinds.items() if any(section.has(key) for key in keys)]
    if not there:
        return None
    missing = [key for key in kinds[there[0]] if not section.has(key)]
    if len(there) > 1 or missing:
        ways = "; ".join(" and ".join(keys) for keys in kinds.values())
        section.wrong("", "does not say one way to be let in", f"write one of: {ways}")
        return None
    if token_url is not None:
        _address(section, "token_url", token_url)
    if header is not None and not _TOKEN.fullmatch(header):
        section.wrong("header", f"is {header!r}, no name of a header", 'write "X-Api-Key"')
    found = {
        "bearer": AuthConfig("bearer", "", bearer or ""),
        "basic": AuthConfig("basic", user or "", password or ""),
        "header": AuthConfig("header", header or "", value or ""),
        "oauth": AuthConfig("oauth", client_id or "", client_secret or "", token_url or "", scope),
    }[there[0]]
    if not (found.secret.isprintable() and found.secret.isascii()):
        section.wrong("", "has a secret that no header can carry", "look for a line break in it")
    return found


def _headers(section: Section) -> dict[str, str]:
    found = {}
    for name in section.names():
        value = section.text(name)
        if not _TOKEN.fullmatch(name) or name.lower() in _OWN_HEADERS:
            section.wrong(name, "is no header that can be set here", "see source.auth")
        elif value is not None and not (value.isprintable() and value.isascii()):
            section.wrong(name, "is no text that a header can carry", "write it in ASCII")
        elif value is not None:
            found[name] = value
    return found


def _rate(section: Section) -> Rate | None:
    text = section.text("rate")
    if text is None:
        return None
    try:
        return parse_rate(text)
    except ConfigError as error:
        section.wrong("rate", f"is {text!r}, not a rate", error.hint)
        return None


def _address(section: Section, key: str, text: str | None) -> str | None:
    """An address with placeholders."""
    if text is None:
        return None
    try:
        placeholders.check(text.replace(ACCOUNT, ""))
        parts = urlsplit(text)
        port = parts.port
    except ConfigError as error:
        section.wrong(key, str(error), error.hint)
        return None
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or port == 0:
        section.wrong(key, "is no address of the web", "write https://HOST/PATH")
        return None
    if parts.username is not None or parts.fragment:
        section.wrong(key, "has a name, a password or a # in it", "see source.auth")
        return None
    return text


def _check_rows(section: Section, rows: str) -> None:
    try:
        parse_rows(rows)
    except PathError as error:
        section.wrong("rows", str(error), 'write for example rows = "data"')


def _check_path(section: Section, name: str, path: str | None) -> None:
    if path is None:
        return
    try:
        if not path.startswith("header:"):
            parse_value(path)
    except PathError as error:
        section.wrong(name, str(error), 'write for example "meta.next"')


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
