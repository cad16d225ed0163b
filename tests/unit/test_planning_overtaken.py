"""What is older than a newer completed interval may not be applied any more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reconcile.core.config import (
    CatchUpConfig,
    EntitlementsConfig,
    Job,
    SourceConfig,
    TargetConfig,
)
from reconcile.core.model import State, Trigger
from reconcile.core.planning import LONG_SKIP, Decision, decide
from reconcile.core.records import IntervalRecord, to_text
from reconcile.core.schedule import Schedule

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
NIGHTLY = Schedule("30 2 * * *")
WORK = EntitlementsConfig(
    SourceConfig("csv", "/x/{date}.csv"), TargetConfig("sql", "sqlite:///x/app.db", "t")
)
FAILED = {"text": "x", "exit": "x", "at": to_text(NOW - timedelta(minutes=1))}


def at(day: int) -> datetime:
    return datetime(2026, 11, day, 2, 30, tzinfo=UTC)


def record(day: int, state: State = State.UNFINISHED, **fields: object) -> IntervalRecord:
    begun = {} if state is State.PENDING else {"runs": 1, "trigger": Trigger.SCHEDULE}
    return IntervalRecord(f"2026-11-{day}", at(day), state, **{**begun, **fields})  # type: ignore[arg-type]


def decided(
    *records: IntervalRecord,
    policy: str = "all",
    completed: int | None = 29,
    open_runs: tuple[str, ...] = (),
    tried: tuple[str, ...] = (),
) -> Decision:
    job = Job("j", Path("/x/reconcile.toml"), "30 2 * * *", WORK)
    return decide(
        job._replace(catch_up=CatchUpConfig(policy)),
        NIGHTLY,
        at(27),
        [(one, 3) for one in records],
        NOW,
        tried=tried,
        completed=None if completed is None else at(completed),
        open_runs=open_runs,
    )


DONE = record(29, State.COMPLETED)


@pytest.mark.parametrize(
    "older",
    [
        record(28, State.PENDING),
        record(28, cursor={"range": 1}),
        record(28, failure=FAILED, attempts=1),
        record(28, waiting={"hash": "a"}),
        record(28, waiting={"hash": "a"}, approval={"hash": "a"}),
        record(28, rerun=1),
        record(28, trigger=Trigger.BACKFILL),
    ],
    ids=["pending", "begun", "failed", "waits", "approved", "rerun", "backfill"],
)
def test_whatever_it_waits_for_it_is_overtaken_and_nothing_else(older: IntervalRecord) -> None:
    for tried in ((), (older.interval("j").key,)):
        decision = decided(record(27, State.COMPLETED), older, DONE, tried=tried)
        (found,) = decision.overtaken
        assert (found.interval.id, found.record, found.version) == ("2026-11-28", older, 3)
        assert [one.interval.id for one in decision.due] == ["2026-11-30"]
        assert (decision.waiting, decision.skips, decision.backlog) == ([], [], 1)
    assert decided(older, DONE, completed=None).overtaken == []


def test_what_is_as_new_as_the_newest_completed_one_is_not_overtaken() -> None:
    again = record(29, rerun=1)
    decision = decided(record(27, State.COMPLETED), record(28, State.COMPLETED), again)
    assert decision.overtaken == []
    assert [one.interval.id for one in decision.due] == ["2026-11-29", "2026-11-30"]


def test_one_with_an_open_run_is_left_to_whoever_takes_that_over() -> None:
    older = record(28)
    decision = decided(older, DONE, open_runs=(older.interval("j").key,))
    assert [one.interval.id for one in decision.overtaken] == ["2026-11-27"]
    assert "2026-11-28" in [one.interval.id for one in decision.due]


def test_nights_without_a_record_are_overtaken_but_where_the_policy_skips_them() -> None:
    assert [one.interval.id for one in decided(DONE).overtaken] == ["2026-11-27", "2026-11-28"]
    latest = decided(DONE, policy="latest")
    assert latest.overtaken == []
    assert [one.reason for one in latest.skips] == ["superseded", "superseded"]


def test_a_long_gap_is_overtaken_as_one() -> None:
    minutely = Schedule("* * * * *")
    job = Job("j", Path("/x/reconcile.toml"), "* * * * *", WORK)
    begin = NOW - timedelta(minutes=3 * LONG_SKIP)
    done = IntervalRecord("x", NOW, State.COMPLETED)
    decision = decide(job, minutely, begin, [(done, 1)], NOW, completed=NOW)
    (found,) = decision.overtaken
    assert found.span == 3 * LONG_SKIP
    assert found.until is not None
    assert found.until.scheduled_at == NOW - timedelta(minutes=1)
    assert decision.due == []
