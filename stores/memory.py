"""The store in memory: the reference that says in plain Python what a store does.

`MemoryServer` is what others would keep on a disk or a server; each `MemoryStore` is one
connection to it. One lock makes every method one step. Nothing outlives the process, so
leases need no boot id. It shares no rule with the other stores on purpose: tests hold it
against them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING

from ..core.config import TTL_ONE_HOST
from ..core.errors import FencedOut, LeaseBusy, OverlapIsNewer, WriteConflict
from ..core.model import (
    ABSENT,
    ANY,
    Append,
    Delete,
    Fence,
    Grant,
    Lease,
    Put,
    StoreFacts,
)
from .encoding import check_rate, from_json_text, next_call, refuse_several_jobs, to_json_text
from .memory_records import Records, Stored

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ..core.model import Holder, JsonObject, Kind, LeaseKey, Rate, Record, RunId, Write
    from ..core.ports import Clock
    from .memory_records import RecordKey


@dataclass(slots=True)
class _Granted:
    """The newest grant of a lease key. `ends` is a boot time in seconds."""

    lease: Lease
    ends: float
    seq: int = 0


@dataclass(slots=True)
class MemoryServer:
    """All that the connections to one store share. `clock` is the store's clock."""

    clock: Clock
    id: str
    guard: Lock = field(default_factory=Lock)
    leases: dict[LeaseKey, _Granted] = field(default_factory=dict)
    records: Records = field(default_factory=Records)
    buckets: dict[str, float] = field(default_factory=dict)
    appended: int = 0

    def connect(self) -> MemoryStore:
        """A further connection."""
        return MemoryStore(self)


