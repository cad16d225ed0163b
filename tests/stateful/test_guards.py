"""Whatever the source answers: no revoke without complete truth, none beyond the limit without
approval, and exactly what was approved.

A Hypothesis machine changes what the source says of each night, kills triggers at any point,
lets somebody write to the target in mid-run, and approves right, old and wrong hashes; a plain
account of what was revoked and updated without approval is kept beside the target and held
against every commit.

`RECONCILE_TEST_LONG=1` searches 3,000 new examples (`RECONCILE_TEST_EXAMPLES` for another
number).
"""

from __future__ import annotations

import os
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from support.fakes import FakeClock
from support.memory_target import MemoryTargetSide
from support.nights import START, Answer, Nights, Point, date_of
from support.sides import JOB, MemoryStoreSide, Table

from reconcile.core.config import GuardsConfig
from reconcile.core.errors import OldOverNew, ReconcileError, UsageError
from reconcile.core.events import RunReport
from reconcile.core.model import Kind, Outcome, Put
from reconcile.core.operations.application import ActRequest, ResumeRequest, RunRequest
from reconcile.core.operations.by_hand import resume
from reconcile.core.operations.rerunning import rerun
from reconcile.core.operations.trigger import run
from reconcile.core.records import IntervalRecord
from reconcile.core.work.entitlements.allowance import WINDOW
from reconcile.core.work.entitlements.compare import unpack

LONG = bool(os.environ.get("RECONCILE_TEST_LONG"))
GUARDS = GuardsConfig(
    max_revoke=0.2, max_revoke_min=2, max_update=0.5, min_rows=4, must_contain=("a",)
)
ACCOUNTS = "abcdefgh"
HOLDINGS: list[dict[str, str]] = [
    {"x": "1", "y": "1"},
    {"x": "1", "y": "2"},
    {"x": "2", "y": "1", "z": "1"},
    {"y": "1"},
    {},
]
TABLES = st.lists(st.integers(0, 4), min_size=8, max_size=8)
FEW = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 4)), min_size=1, max_size=3)
POINTS = st.one_of(
    st.none(),
    st.builds(Point, st.integers(1, 60)),
    st.builds(
        Point,
        st.integers(5, 50),
        st.tuples(
            st.tuples(st.sampled_from(ACCOUNTS), st.sampled_from("xyz")),
            st.sampled_from([None, "1", "2", "3"]),
        ),
    ),
)
NIGHT = st.integers(0, 3)


def table(holdings: list[int]) -> Table:
    return {
        (account, name): level
        for account, number in zip(ACCOUNTS, holdings, strict=True)
        for name, level in HOLDINGS[number].items()
    }


