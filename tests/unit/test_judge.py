"""The guards trip on what would be revoked or updated, and on nothing else."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.core.checksum import Checksum
from reconcile.core.config import GuardsConfig
from reconcile.core.endpoints import Committed
from reconcile.core.model import Ending, Kind, Put, Record, RunId, Trigger
from reconcile.core.records import (
    GuardReport,
    IntervalRecord,
    PlanRecord,
    RangeRecord,
    RunRecord,
    given_up,
    range_key,
    run_key,
)
from reconcile.core.rows import Action, Change
from reconcile.core.work.entitlements import allowance
from reconcile.core.work.entitlements.allowance import WINDOW, settle_others, spent_by_others
from reconcile.core.work.entitlements.compare import pack
from reconcile.core.work.entitlements.judge import (
    Totals,
    Trip,
    explain,
    judge,
    judge_counts,
    planned_changes,
)
from reconcile.core.work.entitlements.plan import APPLYING
from reconcile.core.work.entitlements.standing import counted, is_void
from reconcile.core.work.entitlements.tally import most_common
from reconcile.stores.memory import MemoryServer


def plan(rows: int = 100, **facts: object) -> PlanRecord:
    return PlanRecord(
        id="p",
        interval="i",
        rerun=0,
        fingerprint="",
        range_size=1,
        begun_at=datetime(2026, 11, 29, tzinfo=UTC),
        desired=Checksum(rows, 1),
        **facts,  # type: ignore[arg-type]
    )


def guard_of(found: PlanRecord, totals: Totals, guards: GuardsConfig | None = None) -> str | None:
    trip = judge(found, guards or GuardsConfig(), totals)
    return trip.guard if trip is not None else None


@pytest.mark.parametrize(
    ("revoke", "base", "guard"),
    [
        (100, 1000, None),
        (101, 1000, "max_revoke"),
        (10, 20, None),
        (11, 20, "max_revoke"),
        (19_892, 175_554, "max_revoke"),
        (17_555, 175_554, None),
        (17_556, 175_554, "max_revoke"),
        (10, 0, None),
    ],
)
def test_revokes_beyond_the_share_of_the_target_trip(
    revoke: int, base: int, guard: str | None
) -> None:
    assert guard_of(plan(), Totals(revoke, 0, base)) == guard


def test_updates_beyond_half_of_the_target_trip() -> None:
    assert guard_of(plan(), Totals(0, 500, 1000)) is None
    assert guard_of(plan(), Totals(0, 501, 1000)) == "max_update"


def test_an_empty_source_trips_unless_the_target_is_empty_too() -> None:
    assert guard_of(plan(rows=0), Totals(5, 0, 5)) == "empty_source"
    assert guard_of(plan(rows=0), Totals(0, 0, 0)) is None


def test_too_few_rows_and_a_missing_account_trip() -> None:
    guards = GuardsConfig(min_rows=101, must_contain=("acct-1",))
    assert guard_of(plan(100), Totals(0, 0, 100), guards) == "min_rows"
    assert guard_of(plan(101, missing=["acct-1"]), Totals(0, 0, 100), guards) == "must_contain"
    assert guard_of(plan(101), Totals(0, 0, 100), guards) is None


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 10**6))
def test_no_other_figure_lets_revokes_past_the_limit(
    revoke: int, update: int, base: int, grants: int
) -> None:
    guards = GuardsConfig()
    tripped = judge(plan(grant=grants), guards, Totals(revoke, update, base))
    too_many = revoke > max(0.10 * base, 10)
    assert (tripped is not None and tripped.guard == "max_revoke") == too_many
    if too_many:
        assert judge_counts(guards, Totals(revoke, update, base)) is not None


def test_what_was_spent_and_what_others_revoked_count_with_a_plan_that_revokes() -> None:
    guards = GuardsConfig()
    assert judge_counts(guards, Totals(50, 0, 1000, spent_revoke=30, others=20)) is None
    assert judge_counts(guards, Totals(51, 0, 1000, spent_revoke=30, others=20)) is not None
    assert judge_counts(guards, Totals(0, 5, 1000, spent_revoke=900, others=900)) is None
    assert judge_counts(guards, Totals(5, 0, 1000, spent_update=900)) is None
    assert judge_counts(guards, Totals(0, 300, 1000, others=900, spent_update=200)) is None
    assert judge_counts(guards, Totals(0, 301, 1000, spent_update=200)) is not None


def test_an_empty_source_trips_although_an_account_of_it_is_set_apart() -> None:
    assert guard_of(plan(rows=0, quarantined=1), Totals(5, 0, 8)) == "empty_source"
    assert guard_of(plan(rows=0, quarantined=8), Totals(0, 0, 8)) is None


def test_no_other_guard_is_passed_over_because_an_account_is_set_apart() -> None:
    guards = GuardsConfig(min_rows=101, must_contain=("acct-1",))
    assert guard_of(plan(100, quarantined=1), Totals(0, 0, 100), guards) == "min_rows"
    lacking = plan(101, quarantined=1, missing=["acct-1"])
    assert guard_of(lacking, Totals(0, 0, 100), guards) == "must_contain"
    assert guard_of(plan(quarantined=1), Totals(11, 0, 100)) == "max_revoke"
    assert guard_of(plan(quarantined=1), Totals(0, 51, 100)) == "max_update"


COUNT = st.integers(0, 2000)


@given(
    totals=st.builds(Totals, COUNT, COUNT, COUNT, COUNT, COUNT, COUNT),
    one=st.tuples(COUNT, COUNT, COUNT, COUNT, st.text()),
    other=st.tuples(COUNT, COUNT, COUNT, COUNT, st.text()),
)
def test_what_is_decided_follows_from_what_is_counted_and_from_no_other_row(
    totals: Totals, one: Any, other: Any
) -> None:
    def decided(grant: int, accounts: int, quarantined: int, rows: int, name: str) -> str | None:
        facts = {"grant": grant, "accounts": accounts, "quarantined": quarantined}
        found = plan(rows=rows + 1, losing=grant, differing=accounts, **facts)
        return guard_of(replace(found, fingerprint=name, id=name), totals)

    assert decided(*one) == decided(*other)


# --- what counts from other intervals

NOW = datetime(2026, 11, 30, 2, 31, tzinfo=UTC)


class Clock:
    now = staticmethod(lambda: NOW)
    boot = staticmethod(lambda: 0.0)


def revoked_by_others(*runs: tuple[str, int, timedelta], tag: str | None = None) -> int:
    """How much runs of some intervals revoked that long ago, as the night of now sees it."""
    store = MemoryServer(Clock(), "s").connect()  # type: ignore[arg-type]
    for number, (interval, count, ago) in enumerate(runs, 1):
        run = RunRecord(
            number,
            RunId(f"r{number}"),
            Trigger.SCHEDULE,
            number,
            {},
            NOW - ago,
            ending=Ending.COMPLETED,
        ).having_revoked(count, NOW - ago)
        key = run_key(interval, number)
        put = Put(Kind.RUN, "j", key, run.to_json(), tag=run.tag if tag is None else tag)
        store.note([put])
    return spent_by_others(store, None, "j", "2026-11-30T02:30:00Z", NOW)  # type: ignore[arg-type]


def test_revokes_of_other_intervals_count_for_a_day_and_those_of_its_own_are_not_others() -> None:
    hour = timedelta(hours=1)
    night, old = "2026-11-29T02:30:00Z", "2026-03-01T02:30:00Z"
    assert revoked_by_others((night, 3, hour), (old, 4, 2 * hour)) == 7
    assert revoked_by_others(("2026-11-30T02:30:00Z", 3, hour)) == 0
    assert revoked_by_others((night, 3, WINDOW - hour), (old, 4, WINDOW)) == 3
    assert revoked_by_others((night, 3, hour), tag="open") == 3


def test_a_job_that_runs_each_hour_has_one_allowance_for_the_day_and_no_shorter_time() -> None:
    assert revoked_by_others(("2026-11-29T05:00:00Z", 3, timedelta(hours=21))) == 3


def test_each_run_of_the_day_counts_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowance, "PAGE", 2)
    runs = [(f"2026-11-29T0{hour}:00:00Z", 1, timedelta(hours=1)) for hour in range(5)]
    assert revoked_by_others(*runs) == 5


@pytest.mark.parametrize("late", [timedelta(0), timedelta(minutes=39), timedelta(minutes=99)])
def test_last_night_does_not_count_tonight_however_long_it_took_or_what_the_time_of_year(
    late: timedelta,
) -> None:
    assert revoked_by_others(("2026-11-29T02:30:00Z", 3, timedelta(hours=24) - late)) == 0


def test_what_a_clock_ahead_of_now_has_dated_counts_for_nothing() -> None:
    assert revoked_by_others(("2026-11-29T02:30:00Z", 3, -timedelta(minutes=1))) == 0


NIGHT = "2026-11-29T02:30:00Z"
PLANNED = plan(ranges=1, complete=True, revoke=8, update=3, approvable=Checksum(11, 5))


def killed(told: tuple[int, int] = (8, 3), **facts: Any) -> tuple[Any, Any, IntervalRecord]:
    """A store and a target where a run was killed with its one range in the target, untold."""
    store = MemoryServer(Clock(), "s").connect()  # type: ignore[arg-type]
    part = RangeRecord(1, Checksum(1, 1), Checksum(9, 9), revoke=8, update=3)
    cursor: Any = {"phase": APPLYING, "plan": "p", "range": 0}
    due = NOW - timedelta(days=1)
    record = IntervalRecord(NIGHT, due, runs=1, cursor=cursor, revoke=1, spent_revoke=1, **facts)
    run = RunRecord(1, RunId("r1"), Trigger.SCHEDULE, 1, {}, NOW, ending=Ending.ABANDONED)
    store.note(
        [
            Put(Kind.PLAN, "j", "p", PLANNED.to_json()),
            Put(Kind.RANGE, "j", range_key("p", 1), part.to_json()),
            Put(Kind.INTERVAL, "j", NIGHT, record.to_json(), tag=record.tag),
            Put(Kind.RUN, "j", run_key(NIGHT, 1), run.to_json(), tag=run.tag),
        ]
    )
    changes = {Action.GRANT: 4, Action.REVOKE: told[0], Action.UPDATE: told[1]}
    markers = {1: Committed(Checksum(), changes)}
    return store, SimpleNamespace(marker=lambda plan, number: markers.get(number)), record


@pytest.mark.parametrize(
    ("approved", "told", "spent"),
    [
        (None, (8, 3), (8, 3)),
        (PLANNED.hash, (8, 3), (0, 0)),
        ("0" * 12, (8, 3), (8, 3)),
        (PLANNED.hash, (9, 3), (9, 3)),
        (PLANNED.hash, (8, 2), (8, 2)),
    ],
)
def test_what_a_killed_run_did_not_tell_is_counted_unless_just_that_was_approved(
    approved: str | None, told: tuple[int, int], spent: tuple[int, int]
) -> None:
    store, target, record = killed(told, approval=approved and {"hash": approved})
    after = counted(record, store, target, "j")
    assert (after.grant, after.revoke, after.update) == (4, 1 + told[0], told[1])
    assert (after.spent_revoke - 1, after.spent_update) == spent


def test_what_a_killed_run_looked_at_again_is_counted_though_the_plan_was_approved() -> None:
    store, target, record = killed(approval={"hash": PLANNED.hash})
    done = replace(record, cursor={"phase": APPLYING, "plan": "p", "range": 1, "marker": 1})
    assert counted(done, store, target, "j") is done
    again = SimpleNamespace(marker=lambda plan, number: target.marker(plan, number - 1))
    assert counted(done, store, again, "j").spent_revoke == 1 + 8  # type: ignore[arg-type]


@pytest.mark.parametrize("void", [False, True])
def test_what_a_killed_run_of_another_interval_did_not_tell_counts_once(void: bool) -> None:
    store, target, _ = killed()
    tonight = "2026-11-30T02:30:00Z"
    assert spent_by_others(store, target, "j", tonight, NOW) == 8
    store.note(settle_others(store, target, "j", tonight, NOW, void=void))
    assert spent_by_others(store, target, "j", tonight, NOW) == 8
    run = RunRecord.from_json(store.get(Kind.RUN, "j", run_key(NIGHT, 1)).value)
    assert (run.revoked, run.revoked_at) == (8, NOW)
    after = IntervalRecord.from_json(store.get(Kind.INTERVAL, "j", NIGHT).value)
    assert (after.revoke, after.spent_revoke, after.spent_update) == (9, 9, 3)
    assert is_void(after.cursor or {}), "what was counted can be proved by a new plan only"
    assert settle_others(store, target, "j", tonight, NOW, void=False) == []


@pytest.mark.parametrize("void", [False, True])
def test_a_plan_of_which_all_was_told_stands_until_the_target_is_changed(void: bool) -> None:
    store, _, _ = killed()
    nothing_more = SimpleNamespace(marker=lambda plan, number: None)
    tonight = "2026-11-30T02:30:00Z"
    store.note(settle_others(store, nothing_more, "j", tonight, NOW, void=void))
    after = IntervalRecord.from_json(store.get(Kind.INTERVAL, "j", NIGHT).value)
    assert is_void(after.cursor or {}) == void
    assert after.spent_revoke == 1


def test_a_rerun_that_is_given_up_leaves_what_it_applied_on_the_account() -> None:
    first = IntervalRecord(id="i", scheduled_at=NOW, revoke=5, spent_revoke=5)
    again = IntervalRecord(
        id="i", scheduled_at=NOW, rerun=1, spent_revoke=9, spent_update=2, earlier=first.to_json()
    )
    left = given_up(again, "attempts")
    assert (left.rerun, left.spent_revoke, left.spent_update) == (0, 9, 2)


# --- what is said of a trip


@pytest.mark.parametrize(("guard", "told"), [("max_revoke", (3, 5)), ("max_update", (4, 0))])
def test_what_counted_for_a_guard_is_told_of_it_and_nothing_else(
    guard: str, told: tuple[int, int]
) -> None:
    totals = Totals(1, 1, 1, spent_revoke=3, spent_update=4, others=5)
    report = explain(
        Trip(guard, 0.1), plan(), totals, MemoryServer(Clock(), "s").connect(), "j",  # type: ignore[arg-type]
        source="s", last_rows=None, guards=GuardsConfig(),
    )  # fmt: skip
    assert (report.spent, report.others) == told


class Drifted:
    """The planned changes of so many ranges, made when they are asked for."""

    def __init__(self, ranges: int, accounts: int) -> None:
        self.ranges, self.accounts = ranges, accounts
        self.made = 0

    def scan(self, kind: Kind, job: str, **bounds: Any) -> list[Record]:
        after = int(bounds["after"].rpartition("/")[2] or 0)
        last = min(self.ranges, after + bounds["limit"])
        return [self._range(number) for number in range(after + 1, last + 1)]

    def _range(self, number: int) -> Record:
        self.made += 1
        names = [f"acct-{number:06d}-{n:06d}" for n in range(self.accounts)]
        changes = [Change((name, f"only-{name}"), None) for name in names]
        changes += [Change((name, "seats"), None) for name in names[::2]]
        blob = pack(changes)
        return Record(Kind.CHANGES, "j", f"p/{number:08d}", {"losing": names}, 1, NOW, blob=blob)


def explained(ranges: int) -> tuple[GuardReport, int]:
    """What is said of that much drift, and the most memory that it took."""
    records: Any = Drifted(ranges, 50)
    found = plan(revoke=75 * ranges, losing=50 * ranges, ranges=ranges)
    tracemalloc.start()
    report = explain(
        Trip("max_revoke", 0.1), found, Totals(1, 0, 1), records, "j",
        source="s", last_rows=None, guards=GuardsConfig(),
    )  # fmt: skip
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return report, most


def test_a_trip_is_explained_in_the_same_memory_whatever_the_drift() -> None:
    explained(2)
    _, little = explained(12)
    report, much = explained(90)
    assert much < 1.3 * little
    assert report.losing_names == [f"acct-000001-{n:06d}" for n in range(5)]
    assert report.losing_accounts == 90 * 50
    assert report.revokes_elsewhere == 0
    assert report.most_revoked[0] == ["seats", 90 * 25]


def test_of_all_planned_changes_a_few_ranges_are_in_memory_at_once() -> None:
    records: Any = Drifted(90, 1)
    changes = planned_changes(records, "j", "p")
    next(changes)
    assert records.made < 10
    assert sum(1 for _ in changes) == 2 * 90 - 1


@given(st.lists(st.sampled_from("abcdefghij"), max_size=60), st.integers(1, 4))
def test_a_name_that_is_more_than_its_share_is_found_with_its_exact_count(
    names: list[str], counters: int
) -> None:
    def again() -> Iterator[str]:
        return iter(names)

    right = Counter(names)
    found = dict(most_common(again, 10, counters))
    assert all(right[name] == count for name, count in found.items())
    assert {n for n, count in right.items() if count > len(names) / (counters + 1)} <= set(found)
