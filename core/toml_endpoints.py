"""Reading the `source` and `target` of a job, in their short and their long forms.

The short form is a text: a path, or for the target an address. `account` and
`columns` may stand at job level, for both sides, and `key` for the target.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from . import placeholders
from .config import SourceConfig, TargetConfig, is_postgres, single_host, sqlite_url
from .errors import ConfigError
from .keys import KeyPolicy
from .toml_source_kinds import is_database, is_web

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .toml_values import Section

SOURCE_TYPES = ("csv", "jsonl", "http", "sql")
TARGET_TYPES = ("sql", "postgres")

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://|$)")
_LIBPQ = re.compile(
    r"\b(host|hostaddr|dbname|user|password|port|sslmode|service)\s*=", re.IGNORECASE
)
_SUFFIXES = {
    "csv": (".csv", ".csv.gz"),
    "jsonl": (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz"),
}
_OF_CSV = ("fields", "delimiter")
_OF_HTTP = (
    "rows",
    "values",
    "headers",
    "rate",
    "budget",
    "timeout",
    "concurrency",
    "paging",
    "auth",
)
_LATER_SOURCE_TYPES = ("json", "scim", "ldap")
_LATER_TARGET_TYPES = ("http", "scim")
_LATER_TARGET_KEYS = ("rate",)
_UNFIT_DELIMITERS = ('"', "\n", "\r", "\0")


class Shared(NamedTuple):
    """What a job says for both its sides."""

    account: str | None
    columns: tuple[str, ...] | None
    key: tuple[str, ...] | None
    key_policy: KeyPolicy = KeyPolicy.EXACT


def read_shared(job: Section) -> Shared:
    """What stands at job level."""
    policy = job.choice("key_policy", tuple(KeyPolicy))
    return Shared(
        account=job.text("account"),
        columns=job.texts("columns"),
        key=job.texts("key"),
        key_policy=KeyPolicy(policy or KeyPolicy.EXACT),
    )


def read_source(job: Section, shared: Shared, name: str, folder: Path) -> SourceConfig | None:
    """The source of the job `name`; None where something it cannot do without is wrong."""
    written = job.raw("source")
    if written is None:
        job.wrong("", "has no source", 'write for example source = "exports/{date}.csv"')
    short = isinstance(written, str)
    if is_database(written):
        from .toml_sql import read_sql_source

        return read_sql_source(job, shared, name, folder)
    if is_web(written):
        from .toml_http import read_http_source

        return read_http_source(job, shared)
    section, key = (job, "source") if short else (job.section("source"), "path")
    path = _template(section, key, folder)
    if short:
        kind = _kind_of_source(section, key, path)
        if path is None or kind is None:
            return None
        return SourceConfig(kind, path, account=shared.account, columns=shared.columns)
    refuse_policy(section)
    _refuse_others(section, _OF_HTTP, "HTTP sources")
    kind = section.choice("type", SOURCE_TYPES, _LATER_SOURCE_TYPES)
    if isinstance(written, dict) and "path" not in section:
        section.wrong("", "has no path", 'write for example path = "exports/{date}.csv"')
    if "type" not in section:
        kind = _kind_of_source(section, key, path)
    if kind is not None and kind != "csv":
        _refuse_others(section, _OF_CSV, "CSV files")
    account, columns = section.text("account"), section.texts("columns")
    null, rename = section.texts("null", empty=True), section.renames("rename")
    delimiter = section.mark("delimiter", 1)
    if delimiter in _UNFIT_DELIMITERS:
        section.wrong("delimiter", f"cannot be {delimiter!r}", 'write "," or ";"')
    encoding, fields = _encoding(section), section.texts("fields")
    if fields == ():
        section.wrong("fields", "is empty", "name the file's columns in their order")
    manifest = _template(section, "manifest", folder)
    section.finish()
    if path is None or kind is None:
        return None
    return SourceConfig(
        type=kind,
        path=path,
        account=account or shared.account,
        columns=columns or shared.columns,
        null=null or (),
        rename=rename,
        delimiter=delimiter or ",",
        encoding=encoding or "utf-8",
        fields=fields,
        manifest=manifest,
    )


def read_target(
    job: Section, shared: Shared, source: SourceConfig | None, name: str, folder: Path
) -> TargetConfig | None:
    """The job's target; None where something it cannot do without is wrong."""
    columns_of_source = source.columns if source else None
    written = job.raw("target")
    if written is None:
        job.wrong("", "has no target", 'write for example target = "app.db"')
    if isinstance(written, str):
        url = _target_url(job, "target", folder)
        if url is None:
            return None
        account, columns, key = shared.account, columns_of_source, shared.key
        _check_columns(job, account, columns, key)
        return TargetConfig(
            type=_type_of_target(url),
            url=url,
            table=name,
            key=key,
            account=account,
            columns=columns,
            key_policy=shared.key_policy,
        )
    section = job.section("target")
    section.later(*_LATER_TARGET_KEYS)
    refuse_policy(section)
    kind = section.choice("type", TARGET_TYPES, _LATER_TARGET_TYPES)
    if isinstance(written, dict) and not section.has("url"):
        section.wrong("", "has no url", 'write for example url = "sqlite:///app.db"')
    url = _target_url(section, "url", folder)
    table, scope = section.text("table"), section.text("scope")
    schema = section.text("schema")
    interval_column = section.text("interval_column")
    if interval_column is not None and url is not None and is_postgres(url):
        section.wrong(
            "interval_column",
            "is for SQLite tables only in this version",
            "take it out: the table then holds the truth of the newest interval",
        )
    _check_kind(section, url, kind, schema)
    account = section.text("account") or shared.account
    columns = section.texts("columns") or shared.columns or columns_of_source
    key = section.texts("key") or shared.key
    section.finish()
    _check_columns(section, account, columns, key)
    if url is None:
        return None
    return TargetConfig(
        type=kind or _type_of_target(url),
        url=url,
        table=table or name,
        key=key,
        account=account,
        columns=columns,
        scope=scope,
        key_policy=shared.key_policy,
        schema=schema,
        interval_column=interval_column,
    )


