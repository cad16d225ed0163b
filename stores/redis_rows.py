"""Keys, arguments and answers of the Redis store's scripts, as values of ours.

Keys. Everything about a job has the job's name as its hash tag, so that a cluster keeps it
on one node and a script never crosses slots; what belongs to the store as a whole has a tag
that no job can have. No key ever has a time to live: expiry is a number in the lease.

::

    reconcile:{JOB}:job         hash: whose store it is, how many events were appended
    reconcile:{JOB}:lease:0     hash: the newest grant; never deleted, it has the generation
    reconcile:{JOB}:records     hash: see lua/records.lua, for this and the next three
    reconcile:{JOB}:index       sorted set
    reconcile:{JOB}:tags        sorted set
    reconcile:{JOB}:blobs       hash
    reconcile:{JOB}:events      stream
    reconcile:{@store}:store    hash: the store's id, the number of this schema
    reconcile:{@store}:buckets  hash: token buckets
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ..core.errors import StoreUnusable
from ..core.model import Append, Fence, Grant, Lease, Put, Record, RunId
from .encoding import (
    from_json_text,
    from_micros,
    holder_from_text,
    key_bounds,
    to_json_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..core.model import Kind, LeaseKey, Write

SCHEMA_VERSION = 1
_STORE = "@store"
_RECORD_KEYS = ("records", "index", "tags", "blobs", "events")

Argument = str | bytes | int


# --- keys


def store_keys(prefix: str) -> tuple[str, str]:
    """The keys of the store as a whole."""
    return f"{prefix}:{{{_STORE}}}:store", f"{prefix}:{{{_STORE}}}:buckets"


def lease_keys(prefix: str, key: LeaseKey) -> list[str]:
    """The keys of a script about a lease."""
    return [f"{prefix}:{{{key.job}}}:job", f"{prefix}:{{{key.job}}}:lease:{key.shard}"]


def job_keys(prefix: str, job: str, shard: int = 0) -> list[str]:
    """The keys of a script about records."""
    begin = f"{prefix}:{{{job}}}:"
    return [begin + "job", f"{begin}lease:{shard}", *(begin + name for name in _RECORD_KEYS)]


# --- leases


def to_lease(key: LeaseKey, answer: Sequence[Any]) -> Lease | None:
    """What lua/common.lua's `answer` says of a lease; None where there never was a grant."""
    _, live, flat = answer
    if not flat:
        return None
    try:
        row = _as_texts(flat)
        return Lease(
            fence=Fence(key, int(row["generation"]), RunId(row["run"])),
            holder=holder_from_text(row["holder"]),
            interval=row["interval"],
            ttl=timedelta(microseconds=int(row["ttl"])),
            granted_at=from_micros(int(row["granted_at"])),
            expires_at=from_micros(int(row["expires_at"])),
            progress=int(row["progress"]),
            progress_at=from_micros(int(row["progress_at"])),
            live=bool(live),
            released=row["released"] == "1",
            overlaps=int(row["overlaps"]),
            stop=from_json_text(row["stop"]) if row["stop"] else None,
            previous=_previous(key, row),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise _damaged(f"the lease of {key.job}") from error


def _previous(key: LeaseKey, row: dict[str, str]) -> Grant | None:
    if "previous_run" not in row:
        return None
    fence = Fence(key, int(row["previous_generation"]), RunId(row["previous_run"]))
    return Grant(
        fence=fence,
        holder=holder_from_text(row["previous_holder"]),
        interval=row["previous_interval"],
        progress_at=from_micros(int(row["previous_progress_at"])),
        expires_at=from_micros(int(row["previous_expires_at"])),
        released=row["previous_released"] == "1",
    )


def _as_texts(flat: Sequence[bytes]) -> dict[str, str]:
    texts = [part.decode() for part in flat]
    return dict(zip(texts[::2], texts[1::2], strict=True))


# --- records


def to_record(kind: Kind, job: str, key: str, packed: bytes, blob: bytes | None) -> Record:
    """A record as lua/records.lua keeps it."""
    try:
        version, at, _, rest = packed.split(b" ", 3)
        length, _, body = rest.partition(b":")
        split = int(length)
        tag, value = body[:split].decode(), body[split:].decode()
        instant = from_micros(int(at))
        number = int(version)
    except (ValueError, OverflowError) as error:
        raise _damaged(f"the {kind} record {key!r} of {job}") from error
    return Record(kind, job, key, from_json_text(value), number, instant, tag, blob)


def to_arguments(writes: Sequence[Write]) -> list[Argument]:
    """A batch as the arguments of lua/writes.lua. ValueError for what cannot be kept."""
    arguments: list[Argument] = []
    for write in writes:
        kind = str(write.kind)
        if isinstance(write, Put):
            value = to_json_text(write.value)
            has_blob = write.blob is not None
            arguments += ("put", kind, write.key, write.expect, write.tag, value)
            arguments += (int(has_blob), write.blob or b"")
        elif isinstance(write, Append):
            value = to_json_text(write.value)
            arguments += ("append", kind, write.prefix, 0, "", value, 0, b"")
        else:
            arguments += ("delete", kind, write.key, 0, "", "", 0, b"")
    return arguments


def scan_arguments(
    kind: Kind,
    bounds: tuple[str, str, str],
    tag: str,
    limit: int,
    *,
    newest_first: bool,
) -> list[Argument]:
    """The arguments of lua/scan.lua; `bounds` are prefix, after and before."""
    low, high = key_bounds(*bounds)
    begin = f"{kind}/" if not tag else f"{kind}/{len(tag.encode())}:{tag}"
    size = len(begin.encode())
    # No text has the byte 0xFF, so it is above all keys that begin so.
    end = begin.encode() + (b"\xff" if high is None else high.encode())
    return [begin + low, end, limit, int(newest_first), str(kind), size, int(bool(tag))]


def _damaged(what: str) -> StoreUnusable:
    return StoreUnusable(
        f"the store is damaged: {what} cannot be read",
        hint="restore it from a copy, or name another prefix in [store] url: a new store is "
        "created and goes on from what the target knows",
    )
