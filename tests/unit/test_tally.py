"""Totals say what the records say, after any history, and each batch counts once or not at all."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.fakes import FakeClock, holder

from reconcile.core.errors import FencedOut, WriteConflict
from reconcile.core.model import (
    ABSENT,
    Append,
    Ending,
    Fence,
    Kind,
    LeaseKey,
    Put,
    RunId,
    State,
    Trigger,
    Write,
)
from reconcile.core.operations.recovery import reopened
from reconcile.core.records import IntervalRecord, RunRecord, closed, given_up, run_key
from reconcile.core.tally import BY_HAND, FENCED, note_turned_away, totals
from reconcile.core.tallying import Tallying
from reconcile.stores.memory import MemoryServer

JOB = "j"
NIGHT = datetime(2026, 11, 1, 2, 30, tzinfo=UTC)
TTL = timedelta(minutes=1)


class Desk:
    """One job's store, written to as the engine and people write."""

    def __init__(self, *, alerts: bool = False) -> None:
        self.clock = FakeClock(NIGHT)
        self.server = MemoryServer(self.clock, "s")
        self.inner = self.server.connect()
        self.store = Tallying(self.inner, alerts=alerts)
        lease = self.store.acquire(LeaseKey(JOB), RunId("r1"), holder("a"), TTL, interval="")
        self.fence: Fence = lease.fence
        self.seq = 0

    def put(self, record: IntervalRecord) -> Put:
        key = record.interval(JOB).key
        return Put(Kind.INTERVAL, JOB, key, record.to_json(), tag=record.tag)

    def event(self, record: IntervalRecord, kind: str, **facts: Any) -> Append:
        return Append(Kind.EVENT, JOB, record.interval(JOB).key, {"type": kind, **facts})

    def commit(self, *writes: Write) -> None:
        self.seq += 1
        assert self.store.commit(self.fence, self.seq, writes)

    def begins(self, record: IntervalRecord) -> IntervalRecord:
        """A run is opened; what a dead one left is closed."""
        now = self.clock.now()
        run = RunRecord(record.runs + 1, "r", Trigger.SCHEDULE, 1, {}, now, record.rerun)
        after = replace(
            record,
            state=State.UNFINISHED,
            runs=run.number,
            started_at=record.started_at or now,
        )
        key = record.interval(JOB).key
        writes: list[Write] = []
        old = self.inner.get(Kind.RUN, JOB, run_key(key, record.runs))
        if old is not None and old.tag:
            gone = closed(RunRecord.from_json(old.value), Ending.ABANDONED, now)
            writes += [
                Put(Kind.RUN, JOB, old.key, gone.to_json()),
                self.event(record, "taken_over", dead=record.runs % 2 == 0),
            ]
        at_range = record.ranges_done + 1 if record.ranges_done else None
        facts = {"at_range": at_range} if at_range else {}
        writes.append(self.event(record, "run_started", **facts))
        writes.append(Put(Kind.RUN, JOB, run_key(key, run.number), run.to_json(), tag=run.tag))
        self.commit(*writes, self.put(after))
        return after

    def saves(self, record: IntervalRecord) -> IntervalRecord:
        """A range is done, with its changes."""
        after = replace(
            record,
            ranges_done=record.ranges_done + 1,
            grant=record.grant + 2,
            revoke=record.revoke + 1,
        )
        self.commit(self.put(after), Put(Kind.RANGE, JOB, "p/1", {}))
        return after

    def ends(self, record: IntervalRecord, after: IntervalRecord) -> IntervalRecord:
        """The run is closed with what it came to."""
        key = run_key(record.interval(JOB).key, record.runs)
        found = self.inner.get(Kind.RUN, JOB, key)
        assert found is not None
        ending = Ending.COMPLETED if after.state is State.COMPLETED else Ending.FAILED
        run = closed(RunRecord.from_json(found.value), ending, self.clock.now())
        self.commit(
            Put(Kind.RUN, JOB, key, run.to_json()), self.put(after), self.event(record, "ended")
        )
        return after

    def seen(self) -> dict[str, Any]:
        """What the totals and the open records say together."""
        found = totals(self.store, JOB)
        for record in self.records():
            if not record.state.is_final:
                for kind in ("grant", "revoke"):
                    name = f"changes:{kind}"
                    found[name] = found.get(name, 0) + getattr(record, kind)
        return {name: value for name, value in found.items() if value}

    def records(self) -> list[IntervalRecord]:
        return [IntervalRecord.from_json(r.value) for r in self.inner.scan(Kind.INTERVAL, JOB)]


def new(number: int) -> IntervalRecord:
    at = NIGHT + timedelta(days=number)
    return IntervalRecord(id=f"{at:%Y-%m-%d}", scheduled_at=at)


