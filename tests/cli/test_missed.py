"""What was missed, seen through the command line: machines that were off, calls that came late."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.cli import Cli
from support.fakes import FakeClock
from support.small import SHOULD, write_source, write_target

from reconcile.cli.render.watcher import AnyWatcher
from reconcile.core.events import IntervalReport

CONFIG = """
[jobs.entitlements]
schedule = "{schedule}"
start = {start}
source = "export.csv"
target = "app.db"
range_size = 100
catch_up = {{ policy = "{policy}", window = "{window}" }}
"""
RUN = ("run", "entitlements")
NOON = datetime(2026, 11, 30, 12, 0, 4, tzinfo=UTC)
ROWS = SHOULD[:3]
MINUTE = timedelta(minutes=1)


@pytest.fixture
def small(cli: Cli) -> Cli:
    write_source(cli.folder / "export.csv", ROWS)
    write_target(cli.folder / "app.db", ROWS)
    cli.clock = FakeClock(NOON)
    return cli


def configured(
    cli: Cli, policy: str = "all", schedule: str = "* * * * *", window: str = "1h", extra: str = ""
) -> Cli:
    """A job whose first interval was due twelve hours ago."""
    start = f"{NOON - timedelta(hours=12) + MINUTE:%Y-%m-%dT%H:%M:00Z}"
    text = CONFIG.format(schedule=schedule, policy=policy, window=window, start=start)
    cli.configure(text.replace("range_size", f"{extra}\nrange_size"))
    return cli


def told(cli: Cli, *argv: str) -> Any:
    return json.loads(cli(*argv, "--json").data)


def intervals(cli: Cli) -> list[Any]:
    found: list[Any] = told(cli, "status", "entitlements", "-n", "1000")["intervals"]
    return found


def test_a_trigger_whose_time_is_over_between_two_intervals_says_so_and_leaves_with_124(
    small: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli = configured(small)
    told_before = AnyWatcher.report

    def slow(self: AnyWatcher, report: Any) -> None:
        told_before(self, report)
        if isinstance(report, IntervalReport):
            cli.clock.advance(40)

    monkeypatch.setattr(AnyWatcher, "report", slow)
    shown = cli(*RUN, "--max-runtime", "1m")
    assert shown.code == 124
    assert shown.words.splitlines()[-1] == (
        "2026-11-30T12:01:24Z entitlements out of time"
        " before 2026-11-30T11:03Z, and 58 more are due"
    )
    quiet = cli(*RUN, "--max-runtime", "1m", "-q")
    assert (quiet.code, quiet.words) == (124, "")
    found = told(cli, *RUN, "--max-runtime", "1m")
    assert (found["outcome"], found["exit"]) == ("out_of_time", 124)
    assert [one["outcome"] for one in found["intervals"]] == ["completed", "completed"]


def test_a_signal_between_two_intervals_is_said_too(
    small: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli = configured(small)
    told_before = AnyWatcher.report

    def stopped(self: AnyWatcher, report: Any) -> None:
        told_before(self, report)
        if isinstance(report, IntervalReport):
            cli.stop.reason = "SIGTERM"

    monkeypatch.setattr(AnyWatcher, "report", stopped)
    shown = cli(*RUN)
    assert shown.code == 143
    assert shown.words.splitlines()[-1] == (
        "2026-11-30T12:00:04Z entitlements interrupted"
        " before 2026-11-30T11:02Z, and 58 more are due"
    )


def test_of_twelve_hours_of_minutes_one_is_eligible_and_the_rest_is_one_record(small: Cli) -> None:
    """No number of misses ever keeps a job from going on."""
    cli = configured(small, extra="max_intervals = 2")
    job = told(cli, "status")["jobs"][0]
    assert job["backlog"] == 60
    assert cli(*RUN).code == 0
    found = intervals(cli)
    (skipped,) = [one for one in found if one["state"] == "skipped"]
    assert (skipped["span"], skipped["reason"]) == (660, "catch_up_window")
    trail = told(cli, "status", "entitlements", skipped["interval"])["events"]
    assert [(event["type"], event["span"]) for event in trail] == [("skipped", 660)]
    assert [one["interval"] for one in found if one["state"] == "completed"] == [
        "2026-11-30T11:02Z",
        "2026-11-30T11:01Z",
    ]
    assert told(cli, "status")["jobs"][0]["backlog"] == 58
    cli.clock.advance(60)
    assert cli(*RUN).code == 0
    assert len([one for one in intervals(cli) if one["state"] == "completed"]) == 4


def test_how_late_an_interval_of_this_hour_is_is_said_in_minutes(small: Cli) -> None:
    shown = configured(small, extra='deadline = "15m"')("status", "entitlements").words
    assert "2026-11-30T11:01Z: due 59m ago, past its deadline" in shown


def test_under_latest_it_is_one_run_and_the_rest_is_superseded(small: Cli) -> None:
    cli = configured(small, "latest", window="7d")
    assert cli(*RUN).code == 0
    found = intervals(cli)
    assert [(one["state"], one["reason"], one["span"]) for one in found] == [
        ("completed", None, 1),
        ("skipped", "superseded", 719),
    ]
    cli.clock.advance(60)
    assert cli(*RUN).code == 0
    assert len(intervals(cli)) == 3


@pytest.mark.parametrize(
    ("policy", "late", "outcome"),
    [
        ("all", 0, ("completed", None)),
        ("all", 5, ("completed", None)),
        ("all", 200, ("skipped", "catch_up_window")),
        ("latest", 0, ("completed", None)),
        ("latest", 5, ("completed", None)),
        ("latest", 70, ("skipped", "superseded")),
        ("none", 0, ("completed", None)),
        ("none", 5, ("completed", None)),
        ("none", 20, ("skipped", "catch_up_window")),
    ],
)
def test_each_policy_on_time_and_late(
    small: Cli, policy: str, late: int, outcome: tuple[str, str | None]
) -> None:
    """A policy that was stored and never read ran nothing, elsewhere."""
    cli = configured(small, policy, "0 * * * *", "3h", 'deadline = "15m"')
    assert cli(*RUN).code == 0
    cli.clock.advance(3600 + 60 * late)
    assert cli(*RUN).code == 0
    found = {one["interval"]: (one["state"], one["reason"]) for one in intervals(cli)}
    assert found["2026-11-30T13:00Z"] == outcome


@pytest.mark.parametrize("late", [2, 15, 120, 86_390])
def test_a_call_that_comes_late_finds_what_it_missed_and_how_late_it_is(
    small: Cli, late: int
) -> None:
    """No leader, no next-run pointer: the host that was away is not asked."""
    cli = configured(small, schedule="0 4 * * *", window="7d")
    assert cli(*RUN).code == 0
    cli.clock.advance(16 * 3600 - 4 + late)
    assert cli(*RUN).code == 0
    newest = intervals(cli)[0]
    assert (newest["interval"], newest["state"]) == ("2026-12-01", "completed")
    assert newest["delayed_seconds"] == late


def test_a_night_that_is_killed_half_way_is_done_by_the_next_call(small: Cli) -> None:
    """With one call a night it would wait for tomorrow; cron calls every ten minutes."""
    cli = configured(small, schedule="0 12 * * *", window="7d")
    with pytest.MonkeyPatch.context() as patch:

        def die(watcher: Any, step: str) -> None:
            del watcher
            if step == "range_planned":
                raise KeyboardInterrupt

        patch.setattr("reconcile.cli.render.watch.AnyWatcher.reached", die)
        assert cli(*RUN).code == 130
    cli.clock.advance(600)
    assert cli(*RUN).code == 0
    (done,) = [one for one in intervals(cli) if one["interval"] == "2026-11-30"]
    completed = datetime.fromisoformat(done["completed_at"])
    assert completed - datetime.fromisoformat(done["started_at"]) <= 10 * MINUTE
    assert done["runs"] == 2


def test_a_source_that_is_away_for_an_hour_costs_few_attempts_and_the_night_completes(
    small: Cli,
) -> None:
    cli = configured(small, schedule="0 12 * * *", window="7d", extra="max_attempts = 2")
    source = cli.folder / "export.csv"
    source.rename(cli.folder / "away.csv")
    codes = []
    for _ in range(60):
        codes.append(cli("-q", *RUN).code)
        cli.clock.advance(60)
    runs = intervals(cli)[0]["runs"]
    assert 1 < runs <= 13
    assert set(codes) <= {1, 69}
    (cli.folder / "away.csv").rename(source)
    cli.clock.advance(300)
    assert cli(*RUN).code == 0
    assert intervals(cli)[0]["state"] == "completed"


def test_status_says_how_far_back_misses_are_worked(small: Cli) -> None:
    cli = configured(small, schedule="0 0 * * 1")
    cli.configure((cli.folder / "reconcile.toml").read_text().replace(', window = "1h"', ""))
    text = " ".join(cli("status", "entitlements").words.split())
    assert "every missed interval of the last 14d, oldest first" in text
