"""What is old leaves the store, and never comes due again."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.fakes import FakeClock, holder, outside

from reconcile.core.checksum import Checksum
from reconcile.core.config import Config, EntitlementsConfig, Job, SourceConfig, StoreConfig
from reconcile.core.config import TargetConfig as Target
from reconcile.core.errors import StoreUnreachable, UsageError, WriteConflict
from reconcile.core.model import ABSENT, Actor, Append, Kind, LeaseKey, Put, RunId, State, Write
from reconcile.core.operations import decided
from reconcile.core.operations.application import Application
from reconcile.core.operations.look import Look, find_instant, find_record, look
from reconcile.core.operations.overview import status
from reconcile.core.operations.pruning import PruneReport, prune
from reconcile.core.planning.pauses import paused
from reconcile.core.records import (
    IntervalRecord,
    JobRecord,
    PlanRecord,
    RangeRecord,
    range_key,
    run_key,
    to_text,
)
from reconcile.core.schedule import TICK, Schedule
from reconcile.stores.memory import MemoryServer, MemoryStore

NAME = "entitlements"
DAY = timedelta(days=1)
KEEP = 30 * DAY
BEGIN = datetime(2026, 1, 1, 2, 30, tzinfo=UTC)
NIGHTLY = Schedule("30 2 * * *")
WORK = EntitlementsConfig(
    SourceConfig("csv", "exports/{date}.csv"), Target("sql", "sqlite:///app.db", NAME)
)
JOB = Job(NAME, Path("reconcile.toml"), "30 2 * * *", WORK)


class Place:
    """A store with a job in it, and a clock."""

    def __init__(self) -> None:
        self.clock = FakeClock(BEGIN)
        self.server = MemoryServer(self.clock, "store-1")
        self.store = self.server.connect()
        self.outside = outside("a", self.clock)
        self.open: Callable[[], MemoryStore] = self.server.connect
        record = JobRecord(BEGIN, [[to_text(BEGIN - DAY), "30 2 * * *", "UTC"]])
        self.store.note([Put(Kind.JOB, NAME, "", record.to_json(), ABSENT)])

    def night(self, number: int, state: State = State.COMPLETED, **fields: Any) -> datetime:
        """The n-th night, as it is written now: with a run, two events and a plan."""
        at = BEGIN + number * DAY
        record = IntervalRecord(NIGHTLY.interval_id(at), at, state, runs=1, plan=f"p{number}")
        record = replace(record, **fields)
        key = record.interval(NAME).key
        plan = PlanRecord(f"p{number}", key, 0, "", 8, at, ranges=2)
        one = RangeRecord(1, Checksum(), Checksum()).to_json()
        self.store.note(
            [
                Put(Kind.INTERVAL, NAME, key, record.to_json(), tag=record.tag),
                Put(Kind.RUN, NAME, run_key(key, 1), {}),
                Append(Kind.EVENT, NAME, key, {"type": "due"}),
                Append(Kind.EVENT, NAME, key, {"type": "completed"}),
                Put(Kind.PLAN, NAME, plan.id, plan.to_json()),
                *(Put(Kind.RANGE, NAME, range_key(plan.id, n), one) for n in (1, 2)),
                Put(Kind.CHANGES, NAME, range_key(plan.id, 2), {}, blob=b"x"),
            ]
        )
        return at

    def app(self, keep: timedelta = KEEP) -> Application:
        config = Config(Path("reconcile.toml"), StoreConfig("memory:", keep), {NAME: JOB})
        return Application(config, self.outside.runtime, self.open, None)  # type: ignore[arg-type]

    def prune(self, *, dry_run: bool = False) -> PruneReport:
        (report,) = prune(self.app(), dry_run=dry_run)
        return report

    def days_later(self, days: float) -> None:
        self.clock.advance(days * DAY.total_seconds())

    def look(self) -> Look:
        return look(self.store, JOB, self.clock.now())

    def job(self) -> JobRecord:
        found = self.store.get(Kind.JOB, NAME, "")
        assert found is not None
        return JobRecord.from_json(found.value)

    def left(self, kind: Kind = Kind.INTERVAL) -> list[str]:
        return [record.key for record in self.store.scan(kind, NAME)]

    def nights(self) -> list[int]:
        return [(datetime.fromisoformat(key) - BEGIN).days for key in self.left()]


@pytest.fixture
def place() -> Place:
    return Place()


def five(place: Place, *states: State) -> None:
    """Nights 0 to 4, each written in its own time; all but those said to be are completed."""
    for number in range(5):
        state = states[number] if number < len(states) else State.COMPLETED
        place.night(number, state)
        place.days_later(1)


def skipped_since(place: Place, number: int) -> None:
    """All nights from the n-th on are skipped as one, just now."""
    last = NIGHTLY.latest_until(place.clock.now())
    assert last is not None
    span = (last - BEGIN).days - number + 1
    place.night(number, State.SKIPPED, reason="paused", span=span, until_at=last)


def test_old_intervals_go_with_all_that_belongs_to_them(place: Place) -> None:
    five(place)
    place.days_later(27.5)
    report = place.prune()
    assert place.nights() == [3, 4]
    assert report.dropped[:6] == (3, 3, 3, 6, "2026-01-01", "2026-01-03")
    assert len(place.left(Kind.RUN)) == 2
    assert len(place.left(Kind.EVENT)) == 4
    assert place.left(Kind.PLAN) == ["p3", "p4"]
    assert len(place.left(Kind.RANGE)) == 4
    assert len(place.left(Kind.CHANGES)) == 2
    assert place.job().horizon_at == BEGIN + 2 * DAY + TICK


def test_what_was_pruned_is_not_due_and_what_comes_is(place: Place) -> None:
    five(place)
    place.days_later(27.5)
    before = place.look().decision
    place.prune()
    after = place.look().decision
    assert after.due == before.due
    assert after.skips == before.skips
    assert after.next_due == before.next_due


def test_the_unfinished_and_the_newest_completed_stay(place: Place) -> None:
    five(place, State.COMPLETED, State.UNFINISHED, State.COMPLETED, State.FAILED, State.SKIPPED)
    place.days_later(300)
    skipped_since(place, 5)
    place.prune()
    assert place.nights() == [1, 2, 5]


def test_what_somebody_is_alerted_of_stays_and_an_alert_that_is_over_goes(place: Place) -> None:
    five(place)
    for number, tag in ((0, "open"), (1, "")):
        key = f"{(BEGIN + number * DAY):%Y-%m-%dT%H:%M:%SZ}/failed"
        place.store.note([Put(Kind.ALERT, NAME, key, {}, tag=tag)])
    place.days_later(27.5)
    place.prune()
    assert place.nights() == [0, 3, 4]
    assert [key[:10] for key in place.left(Kind.ALERT)] == ["2026-01-01"]


def test_a_rerun_under_way_counts_as_completed(place: Place) -> None:
    five(place, State.COMPLETED, State.COMPLETED, State.FAILED, State.FAILED, State.FAILED)
    earlier = replace(
        IntervalRecord("2026-01-02", BEGIN + DAY, State.COMPLETED), plan="p1", runs=1
    ).to_json()
    place.night(1, State.UNFINISHED, earlier=earlier, rerun=1)
    place.days_later(300)
    skipped_since(place, 5)
    place.prune()
    assert place.nights() == [1, 5]


def test_what_somebody_wrote_to_lately_stays(place: Place) -> None:
    five(place)
    place.days_later(60)
    place.night(1, rerun=1)
    place.night(-7)
    skipped_since(place, 5)
    place.prune()
    assert place.nights() == [-7, 1, 4, 5]


def test_a_span_goes_when_its_last_interval_is_old(place: Place) -> None:
    place.night(0, State.SKIPPED, reason="catch_up_window", span=9, until_at=BEGIN + 8 * DAY)
    place.days_later(9)
    place.night(9)
    place.days_later(28.5)
    assert not place.prune().dropped.records
    place.days_later(1)
    assert place.prune().dropped.intervals == 9
    assert place.job().horizon_at == BEGIN + 8 * DAY + TICK


def test_nothing_goes_past_a_night_that_is_not_decided(place: Place) -> None:
    place.night(0)
    place.night(1)
    place.night(3)
    place.night(4)
    place.days_later(300)
    place.prune()
    assert place.nights() == [3, 4]
    assert place.look().decision.skips[0].interval.id == "2026-01-03"


def test_a_dry_run_drops_nothing_and_counts_all(place: Place) -> None:
    for number in range(230):
        place.night(number)
    place.days_later(229 + 60)
    before = place.server.records.copy()
    told = place.prune(dry_run=True)
    assert place.server.records == before
    assert told.dropped == place.prune().dropped
    assert told.dropped.records == 229
    assert place.nights() == [229]


def test_intervals_with_much_below_them_go_in_smaller_batches(place: Place) -> None:
    for number in range(6):
        at = place.night(number)
        events = [Append(Kind.EVENT, NAME, f"{at:%Y-%m-%dT%H:%M:%SZ}", {}) for _ in range(900)]
        place.store.note(events)
    place.days_later(60)
    sizes: list[int] = []

    class Measuring(MemoryStore):
        def note(self, writes: Sequence[Write]) -> None:
            sizes.append(len(writes))
            super().note(writes)

    place.open = lambda: Measuring(place.server)
    assert place.prune().dropped.records == 5
    assert len(sizes) == 2
    assert max(sizes) < 3000


def test_a_pass_goes_on_where_it_was_killed(place: Place) -> None:
    for number in range(230):
        place.night(number)
    place.days_later(229 + 60)

    class Killed(BaseException):
        pass

    def kill(step: str) -> None:
        raise Killed(step)

    runtime = place.outside.runtime
    place.outside.runtime = runtime._replace(reached=kill)
    with pytest.raises(Killed):
        place.prune()
    assert place.nights()[0] == 100
    assert place.look().decision.due[0].interval.scheduled_at > BEGIN + 229 * DAY
    assert place.look().decision.skips[0].interval.scheduled_at > BEGIN + 229 * DAY
    place.outside.runtime = runtime
    assert place.prune().dropped.records == 129


def test_a_job_that_is_worked_is_left_alone(place: Place) -> None:
    five(place)
    place.days_later(60)
    key = LeaseKey(NAME)
    place.store.acquire(key, RunId("r"), holder("b"), timedelta(hours=1), interval="x")
    assert place.prune().busy
    assert place.nights() == [0, 1, 2, 3, 4]


class Meddling(MemoryStore):
    """Lets somebody else write just before a batch of notes."""

    def __init__(self, server: MemoryServer, write: Put, times: int) -> None:
        super().__init__(server)
        self._write, self._times = write, times

    def note(self, writes: Sequence[Write]) -> None:
        if self._times > 0:
            self._times -= 1
            super().note([self._write])
        super().note(writes)


def test_what_is_reopened_in_this_very_moment_stays(place: Place) -> None:
    five(place)
    place.days_later(60)
    skipped_since(place, 5)
    again = IntervalRecord("2026-01-02", BEGIN + DAY, State.UNFINISHED, rerun=1, runs=1)
    key = again.interval(NAME).key
    put = Put(Kind.INTERVAL, NAME, key, again.to_json(), tag=again.tag)
    place.open = lambda: Meddling(place.server, put, times=1)
    place.prune()
    assert place.nights() == [1, 4, 5]


def test_where_somebody_keeps_writing_nothing_is_dropped(place: Place) -> None:
    five(place)
    place.days_later(27.5)
    put = Put(Kind.JOB, NAME, "", place.job().to_json())
    place.open = lambda: Meddling(place.server, put, times=100)
    with pytest.raises(WriteConflict):
        place.prune()
    assert place.nights() == [0, 1, 2, 3, 4]


def test_whoever_asks_for_a_pruned_night_is_told_so(place: Place) -> None:
    five(place)
    place.days_later(27.5)
    place.prune()
    with pytest.raises(UsageError, match=r"2026-01-02 lies before .* horizon: it was pruned"):
        find_instant(place.store, place.look(), NAME, "2026-01-02")
    with pytest.raises(UsageError, match="pruned"):
        status(place.app(), NAME, "2026-01-02")


def test_a_night_before_the_job_began_was_not_pruned(place: Place) -> None:
    with pytest.raises(UsageError, match="before the job's first"):
        status(place.app(), NAME, "2025-12-30")


# --- as a property


def decided_all(place: Place) -> None:
    """What a trigger writes of its decisions, and then works: all that is due is completed."""
    while True:
        seen = place.look()
        writes = list(decided.writes_of(JOB, seen))
        record = replace(seen.job, settled_at=seen.decision.settled)
        writes.append(Put(Kind.JOB, NAME, "", record.to_json(), expect=seen.version))
        place.store.note(writes)
        new = [due for due in seen.decision.due if due.record is None]
        if not new:
            return
        for due in new:
            done = IntervalRecord(due.interval.id, due.interval.scheduled_at, State.COMPLETED)
            put = Put(Kind.INTERVAL, NAME, due.interval.key, done.to_json(), ABSENT)
            place.store.note([put])


class Lost(MemoryStore):
    """A connection that is lost with its n-th batch of notes: before it, or after it."""

    def __init__(self, server: MemoryServer, at: int, *, before: bool) -> None:
        super().__init__(server)
        self._left, self._before = at, before

    def note(self, writes: Sequence[Write]) -> None:
        self._left -= 1
        if self._left or not self._before:
            super().note(writes)
        if not self._left:
            raise StoreUnreachable("lost", hint="")


def finals(place: Place) -> set[datetime]:
    """All instants that have a final record, those within spans too."""
    found: set[datetime] = set()
    for stored in place.store.scan(Kind.INTERVAL, NAME, limit=10_000):
        record = IntervalRecord.from_json(stored.value)
        if record.state.is_final:
            until = record.until_at or record.scheduled_at
            found |= set(NIGHTLY.between(record.scheduled_at - TICK, until))
    return found


days = st.integers(1, 70)
acts = st.one_of(
    st.tuples(st.just("later"), days),
    st.tuples(st.just("knock"), st.just(0)),
    st.tuples(st.just("skip"), st.just(0)),
    st.tuples(st.just("pause"), st.integers(1, 60)),
    st.tuples(st.just("recovered"), st.integers(1, 60)),
    st.tuples(st.just("prune"), st.integers(-3, 3)),
)


@settings(max_examples=600 if os.environ.get("RECONCILE_TEST_LONG") else 30)
@example([("knock", 0), ("later", 2), ("recovered", 2), ("knock", 0)], 2)
@given(st.lists(acts, min_size=2, max_size=12), st.integers(2, 60))
def test_what_was_final_never_comes_due_again(did: list[tuple[str, int]], keep: int) -> None:
    place = Place()
    ever: set[datetime] = set()
    for act, number in [*did, ("later", 99), ("prune", 9), ("prune", 9)]:
        if act == "later":
            place.days_later(number)
        elif act == "knock":
            decided_all(place)
        elif act == "skip":
            newest = [due for due in place.look().decision.due if due.record is None][-1:]
            for due in newest:
                gone = IntervalRecord(due.interval.id, due.interval.scheduled_at, State.SKIPPED)
                key = due.interval.key
                place.store.note([Put(Kind.INTERVAL, NAME, key, gone.to_json(), ABSENT)])
        elif act == "pause":
            by = Actor("alice", "why", place.clock.now())
            until = by.at + number * DAY
            place.store.note([Put(Kind.JOB, NAME, "", paused(place.job(), by, until).to_json())])
        elif act == "recovered":
            recovered(place, number)
        else:
            lost = Lost(place.server, abs(number), before=number < 0)
            place.open = lambda lost=lost: lost  # type: ignore[misc]
            with suppress(StoreUnreachable):
                prune(place.app(keep * DAY))
        seen = place.look()
        due_now = {due.interval.scheduled_at for due in seen.decision.due}
        skipped = {skip.interval.scheduled_at for skip in seen.decision.skips}
        assert not (due_now | skipped) & ever
        ever |= finals(place)
        every = set(NIGHTLY.between(BEGIN - TICK, place.clock.now()))
        assert every <= ever | decision_covers(seen), "a night has no record and is not due"


def decision_covers(seen: Look) -> set[datetime]:
    """All that a trigger would now record or work, or leaves to the end of a pause."""
    found = {due.interval.scheduled_at for due in seen.decision.due}
    for skip in [*seen.decision.skips, *seen.decision.overtaken]:
        until = skip.until.scheduled_at if skip.until else skip.interval.scheduled_at
        found |= set(NIGHTLY.between(skip.interval.scheduled_at - TICK, until))
    pause = seen.decision.pause
    return found | (set(NIGHTLY.between(pause.at, seen.now)) if pause is not None else set())


def recovered(place: Place, nights: int) -> None:
    """A span of lost records from the first night without one on, where there is room."""
    seen = place.look()
    missing = sorted(decision_covers(seen))
    stretch: list[datetime] = []
    for at in missing[:nights]:
        if stretch and at - stretch[-1] != DAY:
            break
        stretch.append(at)
    if not stretch or find_record(place.store, NAME, stretch[0])[0] is not None:
        return
    first = NIGHTLY.interval(NAME, stretch[0])
    record = IntervalRecord(
        first.id,
        first.scheduled_at,
        State.COMPLETED,
        reason="recovered",
        span=len(stretch),
        until_at=stretch[-1] if len(stretch) > 1 else None,
    )
    place.store.note([Put(Kind.INTERVAL, NAME, first.key, record.to_json(), ABSENT)])
