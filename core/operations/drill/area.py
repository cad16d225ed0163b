"""The scratch area: names that no job of a user can have, in the user's own store.

Only one drill at a time has it, by a lease of its own (the key `AREA`). So its names can be
fixed, and whatever a drill left that was killed is found without a list: the next drill takes
the lease over, as any holder's, and removes all records under those names first; so does
`reconcile prune`.

What is removed are all records. What stays, in any store, is one row for each name: the
newest generation, released. Removing it would let a generation come again, which promise 1
forbids to scratch jobs like any other.
"""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

from ...config import RESERVED
from ...errors import DrillBusy, LeaseBusy
from ...model import Delete, Kind, LeaseKey, RunId

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...model import Lease
    from ...ports import Store
    from ..application import Application

AREA = LeaseKey(RESERVED)
PARTS = ("crowd", "killed", "stalled", "still", "nights", "half")
TTL = timedelta(minutes=3)
"""Longer than any drill takes; one that was killed on this host is known to be dead at once."""
READ = 500


def scratch(part: str) -> str:
    """The name of a scratch job."""
    return f"{RESERVED}-{part}"


class Area:
    """The scratch area of one store, taken. Use `take` and `give_back`."""

    def __init__(self, store: Store, lease: Lease) -> None:
        self._store = store
        self._lease = lease

    @classmethod
    def take(cls, app: Application, store: Store) -> Area:
        """Take it, over from a drill that is dead or expired. Raises `DrillBusy`."""
        runtime = app.runtime
        run, holder = RunId(runtime.entropy.token()), runtime.host.holder()

        def acquire(replaces: RunId | None) -> Area:
            lease = store.acquire(AREA, run, holder, TTL, interval="", replaces=replaces)
            return cls(store, lease)

        try:
            return acquire(None)
        except LeaseBusy as error:
            busy = error.lease
        if not runtime.host.is_dead(busy.holder):
            raise _busy(busy)
        try:
            return acquire(busy.fence.run)
        except LeaseBusy as error:
            raise _busy(error.lease) from None

    def clear(self) -> int:
        """Remove all records of scratch jobs; how many there were."""
        return sum(_clear(self._store, scratch(part)) for part in PARTS)

    def give_back(self) -> None:
        """Let others drill."""
        self._store.release(self._lease.fence, 1, None)


def sweep(app: Application) -> int:
    """Remove what a drill left that is not alive any more; how many records there were.

    Nothing is written where there is nothing to remove. Raises errors of the store.
    """
    with closing(app.open_store()) as store:
        if not any(True for part in PARTS for _ in left(store, scratch(part))):
            return 0
        try:
            area = Area.take(app, store)
        except DrillBusy:
            return 0  # that drill is alive, and removes its own
        try:
            return area.clear()
        finally:
            area.give_back()


def left(store: Store, job: str) -> Iterator[Delete]:
    """What removes each record of a scratch job that is there now."""
    for kind in Kind:
        after = ""
        while True:
            page = store.scan(kind, job, after=after, limit=READ)
            yield from (Delete(kind, job, found.key) for found in page)
            if len(page) < READ:
                break
            after = page[-1].key


def _clear(store: Store, job: str) -> int:
    found = list(left(store, job))
    for start in range(0, len(found), READ):
        store.note(found[start : start + READ])
    return len(found)


def _busy(lease: Lease) -> DrillBusy:
    return DrillBusy(
        f"{lease.holder} drills in this store since {lease.granted_at:%Y-%m-%d %H:%M:%SZ}",
        hint="wait for its end, which takes less than a minute, and call this again",
    )
