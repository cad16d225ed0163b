"""Where the truth about entitlements comes from. `open_source` knows the types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..config import SourceConfig
    from ..endpoints import Source
    from ..model import Interval

TYPES = ("csv",)


def open_source(config: SourceConfig, fill: Callable[[str, Interval], str] | None = None) -> Source:
    """The source a configuration describes; touches no file yet.

    `fill` puts an interval into a path (default: `placeholders.fill`). Raises `ConfigError`.
    """
    if config.type not in TYPES:
        raise ConfigError(
            f"{config.type!r} is no type of source that this version has",
            hint=f"use one of: {', '.join(TYPES)}",
        )
    from .csv import CsvSource

    if fill is None:
        from ..placeholders import fill as fill_placeholders

        fill = fill_placeholders
    return CsvSource(config, fill)