class MemoryStore:
    """One connection to a `MemoryServer`. See `core.ports.Store`."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server

    def facts(self) -> StoreFacts:
        """Identity, clock and traits: it forgets everything with the process."""
        return StoreFacts(
            id=self._server.id,
            now=self._server.clock.now(),
            single_host=True,
            durable=False,
            default_ttl=TTL_ONE_HOST,
            location="memory:",
        )

    # --- leases

    def acquire(
        self,
        key: LeaseKey,
        run: RunId,
        holder: Holder,
        ttl: timedelta,
        *,
        interval: str,
        above: int = 0,
        replaces: RunId | None = None,
        overlap: bool = False,
    ) -> Lease:
        """See `Store.acquire`."""
        with self._server.guard:
            last = self._newest(key)
            if last is not None and last.fence.run == run:
                return last
            free = last is None or not (last.live or last.holder == holder)
            if last is not None and not free and replaces != last.fence.run:
                if overlap and last.interval != interval:
                    self._change(key, overlaps=last.overlaps + 1)
                raise LeaseBusy(replace(self._stands(key), previous=None))
            now = self._server.clock.now()
            first = int(now.timestamp())
            generation = max(first if last is None else last.fence.generation + 1, above + 1)
            granted = _granted(Fence(key, generation, run), holder, interval, ttl, now, last)
            ends = self._server.clock.boot() + ttl.total_seconds()
            self._server.leases[key] = _Granted(granted, ends)
            return granted

    def renew(self, fence: Fence, progress: int) -> Lease:
        """See `Store.renew`."""
        with self._server.guard:
            own = self._own(fence)
            if own.released:
                raise self._fenced_out(fence)
            now = self._server.clock.now()
            self._change(fence.key, expires_at=now + own.ttl)
            if progress > own.progress:
                self._change(fence.key, progress=progress, progress_at=now)
            granted = self._server.leases[fence.key]
            granted.ends = self._server.clock.boot() + own.ttl.total_seconds()
            return replace(self._stands(fence.key), previous=None)

    def release(self, fence: Fence, seq: int, overlaps_seen: int | None) -> None:
        """See `Store.release`."""
        with self._server.guard:
            own = self._own(fence)
            granted = self._server.leases[fence.key]
            if own.released or seq <= granted.seq:
                return
            if overlaps_seen is not None and own.overlaps > overlaps_seen:
                raise OverlapIsNewer(
                    f"{own.overlaps} triggers of {fence.key.job} were turned away, and the "
                    f"holder has seen {overlaps_seen}",
                    hint="decide again, then release",
                )
            granted.seq = seq
            self._change(fence.key, released=True)

    def ask_stop(self, key: LeaseKey, generation: int, request: JsonObject) -> bool:
        """See `Store.ask_stop`."""
        asked = from_json_text(to_json_text(request))
        with self._server.guard:
            last = self._newest(key)
            if last is None or last.fence.generation != generation or not last.live:
                return False
            self._change(key, stop=asked)
            return True

    def lease(self, key: LeaseKey) -> Lease | None:
        """See `Store.lease`."""
        with self._server.guard:
            last = self._newest(key)
            return None if last is None else replace(last, previous=None)

    # --- records

    def commit(self, fence: Fence, seq: int, writes: Sequence[Write]) -> bool:
        """See `Store.commit`."""
        refuse_several_jobs(writes, fence.key.job)
        with self._server.guard:
            own = self._own(fence)
            granted = self._server.leases[fence.key]
            if seq <= granted.seq:
                return False
            if own.released:
                raise self._fenced_out(fence)
            self._apply(writes)
            granted.seq = seq
            return True

    def note(self, writes: Sequence[Write]) -> None:
        """See `Store.note`."""
        refuse_several_jobs(writes)
        with self._server.guard:
            self._apply(writes)

    def get(self, kind: Kind, job: str, key: str) -> Record | None:
        """See `Store.get`."""
        with self._server.guard:
            return self._server.records.record((kind, job, key))

    def scan(
        self,
        kind: Kind,
        job: str,
        *,
        prefix: str = "",
        after: str = "",
        before: str = "",
        tag: str = "",
        limit: int = 1000,
        newest_first: bool = False,
    ) -> Sequence[Record]:
        """See `Store.scan`."""
        with self._server.guard:
            page = self._server.records.page(
                kind,
                job,
                prefix=prefix,
                after=after,
                before=before,
                tag=tag,
                limit=limit,
                newest_first=newest_first,
            )
            return list(page)

    def take(self, bucket: str, rate: Rate, n: int = 1) -> float:
        """See `Store.take`. ValueError where n calls could never be had at once."""
        check_rate(rate, n)
        with self._server.guard:
            now = self._server.clock.boot()
            due = self._server.buckets.get(bucket, now)
            wait, self._server.buckets[bucket] = next_call(due, now, rate, n)
            return wait

    def close(self) -> None:
        """Nothing to give back: the server goes with the process."""

    # --- inside, all under the server's lock

    def _newest(self, key: LeaseKey) -> Lease | None:
        granted = self._server.leases.get(key)
        if granted is None:
            return None
        ahead = self._server.clock.boot() < granted.ends
        return replace(granted.lease, live=ahead and not granted.lease.released)

    def _stands(self, key: LeaseKey) -> Lease:
        lease = self._newest(key)
        assert lease is not None
        return lease

    def _change(self, key: LeaseKey, **values: object) -> None:
        granted = self._server.leases[key]
        granted.lease = replace(granted.lease, **values)  # type: ignore[arg-type]

    def _own(self, fence: Fence) -> Lease:
        last = self._newest(fence.key)
        if last is None or last.fence != fence:
            raise self._fenced_out(fence)
        return last

    def _fenced_out(self, fence: Fence) -> FencedOut:
        newer = self._newest(fence.key)
        return FencedOut(
            f"{fence.key.job} under generation {fence.generation} is fenced out",
            newer=newer and replace(newer, previous=None),
            hint="stop; the work is taken on from its last checkpoint",
        )

    def _apply(self, writes: Sequence[Write]) -> None:
        """All of the batch or nothing: what it changes is gathered, then it takes place."""
        records, appended = self._server.records, self._server.appended
        changes: dict[RecordKey, Stored | None] = {}
        at = self._server.clock.now()
        for write in writes:
            if isinstance(write, Delete):
                changes[write.kind, write.job, write.key] = None
                continue
            text = to_json_text(write.value)
            if isinstance(write, Append):
                appended += 1
                key = f"{write.prefix}/{appended:020d}"
                changes[write.kind, write.job, key] = Stored(text, 1, at, "", None)
            else:
                name = write.kind, write.job, write.key
                version = _next_version(write, changes.get(name, records.get(name)))
                changes[name] = Stored(text, version, at, write.tag, write.blob)
        records.take(changes)
        self._server.appended = appended


def _next_version(put: Put, found: Stored | None) -> int:
    version = ABSENT if found is None else found.version
    if put.expect not in (ANY, version):
        raise WriteConflict(
            f"the {put.kind} record {put.key!r} of {put.job} has version {version}, and "
            f"{put.expect} was expected",
            hint="read it again and decide anew",
        )
    return version + 1


def _granted(
    fence: Fence,
    holder: Holder,
    interval: str,
    ttl: timedelta,
    now: datetime,
    last: Lease | None,
) -> Lease:
    """A fresh lease. A holder that goes on from an unreleased lease to its next one keeps
    what it was told: triggers turned away and the request to stop."""
    told = last if last is not None and last.holder == holder and not last.released else None
    return Lease(
        fence=fence,
        holder=holder,
        interval=interval,
        ttl=ttl,
        granted_at=now,
        expires_at=now + ttl,
        progress=0,
        progress_at=now,
        live=True,
        overlaps=0 if told is None else told.overlaps,
        stop=None if told is None else told.stop,
        previous=None if last is None else _as_grant(last),
    )


def _as_grant(lease: Lease) -> Grant:
    return Grant(
        fence=lease.fence,
        holder=lease.holder,
        interval=lease.interval,
        progress_at=lease.progress_at,
        expires_at=lease.expires_at,
        released=lease.released,
    )
