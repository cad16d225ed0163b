"""What psycopg would make less of than PostgreSQL has: documents keep their text, and instants
that Python has no year for are texts, which no column takes, instead of the end of the reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import DataError
from psycopg.types.datetime import DateLoader, TimestampLoader, TimestamptzLoader
from psycopg.types.string import TextLoader

if TYPE_CHECKING:
    from psycopg.adapt import AdaptersMap

_TEXTS = ("json", "jsonb", "interval", "time", "timetz")


def register(adapters: AdaptersMap) -> None:
    """Have one connection load values so."""
    for name in _TEXTS:
        adapters.register_loader(name, TextLoader)
    adapters.register_loader("date", _Date)
    adapters.register_loader("timestamp", _Timestamp)
    adapters.register_loader("timestamptz", _Instant)


class _Date(DateLoader):
    def load(self, data: Any) -> Any:
        return _loaded(super().load, data)


class _Timestamp(TimestampLoader):
    def load(self, data: Any) -> Any:
        return _loaded(super().load, data)


class _Instant(TimestamptzLoader):
    def load(self, data: Any) -> Any:
        return _loaded(super().load, data)


def _loaded(load: Any, data: Any) -> Any:
    try:
        return load(data)
    except DataError:
        return bytes(data).decode()
