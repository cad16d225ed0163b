"""New rules for a zone: what was decided stands, what is to come follows them."""

from __future__ import annotations

import io
import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from reconcile.core.calendars import zoned
from reconcile.core.config import EntitlementsConfig, Job, SourceConfig, TargetConfig
from reconcile.core.model import Interval, State
from reconcile.core.planning import decide, floor, schedule_of, seen
from reconcile.core.records import IntervalRecord, JobRecord
from reconcile.core.schedule import Schedule

DAY = timedelta(days=1)
JOB = Job(
    "j",
    Path("/x/reconcile.toml"),
    "30 2 * * *",
    EntitlementsConfig(
        SourceConfig("csv", "/x/{date}.csv"), TargetConfig("sql", "sqlite:///a", "t")
    ),
    timezone="Old/Place",
)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def place(rule: str) -> ZoneInfo:
    """A zone that has had nothing but this rule, as POSIX writes it."""
    header = b"TZif2" + bytes(15) + struct.pack(">6l", 0, 0, 0, 0, 1, 4)
    body = struct.pack(">lbb", 3600, 0, 0) + b"PST\0"
    return ZoneInfo.from_file(io.BytesIO(2 * (header + body) + f"\n{rule}\n".encode()))


OLD = place("PST-1PDT,M3.5.0,M10.5.0/3")  # summer time ends on the last Sunday of October
NEW = place("PST-1PDT,M3.5.0,M9.5.0/3")  # on the last one of September


@pytest.fixture
def rule(monkeypatch: pytest.MonkeyPatch) -> dict[str, ZoneInfo]:
    known = {"in force": OLD}
    monkeypatch.setattr(zoned, "zone", lambda _: known["in force"])
    return known


def test_nights_to_come_follow_the_new_rule_and_earlier_ones_are_where_they_were(
    rule: dict[str, ZoneInfo],
) -> None:
    spans = [
        ("2026-06-01", "2026-09-20"),
        ("2026-10-01", "2026-10-20"),
        ("2026-11-01", "2027-01-01"),
    ]
    before = [list(Schedule("30 2 * * *", "Old/Place").between(*map(utc, s))) for s in spans]
    rule["in force"] = NEW
    after = [list(Schedule("30 2 * * *", "Old/Place").between(*map(utc, s))) for s in spans]
    assert (after[0], after[2]) == (before[0], before[2])
    assert after[1] == [night + timedelta(hours=1) for night in before[1]]


def test_nights_that_are_on_record_do_not_come_due_again_an_hour_later(
    rule: dict[str, ZoneInfo],
) -> None:
    """The rule is learned in mid-November; all of October was worked by the old one."""
    begun, learned = utc("2026-10-01T00:00"), utc("2026-11-15T12:00")
    record = JobRecord(horizon_at=begun, schedules=seen(JOB, None, begun).schedules)
    schedule = schedule_of(record)
    assert schedule is not None
    done = [
        (IntervalRecord(schedule.interval_id(night), night, State.COMPLETED), 1)
        for night in schedule.between(begun, learned)
    ]
    settled = decide(JOB, schedule, floor(record, learned), done, learned).settled
    assert settled == learned
    rule["in force"] = NEW
    for now in (learned, learned + DAY):
        record = JobRecord(horizon_at=begun, schedules=record.schedules, settled_at=settled)
        schedule = schedule_of(seen(JOB, record, now))
        begin = floor(record, now)
        known = [(one, n) for one, n in done if one.scheduled_at >= begin]
        decided = decide(JOB, schedule, begin, known, now)
        due = [due.interval for due in decided.due]
        expected = [Interval("j", utc("2026-11-16T01:30"), "2026-11-16")] if now > learned else []
        assert (due, decided.skips) == (expected, [])
