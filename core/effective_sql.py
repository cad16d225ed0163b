"""What the source of a job means that is a database, key by key; of secrets only that they are
there. Beside `effective.py`, which needs it for such jobs alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .effective import Setting, spelled
from .masking import mask
from .toml_sql import defaults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .config import SourceConfig
    from .model import Json

_OF_FILES_TOO = {
    "source.account": "the target's account",
    "source.columns": "the target's columns",
    "source.null": "none",
    "source.rename": "none",
}

_OF_TABLES = ("table", "scope")


def settings(source: SourceConfig, written: object, job: Mapping[str, object]) -> Iterator[Setting]:
    """All keys of such a source, as `written` in a job's table says it."""
    table = written if isinstance(written, dict) else {"url": written}
    path = table.get("url_file")
    if path is not None:
        yield Setting("source.url_file", str(path), True)
    else:
        yield Setting("source.url", spelled(source.path), True)
    yield Setting("source.type", "sql", "type" in table, "from the url")
    for key, told in {**_OF_FILES_TOO, **defaults()}.items():
        name = key.rpartition(".")[2]
        if source.sql is not None and source.sql.query is not None and name in _OF_TABLES:
            continue
        given = name in table or (key in ("source.account", "source.columns") and name in job)
        holder = source.sql if key in defaults() else source
        yield Setting(key, _shown(getattr(holder, name)), given, "" if given else told)


def _shown(value: object) -> Json:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {str(theirs): str(ours) for theirs, ours in value.items()} or None
    return list(value) or None if isinstance(value, tuple) else None
