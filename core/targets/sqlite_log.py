"""The change log in the target: one row for each change, in the transaction that made it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING

from ..rows import Change
from .sqlite_table import bindable, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..model import Fence, JsonObject
    from ..rows import RangeChanges, Row, Schema
    from .sqlite_database import Database
    from .sqlite_table import Bound

PAGE = 1000


def write_log(
    database: Database, schema: Schema, fence: Fence, part: RangeChanges, now: str
) -> None:
    """Log each change of a range."""
    labels = [f"{encode_basestring_ascii(column.name)}:" for column in schema.columns]
    same = (part.job, part.interval, part.rerun, part.number, fence.run, fence.generation, now)
    database.execute_many(
        'INSERT INTO reconcile_changes (job, interval, rerun, "range", run_id, generation, time,'
        ' action, account, "key", "before", "after")'
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, CAST(? AS TEXT), ?, ?, ?)",
        (
            (
                *same,
                change.action.value,
                bindable(change.row[0]),
                f"[{','.join([_json(change.row[i]) for i in schema.key])}]",
                _object(labels, change.before),
                _object(labels, change.after),
            )
            for change in part.changes
        ),
    )


@dataclass(frozen=True, slots=True)
class Query:
    """Which logged changes are asked for."""

    job: str
    interval: str | None
    account: str | None


def read_log(
    database: Database, schema: Schema, query: Query, after: int
) -> tuple[list[tuple[JsonObject, Change]], int | None]:
    """Up to `PAGE` logged changes of a job above an id, oldest first, and the last one's id;
    None when there are no more."""
    where = ["job = ?", "id > ?"]
    bound: list[Bound] = [query.job, after]
    if query.interval is not None:
        where.append("interval = ?")
        bound.append(query.interval)
    if query.account is not None:
        where.append("account = CAST(? AS TEXT)")
        bound.append(bindable(query.account))
    rows = database.rows(
        'SELECT id, interval, rerun, "range", run_id, generation, time, action, "before",'
        f' "after" FROM reconcile_changes WHERE {" AND ".join(where)} ORDER BY id LIMIT {PAGE}',
        bound,
    )
    names = [column.name for column in schema.columns]
    found = []
    for _, of, rerun, number, run, generation, time, action, before, after_ in rows:
        facts: JsonObject = {
            "job": query.job,
            "interval": text(of),
            "rerun": rerun,
            "range": number,
            "run": text(run),
            "generation": generation,
            "at": text(time),
            "action": text(action),
        }
        found.append((facts, Change(_row(names, before), _row(names, after_))))
    return found, (rows[-1][0] if len(rows) == PAGE else None)


def _json(value: str | None) -> str:
    return "null" if value is None else encode_basestring_ascii(value)


def _object(labels: Sequence[str], row: Row | None) -> str | None:
    if row is None:
        return None
    pairs = [label + _json(value) for label, value in zip(labels, row, strict=True)]
    return f"{{{','.join(pairs)}}}"


def _row(names: Sequence[str], value: bytes | None) -> Row | None:
    if value is None:
        return None
    found = json.loads(value)
    return tuple(found.get(name) for name in names)
