"""The records of the store in memory: each under its key, and the keys in order, so that reading
a page of one job's records costs as much when there are a million as when there are ten.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ..core.model import Record
from .encoding import from_json_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from ..core.model import Kind

RecordKey = tuple["Kind", str, str]

BEYOND = "\U0010ffff"
"""Sorts after every character that a key has."""


class Stored(NamedTuple):
    """A record with its value as text, so that nobody can change it from outside."""

    text: str
    version: int
    at: datetime
    tag: str
    blob: bytes | None


@dataclass(slots=True)
class Records:
    """All records of all jobs. `order` has the keys of a kind and job, and once more those under
    each tag; the empty tag stands for all of them."""

    stored: dict[RecordKey, Stored] = field(default_factory=dict)
    order: dict[tuple[Kind, str, str], list[str]] = field(default_factory=dict)

    def get(self, name: RecordKey) -> Stored | None:
        """What is stored under a kind, job and key."""
        return self.stored.get(name)

    def record(self, name: RecordKey) -> Record | None:
        """The same as callers see it."""
        found = self.stored.get(name)
        if found is None:
            return None
        value = from_json_text(found.text)
        return Record(*name, value, found.version, found.at, found.tag, found.blob)

    def page(
        self,
        kind: Kind,
        job: str,
        *,
        prefix: str,
        after: str,
        before: str,
        tag: str,
        limit: int,
        newest_first: bool,
    ) -> Iterator[Record]:
        """See `core.ports.Store.scan`."""
        keys = self.order.get((kind, job, tag), [])
        first = max(bisect_left(keys, prefix), bisect_right(keys, after) if after else 0)
        last = bisect_left(keys, prefix + BEYOND) if prefix else len(keys)
        if before:
            last = min(last, bisect_left(keys, before))
        found = range(first, last)
        for place in islice(reversed(found) if newest_first else found, max(0, limit)):
            record = self.record((kind, job, keys[place]))
            assert record is not None, "its key stands in the order"
            yield record

    def take(self, changes: Mapping[RecordKey, Stored | None]) -> None:
        """Store each, or drop it where there is none."""
        for (kind, job, key), new in changes.items():
            old = self.stored.pop((kind, job, key), None)
            if new is not None:
                self.stored[kind, job, key] = new
            had, has = _tags(old), _tags(new)
            for tag in had - has:
                keys = self.order[kind, job, tag]
                del keys[bisect_left(keys, key)]
            for tag in has - had:
                insort(self.order.setdefault((kind, job, tag), []), key)

    def copy(self) -> Records:
        """The same records, which go on by themselves."""
        return Records(dict(self.stored), {name: [*keys] for name, keys in self.order.items()})


def _tags(stored: Stored | None) -> set[str]:
    return set() if stored is None else {"", stored.tag}
