"""Reading the `source` of a job that is a database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import placeholders, sql_text
from .config import SourceConfig, single_host, sqlite_path
from .errors import ConfigError
from .sql_config import SqlConfig
from .toml_endpoints import database_url, refuse_policy, scheme

if TYPE_CHECKING:
    from pathlib import Path

    from .toml_endpoints import Shared
    from .toml_values import Section

_OF_OTHERS = (
    *("path", "delimiter", "encoding", "fields", "manifest"),
    *("rows", "values", "headers", "rate", "budget", "timeout", "concurrency", "paging", "auth"),
)


def defaults() -> dict[str, str]:
    """What holds where the file says nothing, by key, as the manual's table words it."""
    return {
        "source.query": "none: the table",
        "source.table": "the job's name",
        "source.scope": "all rows",
    }


def read_sql_source(job: Section, shared: Shared, name: str, folder: Path) -> SourceConfig | None:
    """The job's source, in its short or its long form; None where something it cannot do
    without is wrong. A table that is not named is called as the job, `name`."""
    if isinstance(job.raw("source"), str):
        url = _address(job, "source", job.text("source"), folder)
        if url is None:
            return None
        return SourceConfig("sql", url, shared.account, shared.columns, sql=SqlConfig(table=name))
    section = job.section("source")
    refuse_policy(section)
    kind = section.choice("type", ("sql",), ("scim", "ldap"))
    for other in _OF_OTHERS:
        if section.raw(other) is not None:
            section.wrong(other, "is not for databases", "take it out")
    if not section.has("url"):
        section.wrong("", "has no url", 'write for example url = "mysql://USER@HOST/DATABASE"')
    key = "url_file" if "url_file" in section else "url"
    url = _address(section, key, section.secret("url"), folder)
    account, columns = section.text("account"), section.texts("columns")
    null, rename = section.texts("null", empty=True), section.renames("rename")
    sql = _sql(section, name)
    section.finish()
    if url is None or ("type" in section and kind is None):
        return None
    return SourceConfig(
        type="sql",
        path=url,
        account=account or shared.account,
        columns=columns or shared.columns,
        null=null or (),
        rename=rename,
        sql=sql,
    )


def _sql(section: Section, name: str) -> SqlConfig:
    query, table, scope = (section.text(key) for key in ("query", "table", "scope"))
    if query is not None:
        for key, value in (("table", table), ("scope", scope)):
            if value is not None:
                section.wrong(key, "says what the query says", "write either of both")
    for key, text in (("query", query), ("scope", scope)):
        try:
            sql_text.check(text or "")
        except ConfigError as error:
            section.wrong(key, str(error), error.hint)
    return SqlConfig(query, None if query is not None else table or name, scope)


def _address(section: Section, key: str, text: str | None, folder: Path) -> str | None:
    """A database's address, normalised; only an SQLite file's may name the interval."""
    if text is None:
        return None
    try:
        url = database_url(text, folder)
        if scheme(url) == "sqlite":
            placeholders.check(str(sqlite_path(url)))
    except ConfigError as error:
        section.wrong(key, str(error), error.hint)
        return None
    if scheme(url) == "sqlite":
        if single_host(url) is None:
            section.wrong(key, "has options after a ? that are not known", "take them out")
            return None
    elif "://" not in url:
        section.wrong(key, "is no address", "write for example mysql://USER@HOST/DATABASE")
        return None
    return url
