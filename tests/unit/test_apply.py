"""Applying one range while somebody else writes to it, against a target that follows a script."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from reconcile.core.checksum import checksum, encode_rows, without
from reconcile.core.config import EntitlementsConfig, GuardsConfig, SourceConfig, TargetConfig
from reconcile.core.endpoints import Committed
from reconcile.core.errors import AccountRefused, ChangedMeanwhile, TargetUnusable
from reconcile.core.model import Fence, Interval, Kind, LeaseKey, Record, RunId
from reconcile.core.records import IntervalRecord, PlanRecord, RangeRecord, range_key
from reconcile.core.rows import Action, Column, ColumnKind, KeySpan, Page, RangeChanges, Row, Schema
from reconcile.core.steps import Step
from reconcile.core.work.entitlements import standing
from reconcile.core.work.entitlements.apply import (
    CONFLICT,
    REFUSALS,
    ROUNDS,
    TRIES,
    Applier,
    GuardTripped,
)
from reconcile.core.work.entitlements.compare import compare, pack
from reconcile.core.work.entitlements.judge import Totals
from reconcile.core.work.entitlements.prove import prove

NOW = datetime(2026, 11, 30, tzinfo=UTC)
NIGHT = Interval("job", NOW, "2026-11-30")
SCHEMA = Schema(
    (
        Column("account", ColumnKind.TEXT, nullable=False),
        Column("name", ColumnKind.TEXT, nullable=False),
        Column("level", ColumnKind.TEXT),
    ),
    key=(0, 1),
)
ACCOUNTS = [f"a{number}" for number in range(9)]


def rows(level: str, accounts: list[str] = ACCOUNTS) -> set[Row]:
    return {(account, "seats", level) for account in accounts}


@dataclass
class Table:
    """A target in which somebody writes: `after_reading` is called with its rows."""

    rows: set[Row]
    after_reading: Callable[[set[Row]], None] = lambda rows: None
    reads: int = 0
    markers: dict[int, Committed] = field(default_factory=dict)
    commits: list[RangeChanges] = field(default_factory=list)
    refuses: set[str] = field(default_factory=set)

    def bound(self, span: KeySpan, rows: int) -> str | None:
        return None

    def lines(self, span: KeySpan) -> list[bytes]:
        found = self._lines(span)
        self.reads += 1
        self.after_reading(self.rows)
        return found

    def _lines(self, span: KeySpan) -> list[bytes]:
        inside = [
            row
            for row in sorted(self.rows, key=str)
            if (span.lower is None or (row[0] or "") > span.lower)
            and (span.upper is None or (row[0] or "") <= span.upper)
        ]
        return encode_rows(inside)

    def marker(self, plan: str, number: int) -> Committed | None:
        return self.markers.get(number)

    def commit(self, fence: Fence, part: RangeChanges, by: float) -> Committed:
        keys = {row[:2] for row in self.rows}
        changed = [
            change.row[0] or ""
            for change in part.changes
            if (change.before is None and change.row[:2] in keys)
            or (change.before is not None and change.before not in self.rows)
        ]
        if changed:
            raise ChangedMeanwhile(list(dict.fromkeys(changed)))
        for change in part.changes:
            if change.row[0] in self.refuses:
                raise AccountRefused("CHECK constraint failed", account=change.row[0] or "")
        was = set(self.rows)
        for change in part.changes:
            self.rows.discard(change.before or ())
            if change.after is not None:
                self.rows.add(change.after)
        total = checksum(without(self._lines(part.span), part.apart))
        if total != part.expected:
            self.rows = was
            raise ChangedMeanwhile(())
        self.commits.append(part)
        counts = dict.fromkeys(Action, 0)
        for change in part.changes:
            counts[change.action] += 1
        return Committed(total, counts)


@dataclass
class Truth:
    """A source that is read again."""

    rows: set[Row]
    fingerprint: str = "f"

    def pages(self, after: str | None = None, resume: Any = None) -> Iterator[Page]:
        yield Page(sorted(self.rows, key=str))


@dataclass
class Order:
    """The engine's side, and the store's records."""

    record: IntervalRecord
    found: dict[tuple[Kind, str], Record] = field(default_factory=dict)
    interval: Interval = NIGHT
    fence: Fence = Fence(LeaseKey("job"), 7, RunId("run"))
    progress: int = 0

    @property
    def records(self) -> Order:
        return self

    def put(self, kind: Kind, key: str, value: Any, blob: bytes | None = None) -> None:
        self.found[kind, key] = Record(kind, "job", key, value, 1, NOW, blob=blob)

    def get(self, kind: Kind, job: str, key: str) -> Record | None:
        return self.found.get((kind, key))

    def scan(
        self, kind: Kind, job: str, *, after: str = "", limit: int = 1000, **_: Any
    ) -> list[Record]:
        found = [self.found[k] for k in sorted(self.found) if k[0] is kind and k[1] > after]
        return found[:limit]

    def trusted_until(self) -> float:
        return 0.0

    def progressed(self) -> None:
        self.progress += 1

    def reached(self, step: str) -> None:
        pass


class Desk:
    """A plan of one account a range or of all in one, made when the target held `planned`."""

    def __init__(
        self,
        wanted: set[Row],
        planned: set[Row],
        *,
        size: int = 100,
        guards: GuardsConfig | None = None,
        approved: bool = False,
        waited: bool = False,
    ) -> None:
        self.table, self.truth = Table(set(planned)), Truth(wanted)
        self.order = Order(IntervalRecord(id=NIGHT.id, scheduled_at=NOW))
        self.config = EntitlementsConfig(
            SourceConfig("csv", str(Path("/x.csv"))),
            TargetConfig("sql", "sqlite:///x", "t"),
            guards or GuardsConfig(max_update=1.0),
            range_size=size,
        )
        self.plan = PlanRecord("plan", NIGHT.key, 0, "f", size, NOW, complete=True)
        accounts = sorted({row[0] or "" for row in wanted})
        cuts = [None, *accounts[size - 1 : -1 : size], None]
        for number, (lower, upper) in enumerate(pairwise(cuts), 1):
            self._plan(number, KeySpan(lower, upper))
        self.totals = Totals(self.plan.revoke, self.plan.update, len(planned))
        self.approved = approved
        self.waited = waited

    def _plan(self, number: int, span: KeySpan) -> None:
        def inside(row: Row) -> bool:
            account = row[0] or ""
            return (span.lower is None or account > span.lower) and (
                span.upper is None or account <= span.upper
            )

        ours = sorted(filter(inside, self.truth.rows), key=str)
        found = compare(ours, self.table._lines(span), SCHEMA, {})
        counts = {action.value: found.count(action) for action in Action}
        record = RangeRecord(
            number=number,
            desired=found.desired,
            observed=found.observed,
            lower=span.lower,
            upper=span.upper,
            accounts=len({row[0] for row in ours}),
            **counts,
        )
        key = range_key("plan", number)
        self.order.put(Kind.RANGE, key, record.to_json())
        if found.changes:
            self.order.put(Kind.CHANGES, key, {}, pack(found.changes))
        self.plan = replace(
            self.plan,
            ranges=number,
            revoke=self.plan.revoke + counts["revoke"],
            update=self.plan.update + counts["update"],
        )

    def apply(self) -> list[Step]:
        """Apply what is planned; the steps' records are what the store has then."""
        applier = Applier(
            self.order,  # type: ignore[arg-type]
            self.config,
            self.truth,  # type: ignore[arg-type]
            self.table,  # type: ignore[arg-type]
            SCHEMA,
            self.plan,
            self.totals,
            self.approved,
            self.waited,
        )
        steps = []
        for step in applier.steps(0):
            steps.append(step)
            for put in step.writes:
                self.order.put(put.kind, put.key, put.value)  # type: ignore[union-attr]
        return steps

    def proof(self) -> Any:
        return prove(self.order, self.plan)  # type: ignore[arg-type]

    def quarantined(self) -> dict[str, str]:
        names: dict[str, str] = {}
        for record in self.order.scan(Kind.RANGE, "job"):
            names |= RangeRecord.from_json(record.value).quarantined or {}
        return names


