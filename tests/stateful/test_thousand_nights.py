"""A thousand nights in a row, held against a plain Python model of the truth.

Each night the truth drifts at random, sometimes beyond the guards; the source is missing, cut
or has an account that does not convert until the next night; a run is killed at a random
point; somebody else writes to the target before or in the middle of a run; some nights nobody
knocks, and they are caught up later. The model is two dictionaries: what the source says of a
night, and what the target holds. After each night the target must be as the model says, and
the change log must be the differences of the model, row by row, and no row more.

The suite lives through as many nights as fit into ten seconds; `RECONCILE_TEST_LONG=1` through
all 1,000.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from support.fakes import FakeClock
from support.nights import START, Answer, Nights, Point, date_of
from support.postgres_side import PostgresTargetSide
from support.sides import JOB, SqliteStoreSide, SqliteTargetSide, Table

from reconcile.core.config import GuardsConfig
from reconcile.core.errors import ReconcileError
from reconcile.core.model import Outcome, State
from reconcile.core.operations.application import ResumeRequest, RunRequest
from reconcile.core.operations.by_hand import resume
from reconcile.core.operations.trigger import run

LONG = bool(os.environ.get("RECONCILE_TEST_LONG"))
NIGHTS = int(os.environ.get("RECONCILE_TEST_NIGHTS") or (1000 if LONG else 120))
NAMES = ["api", "exports", "seats", "sso", "support"]
LEVELS = ["", "10", "25", "50"]
ACCOUNTS = 120
Key = tuple[str, str]


class Written:
    """A side of the target; remembers what somebody else wrote, and how long the change log was
    by then."""

    def __init__(self, side: Any) -> None:
        self._side = side
        self.writes: list[tuple[int, Key, str | None]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._side, name)

    def write(self, key: Key, level: str | None) -> None:
        self.writes.append((len(self.log(0)), key, level))
        self._side.write(key, level)


@dataclass
class Life:
    """The nights, and the model beside them."""

    rng: random.Random
    nights: Nights
    target: Written
    truth: Table
    held: Table = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    logged: int = 0
    written: int = 0
    seen: Counter[str] = field(default_factory=Counter)

    def drift(self, share: float) -> None:
        """Some rows go, some change, some come."""
        rng, truth = self.rng, dict(self.truth)
        for key in rng.sample(sorted(truth), max(1, int(len(truth) * share))):
            if rng.random() < 0.6:
                del truth[key]
            else:
                truth[key] = rng.choice(LEVELS)
        for _ in range(max(1, int(len(self.truth) * share * 0.65))):
            truth[f"acct-{rng.randrange(ACCOUNTS):03d}", rng.choice(NAMES)] = rng.choice(LEVELS)
        self.truth = truth

    def night_comes(self) -> str:
        """The truth of one more night, and what is wrong with its source."""
        rng = self.rng
        self.drift(rng.choice([0.01, 0.02, 0.04, 0.04, 0.3]) if rng.random() < 0.9 else 0.0)
        date = date_of(self.nights.clock.now())
        answer = Answer(f"{date}#0", dict(self.truth))
        what = rng.random()
        if what < 0.06:
            answer.fault, answer.times = "missing", 1
        elif what < 0.12:
            answer.fault, answer.page, answer.times = "cut", rng.randrange(60), 1
        elif what < 0.16:
            answer.bad = frozenset({rng.choice(sorted(self.truth))[0]})
        self.seen[answer.fault or ("quarantined" if answer.bad else "whole")] += 1
        self.answers[date] = answer
        return date

    def somebody(self) -> tuple[Key, str | None]:
        """A row that somebody else writes."""
        account = f"acct-{self.rng.randrange(ACCOUNTS):03d}"
        return (account, self.rng.choice(NAMES)), self.rng.choice([None, *LEVELS])

    def point(self) -> Point | None:
        """A kill, or somebody who writes, at some point of a run."""
        what, at = self.rng.random(), self.rng.randrange(1, 90)
        if what < 0.12:
            return Point(at)
        return Point(at, self.somebody()) if what < 0.18 else None

    def work(self) -> None:
        """Knock until all is done that can be done tonight, approving what waits."""
        point = self.point()
        for _ in range(12):
            report = self.knock(point)
            point = None
            if report is None:
                continue  # killed
            for one in report.intervals:
                if one.outcome is Outcome.NEEDS_APPROVAL and one.guard is not None:
                    self.approve(one.interval, one.guard.hash)
            records = self.nights.records()
            due = [r for r in records if not r.state.is_final and not self.answers[r.id].bad]
            if not due and report.outcome is not Outcome.NEEDS_APPROVAL:
                return
            self.nights.clock.advance(301)
        raise AssertionError(f"it never ends: {report}")

    def knock(self, point: Point | None) -> Any:
        report = self.nights.call(lambda app: run(app, RunRequest(JOB)), point)
        self.seen["killed" if report is None else str(report.outcome)] += 1
        return report

    def approve(self, date: str, plan: str) -> None:
        for hash_ in ("0" * 12, plan) if self.rng.random() < 0.3 else (plan,):
            before = len(self.target.log(0))
            request = ResumeRequest(JOB, date, approve=hash_, actor="ops", reason="OPS-1")
            point = self.point() if hash_ == plan else None
            done = self.nights.call(lambda app, asked=request: resume(app, asked), point)
            if hash_ != plan:
                assert len(self.target.log(0)) == before, "another hash let changes through"
                assert done[0].intervals[0].refused_hash == hash_
            self.seen["approved" if hash_ == plan else "not approved"] += 1

    def check(self) -> None:
        """The log is what became of the model, row by row, and the target is the model."""
        log = self.target.log(self.logged)
        writes = self.target.writes[self.written :]
        turns: list[tuple[str, Table, list[tuple[Key, Any]]]] = []
        for number, (date, *_, before, after) in enumerate(log, self.logged):
            self.others_write(writes, number)
            key = (before or after)[:2]
            answer = self.answers[date]
            level = None if after is None else after[2]
            assert (None if before is None else before[2]) == self.held.get(key), "before-image"
            assert level == answer.table.get(key), "not what the source says"
            assert level != self.held.get(key), "nothing was changed"
            assert key[0] not in answer.bad, "an account in quarantine was touched"
            if not turns or turns[-1][0] != date:
                turns.append((date, dict(self.held), []))
            turns[-1][2].append((key, level))
            put(self.held, key, level)
        self.others_write(writes, self.logged + len(log))
        touched = {key for _, key, _ in self.target.writes[self.written :]}
        nights = Counter(date for date, _, _ in turns)
        for date, held, rows in turns:
            self.one_night(date, rows, held, touched, alone=nights[date] == 1)
        self.logged += len(log)
        self.written = len(self.target.writes)
        assert self.target.rows() == self.held, "the target holds what nobody wrote"
        self.equal(touched)

    def others_write(self, writes: list[tuple[int, Key, str | None]], number: int) -> None:
        while writes and writes[0][0] <= number:
            _, key, level = writes.pop(0)
            put(self.held, key, level)

    def one_night(
        self,
        date: str,
        rows: list[tuple[Key, Any]],
        before: Table,
        touched: set[Key],
        *,
        alone: bool,
    ) -> None:
        """Each difference between the truth of a night and what was held is one row; a night
        that was killed may have an older one finished in between, and is not `alone` then."""
        record = self.nights.record(date)
        assert record is not None
        truth = self.answers[date].table
        wanted = {
            key: truth.get(key)
            for key in before.keys() | truth.keys()
            if before.get(key) != truth.get(key) and key not in touched
        }
        found = [(key, level) for key, level in rows if key not in touched]
        assert len(found) == len(dict(found)), "a change is logged twice"
        if (
            alone
            and record.state is State.COMPLETED
            and not self.answers[date].name.endswith("mended")
        ):
            assert dict(found) == wanted, "the log is not the difference"
            self.seen["nights by the row"] += 1
        self.seen["rows"] += len(found)

    def equal(self, touched: set[Key]) -> None:
        """What the newest night says is what the target holds, but for rows that somebody
        wrote in the middle of its runs, and for an account in quarantine."""
        answer = self.answers[max(self.answers)]
        apart = {
            key
            for key in self.held.keys() | answer.table.keys()
            if self.held.get(key) != answer.table.get(key)
        }
        assert {key for key in apart if key[0] not in answer.bad} <= touched, "not equal"
        self.seen["nights not equal"] += bool(apart)

    def mend(self) -> None:
        """The account that did not convert does now."""
        for answer in self.answers.values():
            if answer.bad:
                answer.bad, answer.name = frozenset(), answer.name + " mended"


def put(table: Table, key: Key, level: str | None) -> None:
    if level is None:
        table.pop(key, None)
    else:
        table[key] = level


def first_truth(rng: random.Random) -> Table:
    return {
        (f"acct-{number:03d}", name): rng.choice(LEVELS)
        for number in range(60)
        for name in rng.sample(NAMES, rng.randint(1, 4))
    }


@pytest.mark.timeout(3 * 3600 if LONG else 300)
@pytest.mark.parametrize(
    ("side", "most"),
    [
        pytest.param(SqliteTargetSide, NIGHTS, id="sqlite"),
        pytest.param(PostgresTargetSide, NIGHTS if LONG else NIGHTS // 10, id="postgres"),
    ],
)
def test_each_night_the_target_is_as_the_model_and_the_log_is_its_differences(
    side: Any, most: int, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(1001)
    clock = FakeClock(START + timedelta(minutes=1))
    target = Written(side())
    nights = Nights(
        SqliteStoreSide(clock), target, clock, GuardsConfig(max_revoke_min=3), range_size=12
    )
    life = Life(rng, nights, target, first_truth(rng))
    nights.truth = life.answers.__getitem__
    number = 0
    try:
        while number < most:
            life.mend()
            for _ in range(rng.choice([1] * 18 + [2, 4])):  # some nights nobody knocks
                clock.advance(
                    (START + timedelta(days=number, minutes=1) - clock.now()).total_seconds()
                )
                life.night_comes()
                number += 1
            if rng.random() < 0.1:
                target.write(*life.somebody())
            life.work()
            life.check()
    except (AssertionError, ReconcileError) as error:
        raise AssertionError(f"night {number}: {error!r}") from error
    finally:
        nights.store_side.close()
        target.close()
    assert life.seen["nights by the row"] > most * 0.7
    with capsys.disabled():
        if LONG:
            sys.stdout.write(f"\n{number} nights: {dict(life.seen)}\n")
