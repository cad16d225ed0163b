"""What the target keeps of a job: its fence row and the markers of committed ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..checksum import Checksum
from ..endpoints import Committed
from ..errors import FencedOut, TargetUnusable
from ..model import FenceRow, Newest, RunId
from ..records import from_text, to_text
from ..rows import Action
from .sqlite_ddl import NAMES, STATEMENTS
from .sqlite_text import text

if TYPE_CHECKING:
    from ..model import Fence, LeaseKey, PlanId, Proof
    from ..rows import RangeChanges
    from .sqlite_database import Database
    from .sqlite_table import Table


def has_tables(database: Database) -> bool:
    """Whether all our tables are there."""
    places = ", ".join("?" * len(NAMES))
    found = database.rows(
        f"SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ({places})", NAMES
    )
    return bool(found[0][0] == len(NAMES))


def create_tables(database: Database) -> None:
    """Create what is missing, in the transaction under way."""
    if not has_tables(database):
        for statement in STATEMENTS:
            database.execute(statement)


def read_fence(database: Database, key: LeaseKey) -> FenceRow | None:
    """The fence row of a lease key."""
    rows = database.rows(
        "SELECT store_id, generation, run_id, newest_scheduled_at, newest_interval,"
        " newest_rerun, newest_checksum FROM reconcile_fence WHERE job = ? AND shard = ?",
        (key.job, key.shard),
    )
    if not rows:
        return None
    store_id, generation, run, scheduled_at, interval, rerun, total = rows[0]
    newest = None
    try:
        if scheduled_at is not None:
            newest = Newest(
                from_text(text(scheduled_at)), text(interval), rerun, Checksum.parse(text(total))
            )
        if not isinstance(generation, int) or not isinstance(rerun, int | None):
            raise TypeError("no integer")
        return FenceRow(text(store_id), generation, RunId(text(run)), newest)
    except (AttributeError, TypeError, ValueError) as error:
        raise TargetUnusable(
            f"the row of job {key.job} in reconcile_fence of {database.path} is not as it was"
            " written, so nobody knows who may write there",
            hint="restore it from a copy, or delete that row once no run of the job is alive",
        ) from error


def is_of(row: FenceRow, fence: Fence) -> bool:
    """Whether the row names this very grant."""
    return (row.generation, row.run) == (fence.generation, fence.run)


def check_fence(database: Database, fence: Fence) -> FenceRow:
    """The fence row; `FencedOut` when it is not of this very grant."""
    row = read_fence(database, fence.key) if has_tables(database) else None
    if row is None or not is_of(row, fence):
        stands = f"generation {row.generation}, run {row.run}" if row else "none"
        raise FencedOut(
            f"generation {fence.generation} of {fence.key.job} may not write to"
            f" {database.path}: its fence row names {stands}",
            hint="a newer run has taken over; there is nothing to do",
        )
    return row


def write_fence(database: Database, fence: Fence, row: FenceRow, table: Table, now: str) -> None:
    """Set the fence row. `TargetUnusable` where another job is fenced on the same rows."""
    _refuse_second_job(database, fence, table)
    newest = row.newest
    database.execute(
        "INSERT OR REPLACE INTO reconcile_fence (job, shard, store_id, target_table, scope,"
        " generation, run_id, newest_scheduled_at, newest_interval, newest_rerun,"
        " newest_checksum, time) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            fence.key.job,
            fence.key.shard,
            row.store_id,
            table.name,
            table.scope or "",
            row.generation,
            row.run,
            to_text(newest.scheduled_at) if newest else None,
            newest.interval if newest else None,
            newest.rerun if newest else None,
            str(newest.checksum) if newest else None,
            now,
        ),
    )


def _refuse_second_job(database: Database, fence: Fence, table: Table) -> None:
    ours = table.scope or ""
    for job, scope in database.rows(
        "SELECT job, scope FROM reconcile_fence WHERE target_table = ? COLLATE NOCASE AND job <> ?",
        (table.name, fence.key.job),
    ):
        if not ours or text(scope) in ("", ours):
            raise TargetUnusable(
                f"job {fence.key.job} and job {text(job)} both work on table {table.name} of"
                f" {database.path}, each would undo the other's changes",
                hint="give each a scope of its own; if the other job is gone: DELETE FROM"
                f" reconcile_fence WHERE job = '{text(job)}'",
            )


def write_newest(database: Database, fence: Fence, proof: Proof, now: str) -> None:
    """Record the newest completed interval, and drop the markers of all others."""
    key = (fence.key.job, fence.key.shard)
    database.execute(
        "UPDATE reconcile_fence SET newest_scheduled_at = ?, newest_interval = ?,"
        " newest_rerun = ?, newest_checksum = ?, time = ? WHERE job = ? AND shard = ?",
        (
            to_text(proof.interval.scheduled_at),
            proof.interval.id,
            proof.rerun,
            str(proof.observed),
            now,
            *key,
        ),
    )
    database.execute(
        "DELETE FROM reconcile_ranges WHERE job = ? AND shard = ?"
        " AND NOT (interval = ? AND rerun = ?)",
        (*key, proof.interval.id, proof.rerun),
    )


def read_marker(database: Database, plan: PlanId, number: int) -> Committed | None:
    """What was committed for a range of a plan."""
    rows = database.rows(
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
            f"the marker of range {number} in reconcile_ranges of {database.path} is not as it"
            " was written",
            hint="restore it from a copy; or delete the rows of this plan, and what they marked is"
            f" compared again: DELETE FROM reconcile_ranges WHERE \"plan\" = '{plan}'",
        ) from error


def write_marker(
    database: Database, fence: Fence, part: RangeChanges, done: Committed, now: str
) -> None:
    """Mark a range as committed, and the fence row as used."""
    database.execute(
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
    database.execute(
        "UPDATE reconcile_fence SET time = ? WHERE job = ? AND shard = ?",
        (now, fence.key.job, fence.key.shard),
    )


def _bound(account: str | None) -> str | None:
    # For people only: an account that is no UTF-8 is shown as well as it can be.
    return None if account is None else account.encode("utf-8", "replace").decode()
