"""What a database target keeps of a job beside the table: fence row, markers, change log.

The tables are the same in every database (`sqlite_ddl.py`, `postgres_ddl.py`), and so are the
rules: a grant commits under the fence row that names it, one marker for each range of a
plan, one job for one set of rows. What differs is how a database takes values and hands them
back, and how the fence row is locked.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..checksum import Checksum
from ..endpoints import Committed
from ..errors import FencedOut, OldOverNew, TargetUnusable
from ..model import FenceRow, Newest, RunId
from ..records import from_text, to_text
from ..rows import Action
from .change_log import as_logged
from .names import text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from ..model import Fence, JsonObject, LeaseKey, PlanId, Proof
    from ..rows import Change, RangeChanges, Schema

PAGE = 1000
OWN_MARKERS = timedelta(days=7)
"""So long are markers of intervals with rows of their own kept; of one that is unfinished for
longer its plan is made again."""


class Sql(Protocol):
    """A connection in a transaction of the caller's."""

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Any]:
        """All rows of a query."""
        ...

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> int:
        """One statement; how many rows it changed."""
        ...


class Dialect(NamedTuple):
    """How one database writes what all of them mean.

    `prefix` stands before the names of our tables, `mark` where a value is bound; `lock` ends a
    query whose row nobody else may lock; `fold` follows a name in a comparison where
    the database takes names in any case; `bound` is what a text is bound as.
    """

    prefix: str = ""
    mark: str = "?"
    lock: str = ""
    fold: str = ""
    bound: Callable[[str], object] = str


class Query(NamedTuple):
    """Which logged changes are asked for; of an account in any of some spellings."""

    job: str
    interval: str | None
    accounts: tuple[str, ...] = ()


class Worked(NamedTuple):
    """The rows that a job works on: table and scope, as the fence row names them."""

    table: str
    scope: str


def is_of(row: FenceRow, fence: Fence) -> bool:
    """Whether the row names this very grant."""
    return (row.generation, row.run) == (fence.generation, fence.run)


