"""Decisions about a nightly job, for tests of the planning."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from reconcile.core.config import CatchUpConfig, EntitlementsConfig, Job, SourceConfig, TargetConfig
from reconcile.core.model import State, Trigger
from reconcile.core.planning import Decision, decide
from reconcile.core.records import IntervalRecord
from reconcile.core.schedule import Schedule

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
NIGHTLY = Schedule("30 2 * * *")
SOURCE = SourceConfig("csv", "/x/export.csv")
DATED = SourceConfig("csv", "/x/{date}.csv")
TARGET = TargetConfig("sql", "sqlite:///x/app.db", "t")


def utc(text: str) -> datetime:
    """An instant, as ISO 8601 without an offset."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def job(policy: str = "all", window: timedelta | None = None, **fields: Any) -> Job:
    """Nightly at half past two, from a live source."""
    plain = Job("j", Path("/x/reconcile.toml"), "30 2 * * *", EntitlementsConfig(SOURCE, TARGET))
    return plain._replace(catch_up=CatchUpConfig(policy, window), **fields)


def record(at: str | datetime, state: State = State.UNFINISHED, **fields: Any) -> IntervalRecord:
    """What is on record of one night; an unfinished one has had a run."""
    when = utc(at) if isinstance(at, str) else at
    plain = IntervalRecord(NIGHTLY.interval_id(when), when, state)
    if state is State.UNFINISHED:
        plain = replace(plain, runs=1, trigger=Trigger.SCHEDULE)
    return replace(plain, **fields)


def decided(
    one: Job,
    *records: IntervalRecord,
    now: str,
    since: str = "2026-11-20",
    schedule: Schedule = NIGHTLY,
    **options: Any,
) -> Decision:
    """The decision about a job whose horizon is `since`."""
    ordered = sorted(records, key=lambda one: one.scheduled_at)
    versions = [(found, number) for number, found in enumerate(ordered, 1)]
    return decide(one, schedule, utc(since), versions, utc(now), **options)


def due(decision: Decision) -> list[str]:
    """The ids of what is due, in order of work."""
    return [one.interval.id for one in decision.due]


def skipped(decision: Decision) -> list[tuple[str, str, int]]:
    """Ids, reasons and spans of what is skipped."""
    return [(one.interval.id, one.reason, one.span) for one in decision.skips]
