"""What a network does to a store: answers lost, requests doubled, requests late.

Each wraps a connection and is one itself. `names` are the methods concerned; all others go
through untouched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ..core.errors import StoreUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
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
        StoreFacts,
        Write,
    )
    from ..core.ports import Store

_T = TypeVar("_T")


class WrappedStore:
    """A store that hands each call to another through `_send`."""

    def __init__(self, inner: Store, names: Collection[str]) -> None:
        """`inner` is the real connection; it is closed by its owner."""
        self._inner = inner
        self._names = names

    def _send(self, name: str, call: Callable[[], _T]) -> _T:
        raise NotImplementedError

    def _pass(self, name: str, call: Callable[[], _T]) -> _T:
        return self._send(name, call) if name in self._names else call()

    def facts(self) -> StoreFacts:
        """See `Store.facts`."""
        return self._pass("facts", self._inner.facts)

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
        return self._pass(
            "acquire",
            lambda: self._inner.acquire(
                key,
                run,
                holder,
                ttl,
                interval=interval,
                above=above,
                replaces=replaces,
                overlap=overlap,
            ),
        )

    def renew(self, fence: Fence, progress: int) -> Lease:
        """See `Store.renew`."""
        return self._pass("renew", lambda: self._inner.renew(fence, progress))

    def release(self, fence: Fence, seq: int, overlaps_seen: int | None) -> None:
        """See `Store.release`."""
        self._pass("release", lambda: self._inner.release(fence, seq, overlaps_seen))

    def ask_stop(self, key: LeaseKey, generation: int, request: JsonObject) -> bool:
        """See `Store.ask_stop`."""
        return self._pass("ask_stop", lambda: self._inner.ask_stop(key, generation, request))

    def commit(self, fence: Fence, seq: int, writes: Sequence[Write]) -> bool:
        """See `Store.commit`."""
        return self._pass("commit", lambda: self._inner.commit(fence, seq, writes))

    def note(self, writes: Sequence[Write]) -> None:
        """See `Store.note`."""
        self._pass("note", lambda: self._inner.note(writes))

    def lease(self, key: LeaseKey) -> Lease | None:
        """See `Store.lease`."""
        return self._pass("lease", lambda: self._inner.lease(key))

    def get(self, kind: Kind, job: str, key: str) -> Record | None:
        """See `Store.get`."""
        return self._pass("get", lambda: self._inner.get(kind, job, key))

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
        return self._pass(
            "scan",
            lambda: self._inner.scan(
                kind,
                job,
                prefix=prefix,
                after=after,
                before=before,
                tag=tag,
                limit=limit,
                newest_first=newest_first,
            ),
        )

    def take(self, bucket: str, rate: Rate, n: int = 1) -> float:
        """See `Store.take`."""
        return self._pass("take", lambda: self._inner.take(bucket, rate, n))

    def close(self) -> None:
        """See `Store.close`."""
        self._pass("close", self._inner.close)


class LosesAnswers(WrappedStore):
    """The request is carried out and its answer lost: `StoreUnreachable`, `times` times."""

    def __init__(self, inner: Store, names: Collection[str], times: int = 1) -> None:
        """The first `times` calls of `names` lose their answers."""
        super().__init__(inner, names)
        self._left = times

    def _send(self, name: str, call: Callable[[], _T]) -> _T:
        answer = call()
        if self._left > 0:
            self._left -= 1
            raise StoreUnreachable(f"the answer to {name} was lost", hint="ask again")
        return answer


class DoublesRequests(WrappedStore):
    """Each request arrives twice; the caller gets the second answer."""

    def _send(self, name: str, call: Callable[[], _T]) -> _T:
        call()
        return call()


class DelaysRequests(WrappedStore):
    """Requests stay in the network until `deliver`; the caller is told `StoreUnreachable`."""

    def __init__(self, inner: Store, names: Collection[str]) -> None:
        """Calls of `names` are kept back from now on."""
        super().__init__(inner, names)
        self._late: list[Callable[[], object]] = []

    def _send(self, name: str, call: Callable[[], _T]) -> _T:
        self._late.append(call)
        raise StoreUnreachable(f"{name} was not answered in time", hint="ask again")

    def deliver(self) -> object:
        """Let the oldest request kept back arrive; its answer, or what it raises."""
        return self._late.pop(0)()
