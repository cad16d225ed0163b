"""What a run writes about its interval lands as one batch, and never over an act by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from support.fakes import FakeClock, outside

from reconcile.core.assignment import Assignment
from reconcile.core.checksum import Checksum
from reconcile.core.errors import (
    ReconcileError,
    SourceUnreachable,
    SourceUnusable,
    WriteConflict,
)
from reconcile.core.journal import Journal
from reconcile.core.leasing import LeaseKeeper, Terms
from reconcile.core.model import (
    ABSENT,
    Append,
    Ending,
    Interval,
    Kind,
    LeaseKey,
    Proof,
    Put,
    State,
    Trigger,
    Unproved,
)
from reconcile.core.records import IntervalRecord, RunRecord
from reconcile.core.steps import Step
from reconcile.stores.memory import MemoryServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconcile.stores.memory import MemoryStore

NIGHT = Interval("entitlements", datetime(2026, 11, 29, 2, 30, tzinfo=UTC), "2026-11-29")
PROOF = Proof(NIGHT, 0, Checksum(2, 7), Checksum(2, 7))
KIND = SimpleNamespace(kind="entitlements")
JOB: Any = SimpleNamespace(name="entitlements", max_attempts=2, work=KIND)


class Desk:
    """A journal of one run on a store in memory."""

    def __init__(self) -> None:
        clock = FakeClock()
        self.server = MemoryServer(clock, "store-1")
        self.store: MemoryStore = self.server.connect()
        self.batches: list[list[Any]] = []
        commit = self.store.commit

        def recorded(fence: Any, seq: int, writes: Any) -> bool:
            self.batches.append(list(writes))
            return commit(fence, seq, writes)

        self.store.commit = recorded  # type: ignore[method-assign]
        out = outside("a", clock)
        terms = Terms(timedelta(seconds=60), timedelta(seconds=600))
        self.keeper = LeaseKeeper(
            self.store, self.server.connect, out.runtime, LeaseKey("entitlements"), terms
        )
        self.keeper.acquire(NIGHT.key, overlap=False)
        record = IntervalRecord(id=NIGHT.id, scheduled_at=NIGHT.scheduled_at)
        task = Assignment(JOB, NIGHT, record, ABSENT, Trigger.SCHEDULE)
        self.journal = Journal(self.store, self.keeper, out.runtime, task)

    def interval(self) -> IntervalRecord:
        found = self.store.get(Kind.INTERVAL, "entitlements", NIGHT.key)
        assert found is not None
        return IntervalRecord.from_json(found.value)

    def run(self) -> RunRecord:
        (found,) = self.store.scan(Kind.RUN, "entitlements", prefix=f"{NIGHT.key}/")
        return RunRecord.from_json(found.value)


@pytest.fixture
def desk() -> Iterator[Desk]:
    one = Desk()
    yield one
    one.keeper.abandon()


def kinds(batch: list[Any]) -> set[Kind]:
    return {write.kind for write in batch}


def test_completion_and_the_end_of_its_run_are_one_batch(desk: Desk) -> None:
    desk.journal.open_run()
    before = len(desk.batches)
    desk.journal.completed(PROOF, ())
    (batch,) = desk.batches[before:]
    assert kinds(batch) == {Kind.INTERVAL, Kind.RUN, Kind.EVENT}
    assert desk.interval().state is State.COMPLETED
    assert desk.run().ending is Ending.COMPLETED


def test_opening_a_run_is_one_batch_with_the_intervals_state(desk: Desk) -> None:
    desk.journal.open_run()
    (batch,) = desk.batches
    assert kinds(batch) == {Kind.INTERVAL, Kind.RUN, Kind.EVENT}
    types = [write.value["type"] for write in batch if isinstance(write, Append)]
    assert types == ["due", "run_started"]


@pytest.mark.parametrize(("runs", "rerun", "warns"), [(1, 0, 0), (2, 0, 1), (3, 0, 0), (5, 1, 1)])
def test_a_pass_that_takes_more_runs_than_attempts_is_warned_of_once_on_its_trail(
    desk: Desk, runs: int, rerun: int, warns: int
) -> None:
    """Two attempts are allowed; the rerun comes after a pass of three runs."""
    before = 3 * rerun
    desk.journal.record = replace(desk.journal.record, runs=runs, rerun=rerun, runs_before=before)
    desk.journal.open_run()
    events = desk.store.scan(Kind.EVENT, "entitlements", prefix=f"{NIGHT.key}/")
    told = [event.value for event in events if event.value["type"] == "often"]
    assert [one["runs"] for one in told] == [3] * warns


def test_a_record_changed_by_hand_meanwhile_is_not_overwritten(desk: Desk) -> None:
    desk.journal.open_run()
    by_hand = replace(desk.interval(), repair_owner="alice")
    desk.store.note([Put(Kind.INTERVAL, "entitlements", NIGHT.key, by_hand.to_json())])
    with pytest.raises(WriteConflict):
        desk.journal.completed(PROOF, ())
    assert desk.interval().repair_owner == "alice"
    assert desk.run().ending is None


def test_an_attempt_that_fails_before_its_run_counts_and_says_so(desk: Desk) -> None:
    desk.journal.failed(SourceUnusable("the file is cut"))
    assert desk.interval().attempts == 1
    assert desk.interval().state is State.UNFINISHED
    events = desk.store.scan(Kind.EVENT, "entitlements", prefix=f"{NIGHT.key}/")
    assert [event.value["type"] for event in events] == ["due", "attempt_failed"]


def test_the_last_attempt_ends_the_interval_and_a_rerun_falls_back_to_what_it_was(
    desk: Desk,
) -> None:
    earlier = IntervalRecord(
        id=NIGHT.id,
        scheduled_at=NIGHT.scheduled_at,
        state=State.COMPLETED,
        checksum=Checksum(5, 5),
    )
    desk.journal.open_run()
    desk.journal.record = replace(desk.journal.record, earlier=earlier.to_json(), rerun=1)
    desk.journal.failed(SourceUnusable("cut"))
    desk.journal.record = replace(desk.journal.record, earlier=earlier.to_json())
    report = desk.journal.failed(SourceUnusable("cut"))
    assert report.attempt == 2
    assert desk.interval().state is State.COMPLETED
    assert desk.interval().rerun == 0
    assert desk.interval().checksum == Checksum(5, 5)


def test_an_interval_with_quarantined_accounts_is_tried_ever_more_rarely_and_never_given_up(
    desk: Desk,
) -> None:
    for attempt in range(1, 5):
        desk.journal.open_run()
        desk.journal.save(Step({"phase": "planning"}, (), {}))
        report = desk.journal.unproved(Unproved("1 account is in quarantine", {"a": "why"}))
        assert report.attempt == attempt
        assert report.known_before == (attempt > 1)
        assert desk.interval().state is State.UNFINISHED
        desk.journal._task = replace(desk.journal._task, record=desk.interval())


@pytest.mark.parametrize(
    ("error", "attempts"), [(SourceUnusable("cut"), 1), (SourceUnreachable("away"), 0)]
)
def test_nights_that_were_incomplete_do_not_add_up_to_one_that_is_given_up(
    desk: Desk, error: ReconcileError, attempts: int
) -> None:
    for _ in range(4):
        desk.journal.open_run()
        desk.journal.unproved(Unproved("1 account is in quarantine", {"a": "why"}))
        desk.journal._task = replace(desk.journal._task, record=desk.interval())
    desk.journal.open_run()
    assert desk.journal.failed(error).attempt == attempts
    assert desk.interval().state is State.UNFINISHED


def test_a_mismatch_that_comes_again_and_again_is_given_up(desk: Desk) -> None:
    for _ in range(2):
        desk.journal.open_run()
        desk.journal.save(Step({"phase": "planning"}, (), {}))
        desk.journal.unproved(Unproved("range 3 holds something else"))
        desk.journal._task = replace(desk.journal._task, record=desk.interval())
    assert (desk.interval().state, desk.interval().reason) == (State.FAILED, "attempts")
