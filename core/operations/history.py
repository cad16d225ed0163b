"""What earlier intervals of a job were like: read newest first, and never all of them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from ..model import Kind, State, instant_key
from ..records import IntervalRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from ..ports import Store

SECOND = timedelta(seconds=1)
TIMED = 30
"""The usual and the slowest time are taken from so many completed intervals."""
LOOKED_AT = 1000
"""So many intervals are looked at to find them."""
PAGE = 100
LARGEST_PAGE = 400
FAILED = 5
"""So many failed intervals are told of each."""


class Times(NamedTuple):
    """How long completed intervals were worked, in seconds: without the time they waited."""

    usual: float | None
    slowest: float | None
    timed: int


def newest(
    store: Store, job: str, *, after: str = "", before: str = "", first: int = PAGE
) -> Iterator[IntervalRecord]:
    """Interval records between two keys, newest first. The `first` are read alone."""
    limit = first
    while True:
        page = store.scan(
            Kind.INTERVAL, job, after=after, before=before, limit=limit, newest_first=True
        )
        for found in page:
            yield IntervalRecord.from_json(found.value)
        if len(page) < limit:
            return
        before, limit = page[-1].key, min(max(PAGE, 2 * limit), LARGEST_PAGE)


class History:
    """A job's intervals until now, newest first, for several looks at them: each is read once,
    and none before somebody asks for it. The `first` are read alone."""

    def __init__(self, store: Store, job: str, now: datetime, *, first: int = PAGE) -> None:
        self._read: list[IntervalRecord] = []
        self._rest = newest(store, job, before=instant_key(now + SECOND), first=first)

    def __iter__(self) -> Iterator[IntervalRecord]:
        at = 0
        while True:
            if at == len(self._read):
                record = next(self._rest, None)
                if record is None:
                    return
                self._read.append(record)
            yield self._read[at]
            at += 1

    def completed(self, limit: int = TIMED) -> list[IntervalRecord]:
        """The newest completed ones. Of one that is being rerun, the completion it had: it
        stands again should the rerun fail."""
        found: list[IntervalRecord] = []
        for looked_at, record in enumerate(self):
            done = _completion(record)
            if done is not None:
                found.append(done)
            if len(found) == limit or looked_at >= LOOKED_AT:
                break
        return found

    def failures(self, limit: int = FAILED) -> tuple[list[IntervalRecord], int]:
        """The failed ones that no newer one was completed after and nobody has signed for, and
        how many older ones of them there are."""
        found: list[IntervalRecord] = []
        more = 0
        for looked_at, record in enumerate(self):
            if _completion(record) is not None or looked_at >= LOOKED_AT:
                break
            if record.state is State.FAILED and not record.is_signed:
                more += len(found) == limit
                found += [record][: limit - len(found)]
        return found, more


def completed(store: Store, job: str, now: datetime, limit: int = TIMED) -> list[IntervalRecord]:
    """See `History.completed`."""
    return History(store, job, now, first=limit).completed(limit)


def _completion(record: IntervalRecord) -> IntervalRecord | None:
    if record.state is State.COMPLETED:
        return record
    return IntervalRecord.from_json(record.earlier) if record.earlier is not None else None


def times(records: Sequence[IntervalRecord]) -> Times:
    """The usual and the slowest time of those that were worked."""
    # Deferred: it brings fractions and decimals, which a knock with nothing due never needs.
    from statistics import median

    seconds = [record.seconds for record in records if record.runs]
    return Times(median(seconds) if seconds else None, max(seconds, default=None), len(seconds))
