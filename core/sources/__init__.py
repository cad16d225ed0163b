"""Where the truth about entitlements comes from. `open_source` knows the types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..config import SourceConfig
    from ..endpoints import Source
    from ..model import Interval
    from .reading import Format
    from .spool import Spools

TYPES = ("csv", "jsonl")


def open_source(
    config: SourceConfig, spools: Spools, fill: Callable[[str, Interval], str] | None = None
) -> Source:
    """The source a configuration describes; touches no file yet.

    `spools` is where a file that is not in order is sorted. `fill` puts an interval into a
    path (default: `placeholders.fill`). Raises `ConfigError`.
    """
    form: Format
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

    if fill is None:
        from ..placeholders import fill as fill_placeholders

        fill = fill_placeholders
    return FileSource(config, form, spools, fill)