class GuardMachine(RuleBasedStateMachine):
    """Rules are what may happen; `on_commit` holds every commit against the account."""

    @initialize(first=TABLES, range_size=st.sampled_from([2, 3, 9]))
    def begin(self, first: list[int], range_size: int) -> None:
        clock = FakeClock(START + timedelta(minutes=1))
        self.nights = Nights(MemoryStoreSide(clock), MemoryTargetSide(), clock, GUARDS, range_size)
        self.nights.truth = self.answer
        self.nights.watch = self.watched
        self.holdings = first
        self.answers: dict[str, list[Answer]] = {}
        self.by_name: dict[str, Answer] = {}
        self.hashes: list[tuple[str, str]] = []
        self.approved: dict[str, set[Any]] = {}
        self.revoked: dict[str, list[datetime]] = {}
        self.updated: Counter[str] = Counter()
        self.bases: dict[str, int] = {}
        self.sizes: list[int] = []
        self.logged = 0
        self.written = False
        self.seen: set[str] = set()
        for key, level in table(first).items():
            self.nights.target_side.write(key, level)

    # --- what the source says

    def answer(self, date: str) -> Answer:
        if date not in self.answers:
            self.says(date, Answer("", table(self.holdings)))
        return self.answers[date][-1]

    def says(self, date: str, answer: Answer) -> None:
        versions = self.answers.setdefault(date, [])
        answer.name = f"{date}#{len(versions)}"
        answer.bad &= {account for account, _ in answer.table}
        versions.append(answer)
        self.by_name[answer.name] = answer

    def tonight(self) -> str:
        return date_of(self.nights.clock.now() - timedelta(hours=2, minutes=30))

    @rule(few=FEW)
    def the_truth_drifts(self, few: list[tuple[int, int]]) -> None:
        self.holdings = list(self.holdings)
        for account, number in few:
            self.holdings[account] = number
        self.says(self.tonight(), Answer("", table(self.holdings)))

    @rule(
        holdings=st.one_of(TABLES, st.just([4] * 8), st.just([4, 0, 0, 0, 0, 0, 0, 0])),
        bad=st.frozensets(st.sampled_from(ACCOUNTS), max_size=2),
        fault=st.sampled_from(["", "", "cut", "broken"]),
        page=st.integers(0, 6),
        times=st.sampled_from([1, 10**6]),
    )
    def the_source_says_anything(
        self, holdings: list[int], bad: frozenset[str], fault: str, page: int, times: int
    ) -> None:
        answer = Answer("", table(holdings), bad, fault, page, times)
        self.says(self.tonight(), answer)

    @rule(bad=st.frozensets(st.sampled_from(ACCOUNTS), max_size=8), fault=st.booleans())
    def the_same_truth_is_told_badly(self, bad: frozenset[str], fault: bool) -> None:
        self.says(
            self.tonight(),
            Answer("", table(self.holdings), bad, "broken" if fault else "", 2, 1),
        )

    @rule()
    def the_source_is_mended(self) -> None:
        self.says(self.tonight(), Answer("", table(self.holdings)))

    # --- what happens

    @rule(hours=st.sampled_from([0.1, 1.0, 6.0, 22.2, 24.0]))
    def time_passes(self, hours: float) -> None:
        self.nights.clock.advance(hours * 3600)

    @rule(point=POINTS)
    def a_trigger_comes(self, point: Point | None) -> None:
        self.trigger(lambda app: run(app, RunRequest(JOB)), point)

    @rule(lost=st.lists(st.integers(0, 40), min_size=2, max_size=4), point=POINTS)
    def missed_nights_are_caught_up(self, lost: list[int], point: Point | None) -> None:
        truth = dict(self.answer(self.tonight()).table)
        for number in lost:
            self.nights.clock.advance(86400)
            if truth:
                del truth[sorted(truth)[number % len(truth)]]
            self.says(self.tonight(), Answer("", dict(truth)))
        self.a_trigger_comes(point)

    @precondition(lambda self: self.hashes)
    @rule(which=st.integers(0, 3), point=POINTS)
    def somebody_approves(self, which: int, point: Point | None) -> None:
        date, plan = self.hashes[-1 - which % len(self.hashes)]
        request = ResumeRequest(JOB, date, approve=plan, actor="ops", reason="OPS-1")
        self.trigger(lambda app: resume(app, request)[0], point)

    @rule(which=NIGHT, point=POINTS)
    def a_night_is_worked_again(self, which: int, point: Point | None) -> None:
        records = self.nights.records()
        if records:
            request = ActRequest(JOB, records[-1 - which % len(records)].id, "ops", "OPS-2")
            self.trigger(lambda app: rerun(app, request), point)

    @rule(
        account=st.sampled_from(ACCOUNTS),
        name=st.sampled_from("xyz"),
        level=st.sampled_from([None, "1", "3"]),
    )
    def somebody_writes(self, account: str, name: str, level: str | None) -> None:
        self.nights.target_side.write((account, name), level)
        self.written = True

    def trigger(self, act: Any, point: Point | None) -> None:
        """One process, and what its report may not say."""
        before = self.logged
        self.written = point is not None and point.write is not None
        try:
            report = self.nights.call(act, point)
        except (UsageError, OldOverNew):
            assert self.logged == before
            self.seen.add("refused")
            return
        except ReconcileError as error:
            raise AssertionError(repr(error)) from error
        if report is None:
            self.seen.add("killed")
            return
        self.look_at(report, before)

    def look_at(self, report: RunReport, before: int) -> None:
        for one in report.intervals:
            self.seen.add(str(one.outcome))
            if one.guard is not None:
                self.seen.add(one.guard.guard)
                if one.guard.others:
                    self.seen.add("others")
                if one.guard.spent:
                    self.seen.add("spent")
                waits = (one.interval, one.guard.hash)
                if waits not in self.hashes:
                    self.hashes.append(waits)
        outcomes = {one.outcome for one in report.intervals}
        if outcomes == {Outcome.NEEDS_APPROVAL} and not self.written:
            assert self.logged == before, "a guard tripped after the first change"
        worked = [one for one in report.intervals if not one.known_before]
        if worked and worked[-1].outcome is Outcome.COMPLETED and not self.written:
            answer = self.answers[worked[-1].interval][-1]
            assert self.nights.target_side.rows() == answer.table, "not what the source says"
            assert not answer.bad

    # --- the account

    def watched(self, name: str, args: Any, answer: Any) -> None:
        if name == "note":
            self.note_approval(args[0])
        elif name == "commit" and hasattr(answer, "changes"):
            self.on_commit(args[1])

    def note_approval(self, writes: Any) -> None:
        """What is approved: the changes of the plan that the interval waits with."""
        for write in writes:
            if not isinstance(write, Put) or not write.value.get("approval"):
                continue
            record = IntervalRecord.from_json(write.value)
            assert record.waiting is not None
            assert record.approval is not None
            assert record.cursor is not None, "it waits with a plan"
            assert record.waiting["hash"] == record.approval["hash"], "not what waits"
            store = self.nights.store_side.peek()
            found = store.scan(Kind.CHANGES, JOB, prefix=f"{record.cursor['plan']}/")
            changes = {change for one in found for change in unpack(one.blob)}
            self.approved.setdefault(record.id, set()).update(changes)
            self.seen.add("approved")

    def on_commit(self, part: Any) -> None:
        """No revoke without complete truth, none beyond the limit without approval."""
        nights = self.nights
        log = nights.target_side.log(self.logged)
        self.logged += len(log)
        if not log:
            return
        date, now = part.interval, nights.clock.now()
        record = nights.record(date)
        plan = nights.store_side.peek().get(Kind.PLAN, JOB, part.plan)
        assert record is not None
        assert plan is not None
        answer = self.by_name[str(plan.value["fingerprint"])]
        assert answer.whole, "changed before the source was read to its end"
        self.base(date, record.base)
        approved = self.approved.get(date, set())
        for *_, before, after in log:
            account, name, _ = before or after
            assert account not in answer.bad, "an account in quarantine was touched"
            wanted = answer.table.get((account, name))
            assert wanted == (None if after is None else after[2]), "not what the source says"
            if before is None or any((c.before, c.after) == (before, after) for c in approved):
                continue
            if after is None:
                self.revoked.setdefault(date, []).append(now)
            else:
                self.updated[date] += 1
        self.limits(date, now, answer, any(after is None for *_, after in log))

    def base(self, date: str, base: int | None) -> None:
        """It is the target's rows at the first plan, and never moves."""
        assert base is not None
        assert self.bases.setdefault(date, base) == base

    def limits(self, date: str, now: datetime, answer: Answer, revokes: bool) -> None:
        base = self.bases[date]
        if revokes and self.revoked.get(date, [])[-1:] == [now]:
            others = sum(
                at > now - WINDOW
                for other, instants in self.revoked.items()
                if other != date
                for at in instants
            )
            total = len(self.revoked[date]) + others
            assert total <= max(0.2 * base, 2), f"{total} revokes of {base} without approval"
            self.seen.add("revoked")
            if date not in self.approved:
                good = {key for key in answer.table if key[0] not in answer.bad}
                assert len(good) >= 4, "min_rows"
                assert any(account == "a" for account, _ in good), "must_contain"
        assert self.updated[date] <= max(0.5 * base, 2), "updates without approval"

    def teardown(self) -> None:
        if hasattr(self, "nights"):
            SEEN.update(self.seen)
            self.nights.store_side.close()
            self.nights.target_side.close()


SEEN: Counter[str] = Counter()
"""In how many examples each thing happened, to see that they are not idle."""

if LONG:
    pytestmark = pytest.mark.timeout(6 * 3600)
TestGuards = GuardMachine.TestCase
TestGuards.settings = settings(
    derandomize=not LONG,
    max_examples=int(os.environ.get("RECONCILE_TEST_EXAMPLES") or (3000 if LONG else 60)),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
