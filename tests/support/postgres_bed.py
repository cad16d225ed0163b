"""As `target.Bed`, in a schema of its own on a PostgreSQL server."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg

from reconcile.core.config import TargetConfig
from reconcile.core.targets.postgres import PostgresTarget

from .postgres_server import Server, fresh_name, shared_server
from .target import TABLE, RealClock, fence


class PostgresBed:
    """One schema; `other` is somebody else who writes there."""

    odd = ("a\tb", 'é\U0001f600"\\%s', "\n")
    """A row of texts that are hard to carry."""

    def __init__(self, ddl: str = TABLE, server: Server | None = None) -> None:
        self.server = server or shared_server()
        self.schema = fresh_name("bed")
        self.other: psycopg.Connection[Any] = self.server.admin()
        self.do(
            "SET client_min_messages = warning",
            f"CREATE SCHEMA {self.schema}",
            f"SET search_path = {self.schema}",
            ddl,
        )
        self._targets: list[PostgresTarget] = []
        self._roles: list[str] = []

    def do(self, *statements: str) -> None:
        for statement in statements:
            self.other.execute(statement.encode())

    def target(
        self, job: str = "job", clock: Any = None, url: str | None = None, **options: Any
    ) -> PostgresTarget:
        table = options.pop("table", "entitlements")
        config = TargetConfig(
            "postgres", url or self.server.url(), f"{self.schema}.{table}", **options
        )
        made = PostgresTarget(config, job, clock or RealClock())
        self._targets.append(made)
        return made

    def fenced(self, generation: int = 1, **options: Any) -> PostgresTarget:
        made = self.target(**options)
        made.raise_fence(fence(generation), "store", timedelta(0))
        return made

    @property
    def clock(self) -> RealClock:
        return RealClock()

    def role(self, rights: str, *more: str) -> str:
        """A role that may log in and do so much with the table; dropped with the bed."""
        name = fresh_name("role")
        self._roles.append(name)
        self.do(
            f"CREATE ROLE {name} LOGIN",
            f"GRANT USAGE ON SCHEMA {self.schema} TO {name}",
            f"GRANT {rights} ON entitlements TO {name}",
            *(statement.format(role=name, schema=self.schema) for statement in more),
        )
        return name

    def insert(self, *rows: tuple[Any, ...]) -> None:
        places = ", ".join(["%s"] * len(rows[0]))
        with self.other.cursor() as cursor:
            cursor.executemany(f"INSERT INTO entitlements VALUES ({places})".encode(), rows)

    def rows(self, table: str = "entitlements", order: str = "1, 2") -> list[tuple[Any, ...]]:
        return self.other.execute(f"SELECT * FROM {table} ORDER BY {order}".encode()).fetchall()

    def tables(self) -> set[str]:
        found = self.other.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s", (self.schema,)
        )
        return {name for (name,) in found}

    def log(self) -> list[tuple[Any, ...]]:
        return self.other.execute(
            'SELECT action, account, "key", "before", "after" FROM reconcile_changes ORDER BY id'
        ).fetchall()

    def count(self, table: str) -> int:
        found = self.other.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
        assert found is not None
        return int(found[0])

    def close(self) -> None:
        for target in self._targets:
            target.close()
        # A session that was left running must fail its test, and not keep this one waiting.
        self.do("SET lock_timeout = '20s'", f"DROP SCHEMA {self.schema} CASCADE")
        for role in self._roles:
            self.do(f"DROP OWNED BY {role}", f"DROP ROLE {role}")
        self.other.close()