class History:
    """Acts on four nights, each where it makes sense; and an independent account of them."""

    def __init__(self) -> None:
        self.desk = Desk()
        self.records: dict[int, IntervalRecord] = {}
        self.expected: Counter[str] = Counter()

    def do(self, number: int, act: str) -> None:
        self.desk.clock.advance(7)
        self.desk.server.leases[self.desk.fence.key].ends = 10**9
        record = self.records.get(number, new(number))
        after = getattr(self, act)(record)
        if after is not None:
            self.records[number] = after

    def begin(self, record: IntervalRecord) -> IntervalRecord | None:
        if record.state.is_final:
            return None
        key = record.interval(JOB).key
        if any(run.tag for run in self.desk.inner.scan(Kind.RUN, JOB, prefix=key)):
            self.expected["lost:killed" if record.runs % 2 == 0 else "lost:silent"] += 1
            self.expected["ranges_repeated"] += 1
        self.expected["attempts"] += 1
        self.expected["repeated"] += int(record.started_at is not None)
        self.expected["ranges_saved"] += record.ranges_done
        return self.desk.begins(record)

    def save(self, record: IntervalRecord) -> IntervalRecord | None:
        if not self.works(record):
            return None
        self.expected["changes:grant"] += 2
        self.expected["changes:revoke"] += 1
        return self.desk.saves(record)

    def complete(self, record: IntervalRecord) -> IntervalRecord | None:
        at = self.desk.clock.now()
        done = replace(record, state=State.COMPLETED, completed_at=at, earlier=None)
        return self.desk.ends(record, done) if self.works(record) else None

    def fail(self, record: IntervalRecord) -> IntervalRecord | None:
        gone = given_up(record, "attempts")
        return self.desk.ends(record, gone) if self.works(record) else None

    def skip(self, record: IntervalRecord) -> IntervalRecord | None:
        if record.state is not State.PENDING:
            return None
        span = record.scheduled_at.day
        skipped = replace(record, state=State.SKIPPED, reason="superseded", span=span)
        event = self.desk.event(record, "skipped", reason="superseded")
        self.desk.commit(self.desk.put(skipped), event)
        return skipped

    def skip_by_hand(self, record: IntervalRecord) -> IntervalRecord | None:
        if record.state.is_final or self.works(record):
            return None
        skipped = replace(record, state=State.SKIPPED, reason="operator")
        return self.by_hand(skipped, "skipped")

    def reopen(self, record: IntervalRecord) -> IntervalRecord | None:
        if not record.state.is_final or record.span > 1:
            return None
        if record.state is State.FAILED:
            return self.by_hand(replace(record, state=State.UNFINISHED, reason=None), "reopened")
        return self.by_hand(reopened(record, "alice"), "rerun")

    def by_hand(self, after: IntervalRecord, event: str) -> IntervalRecord:
        self.desk.store.note([self.desk.put(after), self.desk.event(after, event, actor="alice")])
        return after

    def works(self, record: IntervalRecord) -> bool:
        key = record.interval(JOB).key
        return any(run.tag for run in self.desk.inner.scan(Kind.RUN, JOB, prefix=key))


ACTS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from(["begin", "save", "complete", "fail", "skip", "skip_by_hand", "reopen"]),
    ),
    min_size=5,
    max_size=40,
)


def on_one(*acts: str) -> list[tuple[int, str]]:
    return [(0, act) for act in acts]


@given(acts=ACTS)
@example(acts=on_one("begin", "save", "fail", "reopen", "begin", "save", "complete"))
@example(acts=on_one("begin", "save", "complete", "reopen", "begin", "save", "save", "fail"))
@example(acts=on_one("begin", "save", "begin", "save", "begin", "complete", "reopen", "begin"))
@settings(max_examples=100)
def test_whatever_happened_the_totals_say_what_the_records_say(
    acts: list[tuple[int, str]],
) -> None:
    history = History()
    for number, act in acts:
        history.do(number, act)
    for record in history.records.values():
        if record.state.is_final:
            reason = f":{record.reason}" if record.reason else ""
            history.expected[f"intervals:{record.state}{reason}"] += record.span
    found = history.desk.seen()
    for name in ("run_delay", "consistent"):
        found = {key: value for key, value in found.items() if not key.startswith(name)}
    assert found == {name: value for name, value in history.expected.items() if value}


