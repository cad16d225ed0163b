"""Our tables in a PostgreSQL database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import AccessDenied, TargetUnusable
from ..postgres.arrays import text_array
from ..postgres.errors import Meaning, fault_of
from .books import Books, Dialect
from .change_log import texts
from .names import quoted
from .postgres_ddl import NAMES, ddl, rights, statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

    from ..model import Fence, LeaseKey
    from ..model import FenceRow as Row
    from ..rows import Change, RangeChanges, Schema
    from .postgres_catalog import Relation
    from .postgres_session import Session

_LOCK = "reconcile"
"""What those who make our tables, or a job's first fence row, wait for each other by."""


class PostgresBooks(Books):
    """See `Books`. Others write at any time, so what is relied on is locked."""

    def __init__(self, session: Session, schema: str, relation: Relation) -> None:
        """`schema` is that of our tables, `relation` the table that the job works on."""
        dialect = Dialect(
            prefix=f"{quoted(schema)}.".replace("%", "%%"), mark="%s", lock=" FOR UPDATE"
        )
        super().__init__(session, session.shown, dialect)
        self._session = session
        self._schema = schema
        self._relation = relation
        self.has_them = False
        """Whether our tables were seen."""

    def has_tables(self) -> bool:
        """Whether all our tables are there; once they are, that is not asked again."""
        if not self.has_them:
            found = self._session.rows(
                "SELECT count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n"
                " ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = ANY(%s)",
                (self._schema, list(NAMES)),
            )
            self.has_them = found[0][0] == len(NAMES)
        return self.has_them

    def create_tables(self) -> None:
        """Create what is missing, in the transaction under way. Raises `AccessDenied` with the
        statements for somebody who may."""
        if self.has_tables():
            return
        self.wait_for_others()
        try:
            for statement in statements(self._schema):
                self._session.execute(statement.replace("%", "%%"))
        except (AccessDenied, TargetUnusable) as error:
            raise self._cannot_create(error) from error

    def wait_for_others(self) -> None:
        """Let nobody else make tables or a first fence row before this transaction ends."""
        self._session.rows(
            "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext(%s),"
            " pg_catalog.hashtext(%s))",
            (_LOCK, self._schema),
        )

    def _cannot_create(self, error: AccessDenied | TargetUnusable) -> AccessDenied | TargetUnusable:
        cause = error.__cause__
        text = str(error)
        if cause is not None:
            psycopg_error: psycopg.Error = cause  # type: ignore[assignment]
            fault = fault_of(psycopg_error, self._session.address)
            text = fault.text
            if fault.meaning not in (Meaning.FORBIDDEN, Meaning.GONE):
                return error
        script = (
            f"CREATE SCHEMA IF NOT EXISTS {quoted(self._schema)};\n{ddl(self._schema)}"
            + rights(self._schema, self._relation.quoted, self._session.user)
        )
        return AccessDenied(
            f"the tables of reconcile are not in schema {self._schema} of {self._session.shown},"
            f" and this role may not create them: {text}",
            # On one line, because that is what it is printed as.
            hint=f"let somebody who may run this: {' '.join(script.split())}",
        )

    def locked(self, key: LeaseKey) -> Row | None:
        """The fence row, locked; None also where our tables are not there."""
        return self.fence_row(key, lock=True) if self.has_tables() else None

    def checked(self, fence: Fence) -> Row:
        """The fence row, locked; `FencedOut` when it is not of this very grant."""
        return self.check(self.locked(fence.key), fence)

    def write_log(
        self,
        schema: Schema,
        fence: Fence,
        part: RangeChanges,
        changes: Sequence[Change],
        now: str,
    ) -> None:
        """Log each change of a range, in order, as one statement."""
        if not changes:
            return
        logged = texts(schema, changes)
        accounts = [change.row[0] for change in changes]
        self._session.execute(
            f"INSERT INTO {self._dialect.prefix}reconcile_changes (job, interval, rerun,"
            ' "range", run_id, generation, time, action, account, "key", "before", "after")'
            " SELECT %s, %s, %s::integer, %s::integer, %s, %s::bigint, %s,"
            " c.action, c.account, c.k, c.b, c.a FROM"
            " unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[])"
            " WITH ORDINALITY AS c(action, account, k, b, a, at) ORDER BY at",
            (
                part.job,
                part.interval,
                part.rerun,
                part.number,
                fence.run,
                fence.generation,
                now,
                text_array(logged.actions),
                text_array(accounts),
                text_array(logged.keys),
                text_array(logged.befores),
                text_array(logged.afters),
            ),
        )
