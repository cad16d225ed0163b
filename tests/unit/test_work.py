"""A resumed plan reads on where it stopped, in the source as in the plan."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from reconcile.core.checksum import encode
from reconcile.core.config import GuardsConfig
from reconcile.core.events import PlannedAnew
from reconcile.core.model import ABSENT, Interval, Json, Kind, Put, Record
from reconcile.core.records import GuardReport, IntervalRecord, PlanRecord
from reconcile.core.rows import Column, ColumnKind, KeySpan, Page, Schema
from reconcile.core.work.entitlements.judge import digest
from reconcile.core.work.entitlements.standing import is_void
from reconcile.core.work.entitlements.work import EntitlementsWork

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconcile.core.steps import Step

NOW = datetime(2026, 11, 29, 2, 30, tzinfo=UTC)
NIGHT = Interval("entitlements", NOW, "2026-11-29")
SCHEMA = Schema(tuple(Column(name, ColumnKind.TEXT) for name in ("account", "e", "level")), (0, 1))
ROWS = [(f"a{n:02d}", "sso", "1") for n in range(20)]


class Reading:
    """Remembers from where it was read, and serves what it was asked for."""

    def __init__(self, fingerprint: str = "f", bad: str = "") -> None:
        self.fingerprint = fingerprint
        self.bad = bad
        self.asked: list[tuple[str | None, Json]] = []
        self.served = 0

    def pages(self, after: str | None = None, resume: Json = None) -> Iterator[Page]:
        self.asked.append((after, resume))
        start = resume if isinstance(resume, int) else 0
        for at in range(start, len(ROWS), 3):
            page = ROWS[at : at + 3]
            self.served += len(page)
            bad = {row[0]: "no number" for row in page if row[0] == self.bad}
            yield Page([row for row in page if row[0] not in bad], at, bad)

    def close(self) -> None:
        """Nothing to free."""


class Target:
    """Holds what the source has, so that nothing is applied, or other `rows`."""

    fenced = True

    def __init__(self, rows: list[tuple[str, str, str]] = ROWS) -> None:
        self.rows = rows
        self.reads = 0

    def schema(self) -> Schema:
        return SCHEMA

    def marker(self, plan: str, number: int) -> None:
        """No run was killed."""

    def bound(self, span: KeySpan, rows: int) -> str | None:
        return None

    def lines(self, span: KeySpan) -> list[bytes]:
        self.reads += 1
        return [
            encode(row)
            for row in self.rows
            if (span.lower is None or row[0] > span.lower)
            and (span.upper is None or row[0] <= span.upper)
        ]


class Order:
    """One run's order over records kept in a dictionary."""

    fence: Any = SimpleNamespace(run="r1", generation=1)
    interval = NIGHT
    approval: str | None = None
    dry_run = False

    def __init__(self) -> None:
        self.record = IntervalRecord(id=NIGHT.id, scheduled_at=NOW)
        self.kept: dict[tuple[Kind, str], Record] = {}
        self.records = self
        self.told: list[str] = []

    def report(self, report: PlannedAnew) -> None:
        assert (report.job, report.interval, report.at) == ("entitlements", NIGHT.id, NOW)
        self.told.append(report.why)

    def now(self) -> datetime:
        return NOW

    def progressed(self) -> None:
        """Nobody watches."""

    def reached(self, step: str) -> None:
        """Nobody watches."""

    def new_id(self) -> str:
        return "p"

    def get(self, kind: Kind, job: str, key: str) -> Record | None:
        return self.kept.get((kind, key))

    def scan(self, kind: Kind, job: str, **bounds: Any) -> list[Record]:
        after = bounds.get("after", "")
        found = [r for (k, key), r in sorted(self.kept.items()) if k is kind and key > after]
        return found[: bounds.get("limit", 1000)]

    def save(self, step: Step) -> None:
        """As the engine does."""
        show: Any = dict(step.show)
        show.pop("committed", None)
        self.record = replace(self.record, cursor=step.cursor, **show)
        for write in step.writes:
            assert isinstance(write, Put)
            self.kept[(write.kind, write.key)] = Record(
                write.kind, write.job, write.key, write.value, ABSENT + 1, NOW, blob=write.blob
            )