def set_level(account: str, level: str) -> Callable[[set[Row]], None]:
    def write(rows: set[Row]) -> None:
        rows -= {row for row in rows if row[0] == account}
        rows.add((account, "seats", level))

    return write


def test_a_plan_that_still_holds_is_committed_once_and_nothing_is_compared_again() -> None:
    desk = Desk(rows("10"), rows("0"))
    (step,) = desk.apply()
    assert desk.table.rows == rows("10")
    assert desk.table.reads == 0
    assert step.show["update"] == len(ACCOUNTS)
    assert desk.proof().observed == checksum(encode_rows(sorted(rows("10"))))


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(set_level("a3", "other"), id="another value"),
        pytest.param(lambda table: table.remove(("a3", "seats", "0")), id="it vanished"),
        pytest.param(set_level("a3", "10"), id="it is as wanted already"),
        pytest.param(lambda table: table.add(("a3", "extra", "1")), id="one appeared"),
        pytest.param(lambda table: table.add(("a33", "extra", "1")), id="an account appeared"),
    ],
)
def test_a_row_that_changed_since_it_was_compared_is_compared_again_and_not_overwritten(
    changed: Callable[[set[Row]], None],
) -> None:
    desk = Desk(rows("10"), rows("0"))
    changed(desk.table.rows)
    desk.apply()
    assert desk.table.rows == rows("10")
    assert desk.table.reads == 1
    assert all(
        change.before != ("a3", "seats", "other") or change.after
        for change in desk.table.commits[0].changes
    )
    assert desk.quarantined() == {}
    assert desk.proof().observed == desk.proof().desired


