"""The SQLite store: the embedded default, for the processes of one host.

Transactions. One method is one transaction, begun here and never inherited: reads are
single statements and take no write lock; everything else is `BEGIN IMMEDIATE`, so the lock
is waited for (bounded, then `StoreBusy`) before anything is read, and no transaction ever
upgrades from reading to writing. WAL with ``synchronous=FULL``: what was answered is on
the disk.

Time. Instants shown are the host's wall clock, which somebody may step. Expiry is decided
by `CLOCK_BOOTTIME` and the boot id in the lease row: a lease is live while it was not
released, this host has not been rebooted since, and its boot time has not come. The clock
is read after the lock was had, so that waiting for it neither ends nor prolongs a lease.

Buckets too run on boot time. After a reboot a bucket counts as empty: what was taken just
before is unknown, and the first call waits for ``per / amount``, so that restarts never
overrun the rate.

The file. It is looked at before each write: a store that was moved away or replaced while
it was open is refused, since another process would be granted leases in the new one.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.config import TTL_ONE_HOST
from ..core.errors import FencedOut, LeaseBusy, OverlapIsNewer, StoreBusy, StoreUnusable
from ..core.model import StoreFacts
from .encoding import (
    check_rate,
    duration_to_micros,
    grant_to_text,
    holder_to_text,
    key_bounds,
    next_call,
    refuse_several_jobs,
    to_json_text,
    to_micros,
)
from .sqlite_connection import SqliteConnection
from .sqlite_rows import (
    SQL,
    as_grant,
    previous_of,
    to_lease,
    to_record,
    write_all,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from ..core.model import (
        Fence,
        Holder,
        JsonObject,
        Kind,
        Lease,
        LeaseKey,
        Rate,
        Record,
        RunId,
        Write,
    )
    from ..core.ports import Clock, Host

BUSY_WAIT = 5.0
"""Seconds a write lock is waited for; shorter than the renewal margin of any lease."""

_Values = dict[str, Any]


class SqliteStore:
    """One connection to a SQLite store. See `core.ports.Store` for what the methods promise.

    `boot_id` is the running kernel's; `new_id` names a store that is created. With `host` a
    stopped process that keeps the store locked past its lease is ended, see `sqlite_blockers`.
    A thread that must not wait for another's transaction opens its own.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        clock: Clock,
        boot_id: str,
        new_id: Callable[[], str],
        single_host: bool = False,
        busy_wait: float = BUSY_WAIT,
        host: Host | None = None,
    ) -> None:
        """Open the store at `path`, creating or migrating it if need be.

        Raises `StoreUnusable`, `StoreUnreachable`, `StoreBusy`, `AccessDenied` or
        `UnsupportedPlatform`.
        """
        self.path = Path(os.path.realpath(path))
        self._clock = clock
        self._boot_id = boot_id
        self._host = host
        self._file = SqliteConnection(
            self.path,
            single_host=single_host,
            busy_wait=busy_wait,
            new_id=new_id,
            make_way=self._make_way,
        )
        try:
            self._id = self._read_id()
        except BaseException:
            self._file.close()
            raise

    def facts(self) -> StoreFacts:
        """Identity, clock and traits."""
        return StoreFacts(
            id=self._id,
            now=self._clock.now(),
            single_host=True,
            durable=True,
            default_ttl=TTL_ONE_HOST,
            location=str(self.path),
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
        asked = {
            **_key(key),
            "run": run,
            "holder": holder_to_text(holder),
            "interval": interval,
            "ttl": duration_to_micros(ttl),
        }

        def work(db: sqlite3.Connection) -> tuple[Lease, bool]:
            last = self._newest(db, key)
            if last is not None:
                if last.fence.run == run:
                    return last, True
                if replaces != last.fence.run and (last.live or last.holder == holder):
                    if overlap and last.interval != interval:
                        db.execute(SQL["note_overlap"], asked)
                    return self._stands(db, key), False
            kept = last if last and last.holder == holder else None
            db.execute(SQL["grant"], {**asked, **self._grant(last, above), **_told(kept)})
            return self._stands(db, key), True

        lease, granted = self._file.write(work)
        if not granted:
            raise LeaseBusy(replace(lease, previous=None))
        return lease

    def _grant(self, last: Lease | None, above: int) -> _Values:
        """What the next grant has of its own: generation, time, and what it came after."""
        time = self._time()
        first = time["now"] // 1_000_000
        return {
            **time,
            "generation": max(last.fence.generation + 1 if last else first, above + 1),
            "previous": grant_to_text(as_grant(last)) if last else None,
        }

    def renew(self, fence: Fence, progress: int) -> Lease:
        """See `Store.renew`."""

        def work(db: sqlite3.Connection) -> Lease:
            values = {**_fence(fence), **self._time(), "progress": progress}
            if db.execute(SQL["renew"], values).rowcount == 0:
                raise self._fenced_out(db, fence)
            return replace(self._stands(db, fence.key), previous=None)

        return self._file.write(work)

    def release(self, fence: Fence, seq: int, overlaps_seen: int | None) -> None:
        """See `Store.release`."""

        def work(db: sqlite3.Connection) -> None:
            values = {**_fence(fence), "seq": seq, "seen": overlaps_seen}
            if db.execute(SQL["release"], values).rowcount == 1:
                return
            lease, applied = self._own(db, fence)
            if not lease.released and seq > applied:
                raise OverlapIsNewer(
                    f"{lease.overlaps} triggers of {fence.key.job} were turned away, and "
                    f"the holder has seen {overlaps_seen}",
                    hint="decide again, then release",
                )

        self._file.write(work)

    def ask_stop(self, key: LeaseKey, generation: int, request: JsonObject) -> bool:
        """See `Store.ask_stop`."""
        asked = {**_key(key), "generation": generation, "request": to_json_text(request)}
        return self._file.write(
            lambda db: db.execute(SQL["ask_stop"], {**asked, **self._time()}).rowcount == 1,
        )

    def lease(self, key: LeaseKey) -> Lease | None:
        """See `Store.lease`."""
        rows = self._file.read(SQL["lease"], _key(key))
        return to_lease(key, rows[0], self._clock.boot(), self._boot_id) if rows else None

    # --- records

    def commit(self, fence: Fence, seq: int, writes: Sequence[Write]) -> bool:
        """See `Store.commit`."""
        refuse_several_jobs(writes, fence.key.job)

        def work(db: sqlite3.Connection) -> bool:
            if db.execute(SQL["advance"], {**_fence(fence), "seq": seq}).rowcount == 0:
                _, applied = self._own(db, fence)
                if seq > applied:
                    raise self._fenced_out(db, fence)
                return False
            write_all(db, writes, to_micros(self._clock.now()))
            return True

        return self._file.write(work)

    def note(self, writes: Sequence[Write]) -> None:
        """See `Store.note`."""
        refuse_several_jobs(writes)
        self._file.write(lambda db: write_all(db, writes, to_micros(self._clock.now())))

    def get(self, kind: Kind, job: str, key: str) -> Record | None:
        """See `Store.get`."""
        rows = self._file.read(SQL["get"], {"kind": kind, "job": job, "key": key})
        return to_record(kind, job, rows[0]) if rows else None

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
        low, high = key_bounds(prefix, after, before)
        values = {
            "kind": kind,
            "job": job,
            "low": low,
            "high": b"" if high is None else high,  # a blob is greater than every text
            "tag": tag,
            "limit": max(0, limit),
        }
        order = "newest_first" if newest_first else "oldest_first"
        statement = SQL["scan_tag" if tag else "scan"] + SQL[order]
        return [to_record(kind, job, row) for row in self._file.read(statement, values)]

    def take(self, bucket: str, rate: Rate, n: int = 1) -> float:
        """See `Store.take`. ValueError where n calls could never be had at once."""
        check_rate(rate, n)

        def work(db: sqlite3.Connection) -> float:
            boot = self._clock.boot()
            row = db.execute(SQL["bucket"], {"name": bucket}).fetchone() or (boot, self._boot_id)
            due = row[0] if row[1] == self._boot_id else boot + rate.per.total_seconds()
            wait, due = next_call(due, boot, rate, n)
            if (due, self._boot_id) != row:
                values = {"name": bucket, "due": due, "boot_id": self._boot_id}
                db.execute(SQL["put_bucket"], values)
            return wait

        return self._file.write(work)

    def close(self) -> None:
        """See `Store.close`."""
        self._file.close()

    # --- inside

    def _make_way(self, busy: StoreBusy) -> None:
        """End who keeps the store locked past its lease, else raise `busy` or its like."""
        if self._host is None:
            raise busy
        from .sqlite_blockers import Blockers  # only where something is locked

        Blockers(self.path, self._clock, self._host).make_way(busy)

    def _newest(self, db: sqlite3.Connection, key: LeaseKey) -> Lease | None:
        row = db.execute(SQL["lease"], _key(key)).fetchone()
        if row is None:
            return None
        lease = to_lease(key, row, self._clock.boot(), self._boot_id)
        return replace(lease, previous=previous_of(key, row))

    def _stands(self, db: sqlite3.Connection, key: LeaseKey) -> Lease:
        """The grant that this transaction has just found or written."""
        lease = self._newest(db, key)
        assert lease is not None
        return lease

    def _own(self, db: sqlite3.Connection, fence: Fence) -> tuple[Lease, int]:
        """The caller's own lease and its last sequence number, else `FencedOut`."""
        row = db.execute(SQL["lease"], _key(fence.key)).fetchone()
        if row is None or (row[0], row[1]) != (fence.generation, fence.run):
            raise self._fenced_out(db, fence)
        return to_lease(fence.key, row, self._clock.boot(), self._boot_id), row[14]

    def _fenced_out(self, db: sqlite3.Connection, fence: Fence) -> FencedOut:
        newer = self._newest(db, fence.key)
        if newer is None:
            text = "the store does not know this lease"
        elif newer.fence == fence:
            text = "it has released this lease"
        else:
            text = f"{newer.holder} was granted generation {newer.fence.generation}"
        return FencedOut(
            f"{fence.key.job} under generation {fence.generation} is fenced out: {text}",
            newer=newer and replace(newer, previous=None),
            hint="stop; the work is taken on from its last checkpoint",
        )

    def _time(self) -> _Values:
        return {
            "now": to_micros(self._clock.now()),
            "boot": self._clock.boot(),
            "boot_id": self._boot_id,
        }

    def _read_id(self) -> str:
        rows = self._file.read("SELECT value FROM meta WHERE name = 'id'")
        if not rows:
            raise StoreUnusable(
                f"the store {self.path} has lost its identity",
                hint="restore it from a copy, or move it away",
            )
        return str(rows[0][0])


def _told(kept: Lease | None) -> _Values:
    """What a holder was told under its last grant (triggers turned away, a request to stop)
    stays known while it goes on with the next; a released lease was told nothing."""
    if kept is None or kept.released:
        return {"overlaps": 0, "stop": None}
    stop = None if kept.stop is None else to_json_text(kept.stop)
    return {"overlaps": kept.overlaps, "stop": stop}


def _key(key: LeaseKey) -> _Values:
    return {"job": key.job, "shard": key.shard}


def _fence(fence: Fence) -> _Values:
    return {**_key(fence.key), "generation": fence.generation, "run": fence.run}