def work(
    reading: Reading, target: Target | None = None, guards: GuardsConfig | None = None
) -> EntitlementsWork:
    guards = guards or GuardsConfig()
    config: Any = SimpleNamespace(
        range_size=4,
        guards=guards,
        plan_age=timedelta(hours=1),
        target=SimpleNamespace(interval_column=None),
    )
    source: Any = SimpleNamespace(
        dated=True, open=lambda interval, schema, calls=None: reading, describe=lambda interval: "s"
    )
    job: Any = SimpleNamespace(name="entitlements", work=config)
    return EntitlementsWork(job, source, target or Target(), timedelta(seconds=1))  # type: ignore[arg-type]


def test_a_plan_resumed_after_range_three_reads_the_source_from_there() -> None:
    order = Order()
    first = Reading()
    steps = work(first).steps(order)  # type: ignore[arg-type]
    for _ in range(3):
        order.save(next(steps))
    again = Reading()
    for step in work(again).steps(order):  # type: ignore[arg-type]
        order.save(step)
    assert first.asked == [(None, None)]
    assert again.asked == [("a11", 12)]
    assert order.told == []
    assert again.served == len(ROWS) - 12
    assert order.record.ranges_total == 5
    assert order.record.accounts == len(ROWS)


def test_what_waits_is_looked_at_again_when_the_source_or_a_guard_is_another() -> None:
    ours = work(Reading())
    waiting: Any = {"guards": digest(GuardsConfig()), "fingerprint": "f"}
    assert ours.still_waits(NIGHT, waiting)
    assert not ours.still_waits(NIGHT, waiting | {"fingerprint": "g"})
    for other in (GuardsConfig(max_revoke=0.2), GuardsConfig(min_rows=1)):
        assert not ours.still_waits(NIGHT, waiting | {"guards": digest(other)})


@pytest.mark.parametrize(
    ("rerun", "fingerprint", "why"),
    [(1, "f", "it is worked again"), (0, "g", "the source has changed")],
)
def test_a_plan_of_another_rerun_or_another_truth_does_not_stand_and_that_is_said(
    rerun: int, fingerprint: str, why: str
) -> None:
    order = Order()
    for step in islice(work(Reading()).steps(order), 3):  # type: ignore[arg-type]
        order.save(step)
    order.record = replace(order.record, rerun=rerun)
    again = Reading(fingerprint)
    next(work(again).steps(order))  # type: ignore[arg-type]
    assert again.asked == [(None, None)]
    assert order.told == [why]


@pytest.mark.parametrize("old", ["void", "cut otherwise", "aged"])
def test_a_plan_that_is_void_or_cut_otherwise_or_aged_does_not_stand_and_that_is_said(
    old: str,
) -> None:
    order = Order()
    for step in islice(work(Reading()).steps(order), 3):  # type: ignore[arg-type]
        order.save(step)
    again = Reading()
    later: Any = work(again)
    later._source.dated = old != "aged"
    later._config.range_size = 5 if old == "cut otherwise" else 4
    later._config.plan_age = timedelta(hours=-1 if old == "aged" else 1)
    if old == "void":
        order.record = replace(order.record, cursor={**(order.record.cursor or {}), "void": True})
    next(later.steps(order))
    assert again.asked == [(None, None)]
    (said,) = order.told
    assert (
        said
        == {
            "void": "the target has changed since it was planned",
            "cut otherwise": "range_size has changed",
            "aged": "the plan is older than plan_age",
        }[old]
    )


@pytest.mark.parametrize(("approved", "reads"), [(True, 5), (False, 0)])
def test_what_a_plan_found_equal_is_looked_at_again_once_it_has_waited_for_approval(
    approved: bool, reads: int
) -> None:
    order = Order()
    for step in work(Reading()).steps(order):  # type: ignore[arg-type]
        order.save(step)
    plan = PlanRecord.from_json(order.kept[Kind.PLAN, "p"].value)
    order.approval = plan.hash if approved else None
    later = Target()
    assert list(work(Reading(), later).steps(order)) == []  # type: ignore[arg-type]
    assert later.reads == reads


# --- what is judged

REVOKES = sorted([*ROWS, *((f"a{n:02d}", "old", "1") for n in range(8))])
UPDATES = [(account, name, "2") for account, name, _ in ROWS[:8]] + ROWS[8:]