def test_a_grant_that_somebody_else_made_is_not_made_again() -> None:
    desk = Desk(rows("10"), set())
    desk.table.rows.add(("a3", "seats", "10"))
    (step,) = desk.apply()
    assert step.show["grant"] == len(ACCOUNTS) - 1


def test_a_revoke_of_what_has_vanished_is_not_counted() -> None:
    desk = Desk(rows("10"), rows("10") | {("a3", "old", ""), ("a4", "old", "")})
    desk.table.rows.remove(("a3", "old", ""))
    (step,) = desk.apply()
    assert step.show["revoke"] == 1
    assert desk.table.rows == rows("10")


@pytest.mark.parametrize("account", ["a3", "a9"])
def test_an_account_that_changes_without_end_is_left_alone_and_the_others_go_on(
    account: str,
) -> None:
    # a9 is an account that the source does not have.
    desk = Desk(rows("10"), rows("0"))
    levels = iter(range(10**6))

    def disturb(table: set[Row]) -> None:
        set_level(account, f"other-{next(levels)}")(table)

    disturb(desk.table.rows)
    desk.table.after_reading = disturb
    (step,) = desk.apply()
    assert desk.quarantined() == {account: CONFLICT}
    assert desk.table.reads <= TRIES + 1
    others = [name for name in ACCOUNTS if name != account]
    assert {row for row in desk.table.rows if row[0] != account} == rows("10", others)
    assert any(str(row[2]).startswith("other-") for row in desk.table.rows)
    assert set(desk.proof().accounts) == {account}, (
        "an interval with an account in quarantine is not done"
    )
    assert step.show["update"] == len(others)


def test_an_account_whose_row_the_table_refuses_is_left_alone_and_the_others_go_on() -> None:
    desk = Desk(rows("10"), rows("0"))
    desk.table.refuses = {"a3", "a5"}
    (step,) = desk.apply()
    assert desk.quarantined() == dict.fromkeys(("a3", "a5"), "CHECK constraint failed")
    others = [name for name in ACCOUNTS if name not in desk.table.refuses]
    assert desk.table.rows == rows("10", others) | rows("0", ["a3", "a5"])
    assert step.show["update"] == len(others)
    assert set(desk.proof().accounts) == {"a3", "a5"}


def test_a_table_that_refuses_the_rows_of_many_accounts_is_itself_what_is_wrong() -> None:
    many = [f"a{number}" for number in range(REFUSALS + 5)]
    desk = Desk(rows("10", many), rows("0", many))
    desk.table.refuses = set(many)
    with pytest.raises(TargetUnusable, match="CHECK constraint"):
        desk.apply()
    assert desk.table.rows == rows("0", many)


def test_a_range_in_which_new_accounts_keep_changing_is_given_up_after_some_rounds() -> None:
    guards = GuardsConfig(max_revoke_min=100, max_update=1.0)
    desk = Desk(rows("10"), rows("0"), guards=guards)
    numbers = iter(range(10**6))
    desk.table.after_reading = lambda table: table.add((f"z{next(numbers)}", "seats", "1"))
    desk.table.after_reading(desk.table.rows)
    with pytest.raises(TargetUnusable, match="keeps changing"):
        desk.apply()
    assert desk.table.reads <= ROUNDS
    assert desk.order.progress > ROUNDS, "each round is progress, or refused by the lease"


def test_all_ranges_that_differ_are_applied_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(standing, "PAGE", 2)
    desk = Desk(rows("10"), rows("0"), size=1)
    assert len(desk.apply()) == len(ACCOUNTS)
    assert desk.table.rows == rows("10")


# --- the guards look again

STRICT = GuardsConfig(max_revoke=0.0, max_revoke_min=3, max_update=1.0)


def old(account: str, count: int) -> set[Row]:
    return {(account, f"old-{number}", "") for number in range(count)}