class Books:
    """Our tables in one database."""

    def __init__(self, sql: Sql, where: str, dialect: Dialect) -> None:
        """`where` is the database in messages."""
        self._sql = sql
        self._where = where
        self._dialect = dialect

    # --- the fence row

    def fence_row(self, key: LeaseKey, *, lock: bool = False) -> FenceRow | None:
        """The fence row of a lease key; with `lock` nobody else may lock or change it now."""
        rows = self._rows(
            "SELECT store_id, generation, run_id, newest_scheduled_at, newest_interval,"
            " newest_rerun, newest_checksum FROM reconcile_fence WHERE job = ? AND shard = ?"
            + (self._dialect.lock if lock else ""),
            (key.job, key.shard),
        )
        if not rows:
            return None
        store_id, generation, run, scheduled_at, interval, rerun, total = rows[0]
        newest = None
        try:
            if scheduled_at is not None:
                newest = Newest(
                    from_text(text(scheduled_at)),
                    text(interval),
                    rerun,
                    Checksum.parse(text(total)),
                )
            if not isinstance(generation, int) or not isinstance(rerun, int | None):
                raise TypeError("no integer")
            return FenceRow(text(store_id), generation, RunId(text(run)), newest)
        except (AttributeError, TypeError, ValueError) as error:
            raise TargetUnusable(
                f"the row of job {key.job} in reconcile_fence of {self._where} is not as it was"
                " written, so nobody knows who may write there",
                hint="restore it from a copy, or delete that row once no run of the job is alive",
            ) from error

    def check(self, row: FenceRow | None, fence: Fence) -> FenceRow:
        """The row; `FencedOut` when it is not of this very grant."""
        if row is None or not is_of(row, fence):
            stands = f"generation {row.generation}, run {row.run}" if row else "none"
            raise FencedOut(
                f"generation {fence.generation} of {fence.key.job} may not write to"
                f" {self._where}: its fence row names {stands}",
                hint="a newer run has taken over; there is nothing to do",
            )
        return row

    def write_fence(
        self, fence: Fence, row: FenceRow, worked: Worked, now: str, *, is_new: bool
    ) -> None:
        """Set the fence row. `TargetUnusable` where another job is fenced on the same rows."""
        self._refuse_second_job(fence, worked)
        newest = row.newest
        values = (
            row.store_id,
            worked.table,
            worked.scope,
            row.generation,
            row.run,
            to_text(newest.scheduled_at) if newest else None,
            newest.interval if newest else None,
            newest.rerun if newest else None,
            str(newest.checksum) if newest else None,
            now,
            fence.key.job,
            fence.key.shard,
        )
        if is_new:
            self._execute(
                "INSERT INTO reconcile_fence (store_id, target_table, scope, generation, run_id,"
                " newest_scheduled_at, newest_interval, newest_rerun, newest_checksum, time, job,"
                " shard) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            )
        else:
            self._execute(
                "UPDATE reconcile_fence SET store_id = ?, target_table = ?, scope = ?, generation"
                " = ?, run_id = ?, newest_scheduled_at = ?, newest_interval = ?, newest_rerun = ?,"
                " newest_checksum = ?, time = ? WHERE job = ? AND shard = ?",
                values,
            )

    def _refuse_second_job(self, fence: Fence, worked: Worked) -> None:
        ours = worked.scope
        for job, scope in self._rows(
            "SELECT job, scope FROM reconcile_fence WHERE target_table = ?"
            f"{self._dialect.fold} AND job <> ?",
            (worked.table, fence.key.job),
        ):
            if not ours or text(scope) in ("", ours):
                raise TargetUnusable(
                    f"job {fence.key.job} and job {text(job)} both work on table {worked.table} of"
                    f" {self._where}, each would undo the other's changes",
                    hint="give each a scope of its own; if the other job is gone: DELETE FROM"
                    f" {self._dialect.prefix}reconcile_fence WHERE job = '{text(job)}'",
                )

    def refuse_older(self, newest: Newest | None, proof: Proof, now: datetime) -> None:
        """`OldOverNew` where a newer interval was completed, unless that is later than now."""
        ours = (proof.interval.scheduled_at, proof.rerun)
        if newest is None or newest.scheduled_at > now:
            return
        if (newest.scheduled_at, newest.rerun) > ours:
            raise OldOverNew(
                f"{proof.interval.job} {proof.interval.id} is older than {newest.interval},"
                f" which {self._where} has seen completed",
                hint=f"rerun {newest.interval} if the target needs mending",
            )

    def write_own(self, fence: Fence, newest: Newest | None, proof: Proof, now: datetime) -> None:
        """The same where each interval has rows of its own: an older one does not become the
        newest, and markers of others, which may still be worked, stay for `OWN_MARKERS`."""
        key = (fence.key.job, fence.key.shard)
        ours = (proof.interval.scheduled_at, proof.rerun)
        ahead = newest is not None and newest.scheduled_at > now
        if newest is None or ahead or (newest.scheduled_at, newest.rerun) <= ours:
            self._write_newest(fence, proof, to_text(now))
        self._execute(
            "DELETE FROM reconcile_ranges WHERE job = ? AND shard = ? AND ((interval = ? AND"
            " rerun <> ?) OR time < ?)",
            (*key, proof.interval.id, proof.rerun, to_text(now - OWN_MARKERS)),
        )

    def write_newest(self, fence: Fence, proof: Proof, now: str) -> None:
        """Record the newest completed interval, and drop the markers of all others."""
        self._write_newest(fence, proof, now)
        self._execute(
            "DELETE FROM reconcile_ranges WHERE job = ? AND shard = ?"
            " AND NOT (interval = ? AND rerun = ?)",
            (fence.key.job, fence.key.shard, proof.interval.id, proof.rerun),
        )

    def _write_newest(self, fence: Fence, proof: Proof, now: str) -> None:
        self._execute(
            "UPDATE reconcile_fence SET newest_scheduled_at = ?, newest_interval = ?,"
            " newest_rerun = ?, newest_checksum = ?, time = ? WHERE job = ? AND shard = ?",
            (
                to_text(proof.interval.scheduled_at),
                proof.interval.id,
                proof.rerun,
                str(proof.observed),
                now,
                fence.key.job,
                fence.key.shard,
            ),
        )

    # --- markers

    def marker(self, plan: PlanId, number: int) -> Committed | None:
        """What was committed for a range of a plan."""
        rows = self._rows(
            "SELECT checksum, grants, revokes, updates FROM reconcile_ranges"
            ' WHERE "plan" = ? AND "range" = ?',
            (plan, number),
        )
        if not rows:
            return None
        total, *counts = rows[0]
        actions = (Action.GRANT, Action.REVOKE, Action.UPDATE)
        try:
            checksum = Checksum.parse(text(total))
            return Committed(checksum, dict(zip(actions, map(int, counts), strict=True)))
        except (AttributeError, TypeError, ValueError) as error:
            raise TargetUnusable(
                f"the marker of range {number} in reconcile_ranges of {self._where} is not as it"
                " was written",
                hint="restore it from a copy; or delete the rows of this plan, and what they"
                f" marked is compared again: DELETE FROM {self._dialect.prefix}reconcile_ranges"
                f" WHERE \"plan\" = '{plan}'",
            ) from error

    def write_marker(self, fence: Fence, part: RangeChanges, done: Committed, now: str) -> None:
        """Mark a range as committed, and the fence row as used."""
        self._execute(
            'INSERT INTO reconcile_ranges (job, shard, interval, rerun, "plan", "range", lower,'
            " upper, grants, revokes, updates, checksum, run_id, generation, time)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                fence.key.job,
                fence.key.shard,
                part.interval,
                part.rerun,
                part.plan,
                part.number,
                _bound(part.span.lower),
                _bound(part.span.upper),
                done.changes[Action.GRANT],
                done.changes[Action.REVOKE],
                done.changes[Action.UPDATE],
                str(done.checksum),
                fence.run,
                fence.generation,
                now,
            ),
        )
        self._execute(
            "UPDATE reconcile_fence SET time = ? WHERE job = ? AND shard = ?",
            (now, fence.key.job, fence.key.shard),
        )

    # --- the change log

    def log(
        self, schema: Schema, query: Query, after: int
    ) -> tuple[list[tuple[JsonObject, Change]], int | None]:
        """Up to `PAGE` logged changes of a job above an id, oldest first, and the last one's id;
        None when there are no more."""
        where = ["job = ?", "id > ?"]
        bound: list[object] = [query.job, after]
        if query.interval is not None:
            where.append("interval = ?")
            bound.append(query.interval)
        if query.accounts:
            where.append(f"account IN ({', '.join(['CAST(? AS TEXT)'] * len(query.accounts))})")
            bound += map(self._dialect.bound, query.accounts)
        rows = self._rows(
            'SELECT id, interval, rerun, "range", run_id, generation, time, action, "before",'
            f' "after" FROM reconcile_changes WHERE {" AND ".join(where)} ORDER BY id LIMIT {PAGE}',
            bound,
        )
        names = [column.name for column in schema.columns]
        found = []
        for row in rows:
            try:
                found.append(as_logged(query.job, names, row))
            except (AttributeError, TypeError, ValueError) as error:
                raise TargetUnusable(
                    f"row {row[0]} of reconcile_changes in {self._where} is not as it was written",
                    hint="delete that row, or restore it from a copy",
                ) from error
        return found, (rows[-1][0] if len(rows) == PAGE else None)

    # --- parts

    def _rows(self, sql: str, parameters: Sequence[object]) -> list[Any]:
        return self._sql.rows(self._written(sql), parameters)

    def _execute(self, sql: str, parameters: Sequence[object]) -> None:
        self._sql.execute(self._written(sql), parameters)

    def _written(self, sql: str) -> str:
        """A statement as the database takes it; none of ours has a question mark in it."""
        prefix, mark = self._dialect.prefix, self._dialect.mark
        for place in ("FROM ", "INTO ", "UPDATE "):
            sql = sql.replace(f"{place}reconcile_", f"{place}{prefix}reconcile_")
        return sql.replace("?", mark)


def _bound(account: str | None) -> str | None:
    # For people only: an account that is no text of the database is shown as well as it can be.
    if account is None:
        return None
    return account.encode("utf-8", "replace").decode().replace("\0", "?")
