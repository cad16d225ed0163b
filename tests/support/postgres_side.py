"""A PostgreSQL table as the target side of nights and worlds; see `sides.py`."""

from __future__ import annotations

from typing import Any

from reconcile.core.ports import Clock
from reconcile.core.targets.postgres import PostgresTarget

from .postgres_bed import PostgresBed
from .sides import JOB, TABLE, Table


class PostgresTargetSide:
    """A schema with a table."""

    def __init__(self) -> None:
        self._bed = PostgresBed(TABLE)

    def connect(self, clock: Clock) -> PostgresTarget:
        return self._bed.target(JOB, clock)

    def rows(self) -> Table:
        return {(account, name): level for account, name, level in self._bed.rows()}

    def write(self, key: tuple[str, str], level: str | None) -> None:
        statement = "DELETE FROM entitlements WHERE account_id = %s AND entitlement = %s"
        values: tuple[Any, ...] = key
        if level is not None:
            statement = (
                "INSERT INTO entitlements VALUES (%s, %s, %s) ON CONFLICT (account_id, entitlement)"
                " DO UPDATE SET level = excluded.level"
            )
            values = (*key, level)
        self._bed.other.execute(statement.encode(), values)

    def log(self, after: int) -> list[tuple[Any, ...]]:
        if "reconcile_changes" not in self._bed.tables():
            return []
        found = self._bed.other.execute(
            'SELECT interval, rerun, run_id, generation, "key"::jsonb ->> 0, "key"::jsonb ->> 1,'
            " \"before\"::jsonb ->> 'level', \"after\"::jsonb ->> 'level'"
            " FROM reconcile_changes ORDER BY id OFFSET %s",
            (after,),
        ).fetchall()
        return [
            (
                *facts,
                None if before is None else (account, name, before),
                None if now is None else (account, name, now),
            )
            for *facts, account, name, before, now in found
        ]

    def close(self) -> None:
        self._bed.close()
