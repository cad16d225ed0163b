"""The contract of dropping records. See `stores/testing.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ..core.errors import WriteConflict
from ..core.model import ABSENT, Append, Delete, Kind, Put
from .testing_support import JOB, KEY, Harness, grant, keys

if TYPE_CHECKING:
    from ..core.model import Write
    from ..core.ports import Store


class DropContract:
    """A record is dropped as it was read, with all that is in the batch, or nothing is."""

    @staticmethod
    def two_jobs(harness: Harness) -> Store:
        """Two jobs with an interval that has a run and two events."""
        store = harness.open()
        for job in (JOB, "other"):
            interval = Put(Kind.INTERVAL, job, "01", {"n": 1}, tag="open")
            run = Put(Kind.RUN, job, "01/000001", {}, blob=b"1")
            event = Append(Kind.EVENT, job, "01", {})
            store.note([interval, run, event, event, Put(Kind.JOB, job, "", {})])
        return store

    @staticmethod
    def dropping(store: Store, expect: int) -> list[Write]:
        """What drops it all, and says so in the job's record."""
        events = [Delete(Kind.EVENT, JOB, key) for key in keys(store.scan(Kind.EVENT, JOB))]
        return [
            Put(Kind.INTERVAL, JOB, "01", {}, expect=expect),
            Delete(Kind.INTERVAL, JOB, "01"),
            Delete(Kind.RUN, JOB, "01/000001"),
            *events,
            Put(Kind.JOB, JOB, "", {"past": "01"}, expect=1),
        ]

    def test_it_goes_with_all_that_is_in_the_batch(self, harness: Harness) -> None:
        store = self.two_jobs(harness)
        lease = grant(store, "r1")
        assert store.commit(lease.fence, 1, self.dropping(store, expect=1))
        for kind, left in ((Kind.INTERVAL, 0), (Kind.RUN, 0), (Kind.EVENT, 0), (Kind.JOB, 1)):
            assert len(store.scan(kind, JOB)) == left
            assert len(store.scan(kind, "other")) == (2 if kind is Kind.EVENT else 1)
        assert not store.scan(Kind.INTERVAL, JOB, tag="open")
        assert harness.peek_record(Kind.JOB, JOB, "") == {"past": "01"}
        assert store.lease(KEY) == lease

    def test_one_that_was_changed_since_keeps_all(self, harness: Harness) -> None:
        store = self.two_jobs(harness)
        store.note([Put(Kind.INTERVAL, JOB, "01", {"n": 2}, tag="open")])
        with pytest.raises(WriteConflict):
            store.note(self.dropping(store, expect=1))
        assert harness.peek_record(Kind.INTERVAL, JOB, "01") == {"n": 2}
        assert keys(store.scan(Kind.INTERVAL, JOB, tag="open")) == ["01"]
        assert [record.blob for record in store.scan(Kind.RUN, JOB)] == [b"1"]
        assert len(store.scan(Kind.EVENT, JOB)) == 2
        assert harness.peek_record(Kind.JOB, JOB, "") == {}

    def test_a_key_that_is_used_again_begins_anew(self, harness: Harness) -> None:
        store = self.two_jobs(harness)
        store.note(self.dropping(store, expect=1))
        store.note([Put(Kind.INTERVAL, JOB, "01", {"n": 3}, expect=ABSENT)])
        found = store.get(Kind.INTERVAL, JOB, "01")
        assert found is not None
        assert (found.value, found.version, found.tag) == ({"n": 3}, 1, "")