def _refuse_others(section: Section, names: Sequence[str], whose: str) -> None:
    """Refuse keys that only sources of another kind have."""
    for name in names:
        if section.raw(name) is not None:
            section.wrong(name, f"is for {whose} only", "take it out")


def check_fields(job: Section, source: SourceConfig, target: TargetConfig) -> None:
    """Refuse fields of a CSV file that lack a column which account, columns or key name. Upper
    and lower case are not told apart, because the table does not either."""
    if source.fields is None:
        return
    key = target.key or ()
    account = source.account or target.account or (key[0] if key else None)
    others = target.columns or tuple(name for name in key if name != (target.account or key[0]))
    ours = {source.rename.get(name, name).lower() for name in source.fields}
    for name in (account, *others):
        if name is not None and name.lower() not in ours:
            job.section("source").wrong(
                "fields",
                f"has no column {source.name_in_file(name)}",
                "name all columns of the file, in their order and as rename has them",
            )


def database_url(text: str, folder: Path) -> str:
    """A store's or target's address, normalised: an SQLite path becomes `sqlite_url`.

    Relative paths are those of `folder`. Other schemes are left as they are. `ConfigError`
    for an SQLite address that names no file, and for the `host=… password=…` of PostgreSQL's
    own tools, which would else be the name of a file and shown as one.
    """
    kind, _, rest = text.partition(":")
    if kind.lower() == "sqlite" and rest:
        if not rest.startswith("///"):
            from .masking import mask_address

            raise ConfigError(
                f"{mask_address(text)!r} is no address of an SQLite file",
                hint="write sqlite:///relative, sqlite:////absolute, or a path",
            )
        from urllib.parse import unquote

        path, _, query = rest.removeprefix("///").partition("?")
        return _file_url(unquote(path), query, folder)
    if _SCHEME.match(text):
        return text
    if _LIBPQ.search(text):
        raise ConfigError(
            "this address is a list of NAME=VALUE, which is no address here",
            hint="write postgresql://USER@HOST/NAME; where a file is called so, sqlite:///FILE",
        )
    return _file_url(text, "", folder)


