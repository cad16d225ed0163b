"""Where the truth about entitlements comes from. `open_source` knows the types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..config import HOUR, MINUTE
from ..errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from ..config import SourceConfig
    from ..endpoints import Source
    from ..model import Interval
    from .reading import Format
    from .spool import Spools

TYPES = ("csv", "jsonl", "http", "sql")


def open_source(
    config: SourceConfig,
    spools: Spools,
    fill: Callable[[str, Interval], str] | None = None,
    *,
    max_age: timedelta = HOUR,
    max_wait: timedelta = MINUTE,
) -> Source:
    """The source a configuration describes; touches no file and no network yet.

    `spools` is where what is not in order is sorted. `fill` puts an interval into a path
    (default: `placeholders.fill`). `max_age` and `max_wait` are for sources on a network: how
    long what they said may be used, and how long one run may wait. Raises `ConfigError`.
    """
    if fill is None:
        from ..placeholders import fill as fill_placeholders

        fill = fill_placeholders
    form: Format
    if config.type == "http":
        from .http.reading import HttpSource

        return HttpSource(config, spools, fill, max_age, max_wait)
    if config.type == "sql":
        from .sql.reading import SqlSource

        return SqlSource(config, spools, fill, max_age)
    if config.type == "csv":
        from .csv import CsvFormat

        form = CsvFormat(config)
    elif config.type == "jsonl":
        from .jsonl import JsonLinesFormat

        form = JsonLinesFormat(config)
    else:
        raise ConfigError(
            f"{config.type!r} is no type of source that this version has",
            hint=f"use one of: {', '.join(TYPES)}",
        )
    from .reading import FileSource

    return FileSource(config, form, spools, fill)
