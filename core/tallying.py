"""A store that counts what is written to it; `tally.py` says how, and is imported to write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from .model import (
        Fence,
        Holder,
        JsonObject,
        Kind,
        Lease,
        LeaseKey,
        Rate,
        Record,
        RunId,
        StoreFacts,
        Write,
    )
    from .ports import Store


class Tallying:
    """A store that counts what is written to it. Implements `ports.Store`.

    `alerts`: somebody is told of intervals that fail for good.
    """

    def __init__(self, inner: Store, *, alerts: bool = False) -> None:
        self._inner = inner
        self._alerts = alerts

    def facts(self) -> StoreFacts:
        """See `Store.facts`."""
        return self._inner.facts()

    def acquire(
        self, key: LeaseKey, run: RunId, holder: Holder, ttl: timedelta, **options: Any
    ) -> Lease:
        """See `Store.acquire`."""
        return self._inner.acquire(key, run, holder, ttl, **options)

    def renew(self, fence: Fence, progress: int) -> Lease:
        """See `Store.renew`."""
        return self._inner.renew(fence, progress)

    def release(self, fence: Fence, seq: int, overlaps_seen: int | None) -> None:
        """See `Store.release`."""
        self._inner.release(fence, seq, overlaps_seen)

    def ask_stop(self, key: LeaseKey, generation: int, request: JsonObject) -> bool:
        """See `Store.ask_stop`."""
        return self._inner.ask_stop(key, generation, request)

    def lease(self, key: LeaseKey) -> Lease | None:
        """See `Store.lease`."""
        return self._inner.lease(key)

    def get(self, kind: Kind, job: str, key: str) -> Record | None:
        """See `Store.get`."""
        return self._inner.get(kind, job, key)

    def scan(self, kind: Kind, job: str, **options: Any) -> Sequence[Record]:
        """See `Store.scan`."""
        return self._inner.scan(kind, job, **options)

    def take(self, bucket: str, rate: Rate, n: int = 1) -> float:
        """See `Store.take`."""
        return self._inner.take(bucket, rate, n)

    def close(self) -> None:
        """See `Store.close`."""
        self._inner.close()

    def commit(self, fence: Fence, seq: int, writes: Sequence[Write]) -> bool:
        """See `Store.commit`; the totals are part of the batch."""
        from .tally import fenced

        batch = fenced(self._inner, fence.key.job, writes, alerts=self._alerts)
        return self._inner.commit(fence, seq, batch)

    def note(self, writes: Sequence[Write]) -> None:
        """See `Store.note`; the totals are part of the batch."""
        from .tally import note

        note(self._inner, writes, alerts=self._alerts)