def judged(
    order: Order,
    rows: list[tuple[str, str, str]] = REVOKES,
    reading: Reading | None = None,
    must_contain: tuple[str, ...] = (),
) -> GuardReport:
    """Work until a guard trips: on more than half of the base."""
    half = GuardsConfig(max_revoke=0.5, max_update=0.5, max_revoke_min=0, must_contain=must_contain)
    for step in work(reading or Reading(), Target(rows), half).steps(order):  # type: ignore[arg-type]
        if step.needs_approval is not None:
            return step.needs_approval
        order.save(step)
    raise AssertionError("no guard trips")


def test_the_base_is_what_the_target_had_at_the_first_plan_and_not_at_this_one() -> None:
    order = Order()
    order.record = replace(order.record, base=10)
    report = judged(order)
    assert (report.guard, report.base, report.revoke) == ("max_revoke", 10, 8)


def test_a_rerun_and_a_plan_that_is_applied_in_part_are_judged_as_any_other() -> None:
    order = Order()
    order.record = replace(order.record, base=10, rerun=1)
    assert judged(order).revoke == 8
    assert order.record.cursor is not None
    order.record = replace(order.record, cursor={**order.record.cursor, "range": 1})
    assert judged(order).revoke == 8


@pytest.mark.parametrize(("rows", "void"), [(UPDATES, True), (ROWS[:-1], True), (ROWS, False)])
def test_before_anything_is_changed_the_plans_of_other_intervals_are_void(
    rows: list[tuple[str, str, str]], void: bool
) -> None:
    order = Order()
    other = IntervalRecord("o", NOW, cursor={"phase": "planning", "plan": "q"}).to_json()
    order.kept[Kind.INTERVAL, "o"] = Record(Kind.INTERVAL, "entitlements", "o", other, 1, NOW)
    told = []
    for step in work(Reading(), Target(rows)).steps(order):  # type: ignore[arg-type]
        order.save(step)
        told = [write for write in step.writes if write.kind is Kind.INTERVAL]
        if told:
            break
    assert [write.key for write in told] == ["o"] * void
    cursor: Any = order.kept[Kind.INTERVAL, "o"].value["cursor"]
    assert is_void(cursor) == void


def test_an_approval_stands_for_the_whole_hash_and_nothing_like_it() -> None:
    order = Order()
    order.record = replace(order.record, base=10)
    plan = judged(order).hash
    for digit, found in enumerate(plan):
        order.approval = plan[:digit] + ("0" if found != "0" else "1") + plan[digit + 1 :]
        assert judged(order).hash == plan
    order.approval = plan[:-1]
    assert judged(order).hash == plan


def test_what_the_interval_applied_before_this_plan_counts_with_it() -> None:
    order = Order()
    order.record = replace(order.record, base=100, spent_revoke=43, spent_update=43)
    assert judged(order).guard == "max_revoke"
    order = Order()
    order.record = replace(order.record, base=100, spent_revoke=43, spent_update=43)
    report = judged(order, UPDATES)
    assert (report.guard, report.update, report.spent) == ("max_update", 8, 43)


def test_what_an_approved_plan_did_does_not_count_with_the_next_one() -> None:
    order = Order()
    order.record = replace(order.record, base=10, revoke=90, update=90)
    assert judged(order).spent == 0


def test_who_must_be_there_is_looked_for_in_all_ranges_and_not_found_in_quarantine() -> None:
    def guard(bad: str, *must: str) -> str:
        order = Order()
        order.record = replace(order.record, base=10)
        return judged(order, REVOKES, Reading(bad=bad), must).guard

    assert guard("", "a00", "a09", "a19") == "max_revoke"
    assert guard("a18", "a00", "a09", "a19") == "max_revoke"
    assert guard("", "a00", "b", "a19") == "must_contain"
    assert guard("a09", "a00", "a09", "a19") == "must_contain"


def test_accounts_that_would_lose_everything_are_counted_over_all_ranges() -> None:
    order = Order()
    order.record = replace(order.record, base=10)
    gone = [("a005", "sso", "1"), ("a155", "sso", "1"), ("b", "sso", "1")]
    report = judged(order, sorted([*REVOKES, *gone]))
    assert (report.revoke, report.losing_accounts, report.revokes_elsewhere) == (11, 3, 8)
    assert report.losing_names == ["a005", "a155", "b"]