@pytest.mark.parametrize(("planned", "new", "trips"), [(3, 0, False), (2, 1, False), (2, 2, True)])
def test_what_is_new_in_a_changed_range_is_judged_on_top_of_the_plan(
    planned: int, new: int, trips: bool
) -> None:
    desk = Desk(rows("10"), rows("0") | old("a1", planned), guards=STRICT)
    set_level("a3", "other")(desk.table.rows)
    desk.table.rows |= old("a5", new)
    if trips:
        before = set(desk.table.rows)
        with pytest.raises(GuardTripped):
            desk.apply()
        assert desk.table.rows == before
    else:
        desk.apply()
        assert desk.table.rows == rows("10")


def test_what_is_new_in_several_ranges_adds_up() -> None:
    desk = Desk(rows("10"), rows("0"), size=1, guards=STRICT)
    for account in ("a1", "a3"):
        desk.table.rows |= old(account, 2)
    with pytest.raises(GuardTripped):
        desk.apply()
    revoked = 4 - sum(row[1] != "seats" for row in desk.table.rows)
    assert revoked == 2, "the first range's were still allowed"


def test_an_approval_lets_what_was_planned_pass_and_judges_what_is_new_alone() -> None:
    desk = Desk(rows("10"), rows("0") | old("a1", 8), guards=STRICT, approved=True)
    desk.table.rows |= old("a5", 3)
    desk.apply()
    assert desk.table.rows == rows("10")
    desk = Desk(rows("10"), rows("0") | old("a1", 8), guards=STRICT, approved=True)
    desk.table.rows |= old("a5", 4)
    with pytest.raises(GuardTripped):
        desk.apply()
    assert desk.table.commits == []


def test_what_a_marker_tells_beyond_the_approved_plan_was_approved_by_nobody() -> None:
    desk = Desk(rows("10"), rows("10") | old("a1", 8), guards=STRICT, approved=True)
    commit = desk.table.commit

    def earlier(fence: Fence, part: RangeChanges, by: float) -> Committed:
        found = commit(fence, part, by)
        return replace(found, changes={**found.changes, Action.REVOKE: 9})

    desk.table.commit = earlier  # type: ignore[method-assign]
    (step,) = desk.apply()
    assert (step.show["revoke"], step.show["spent_revoke"]) == (9, 9)
    assert step.cursor["beyond"] == [9, 0]


@pytest.mark.parametrize(("again", "left"), [((4,), 4), ((2, 2), 2), ((3,), 0)])
def test_what_is_new_in_ranges_that_a_waiting_plan_found_equal_is_judged_too(
    again: tuple[int, ...], left: int
) -> None:
    desk = Desk(rows("10"), rows("10"), size=1, guards=STRICT, waited=True)
    for account, count in zip(("a1", "a3"), again, strict=False):
        desk.table.rows |= old(account, count)
    if left:
        with pytest.raises(GuardTripped):
            desk.apply()
    else:
        step = desk.apply()[-1]
        assert (step.show["revoke"], step.show["spent_revoke"]) == (3, 3)
    assert sum(row[1] != "seats" for row in desk.table.rows) == left


def test_what_a_killed_run_looked_at_again_and_did_not_tell_counts_with_what_is_new() -> None:
    desk = Desk(rows("10"), rows("10"), size=1, guards=STRICT, waited=True)
    untold = Committed(checksum([]), {Action.GRANT: 0, Action.REVOKE: 2, Action.UPDATE: 0})
    desk.table.markers[len(ACCOUNTS) + 1] = untold
    desk.table.rows |= old("a3", 2)
    with pytest.raises(GuardTripped):
        desk.apply()


@pytest.mark.parametrize(("approved", "spent"), [(False, [2, 9]), (True, [0, 0])])
def test_what_is_applied_counts_for_later_plans_unless_it_was_approved(
    approved: bool, spent: list[int]
) -> None:
    desk = Desk(rows("10"), rows("0") | old("a1", 2), guards=STRICT, approved=approved)
    (step,) = desk.apply()
    assert [step.show["revoke"], step.show["update"]] == [2, 9]
    assert [step.show["spent_revoke"], step.show["spent_update"]] == spent


@pytest.mark.parametrize("before", [1, 2])
def test_what_earlier_runs_of_the_plan_applied_beyond_it_counts_with_what_is_new(
    before: int,
) -> None:
    desk = Desk(rows("10"), rows("0"), guards=STRICT)
    cursor: Any = {"phase": "applying", "plan": "plan", "beyond": [before, 0]}
    desk.order.record = replace(desk.order.record, cursor=cursor)
    desk.table.rows |= old("a5", 2)
    if before == 1:
        assert desk.apply()[-1].cursor["beyond"] == [3, 0]
    else:
        with pytest.raises(GuardTripped):
            desk.apply()
