"""The Postgres store: for the processes of many hosts.

Rows, not advisory locks. A lease is a row, and every write under it compares generation and
run id in the statement that writes, so that it makes no difference which connection, pooled
or not, carries it, and everybody can see in the table who works. One method is one
transaction, READ COMMITTED: a statement that waited for a row sees what the other left.

Time. The server's clock decides, and is read (`clock_timestamp()`) after a lock was had. The
caller's clock bounds waiting, and nothing else. Expiry is no promise about a server whose
clock is stepped, nor about one that fails over to a copy that lags behind: there a target's
fence is what keeps two holders apart.

Where it works: PostgreSQL 13 or newer, also behind PgBouncer in transaction mode (see
`postgres_connection.py`), as long as it is the primary. Durable as far as ``fsync`` and
``synchronous_commit`` say so; where either is off, people are warned.

One round trip. A fenced write goes in one text with its COMMIT, in statements that fail where
they change nothing. Where one does, all is undone, and the write is tried again step by step:
to say why it is refused, or to find that it no longer is.

Rights. The first use makes the schema and its tables, if the role may. After that a role
needs USAGE on the schema and on the sequence `appended`; SELECT on `meta`; SELECT, INSERT
and UPDATE on `lease` and `bucket`; and DELETE too on `record`. `least_privileges` gives
the statements.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..core.config import TTL_NETWORK
from ..core.errors import FencedOut, LeaseBusy, OverlapIsNewer
from ..core.model import StoreFacts
from .encoding import (
    check_rate,
    duration_to_micros,
    from_micros,
    holder_to_text,
    key_bounds,
    next_call,
    refuse_several_jobs,
    to_json_text,
)
from .postgres_address import read_address
from .postgres_connection import PostgresConnection
from .postgres_errors import replaced
from .postgres_rows import (
    Ask,
    asks_of,
    check_written,
    insisted,
    is_conditional,
    json_or_none,
    previous_of,
    previous_text,
    seq_of,
    to_lease,
    to_record,
    warnings_of,
)
from .postgres_schema import least_privileges, statements

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime, timedelta

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
    from ..core.ports import Clock, Entropy, Host, Store
    from .postgres_address import Address
    from .postgres_connection import Transaction
    from .postgres_rows import Answer, Row, Values

__all__ = ["PostgresStore", "least_privileges", "opener"]


def opener(
    url: str, *, clock: Clock, host: Host, entropy: Entropy, patience: float
) -> Callable[[], Store]:
    """See `registry.Opener`."""
    del host, entropy  # the server names its stores itself
    address = read_address(url)
    return lambda: PostgresStore(address, clock=clock, patience=patience)


class PostgresStore:
    """One connection to a Postgres store. See `core.ports.Store` for what the methods promise.

    `clock` only bounds how long is waited.
    """

    def __init__(self, address: Address, *, clock: Clock, patience: float) -> None:
        """Connect to the store at `address`, making or migrating its tables if need be.

        `patience`: seconds that one call may take. Raises what `core.ports.Store` says,
        `AccessDenied`, or `ConfigError` where the database is not there.
        """
        self._sql = statements(address.schema)
        self._server = PostgresConnection(address, clock=clock, patience=patience)

    def facts(self) -> StoreFacts:
        """Identity, clock and traits."""
        [(now, *settings)] = self._server.read(self._ask("facts"))[0].rows
        location = self._server.address.shown
        return StoreFacts(
            id=self._server.id,
            now=from_micros(now),
            single_host=False,
            durable=all(settings),
            default_ttl=TTL_NETWORK,
            location=location,
            warnings=warnings_of(location, *settings),
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
        """See `Store.acquire`. Who finds it plainly busy, and has nothing to note, takes no
        lock, so that many who ask do not keep the holder waiting."""
        seen = self.lease(key)
        if seen is not None and seen.live and seen.holder != holder:
            notes = overlap and seen.interval != interval
            if not notes and seen.fence.run not in (run, replaces):
                raise LeaseBusy(seen)
        asked: Values = {
            **_key(key),
            "run": run,
            "holder": holder_to_text(holder),
            "interval": interval,
            "ttl": duration_to_micros(ttl),
        }

        def work(db: Transaction) -> tuple[Lease, bool]:
            while True:
                last, now = self._locked(db, key)
                if last is not None:
                    if last.fence.run == run:
                        return last, True
                    if replaces != last.fence.run and (last.live or last.holder == holder):
                        if overlap and last.interval != interval:
                            db.run(self._ask("note_overlap", _key(key)))
                        return self._stands(db, key), False
                first = int(now.timestamp())
                generation = max(last.fence.generation + 1 if last else first, above + 1)
                new = {"generation": generation, "now": now, "expires_at": now + ttl}
                grant = self._grant({**asked, **new}, last, holder)
                # Its row is locked, if there is one; else another may be the first meanwhile.
                granted, stands = db.run(grant, self._ask("lease", _key(key)))
                if granted.changed == 1:
                    return _with_previous(key, stands.rows[0]), True

        lease, granted = self._server.write(work)
        if not granted:
            raise LeaseBusy(replace(lease, previous=None))
        return lease

    def _grant(self, values: Values, last: Lease | None, holder: Holder) -> Ask:
        """What a holder was told under its last grant (triggers turned away, a request to
        stop) stays known while it goes on with the next; a released lease was told nothing."""
        if last is None:
            return self._ask("first_grant", values)
        kept = last if last.holder == holder and not last.released else None
        told = {
            "overlaps": kept.overlaps if kept else 0,
            "stop": json_or_none(kept.stop) if kept else None,
            "previous": previous_text(last),
        }
        return self._ask("grant", {**values, **told})

    def _locked(self, db: Transaction, key: LeaseKey) -> tuple[Lease | None, datetime]:
        """The newest grant, its row locked, and the time once it was."""
        lock = Ask(self._sql["lease"] + self._sql["lock"], _key(key))
        found, clock, identity = db.run(lock, self._ask("clock"), self._ask("identity"))
        self._check_same(identity)
        now = from_micros(clock.rows[0][0])
        if not found.rows:
            return None, now
        lease = _with_previous(key, found.rows[0])
        return replace(lease, live=not lease.released and now < lease.expires_at), now

    def renew(self, fence: Fence, progress: int) -> Lease:
        """See `Store.renew`."""

        renewed = self._ask("renew", {**_fence(fence), "progress": progress})
        stands = self._ask("lease", _key(fence.key))

        def at_once(db: Transaction) -> Lease:
            answers = db.run(insisted(self._sql, renewed), stands, last=True)
            return to_lease(fence.key, answers[1].rows[0])

        def by_steps(db: Transaction) -> Lease:
            if db.run(renewed)[0].changed == 0:
                raise self._fenced_out(db, fence)
            return to_lease(fence.key, db.run(stands)[0].rows[0])

        return self._server.write(at_once, otherwise=by_steps)

    def release(self, fence: Fence, seq: int, overlaps_seen: int | None) -> None:
        """See `Store.release`."""
        released = self._ask("release", {**_fence(fence), "seq": seq, "seen": overlaps_seen})

        def at_once(db: Transaction) -> None:
            db.run(insisted(self._sql, released), last=True)

        def by_steps(db: Transaction) -> None:
            if db.run(released)[0].changed == 1:
                return
            lease, applied = self._own(db, fence)
            if not lease.released and seq > applied:
                raise OverlapIsNewer(
                    f"{lease.overlaps} triggers of {fence.key.job} were turned away, and "
                    f"the holder has seen {overlaps_seen}",
                    hint="decide again, then release",
                )

        self._server.write(at_once, otherwise=by_steps)

    def ask_stop(self, key: LeaseKey, generation: int, request: JsonObject) -> bool:
        """See `Store.ask_stop`."""
        values = {**_key(key), "generation": generation, "request": to_json_text(request)}
        asked = self._ask("ask_stop", values)
        return self._server.write(lambda db: db.run(asked, last=True)[0].changed == 1)

    def lease(self, key: LeaseKey) -> Lease | None:
        """See `Store.lease`."""
        rows = self._server.read(self._ask("lease", _key(key)))[0].rows
        return to_lease(key, rows[0]) if rows else None

    # --- records

    def commit(self, fence: Fence, seq: int, writes: Sequence[Write]) -> bool:
        """See `Store.commit`."""
        refuse_several_jobs(writes, fence.key.job)
        advance = self._ask("advance", {**_fence(fence), "seq": seq})
        asks = asks_of(self._sql, writes)

        def at_once(db: Transaction) -> bool:
            pairs = zip(asks, writes, strict=True)
            once = [insisted(self._sql, a) if is_conditional(w) else a for a, w in pairs]
            db.run(insisted(self._sql, advance), *once, last=True)
            return True

        def by_steps(db: Transaction) -> bool:
            if db.run(advance)[0].changed == 0:
                _, applied = self._own(db, fence)
                if seq > applied:
                    raise self._fenced_out(db, fence)
                return False
            check_written(writes, db.run(*asks) if asks else [])
            return True

        return self._server.write(at_once, otherwise=by_steps)

    def note(self, writes: Sequence[Write]) -> None:
        """See `Store.note`."""
        refuse_several_jobs(writes)
        asks = asks_of(self._sql, writes)

        def work(db: Transaction) -> None:
            identity, *written = db.run(self._ask("identity"), *asks)
            self._check_same(identity)
            check_written(writes, written)

        self._server.write(work, again=False)

    def get(self, kind: Kind, job: str, key: str) -> Record | None:
        """See `Store.get`."""
        values = {"kind": str(kind), "job": job, "key": key}
        rows = self._server.read(self._ask("get", values))[0].rows
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
        # Postgres has no U+0000, by which the first key above `after` is named.
        strict = after != "" and low == after + "\0"
        names = ["scan"]
        names += ["scan_after"] * strict + ["scan_below"] * (high is not None)
        names += ["scan_tag"] * (tag != "")
        names.append("newest_first" if newest_first else "oldest_first")
        values = {
            "kind": str(kind),
            "job": job,
            "low": after if strict else low,
            "high": high,
            "tag": tag,
            "limit": max(0, limit),
        }
        asked = Ask("".join(self._sql[name] for name in names), values)
        return [to_record(kind, job, row) for row in self._server.read(asked)[0].rows]

    def take(self, bucket: str, rate: Rate, n: int = 1) -> float:
        """See `Store.take`. ValueError where n calls could never be had at once."""
        check_rate(rate, n)
        name = {"name": bucket}

        def work(db: Transaction) -> float:
            asks = [self._ask("open_bucket", name), self._ask("bucket", name)]
            _, found, clock = db.run(*asks, self._ask("clock"))
            due, now = found.rows[0][0], clock.rows[0][0] / 1_000_000
            wait, kept = next_call(due, now, rate, n)
            if kept != due:
                db.run(self._ask("put_bucket", {**name, "due": kept}), last=True)
            return wait

        return self._server.write(work)

    def close(self) -> None:
        """See `Store.close`."""
        self._server.close()

    # --- inside

    def _ask(self, name: str, values: Values | None = None) -> Ask:
        return Ask(self._sql[name], values or {})

    def _check_same(self, identity: Answer) -> None:
        """`StoreUnreachable` where other tables stand by now in place of those once opened."""
        if identity.rows != [(self._server.id,)]:
            raise replaced(self._server.address)

    def _stands(self, db: Transaction, key: LeaseKey) -> Lease:
        """The grant that this transaction has just found or written."""
        return _with_previous(key, db.run(self._ask("lease", _key(key)))[0].rows[0])

    def _own(self, db: Transaction, fence: Fence) -> tuple[Lease, int]:
        """The caller's own lease and its last sequence number, else `FencedOut`."""
        rows = db.run(self._ask("lease", _key(fence.key)))[0].rows
        if not rows or (rows[0][0], rows[0][1]) != (fence.generation, fence.run):
            raise self._fenced_out(db, fence)
        return to_lease(fence.key, rows[0]), seq_of(rows[0])

    def _fenced_out(self, db: Transaction, fence: Fence) -> FencedOut:
        rows = db.run(self._ask("lease", _key(fence.key)))[0].rows
        newer = to_lease(fence.key, rows[0]) if rows else None
        if newer is None:
            text = "the store does not know this lease"
        elif newer.fence == fence:
            text = "it has released this lease"
        else:
            text = f"{newer.holder} was granted generation {newer.fence.generation}"
        return FencedOut(
            f"{fence.key.job} under generation {fence.generation} is fenced out: {text}",
            newer=newer,
            hint="stop; the work is taken on from its last checkpoint",
        )


def _with_previous(key: LeaseKey, row: Row) -> Lease:
    return replace(to_lease(key, row), previous=previous_of(key, row))


def _key(key: LeaseKey) -> Values:
    return {"job": key.job, "shard": key.shard}


def _fence(fence: Fence) -> Values:
    return {**_key(fence.key), "generation": fence.generation, "run": fence.run}
