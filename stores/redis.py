"""The Redis and Valkey store, for the processes of several hosts.

Steps. Each method is one Lua script, so one step on the server, which looks at all that can
be refused before it writes anything. A script takes every instant from the server's TIME;
the clock of the caller decides nothing. Expiry is a number in the lease, compared in the
script. No key has a time to live: a lease that ended keeps its generation.

Lost answers. Nothing is sent twice behind the caller's back. `acquire` may be repeated by
its run id, fenced writes by their number, renewals as they are; the caller does so. A note
whose answer was lost is unknown, and the caller's to look up.

Another store. The server may be wiped, restarted without its data, or replaced while it is
open. A fenced write is refused then, since nobody knows its grant. For all others the id
stands once for the store and once with each job, so that a script sees it: a job that this
connection has met and that is gone, or has another id, is not of the store that was opened.
Whoever opens it again finds a new one, whose first generations are the clock's seconds.

Least privileges: ``+eval +evalsha +info +wait +asking``, and of what scripts call ``+time
+hget +hset +hdel +hlen +hgetall +hincrby +zadd +zrem +zcard +zrangebylex +zrevrangebylex
+xadd +xdel +xlen +xrange``, on ``~reconcile:*``. ``+config|get`` lets it see whether the server
keeps its data.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ..core.config import TTL_NETWORK
from ..core.errors import (
    FencedOut,
    LeaseBusy,
    OverlapIsNewer,
    StoreUnreachable,
    StoreUnusable,
    WriteConflict,
)
from ..core.model import ABSENT, Put, StoreFacts
from .encoding import (
    check_rate,
    duration_to_micros,
    from_micros,
    holder_to_text,
    refuse_several_jobs,
    to_json_text,
)
from .redis_connection import RedisConnection
from .redis_probe import Probe, probe
from .redis_rows import (
    SCHEMA_VERSION,
    job_keys,
    lease_keys,
    scan_arguments,
    store_keys,
    to_arguments,
    to_lease,
    to_record,
)
from .redis_scripts import load

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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
    from ..core.ports import Clock, Store
    from .redis_rows import Argument
    from .redis_scripts import Script
    from .redis_url import RedisAddress

_MOST = 2**53 - 1
"""The greatest number that Lua counts exactly."""
_STORE = "@store"


class RedisStore:
    """One connection to a Redis or Valkey store. See `core.ports.Store`.

    `new_id` names a store that is created. A thread that must not wait for another's answer
    opens its own.
    """

    def __init__(
        self,
        connection: RedisConnection,
        scripts: Mapping[str, Script],
        probed: Probe,
        *,
        new_id: Callable[[], str],
    ) -> None:
        """Open the store, creating it if need be.

        Raises `StoreUnusable`, `StoreUnreachable`, `AccessDenied` or `ConfigError`.
        """
        self._connection = connection
        self._scripts = scripts
        self._probed = probed
        self._prefix = connection.address.prefix
        self._met: set[str] = set()
        self._id, _ = self._look(new_id())

    def facts(self) -> StoreFacts:
        """Identity, clock and traits. `StoreUnreachable` where it is another store by now."""
        found, now = self._look("")
        if found != self._id:
            raise self._replaced()
        return StoreFacts(
            id=self._id,
            now=from_micros(now),
            single_host=False,
            durable=self._probed.durable,
            default_ttl=TTL_NETWORK,
            location=self._connection.location,
            warnings=self._probed.warnings,
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
        if above >= _MOST:
            raise self._exhausted(key)
        micros, who = duration_to_micros(ttl), holder_to_text(holder)
        asked = (run, who, micros, interval, above, replaces or "", int(overlap))
        word, *rest = self._write("acquire", key.job, lease_keys(self._prefix, key), asked)
        if word == b"exhausted":
            raise self._exhausted(key)
        lease = to_lease(key, [word, *rest])
        assert lease is not None, "it was granted a moment ago, or somebody has it"
        if word == b"busy":
            raise LeaseBusy(replace(lease, previous=None))
        return lease

    def renew(self, fence: Fence, progress: int) -> Lease:
        """See `Store.renew`."""
        answer = self._fenced("renew", fence, lease_keys(self._prefix, fence.key), (progress,))
        lease = to_lease(fence.key, answer)
        assert lease is not None, "it was renewed a moment ago"
        return replace(lease, previous=None)

    def release(self, fence: Fence, seq: int, overlaps_seen: int | None) -> None:
        """See `Store.release`."""
        seen = "" if overlaps_seen is None else overlaps_seen
        answer = self._fenced("release", fence, lease_keys(self._prefix, fence.key), (seq, seen))
        if answer[0] == b"overlap":
            raise OverlapIsNewer(
                f"{int(answer[1])} triggers of {fence.key.job} were turned away, and the "
                f"holder has seen {overlaps_seen}",
                hint="decide again, then release",
            )

    def ask_stop(self, key: LeaseKey, generation: int, request: JsonObject) -> bool:
        """See `Store.ask_stop`."""
        asked = (generation, to_json_text(request))
        answer = self._write("ask_stop", key.job, lease_keys(self._prefix, key), asked)
        return bool(answer[0] == b"ok")

    def lease(self, key: LeaseKey) -> Lease | None:
        """See `Store.lease`."""
        owner, answer = self._read("lease", key.job, lease_keys(self._prefix, key), ())
        self._meet(key.job, owner)
        lease = to_lease(key, answer)
        return lease and replace(lease, previous=None)

    # --- records

    def commit(self, fence: Fence, seq: int, writes: Sequence[Write]) -> bool:
        """See `Store.commit`."""
        refuse_several_jobs(writes, fence.key.job)
        arguments = to_arguments(writes)
        keys = job_keys(self._prefix, fence.key.job, fence.key.shard)
        answer = self._fenced("commit", fence, keys, (seq, *arguments))
        self._refuse_conflict(answer, writes)
        return bool(answer[0] == b"ok")

    def note(self, writes: Sequence[Write]) -> None:
        """See `Store.note`."""
        refuse_several_jobs(writes)
        arguments = to_arguments(writes)
        if writes:
            job = writes[0].job
            answer = self._write("note", job, job_keys(self._prefix, job), arguments)
            self._refuse_conflict(answer, writes)

    def get(self, kind: Kind, job: str, key: str) -> Record | None:
        """See `Store.get`."""
        keys = job_keys(self._prefix, job)
        owner, record, blob = self._read("get", job, keys, (str(kind), key))
        self._meet(job, owner)
        return None if record is None else to_record(kind, job, key, record, blob)

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
        bounds = (prefix, after, before)
        asked = scan_arguments(kind, bounds, tag, max(0, limit), newest_first=newest_first)
        owner, *flat = self._read("scan", job, job_keys(self._prefix, job), asked)
        self._meet(job, owner)
        rows = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
        return [to_record(kind, job, key.decode(), record, blob) for key, record, blob in rows]

    def take(self, bucket: str, rate: Rate, n: int = 1) -> float:
        """See `Store.take`. ValueError where n calls could never be had at once."""
        check_rate(rate, n)
        per = duration_to_micros(rate.per)
        asked = (self._id, 0, bucket, n, rate.amount, per)
        keys = store_keys(self._prefix)
        answer = self._connection.run(self._scripts["take"], _STORE, keys, asked)
        if answer[0] == b"other":
            raise self._replaced()
        return float(answer[1]) / 1e6

    def close(self) -> None:
        """See `Store.close`."""
        self._connection.close()

    # --- inside

    def _look(self, new_id: str) -> tuple[str, int]:
        """The id of the store that is there now, and its clock in microseconds."""
        keys = store_keys(self._prefix)[:1]
        asked = (new_id, SCHEMA_VERSION)
        # It may be asked twice: a store that was made a moment ago has its id by then.
        answer = self._connection.run(self._scripts["open"], _STORE, keys, asked, writes=False)
        found, schema, seconds, micros = (bytes(part).decode() for part in answer)
        if int(schema) > SCHEMA_VERSION:
            raise StoreUnusable(
                f"the store {self._connection.location} has schema version {schema}; this "
                f"program knows {SCHEMA_VERSION} at most",
                hint="upgrade reconcile on this host to the version that wrote the store",
            )
        return found, int(seconds) * 1_000_000 + int(micros)

    def _read(self, name: str, job: str, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
        return self._connection.run(self._scripts[name], job, keys, arguments, writes=False)

    def _meet(self, job: str, owner: bytes) -> None:
        if owner.decode() == self._id:
            self._met.add(job)

    def _write(
        self, name: str, job: str, keys: Sequence[str], arguments: Sequence[Argument]
    ) -> Any:
        """What a writing script answers, once the job is known to be this store's."""
        while True:
            about = (self._id, int(job in self._met), int(self._connection.address.wait > 0))
            answer = self._connection.run(self._scripts[name], job, keys, (*about, *arguments))
            if answer[0] != b"other":
                break
            self._adopt(job, keys, bytes(answer[1]).decode())
        if name in ("acquire", "note"):
            self._met.add(job)
        return answer

    def _adopt(self, job: str, keys: Sequence[str], owner: str) -> None:
        """Make a job ours that a connection to the wiped store before this one wrote to.
        `StoreUnreachable` where it is this connection that is of the store before."""
        if job in self._met or not owner or self._look("")[0] != self._id:
            raise self._replaced()
        asked = (self._id, 0, 0, owner)
        self._connection.run(self._scripts["adopt"], job, keys[:2], asked)

    def _fenced(
        self, name: str, fence: Fence, keys: Sequence[str], arguments: Sequence[Argument]
    ) -> Any:
        own = (fence.generation, fence.run)
        answer = self._write(name, fence.key.job, keys, (*own, *arguments))
        if answer[0] == b"fenced":
            raise _fenced_out(fence, to_lease(fence.key, answer))
        return answer

    @staticmethod
    def _refuse_conflict(answer: Sequence[Any], writes: Sequence[Write]) -> None:
        if answer[0] != b"conflict":
            return
        put = writes[int(answer[1]) - 1]
        assert isinstance(put, Put), "nothing else is conditional"
        wanted = "none" if put.expect == ABSENT else f"version {put.expect}"
        raise WriteConflict(
            f"the {put.kind} record {put.key!r} of {put.job} has version {answer[2]}: "
            f"{wanted} was expected",
            hint="read it again and decide anew",
        )

    def _replaced(self) -> StoreUnreachable:
        return StoreUnreachable(
            f"the store {self._connection.location} was wiped or replaced while it was open",
            hint="run again: the next run opens what is there now",
        )

    def _exhausted(self, key: LeaseKey) -> StoreUnusable:
        return StoreUnusable(
            f"the target of {key.job} is fenced at a generation above {_MOST}, where the store "
            f"{self._connection.location} cannot count any more",
            hint="look at reconcile_fence in the target: no store of ours gets there by itself",
        )


def connector(
    address: RedisAddress, *, patience: float, clock: Clock, new_id: Callable[[], str]
) -> Callable[[], Store]:
    """A function that opens one more connection to the store with each call. The server is
    looked at by the first."""
    scripts = load()
    probed: list[Probe] = []

    def connect() -> Store:
        connection = RedisConnection(address, patience, clock)
        try:
            if not probed:
                probed.append(probe(connection))
            return RedisStore(connection, scripts, probed[0], new_id=new_id)
        except BaseException:
            connection.close()
            raise

    return connect


def _fenced_out(fence: Fence, newer: Lease | None) -> FencedOut:
    if newer is None:
        text = "the store does not know this lease; it was wiped or restored"
    elif newer.fence == fence:
        text = "it has released this lease"
    else:
        text = f"{newer.holder} was granted generation {newer.fence.generation}"
    return FencedOut(
        f"{fence.key.job} under generation {fence.generation} is fenced out: {text}",
        newer=newer and replace(newer, previous=None),
        hint="stop; the work is taken on from its last checkpoint",
    )