def test_delay_and_time_until_consistent_are_those_of_the_newest_interval() -> None:
    desk = Desk()
    desk.clock.advance(86400 + 30)
    newer, older = desk.begins(new(1)), desk.begins(new(0))
    desk.clock.advance(100)
    for record in (newer, older):
        done = replace(record, state=State.COMPLETED, completed_at=desk.clock.now())
        desk.ends(record, done)
    found = totals(desk.store, JOB)
    assert (found["run_delay"], found["consistent"]) == (30.0, 130.0)
    again = reopened(IntervalRecord.from_json(done.to_json()), "alice")
    desk.store.note([desk.put(again), desk.event(again, "rerun", actor="alice")])
    desk.begins(again)
    assert totals(desk.store, JOB)["run_delay"] == 30.0, "a rerun is late for nothing"


def test_a_batch_that_is_sent_twice_counts_once_and_a_refused_one_not_at_all() -> None:
    desk = Desk()
    skipped = replace(new(0), state=State.SKIPPED, reason="superseded")
    batch = [desk.put(skipped), desk.event(skipped, "skipped")]
    assert desk.store.commit(desk.fence, 1, batch)
    assert not desk.store.commit(desk.fence, 1, batch)
    assert desk.seen() == {"intervals:skipped:superseded": 1}
    other = replace(new(1), state=State.SKIPPED, reason="superseded")
    refused = [desk.put(other)._replace(expect=3), desk.event(other, "skipped")]
    with pytest.raises(WriteConflict):
        desk.store.commit(desk.fence, 2, refused)
    with pytest.raises(WriteConflict):
        desk.store.note(refused)
    stale = desk.fence._replace(run=RunId("r0"))
    with pytest.raises(FencedOut):
        desk.store.commit(stale, 9, [desk.put(other), desk.event(other, "skipped")])
    assert desk.seen() == {"intervals:skipped:superseded": 1}


def test_a_closed_run_that_is_amended_is_not_lost_once_more() -> None:
    desk = Desk()
    record = desk.begins(desk.begins(new(0)))
    assert desk.seen()["lost:silent"] == 1
    found = desk.inner.get(Kind.RUN, JOB, run_key(record.interval(JOB).key, 1))
    assert found is not None
    desk.store.note(
        [Put(Kind.RUN, JOB, found.key, found.value), desk.event(record, "skipped", actor="alice")]
    )
    assert desk.seen()["lost:silent"] == 1


def test_a_checkpoint_reads_and_writes_no_totals() -> None:
    desk = Desk()
    record = desk.begins(new(0))
    before = desk.inner.get(Kind.TALLY, JOB, FENCED)
    asked: list[Any] = []
    desk.inner.get = lambda *key: asked.append(key)  # type: ignore[method-assign,assignment,func-returns-value]
    desk.saves(record)
    assert asked == []
    del desk.inner.get
    assert desk.inner.get(Kind.TALLY, JOB, FENCED) == before


def test_acts_by_hand_that_meet_each_other_are_all_counted() -> None:
    desk = Desk()
    scan = desk.inner.get
    left = [2]

    def meanwhile(kind: Kind, job: str, key: str) -> Any:
        found = scan(kind, job, key)
        if (kind, key) == (Kind.TALLY, BY_HAND) and left[0]:
            left[0] -= 1
            version = ABSENT if found is None else found.version
            value = dict(found.value) if found else {}
            value["turned_away"] = value.get("turned_away", 0) + 1
            desk.inner.note([Put(Kind.TALLY, JOB, BY_HAND, value, expect=version)])
        return found

    desk.inner.get = meanwhile  # type: ignore[method-assign]
    skipped = replace(new(0), state=State.SKIPPED, reason="operator")
    desk.store.note([desk.put(skipped), desk.event(skipped, "skipped", actor="a")])
    note_turned_away(desk.store, JOB)
    assert desk.seen() == {"intervals:skipped:operator": 1, "turned_away": 3}


def test_what_fails_for_good_owes_an_alert_in_the_same_batch_where_anybody_is_told() -> None:
    for alerts in (True, False):
        desk = Desk(alerts=alerts)
        gone = [
            replace(new(n), state=State.FAILED, reason="overtaken", span=1 + n) for n in range(3)
        ]
        writes = [w for one in gone for w in (desk.put(one), desk.event(one, "failed"))]
        desk.commit(*writes)
        owed = desk.inner.scan(Kind.ALERT, JOB)
        assert len(owed) == int(alerts)
        if owed:
            text = "j 2026-11-01 has failed for good (overtaken): no reason given; and so have 5"
            assert str(owed[0].value["text"]).startswith(text)
            desk.commit(*writes)
            assert desk.inner.scan(Kind.ALERT, JOB) == owed, "it stands already"


def test_what_somebody_has_signed_for_owes_no_alert() -> None:
    desk = Desk(alerts=True)
    gone = replace(new(0), state=State.FAILED, reason="cancelled")
    desk.store.note([desk.put(gone), desk.event(gone, "skipped", actor="alice")])
    assert desk.inner.scan(Kind.ALERT, JOB) == []
