"""Intended against recorded: what has no record, and is not about to get one, is found."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from reconcile.core import planning
from reconcile.core.config import (
    CatchUpConfig,
    EntitlementsConfig,
    Job,
    SourceConfig,
    TargetConfig,
)
from reconcile.core.model import State
from reconcile.core.operations.audit import audit
from reconcile.core.records import IntervalRecord
from reconcile.core.schedule import TICK

WORK = EntitlementsConfig(SourceConfig("csv", "/live.csv"), TargetConfig("sql", "", "t"))
START = datetime(2026, 3, 20, tzinfo=UTC)
DAYS = 40


def job(timezone: str = "UTC") -> Job:
    window = timedelta(days=99)
    made = Job("j", Path("/r"), "30 2 * * *", WORK, timezone, start=START)
    return made._replace(catch_up=CatchUpConfig("all", window), dst_gap="skip")


def seen_of(one: Job, records: list[IntervalRecord], settled: datetime, now: datetime) -> Any:
    """What a look at the job finds whose instants before `settled` are taken for recorded."""
    record = planning.seen(one, None, now)
    schedule = planning.schedule_of(record)
    read = [(r, 1) for r in records if (r.until_at or r.scheduled_at) >= settled]
    decision = planning.decide(one, schedule, settled, read, now)
    return SimpleNamespace(schedule=schedule, job=record, now=now, decision=decision)


KINDS = st.lists(st.sampled_from(["done", "lost", "open", "span"]), min_size=1, max_size=DAYS)


@given(kinds=KINDS, settled=st.integers(0, DAYS), limit=st.sampled_from([3, 200]))
@example(kinds=["span", "done"], settled=9, limit=200)
def test_lost_is_what_has_no_record_where_nobody_looks_any_more(
    kinds: list[str], settled: int, limit: int
) -> None:
    records: list[IntervalRecord] = []
    lost: list[datetime] = []
    intended = 0
    at = START + timedelta(hours=2, minutes=30)
    for number, kind in enumerate(kinds):
        name = f"{at:%Y-%m-%d}"
        until = at + timedelta(days=2) if kind == "span" else at
        if kind == "lost" and number < settled:
            lost.append(at)
        elif kind == "open":
            records.append(IntervalRecord(name, at, State.UNFINISHED, runs=1))
        elif kind != "lost":
            span = {"span": 3, "until_at": until} if kind == "span" else {}
            records.append(IntervalRecord(name, at, State.COMPLETED, **span))  # type: ignore[arg-type]
        intended += 3 if kind == "span" else 1
        at = until + timedelta(days=1)
        if number + 1 == settled:
            settled_at = at
    now = at - TICK
    settled_at = START if settled == 0 else settled_at if settled <= len(kinds) else now
    seen = seen_of(job(), records, settled_at, now)
    found = audit(seen, reversed(records), limit)
    assert found is not None
    if limit > len(records):
        assert (found.since, found.intended, found.missing) == (START, intended, len(lost))
    else:
        since = records[-limit].scheduled_at
        assert found.since == since
        assert found.missing <= sum(instant > since for instant in lost)


def test_what_clocks_have_left_out_is_neither_intended_nor_lost() -> None:
    berlin = job("Europe/Berlin")
    now = datetime(2026, 4, 2, tzinfo=UTC)
    seen = seen_of(berlin, [], START + timedelta(days=5), now)
    assert "dst_gap" in [skip.reason for skip in seen.decision.skips]
    found = audit(seen, [])
    assert found is not None
    assert (found.intended, found.recorded, found.missing) == (12, 0, 5)


def test_of_a_job_on_demand_nothing_is_intended() -> None:
    seen = SimpleNamespace(schedule=None, job=SimpleNamespace(horizon_at=START), now=START)
    assert audit(seen, []) is None  # type: ignore[arg-type]