def scheme(url: str) -> str:
    """The scheme of a normalised address."""
    return url.partition(":")[0].lower()


def _file_url(path: str, query: str, folder: Path) -> str:
    if path in ("", ":memory:"):
        raise ConfigError("this address names no file", hint="write sqlite:///relative, or a path")
    return sqlite_url(folder / path, query)


def _type_of_target(url: str) -> str:
    return "postgres" if is_postgres(url) else "sql"


def _check_kind(section: Section, url: str | None, kind: str | None, schema: str | None) -> None:
    """Refuse a type that the address is not of, and a schema that there is not."""
    if url is None:
        return
    if kind == "postgres" and not is_postgres(url):
        section.wrong("type", "is postgres, and url is not", 'write type = "sql", or leave it out')
    if schema not in (None, "main") and not is_postgres(url):
        section.wrong("schema", "is something that an SQLite file has not", "take it out")


def _target_url(section: Section, key: str, folder: Path) -> str | None:
    """The normalised address of a target."""
    text = section.secret(key) if key == "url" else section.text(key)
    if text is None:
        return None
    key = "url_file" if "url_file" in section else key
    try:
        url = database_url(text, folder)
    except ConfigError as error:
        section.wrong(key, str(error), error.hint)
        return None
    if is_postgres(url):
        return url
    if scheme(url) != "sqlite":
        section.wrong(
            key,
            "only SQLite and PostgreSQL targets are supported by this version",
            "name a file, or write postgresql://USER@HOST/DATABASE",
        )
        return None
    if single_host(url) is None:
        section.wrong(
            key,
            "has options after a ? that are not known",
            "take them out; a target takes ?single_host=yes or ?single_host=no only",
        )
        return None
    return url


def _template(section: Section, key: str, folder: Path) -> str | None:
    """A path with placeholders, made absolute."""
    text = section.text(key)
    if text is None:
        return None
    if _SCHEME.match(text):
        section.wrong(key, "only files are supported by this version", "name a file")
        return None
    path = str(folder / text)
    try:
        placeholders.check(path)
    except ConfigError as error:
        section.wrong(key, str(error), error.hint)
        return None
    return path


def _kind_of_source(section: Section, key: str, path: str | None) -> str | None:
    """The type that a path's suffix says."""
    if path is None:
        return None
    for kind, suffixes in _SUFFIXES.items():
        if path.lower().endswith(suffixes):
            return kind
    section.wrong(
        key,
        "does not say by its suffix what it is (.csv, .jsonl, .ndjson, each also with .gz)",
        'write a table with path = "…" and type = "csv" or "jsonl"',
    )
    return None


def _encoding(section: Section) -> str | None:
    """An encoding in which delimiters, quotes and line ends are the bytes of ASCII."""
    name = section.text("encoding")
    if name is None:
        return None
    plain = bytes(range(128))
    try:
        if plain.decode(name) == plain.decode("ascii"):
            return name
    except (LookupError, ValueError):
        pass
    section.wrong(
        "encoding",
        f"is {name!r}, no encoding that such a file can be read in",
        'write "utf-8", "cp1252" or another that keeps ASCII as it is',
    )
    return None


def refuse_policy(section: Section) -> None:
    """Refuse a key policy of one side alone."""
    if section.raw("key_policy") is not None:
        section.wrong("key_policy", "is of both sides", "write it at job level, once")


def _check_columns(
    section: Section,
    account: str | None,
    columns: tuple[str, ...] | None,
    key: tuple[str, ...] | None,
) -> None:
    """Refuse columns, key and account that contradict each other."""
    first = account or (key[0] if key else None)
    if columns is None or first is None:
        return
    if first in columns:
        section.wrong(
            "columns", f"has the account, {first!r}, in it", "name the columns beside it only"
        )
    unknown = next((name for name in key or () if name != first and name not in columns), None)
    if unknown is not None:
        section.wrong(
            "key",
            f"has {unknown!r} in it, which is neither the account nor one of the columns",
            "add it to columns, or take it out of key",
        )
