"""One job's intervals as a calendar: in core, and on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
from support.fakes import FakeClock, outside

from reconcile.cli.render.calendar import calendar
from reconcile.cli.render.words import Style
from reconcile.core.config import Config, EntitlementsConfig, Job, SourceConfig, StoreConfig
from reconcile.core.config import TargetConfig as Target
from reconcile.core.model import Kind, Put, State
from reconcile.core.operations.application import Application
from reconcile.core.operations.overview import status
from reconcile.core.records import IntervalRecord, JobRecord, to_text
from reconcile.core.schedule import Schedule
from reconcile.core.status import Strip
from reconcile.stores.memory import MemoryServer, MemoryStore

NAME = "entitlements"
NOW = datetime(2026, 11, 30, 7, 12, tzinfo=UTC)
DONE, SKIPPED, FAILED, OPEN = State.COMPLETED, State.SKIPPED, State.FAILED, State.UNFINISHED
ASCII = Style(unicode=False)
LONG_AGO = datetime(2024, 1, 1, tzinfo=UTC)


def found(
    schedule: str | None, states: Sequence[State], *records: IntervalRecord, **choice: Any
) -> Strip | None:
    """The strip of a job whose newest intervals until now have those states, the newest last."""
    server = MemoryServer(FakeClock(NOW), "store-1")
    text = schedule or "0 0 * * *"
    period = Schedule(text).period or timedelta(days=7)
    since = max(NOW - timedelta(days=400), NOW - (len(states) + 2) * period)
    instants = list(Schedule(text).between(since, NOW))[-len(states) :]
    made = [IntervalRecord(to_text(at), at, state) for at, state in zip(instants, states)]  # noqa: B905  (as many as there are)
    store: MemoryStore = server.connect()
    writes = [
        Put(Kind.INTERVAL, NAME, one.interval(NAME).key, one.to_json(), tag=one.tag)
        for one in [*made, *records]
    ]
    settled = NOW if schedule else None
    job = JobRecord(LONG_AGO, [[to_text(LONG_AGO), schedule, "UTC"]], settled_at=settled)
    store.note([*writes, Put(Kind.JOB, NAME, "", job.to_json())])
    work = EntitlementsConfig(SourceConfig("csv", "e.csv"), Target("sql", "sqlite:///a.db", NAME))
    one = Job(NAME, Path("reconcile.toml"), schedule, work)
    config = Config(Path("reconcile.toml"), StoreConfig("memory:"), {NAME: one})
    runtime = outside("a", FakeClock(NOW)).runtime
    app = Application(config, runtime, lambda: store, None)  # type: ignore[arg-type]
    return status(app, NAME, **choice).jobs[0].strip


def drawn(strip: Strip | None) -> str:
    assert strip is not None
    return "\n" + calendar(strip, ASCII).rstrip("\n") + "\n"


def test_a_night_is_a_cell_in_the_row_of_its_month() -> None:
    states = [*repeat(DONE, 45), FAILED, *repeat(DONE, 3), SKIPPED, DONE, DONE, OPEN]
    assert drawn(found("30 2 * * *", states)) == (
        """
          1   5    10   15   20   25   30
2026-10           +++++++++++++++++++++++
2026-11   ++++++++++++++++++++++x+++-++~
          + completed  ~ unfinished  x failed  - skipped
"""
    )


def test_an_hour_is_a_cell_in_the_row_of_its_day() -> None:
    assert drawn(found("30 * * * *", [*repeat(DONE, 40), FAILED, *repeat(DONE, 9)])) == (
        """
             00    06    12    18
2026-11-28        +++++++++++++++++++
2026-11-29   +++++++++++++++++++++x++
2026-11-30   +++++++
             + completed  x failed
"""
    )


def test_what_runs_all_the_time_has_a_row_an_hour() -> None:
    text = drawn(found("*/5 * * * *", [*repeat(DONE, 40), SKIPPED, DONE]))
    assert text.splitlines()[-3:] == [
        "2026-11-30 06Z   ++++++++++++",
        "2026-11-30 07Z   +-+",
        "                 + completed  - skipped",
    ]
    strip = found("* * * * *", [*repeat(DONE, 130)])
    assert strip is not None
    assert [len(row.cells) for row in strip.rows] == [60, 60, 60]


def test_a_week_leaves_days_free() -> None:
    assert drawn(found("30 2 * * 1", [DONE] * 20)).splitlines()[-2].strip() == (
        "2026-11    +      +      +      +      +"
    )


def test_the_most_urgent_of_a_cell_is_shown() -> None:
    noon = IntervalRecord("x", NOW - timedelta(hours=5), FAILED)
    strip = found("30 2 * * *", [DONE] * 20, noon)
    assert strip is not None
    assert strip.rows[-1].cells[29] == "failed"


def test_a_span_fills_the_cells_of_its_instants() -> None:
    at = datetime(2026, 11, 2, 2, 30, tzinfo=UTC)
    span = IntervalRecord("2026-11-02", at, SKIPPED, span=5, until_at=at + timedelta(days=4))
    assert "2026-11    -----     +" in drawn(found("30 2 * * *", [DONE] * 19, span))


def test_as_many_rows_are_shown_as_are_asked_for() -> None:
    for since, rows in ((None, 3), (timedelta(days=200), 7), (timedelta(days=2000), 14)):
        strip = found("30 2 * * *", [DONE] * 398, since=since, limit=3)
        assert strip is not None
        assert len(strip.rows) == rows


def test_a_list_that_shows_all_needs_no_calendar() -> None:
    assert found("30 2 * * *", [DONE] * 8, limit=8) is None
    assert found(None, [DONE] * 20, limit=8) is None


def test_no_more_than_its_cells_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0
    real = MemoryStore.scan

    def scan(store: MemoryStore, *args: Any, **options: Any) -> Any:
        nonlocal read
        rows = real(store, *args, **options)
        read += len(rows)
        return rows

    monkeypatch.setattr(MemoryStore, "scan", scan)
    found("*/5 * * * *", [DONE] * 3000)
    assert read < 450


def test_a_legend_is_wrapped() -> None:
    cells = ["completed", "failed", "skipped", "running", "overdue", "needs approval", "delayed"]
    row = found("30 2 * * *", [DONE] * 20)
    assert row is not None
    wide = row._replace(rows=[row.rows[0]._replace(cells=cells)])
    lines = calendar(wide, ASCII._replace(width=50)).splitlines()
    assert all(len(line) <= 50 for line in lines)
    assert sum(line.count(state) for line in lines for state in cells) == len(cells)
