"""Rows of the Postgres store as values, and batches of writes as statements."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.errors import WriteConflict
from ..core.model import ABSENT, ANY, Append, Fence, Grant, Lease, Put, Record, RunId
from .encoding import (
    damaged,
    from_json_text,
    from_micros,
    grant_from_text,
    grant_to_text,
    holder_from_text,
    to_json_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..core.model import JsonObject, Kind, LeaseKey, Write

Row = tuple[Any, ...]
Values = dict[str, Any]
NOT_AS_WRITTEN = (AttributeError, KeyError, OverflowError, TypeError, ValueError)
"""What reading a row may raise that somebody changed by hand."""


class Ask(NamedTuple):
    """One statement with its values, in the names that its text has."""

    text: str
    values: Values


class Answer(NamedTuple):
    """What a statement gave: its rows, and how many it found or changed."""

    rows: list[Row]
    changed: int


# --- leases


def to_lease(key: LeaseKey, row: Row) -> Lease:
    """A row of the statement `lease`; whether it is live is the server's word.

    Raises `StoreUnusable` for a row that nobody wrote.
    """
    try:
        return Lease(
            fence=Fence(key, row[0], RunId(row[1])),
            holder=holder_from_text(row[2]),
            interval=row[3],
            ttl=timedelta(microseconds=row[4]),
            granted_at=from_micros(row[5]),
            expires_at=from_micros(row[6]),
            progress=row[7],
            progress_at=from_micros(row[8]),
            live=row[14],
            released=row[9],
            overlaps=row[10],
            stop=None if row[11] is None else from_json_text(row[11]),
        )
    except NOT_AS_WRITTEN as error:
        raise damaged(f"the lease of {key.job} is not as it was written") from error


def seq_of(row: Row) -> int:
    """The last sequence number applied under the grant of a row of `lease`."""
    return int(row[12])


def previous_of(key: LeaseKey, row: Row) -> Grant | None:
    """The grant before the one of a row of `lease`. Raises `StoreUnusable`."""
    try:
        return None if row[13] is None else grant_from_text(key, row[13])
    except NOT_AS_WRITTEN as error:
        raise damaged(f"the lease of {key.job} is not as it was written") from error


def previous_text(lease: Lease) -> str:
    """What a takeover keeps of the lease it replaces."""
    return grant_to_text(
        Grant(
            fence=lease.fence,
            holder=lease.holder,
            interval=lease.interval,
            progress_at=lease.progress_at,
            expires_at=lease.expires_at,
            released=lease.released,
        )
    )


def json_or_none(value: JsonObject | None) -> str | None:
    """A JSON object as text; None for none."""
    return None if value is None else to_json_text(value)


# --- records


def to_record(kind: Kind, job: str, row: Row) -> Record:
    """A row of the statements `get` and `scan`. Raises `StoreUnusable`."""
    key, value, version, at, tag, blob = row
    found = from_json_text(value)
    if not isinstance(found, dict):
        raise damaged(f"the {kind} record {key!r} of {job} is no JSON object")
    try:
        return Record(kind, job, key, found, version, from_micros(at), tag, blob)
    except NOT_AS_WRITTEN as error:
        raise damaged(f"the {kind} record {key!r} of {job} is not as it was written") from error


def is_conditional(write: Write) -> bool:
    """Whether it may find another version than it expects."""
    return isinstance(write, Put) and write.expect != ANY


def asks_of(sql: Mapping[str, str], writes: Sequence[Write]) -> list[Ask]:
    """One statement for each write, in order. ValueError for what JSON cannot carry."""
    return [_ask(sql, write) for write in writes]


def _ask(sql: Mapping[str, str], write: Write) -> Ask:
    if isinstance(write, Put):
        how = {ANY: "put_any", ABSENT: "put_absent"}.get(write.expect, "put_version")
        return Ask(
            sql[how],
            {
                "kind": str(write.kind),
                "job": write.job,
                "key": write.key,
                "tag": write.tag,
                "value": to_json_text(write.value),
                "expect": write.expect,
                "blob": write.blob,
            },
        )
    values: Values = {"kind": str(write.kind), "job": write.job}
    if isinstance(write, Append):
        values |= {"prefix": write.prefix, "value": to_json_text(write.value)}
        return Ask(sql["append"], values)
    return Ask(sql["delete"], values | {"key": write.key})


def insisted(sql: Mapping[str, str], ask: Ask) -> Ask:
    """The same, as a statement that fails where it changes nothing."""
    return Ask(sql["insisted"].replace("{statement}", ask.text), ask.values)


def check_written(writes: Sequence[Write], answers: Sequence[Answer]) -> None:
    """`WriteConflict` for the first write that found another version than it expected."""
    for write, answer in zip(writes, answers, strict=True):
        if isinstance(write, Put) and answer.changed == 0:
            wanted = "none" if write.expect == ABSENT else f"version {write.expect}"
            raise WriteConflict(
                f"the {write.kind} record {write.key!r} of {write.job} was changed by somebody "
                f"else: {wanted} was expected",
                hint="read it again and decide anew",
            )


def warnings_of(location: str, syncs: bool, waits: bool) -> tuple[str, ...]:
    """What the store cannot promise where `fsync` or `synchronous_commit` is off."""
    told = []
    if not syncs:
        told.append(
            f"the store {location} never makes sure that a write is on its disk: a crash of "
            "its machine may damage it (fsync on would keep it whole)"
        )
    if not waits:
        told.append(
            f"the store {location} answers before a write is on a disk: a crash may forget the "
            "last writes (synchronous_commit on would keep them)"
        )
    return tuple(told)
