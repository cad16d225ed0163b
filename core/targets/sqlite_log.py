"""The change log in the target: one row for each change, in the transaction that made it."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any

from ..errors import TargetUnusable
from ..rows import Change
from .sqlite_text import bindable, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..model import Fence, JsonObject
    from ..rows import RangeChanges, Row, Schema
    from .sqlite_database import Database
    from .sqlite_text import Bound

PAGE = 1000


def write_log(
    database: Database,
    schema: Schema,
    fence: Fence,
    part: RangeChanges,
    changes: Sequence[Change],
    now: str,
) -> None:
    """Log each change of a range.

    `changes` are those of `part` in the table's own spellings, as they were applied; key,
    before and after are logged so, and the column `account` is the normalised one, by which
    a change is found however its account is spelled.
    """
    accounts = [change.row[0] for change in part.changes]
    names = [column.name for column in schema.columns]
    keys = _arrays([[change.row[i] for i in schema.key] for change in changes])
    befores = _objects(names, [change.before for change in changes])
    afters = _objects(names, [change.after for change in changes])
    same = (part.job, part.interval, part.rerun, part.number, fence.run, fence.generation, now)
    try:
        database.execute_many(
            'INSERT INTO reconcile_changes (job, interval, rerun, "range", run_id, generation,'
            ' time, action, account, "key", "before", "after")'
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, CAST(? AS TEXT), ?, ?, ?)",
            (
                (*same, change.action.value, bindable(account), key, before, after)
                for change, account, key, before, after in zip(
                    changes, accounts, keys, befores, afters, strict=True
                )
            ),
        )
    except sqlite3.Error as error:
        raise database.error_for(error, ", table reconcile_changes") from error


@dataclass(frozen=True, slots=True)
class Query:
    """Which logged changes are asked for; of an account in any of some spellings."""

    job: str
    interval: str | None
    accounts: tuple[str, ...] = ()


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
    if query.accounts:
        where.append(f"account IN ({', '.join(['CAST(? AS TEXT)'] * len(query.accounts))})")
        bound += map(bindable, query.accounts)
    rows = database.rows(
        'SELECT id, interval, rerun, "range", run_id, generation, time, action, "before",'
        f' "after" FROM reconcile_changes WHERE {" AND ".join(where)} ORDER BY id LIMIT {PAGE}',
        bound,
    )
    names = [column.name for column in schema.columns]
    found = []
    for row in rows:
        try:
            found.append(_logged(query.job, names, row))
        except (AttributeError, TypeError, ValueError) as error:
            raise TargetUnusable(
                f"row {row[0]} of reconcile_changes in {database.path} is not as it was written",
                hint="delete that row, or restore it from a copy",
            ) from error
    return found, (rows[-1][0] if len(rows) == PAGE else None)


def _logged(job: str, names: Sequence[str], row: Any) -> tuple[JsonObject, Change]:
    _, of, rerun, number, run, generation, time, action, before, after = row
    facts: JsonObject = {
        "job": job,
        "interval": text(of),
        "rerun": rerun,
        "range": number,
        "run": text(run),
        "generation": generation,
        "at": text(time),
        "action": text(action),
    }
    return facts, Change(_row(names, before), _row(names, after))


def _objects(names: Sequence[str], rows: Sequence[Row | None]) -> list[str | None]:
    """Each row as a JSON object by column; ASCII, so that what is no UTF-8 survives."""
    labels = [f"{encode_basestring_ascii(name)}:" for name in names]
    texts = map(",".join, _cells([row for row in rows if row is not None], labels))
    return [None if row is None else f"{{{next(texts)}}}" for row in rows]


def _arrays(rows: Sequence[Sequence[str | None]]) -> list[str]:
    """Each row as a JSON array."""
    return [f"[{','.join(cells)}]" for cells in _cells(rows, [""] * (len(rows[0]) if rows else 0))]


def _cells(
    rows: Sequence[Sequence[str | None]], labels: Sequence[str]
) -> Iterator[tuple[str, ...]]:
    # By column, which is twice as fast as row by row.
    quote = encode_basestring_ascii
    return zip(
        *(
            [f"{label}{quote(value)}" if value is not None else f"{label}null" for value in column]
            for label, column in zip(labels, zip(*rows, strict=True), strict=False)
        ),
        strict=True,
    )


def _row(names: Sequence[str], value: bytes | None) -> Row | None:
    if value is None:
        return None
    found = json.loads(value)
    return tuple(found.get(name) for name in names)
