"""Where entitlements are. `open_target` knows the types."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from ..config import is_postgres
from ..errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..config import TargetConfig
    from ..endpoints import Target
    from ..ports import Clock
    from .looks import TargetLook


def open_target(
    config: TargetConfig,
    job: str,
    clock: Clock,
    source_columns: Sequence[str] | None = None,
    *,
    fence_wait: timedelta = timedelta(seconds=30),
) -> Target:
    """The target a configuration describes, for one job; touches no file yet.

    `source_columns` are those the source is configured to have beside the account: what is
    compared where the target's own `columns` do not say. `fence_wait` bounds the wait for a
    lock that keeps us from looking at the fence. Raises `ConfigError`.
    """
    if is_postgres(config.url):
        _need_psycopg()
        from .postgres import PostgresTarget

        wait = fence_wait.total_seconds()
        return PostgresTarget(config, job, clock, source_columns, fence_wait=wait)
    _need_sqlite(config)
    from .sqlite import SqliteTarget

    return SqliteTarget(config, job, clock, source_columns, fence_wait=fence_wait.total_seconds())


def examine_target(
    config: TargetConfig, job: str, clock: Clock, source_columns: Sequence[str] | None
) -> TargetLook:
    """What `doctor` wants to know of a target; nothing is changed. Raises as `open_target`, and
    where the table cannot serve."""
    if is_postgres(config.url):
        _need_psycopg()
        from .postgres_examine import examine as of_postgres

        return of_postgres(config, job, clock, source_columns)
    _need_sqlite(config)
    from .sqlite_examine import examine

    return examine(config, job, clock, source_columns)


def ddl_of(config: TargetConfig, clock: Clock) -> str:
    """The statements that make our tables in a target, for those who may not create tables from a
    job. Raises as `open_target`, and where a server's table cannot be found."""
    if is_postgres(config.url):
        _need_psycopg()
        from .postgres_examine import script

        return script(config, clock)
    _need_sqlite(config)
    from .sqlite_ddl import ddl

    return ddl()


def _need_psycopg() -> None:
    try:
        import psycopg  # noqa: F401
    except ImportError:  # also where psycopg is there, and libpq is not
        from ..extras import install

        raise ConfigError(
            "target.url: a target in PostgreSQL needs psycopg, which is not installed",
            hint=install("postgres"),
        ) from None


def _need_sqlite(config: TargetConfig) -> None:
    if config.type != "sql" or not config.url.startswith("sqlite:"):
        raise ConfigError(
            f"this version has no target of type {config.type!r} at {config.url.partition(':')[0]}",
            hint='write type = "sql" and url = "sqlite:///app.db"',
        )
