"""A logged change in texts: the key as a JSON array, rows as JSON objects by column."""

from __future__ import annotations

import json
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any, NamedTuple

from ..rows import Change
from .names import text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..model import JsonObject
    from ..rows import Row, Schema


class Texts(NamedTuple):
    """Changes by column of the log, in the order of the changes."""

    actions: list[str]
    keys: list[str]
    befores: list[str | None]
    afters: list[str | None]


def texts(schema: Schema, changes: Sequence[Change]) -> Texts:
    """Changes as they are logged."""
    names = [column.name for column in schema.columns]
    return Texts(
        [change.action.value for change in changes],
        _arrays([[change.row[i] for i in schema.key] for change in changes]),
        _objects(names, [change.before for change in changes]),
        _objects(names, [change.after for change in changes]),
    )


def as_logged(job: str, names: Sequence[str], row: Any) -> tuple[JsonObject, Change]:
    """Read one row of the log back; AttributeError, TypeError or ValueError where it is not
    as it was written."""
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


def named(change: Change) -> str:
    """A change in a message."""
    return f"{change.action} for account {change.row[0]!r}"


def _objects(names: Sequence[str], rows: Sequence[Row | None]) -> list[str | None]:
    """Each row as a JSON object by column; ASCII, so that what is no UTF-8 survives."""
    labels = [f"{encode_basestring_ascii(name)}:" for name in names]
    joined = map(",".join, _cells([row for row in rows if row is not None], labels))
    return [None if row is None else f"{{{next(joined)}}}" for row in rows]


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


def _row(names: Sequence[str], value: bytes | str | None) -> Row | None:
    if value is None:
        return None
    found = json.loads(value)
    return tuple(found.get(name) for name in names)
