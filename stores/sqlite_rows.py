"""Rows of the SQLite store as values, and batches of writes as rows."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ..core.errors import WriteConflict
from ..core.model import ABSENT, ANY, Append, Fence, Grant, Kind, Lease, Put, Record, RunId
from .encoding import (
    damaged,
    from_json_text,
    from_micros,
    grant_from_text,
    holder_from_text,
    to_json_text,
)
from .named_sql import load

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from ..core.model import Delete, LeaseKey, Write

SQL = load("sqlite")
Row = tuple[Any, ...]
NOT_AS_WRITTEN = (AttributeError, KeyError, OverflowError, TypeError, ValueError)
"""What reading a row that nobody wrote may raise: SQLite keeps no checksums, so a byte that a
disk has changed is noticed here, or nowhere."""


# --- leases


def to_lease(key: LeaseKey, row: Row, boot: float, boot_id: str) -> Lease:
    """A row of `lease`. Live: not released, the same boot, and its boot time has not come.

    Raises `StoreUnusable` for a row that nobody wrote.
    """
    try:
        return _to_lease(key, row, boot, boot_id)
    except NOT_AS_WRITTEN as error:
        raise damaged(f"the lease of {key.job} is not as it was written") from error


def _to_lease(key: LeaseKey, row: Row, boot: float, boot_id: str) -> Lease:
    released, expires_boot = bool(row[11]), row[7]
    return Lease(
        fence=Fence(key, row[0], RunId(row[1])),
        holder=holder_from_text(row[2]),
        interval=row[3],
        ttl=timedelta(microseconds=row[4]),
        granted_at=from_micros(row[5]),
        expires_at=from_micros(row[6]),
        progress=row[9],
        progress_at=from_micros(row[10]),
        live=not released and row[8] == boot_id and boot < expires_boot,
        released=released,
        overlaps=row[12],
        stop=None if row[13] is None else from_json_text(row[13]),
    )


def previous_of(key: LeaseKey, row: Row) -> Grant | None:
    """The grant before the one of a row of `lease`. Raises `StoreUnusable`."""
    try:
        return None if row[15] is None else grant_from_text(key, row[15])
    except NOT_AS_WRITTEN as error:
        raise damaged(f"the lease of {key.job} is not as it was written") from error


def as_grant(lease: Lease) -> Grant:
    """What a takeover keeps of the lease it replaces."""
    return Grant(
        fence=lease.fence,
        holder=lease.holder,
        interval=lease.interval,
        progress_at=lease.progress_at,
        expires_at=lease.expires_at,
        released=lease.released,
    )


# --- records


def to_record(kind: Kind, job: str, row: Row) -> Record:
    """A row of the statements `get` and `scan`. Raises `StoreUnusable`."""
    key, value, version, at, tag, blob = row
    try:
        found = from_json_text(value)
        if isinstance(found, dict):
            return Record(kind, job, key, found, version, from_micros(at), tag, blob)
    except NOT_AS_WRITTEN as error:
        raise damaged(f"the {kind} record {key!r} of {job} is not as it was written") from error
    raise damaged(f"the {kind} record {key!r} of {job} is no JSON object")


def write_all(db: sqlite3.Connection, writes: Sequence[Write], at: int) -> None:
    """Apply a batch in order, inside the caller's transaction; `at` in microseconds.

    Raises `WriteConflict`; the caller rolls back.
    """
    for write in writes:
        if isinstance(write, Put):
            _put(db, write, at)
        elif isinstance(write, Append):
            _append(db, write, at)
        else:
            _delete(db, write)


def _put(db: sqlite3.Connection, put: Put, at: int) -> None:
    values = {
        "kind": put.kind,
        "job": put.job,
        "key": put.key,
        "tag": put.tag,
        "at": at,
        "value": to_json_text(put.value),
        "has_blob": put.blob is not None,
        "expect": put.expect,
        "blob": put.blob,
    }
    how = {ANY: "put_any", ABSENT: "put_absent"}.get(put.expect, "put_version")
    if db.execute(SQL[how], values).rowcount == 0:
        wanted = "none" if put.expect == ABSENT else f"version {put.expect}"
        raise WriteConflict(
            f"the {put.kind} record {put.key!r} of {put.job} was changed by somebody else: "
            f"{wanted} was expected",
            hint="read it again and decide anew",
        )
    if put.blob is not None:
        db.execute(SQL["put_blob"], values)
    elif put.expect != ABSENT:
        db.execute(SQL["delete_blob"], values)


def _append(db: sqlite3.Connection, append: Append, at: int) -> None:
    db.execute(SQL["count_append"])
    number = db.execute(SQL["appended"]).fetchone()[0]
    values = {
        "kind": append.kind,
        "job": append.job,
        "key": f"{append.prefix}/{number:020d}",
        "tag": "",
        "at": at,
        "value": to_json_text(append.value),
        "has_blob": False,
    }
    db.execute(SQL["put_any"], values)


def _delete(db: sqlite3.Connection, delete: Delete) -> None:
    values = {"kind": delete.kind, "job": delete.job, "key": delete.key}
    db.execute(SQL["delete"], values)
    db.execute(SQL["delete_blob"], values)
