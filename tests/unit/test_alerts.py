"""What is judged to be wrong, of which interval, and that of many calls one tells."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fakes import FakeClock, outside
from support.pager import Pager

from reconcile.core import planning
from reconcile.core.alert_records import AlertRecord, is_over, message
from reconcile.core.alerts import judge, owed_since
from reconcile.core.config import (
    CatchUpConfig,
    Config,
    EntitlementsConfig,
    Job,
    SourceConfig,
    StoreConfig,
    TargetConfig,
)
from reconcile.core.events import RunReport
from reconcile.core.model import ABSENT, Actor, Kind, Outcome, Put, State, Trigger
from reconcile.core.operations.alerting import ALL, after_visit
from reconcile.core.operations.application import Application
from reconcile.core.operations.look import look
from reconcile.core.ports import Store
from reconcile.core.records import IntervalRecord, JobRecord
from reconcile.stores.memory import MemoryServer

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def job(name: str = "j") -> Job:
    work = EntitlementsConfig(SourceConfig("csv", "/live.csv"), TargetConfig("sql", "", "t"))
    made = Job(name, Path("/r.toml"), "0 0 * * *", work, start=NOW - 30 * DAY, deadline=6 * HOUR)
    return made._replace(catch_up=CatchUpConfig("all"))


def night(ago: int) -> datetime:
    return NOW.replace(hour=0) - ago * DAY


def record(ago: int, **fields: Any) -> IntervalRecord:
    at = night(ago)
    made = IntervalRecord(id=f"{at:%Y-%m-%d}", scheduled_at=at, state=State.UNFINISHED, runs=1)
    return replace(made, **fields)


def found(
    *records: IntervalRecord, horizon: int = 3, seen: JobRecord | None = None
) -> list[tuple[str, str]]:
    """Kinds and intervals that are judged wrong; nights without a record are completed."""
    one = job()
    seen = seen or planning.seen(one, None, NOW)
    seen = replace(seen, horizon_at=night(horizon))
    schedule = planning.schedule_of(seen)
    known = {each.scheduled_at: each for each in records}
    for ago in range(horizon + 1):
        known.setdefault(night(ago), record(ago, state=State.COMPLETED))
    pairs = [(known[at], 1) for at in sorted(known)]
    pauses = planning.pauses_of(seen)
    decision = planning.decide(one, schedule, seen.horizon_at, pairs, NOW, pauses=pauses)
    return [(f.kind, f.interval.id) for f in judge(one, seen, schedule, decision, NOW)]


def test_the_oldest_unfinished_interval_is_overdue_and_no_other() -> None:
    assert found() == []
    assert found(record(0)) == [("overdue", "2026-11-30")]
    assert found(record(0), record(2), record(1)) == [("overdue", "2026-11-28")]


@pytest.mark.parametrize("trigger", [Trigger.BACKFILL, Trigger.RERUN])
def test_an_old_night_that_is_done_again_hides_no_scheduled_one(trigger: Trigger) -> None:
    again = record(20, trigger=trigger, rerun=1, started_at=NOW - HOUR)
    assert found(again, record(1)) == [("overdue", "2026-11-29")]
    assert found(again) == []
    assert found(replace(again, started_at=None)) == []
    assert found(replace(again, started_at=NOW - 7 * HOUR)) == [("overdue", "2026-11-10")]


def test_a_night_that_somebody_would_not_wait_for_is_owed_from_its_time() -> None:
    by_hand = record(1, trigger=Trigger.MANUAL, started_at=NOW)
    assert found(by_hand) == [("overdue", "2026-11-29")]
    old = record(20, trigger=Trigger.MANUAL, started_at=NOW)
    assert found(old) == []


def test_what_fell_into_a_pause_is_owed_from_its_end() -> None:
    seen = planning.seen(job(), None, NOW)
    by = Actor("alice", "why", night(1) - HOUR)
    paused = planning.paused(seen, by, None)
    assert found(record(2), seen=paused) == [], "while it lasts nobody is called"
    over = planning.unpaused(paused, NOW - HOUR, catch_up=False)
    assert owed_since(over, record(1), record(1)) == NOW - HOUR
    assert owed_since(over, record(2), record(2)) == night(2)
    assert found(record(1), seen=over) == []
    assert found(record(2), seen=over) == [("overdue", "2026-11-28")]


def test_a_guard_and_kills_without_progress_are_told_of_whatever_their_age() -> None:
    guard = {
        **{"guard": "max_revoke", "limit": 0.1, "base": 9, "grant": 0, "revoke": 5, "update": 0},
        **{"hash": "h", "losing_accounts": 0, "losing_names": [], "revokes_elsewhere": 0},
        **{"most_revoked": [], "source": "s", "source_rows": 4},
    }
    waits = record(0, waiting=guard)
    assert ("needs_approval", "2026-11-30") in found(waits)
    assert found(replace(waits, approval={"hash": "h"})) == [("overdue", "2026-11-30")]
    assert ("needs_approval", "2026-11-30") in found(replace(waits, approval={"hash": "old"}))
    assert ("stalled", "2026-11-30") in found(record(0, kills=5))
    assert ("stalled", "2026-11-30") not in found(record(0, kills=4))


STATES = st.sampled_from([None, *State])
KINDS = st.sampled_from(["overdue", "failed", "needs_approval", "stalled"])


@given(kind=KINDS, state=STATES, kills=st.integers(0, 9), due=st.booleans())
def test_an_alert_is_over_exactly_when_its_own_interval_is(
    kind: str, state: State | None, kills: int, due: bool
) -> None:
    one = job()
    seen = planning.seen(one, None, NOW)
    at = night(1)
    alert = AlertRecord(kind, "2026-11-29", at, at + 6 * HOUR, "text", "next")
    own = None if state is None else record(1, state=state, kills=kills)
    why = is_over(alert, one, seen, planning.schedule_of(seen), own, NOW, still_due=due)
    if own is None:
        stands = due
    elif kind == "failed":
        stands = own.state not in (State.COMPLETED, State.SKIPPED)
    elif own.state.is_final:
        stands = False
    else:
        stands = {"overdue": True, "needs_approval": False, "stalled": kills >= 5}[kind]
    assert (why is None) == stands


class Desk:
    """Several jobs in one store, each with a night that is overdue; and callers."""

    def __init__(self, *names: str) -> None:
        self.clock = FakeClock(NOW)
        self.server = MemoryServer(self.clock, "s")
        self.config = Config(Path("/r.toml"), StoreConfig("memory:"), {n: job(n) for n in names})
        self.store: Store = self.server.connect()
        for name, one in self.config.jobs.items():
            seen = planning.seen(one, None, NOW - 2 * DAY)
            seen = replace(seen, horizon_at=night(1))
            self.store.note([Put(Kind.JOB, name, "", seen.to_json())])
            self.store.note(
                [self.put(name, record(1)), self.put(name, record(0, state="completed"))]
            )

    @staticmethod
    def put(name: str, one: IntervalRecord) -> Put:
        one = replace(one, state=State(one.state))
        key = one.interval(name).key
        return Put(Kind.INTERVAL, name, key, one.to_json(), tag=one.tag)

    def call(self, pager: Pager, name: str = "j", store: Store | None = None) -> list[Any]:
        """A trigger that has found nothing to do; what it reported."""
        out = outside("a", self.clock)
        app = Application(
            self.config,
            out.runtime,
            self.server.connect,
            lambda job: None,
            pager,  # type: ignore[arg-type,return-value]
        )
        own = self.config.jobs[name]
        report = RunReport(name, Outcome.NOTHING_DUE, NOW)
        after_visit(app, store or self.store, own, None, report)
        return out.reports

    def alerts(self, name: str = "j") -> list[AlertRecord]:
        return [AlertRecord.from_json(r.value) for r in self.store.scan(Kind.ALERT, name)]


class Interrupted:
    """A connection where something else happens right before a batch is written."""

    def __init__(self, inner: Store, happens: Any) -> None:
        self._inner = inner
        self._happens = happens

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def note(self, writes: Any) -> None:
        happens, self._happens = self._happens, lambda: None
        happens()
        self._inner.note(writes)


def test_of_two_calls_that_judge_at_once_one_tells() -> None:
    desk = Desk("j")
    first, second = Pager(), Pager()
    racing: Any = Interrupted(desk.store, lambda: desk.call(second))
    desk.call(first, store=racing)
    assert (first.told(), second.told()) == ([], [("2026-11-29", "overdue", "raised")])
    (alert,) = desk.alerts()
    assert (list(alert.sent), alert.claimed_at) == (["command"], None)


def test_of_two_calls_in_the_same_minute_one_looks_at_all_jobs() -> None:
    desk = Desk("j", "other")
    first, second = Pager(wants_figures=True), Pager(wants_figures=True)
    desk.call(Pager())
    desk.clock.advance(60)
    desk.store.note([desk.put("other", record(1, state=State.COMPLETED))])
    racing: Any = Interrupted(desk.store, lambda: desk.call(second))
    desk.call(first, store=racing)
    assert (first.told(), second.told()) == ([], [("2026-11-29", "overdue", "cleared")])
    assert (len(first.published), len(second.published)) == (0, 1)


def test_whoever_heard_nothing_of_an_alert_gets_no_all_clear() -> None:
    desk = Desk("j")
    pager = Pager(channels=("command", "notify 1"), broken={"command"})
    desk.call(pager)
    pager.got.clear()
    desk.store.note([desk.put("j", record(1, state=State.COMPLETED))])
    pager.broken = set()
    desk.call(pager)
    assert [channel for channel, _ in pager.got] == ["notify 1"]
    (alert,) = desk.alerts()
    assert alert.tag(pager.channels) == ""


def test_a_stamp_of_a_clock_that_was_ahead_stops_nobody() -> None:
    desk = Desk("j", "other")
    desk.clock.step_wall_clock(10 * DAY)
    desk.call(Pager())
    desk.clock.step_wall_clock(-10 * DAY)
    desk.store.note([desk.put("other", record(1, state=State.COMPLETED))])
    pager = Pager()
    desk.call(pager)
    assert ("2026-11-29", "overdue", "cleared") in pager.told()


def test_a_call_that_was_asked_to_stop_tells_nobody_and_the_next_does() -> None:
    desk = Desk("j")
    pager = Pager()
    out = outside("a", desk.clock)
    out.stop.reason = "SIGTERM"
    app: Any = Application(desk.config, out.runtime, desk.server.connect, lambda job: None, pager)  # type: ignore[arg-type,return-value]
    after_visit(app, desk.store, desk.config.jobs["j"], None, RunReport("j", Outcome.FAILED, NOW))
    assert (pager.told(), desk.alerts()) == ([], [])
    desk.call(pager)
    assert pager.told() == [("2026-11-29", "overdue", "raised")]


def test_one_call_does_not_deliver_for_ever() -> None:
    names = [f"j{n}" for n in range(5)]
    desk = Desk("j", *names)
    slow = Pager(before=lambda channel, alert: desk.clock.advance(25))
    desk.call(slow)
    assert len(slow.told()) == 3
    desk.clock.advance(60)
    desk.call(slow)
    desk.clock.advance(60)
    desk.call(slow)
    assert len(slow.told()) == 3


def test_a_job_that_nobody_has_run_yet_owes_nothing_unless_it_has_a_start() -> None:
    desk = Desk("j")
    for start, told in ((None, []), (night(1), [("2026-11-29", "overdue", "raised")])):
        new = job("new")._replace(start=start)
        desk.config = desk.config._replace(jobs={**desk.config.jobs, "new": new})
        pager = Pager()
        desk.call(pager, "new")
        assert [one for one in pager.told() if one[1] == "overdue"][: len(told)] == told
        assert look(desk.store, new, NOW).version == ABSENT
    assert desk.store.get(Kind.ALERT, ALL, "") is not None


STEPS = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.sampled_from(["begin", "complete", "skip", "wait", "approve", "kill", "checkpoint"]),
        st.sampled_from([0, 600, 7 * 3600, 86400]),
        st.sampled_from(["", "command", "notify 1"]),
    ),
    min_size=4,
    max_size=30,
)
WAITING = {
    **{"guard": "max_revoke", "limit": 0.1, "base": 9, "grant": 0, "revoke": 5, "update": 0},
    **{"hash": "h", "losing_accounts": 0, "losing_names": [], "revokes_elsewhere": 0},
    **{"most_revoked": [], "source": "s", "source_rows": 4},
}
BECOMES: dict[str, dict[str, Any]] = {
    "begin": {"state": State.UNFINISHED, "runs": 1},
    "complete": {"state": State.COMPLETED, "waiting": None},
    "skip": {"state": State.SKIPPED, "reason": "operator", "waiting": None},
    "wait": {"state": State.UNFINISHED, "runs": 1, "waiting": WAITING, "approval": None},
    "approve": {"approval": {"hash": "h"}},
    "kill": {"state": State.UNFINISHED, "runs": 1, "kills": 9},
    "checkpoint": {"kills": 0},
}


@given(steps=STEPS)
@settings(max_examples=30)
def test_whatever_happens_to_nights_each_channel_hears_of_each_thing_once_and_of_its_end_once(
    steps: list[tuple[int, str, int, str]],
) -> None:
    desk = Desk("j")
    pager = Pager(channels=("command", "notify 1"))
    nights = {n: record(1 - n, state=State.PENDING, runs=0) for n in range(5)}
    nights |= {0: record(1), 1: record(0, state=State.COMPLETED)}
    for ahead, act, seconds, broken in steps:
        before = nights[ahead]
        if not before.state.is_final and before.scheduled_at <= desk.clock.now():
            nights[ahead] = replace(before, **BECOMES[act])
            desk.store.note([desk.put("j", nights[ahead])])
        pager.broken = {broken}
        desk.call(pager)
        desk.clock.advance(seconds)
        ended = {night_.id for night_ in nights.values() if night_.state.is_final}
        assert not ended & {alert.id for alert in desk.alerts() if not alert.cleared}
    pager.broken = set()
    desk.call(pager)
    standing = [alert for alert in desk.alerts() if not alert.cleared]
    late = [
        night_
        for night_ in nights.values()
        if not night_.state.is_final and night_.scheduled_at + 6 * HOUR < desk.clock.now()
    ]
    if late:
        oldest = min(late, key=lambda each: each.scheduled_at)
        assert (oldest.id, "overdue") in {(alert.id, alert.kind) for alert in standing}
    heard: dict[tuple[str, str], list[str]] = {}
    for channel, alert in pager.got:
        heard.setdefault((channel, alert["id"]), []).append(alert["state"])
    assert all(states in (["raised"], ["raised", "cleared"]) for states in heard.values())
    for one in standing:
        told = message(one, "j", "", NOW)["id"]
        assert [heard.get((channel, told)) for channel in pager.channels] == [["raised"]] * 2
