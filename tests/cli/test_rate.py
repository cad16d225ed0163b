"""`catch_up.rate`, `on_failed` and times that clocks leave out, on a small night."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.cli import Cli
from support.fakes import FakeClock
from support.screens import Moving
from support.small import SHOULD, write_source, write_target

CONFIG = """
[jobs.entitlements]
schedule = "* * * * *"
start = 2026-11-30T02:10:00Z
source = "export.csv"
target = "app.db"
range_size = 100
catch_up = { policy = "all", rate = "5/m", window = "1h" }
"""
NIGHTLY = """
[jobs.entitlements]
schedule = "30 2 * * *"
start = 2026-11-28
source = "export.csv"
target = "app.db"
range_size = 100
max_attempts = 1
on_failed = "block"
catch_up.policy = "all"
"""
RUN = ("run", "entitlements")
NOW = datetime(2026, 11, 30, 2, 30, tzinfo=UTC)


@pytest.fixture
def minutely(cli: Cli) -> Cli:
    """Twenty intervals were missed, and that of 02:30 is live."""
    cli.clock = Moving(NOW)
    cli.configure(CONFIG)
    write_source(cli.folder / "export.csv", SHOULD)
    write_target(cli.folder / "app.db")
    return cli


def told(cli: Cli, *argv: str) -> Any:
    return json.loads(cli(*argv, "--json").data)


def starts(cli: Cli) -> list[datetime]:
    """When the first run of each interval began that was begun late, in order."""
    found = told(cli, "status", "entitlements", "-n", "1000")["intervals"]
    late = [
        datetime.fromisoformat(one["started_at"])
        for one in found
        if one["started_at"] is not None
        and datetime.fromisoformat(one["started_at"])
        >= datetime.fromisoformat(one["scheduled_at"]) + timedelta(minutes=1)
    ]
    return sorted(late)


def most_in_a_minute(at: list[datetime]) -> int:
    return max(len([s for s in at if first <= s < first + timedelta(minutes=1)]) for first in at)


def test_a_trigger_sleeps_a_little_for_its_rate_and_then_says_when_it_can_go_on(
    minutely: Cli,
) -> None:
    shown = minutely(*RUN)
    assert shown.code == 0
    *worked, last = shown.words.splitlines()
    assert len([line for line in worked if " completed " in line]) == 10, "5, a minute, and 5 more"
    assert last == (
        "2026-11-30T02:31:00Z entitlements waiting for its rate of 5/m until 02:32:00Z:"
        " 2026-11-30T02:20Z and 11 more"
    )
    assert (minutely.clock.now() - NOW).total_seconds() == 60, "max_wait"
    found = told(minutely, *RUN)
    assert (found["outcome"], found["exit"]) == ("waiting", 0)
    assert (found["retry_at"], found["waiting"]) == ("2026-11-30T02:33:00Z", "2026-11-30T02:25Z")
    assert minutely("-q", *RUN).words == ""


def test_no_minute_ever_holds_more_across_triggers_and_kills(minutely: Cli) -> None:
    knocks = 0
    while told(minutely, "status", "entitlements")["jobs"][0]["backlog"]:
        knocks += 1
        assert knocks < 60
        with pytest.MonkeyPatch.context() as patch:
            if knocks % 3:
                patch.setattr("reconcile.cli.render.watch.AnyWatcher.reached", dies(2 + knocks % 7))
            code = minutely(*RUN).code
        assert code in (0, 130)
        minutely.clock.advance(61 if code == 130 else 7)
    at = starts(minutely)
    assert len(at) > 20
    assert most_in_a_minute(at) <= 5


def dies(count: int) -> Callable[[Any, str], None]:
    left = count

    def reached(watcher: Any, step: str) -> None:
        nonlocal left
        del watcher
        left -= step in ("run_opened", "checkpoint_saved", "lease_acquired")
        if left == 0:
            raise KeyboardInterrupt

    return reached


def test_the_live_interval_waits_for_no_rate(minutely: Cli) -> None:
    minutely.configure(CONFIG.replace("02:10", "02:26"))
    shown = minutely(*RUN)
    assert shown.words.count(" completed ") == 5, "four that are late, and that of now"
    assert (shown.code, minutely.clock.now()) == (0, NOW)
    minutely.clock.advance(60)
    assert " completed " in minutely(*RUN).words
    assert len(starts(minutely)) == 4


def test_what_is_longer_than_max_wait_or_max_runtime_is_not_slept(minutely: Cli) -> None:
    minutely.configure(CONFIG.replace("range_size", 'max_wait = "59s"\nrange_size'))
    assert "waiting for its rate" in minutely(*RUN).words
    assert minutely.clock.now() == NOW
    minutely.configure(CONFIG)
    assert "waiting for its rate" in minutely(*RUN, "--max-runtime", "30s").words
    assert minutely.clock.now() == NOW


def test_a_signal_ends_the_sleep(minutely: Cli) -> None:
    class Signalled(Moving):
        def wait(self, seconds: float, wake: Any) -> bool:
            if threading.current_thread() is threading.main_thread():
                minutely.stop.reason = "SIGTERM"
            return super().wait(seconds, wake)

    minutely.clock = Signalled(NOW)
    shown = minutely(*RUN)
    assert (minutely.clock.now() - NOW).total_seconds() <= 1
    assert shown.words.count(" completed ") == 5
    minutely.stop.reason = None
    minutely.clock = Moving(NOW + timedelta(minutes=2))
    assert minutely(*RUN).code == 0, "the lease was given back"


def test_what_is_asked_for_by_hand_and_what_goes_on_waits_for_no_rate(minutely: Cli) -> None:
    assert minutely(*RUN, "--max-runtime", "30s").code == 0
    for name in ("2026-11-30T02:17Z", "oldest"):
        assert minutely(*RUN, "--interval", name).code == 0
    assert minutely("rerun", "entitlements", "2026-11-30T02:10Z", "-m", "x").code == 0
    assert minutely.clock.now() == NOW


# --- on_failed


@pytest.fixture
def blocking(cli: Cli) -> Cli:
    """Three nights are due; the export of the first time is cut."""
    cli.configure(NIGHTLY)
    write_source(cli.folder / "export.csv", SHOULD)
    write_target(cli.folder / "app.db")
    cut = cli.folder / "export.csv"
    cut.write_text(cut.read_text()[:-5])
    assert cli(*RUN).code == 65
    write_source(cut, SHOULD)
    return cli


def states(cli: Cli) -> dict[str, str]:
    found = told(cli, "status", "entitlements")["intervals"]
    return {one["interval"]: one["state"] for one in found}


def test_what_failed_for_good_holds_newer_ones_until_a_person_resumes_it(blocking: Cli) -> None:
    blocking.clock.advance(7200)
    shown = blocking(*RUN)
    assert shown.code == 3
    assert "2 newer intervals wait for it" in shown.words
    assert "to go on without it: reconcile skip entitlements 2026-11-28" in shown.words
    assert blocking("-q", *RUN).words == ""
    assert states(blocking) == {
        "2026-11-28": "failed",
        "2026-11-29": "pending",
        "2026-11-30": "pending",
    }
    text = " ".join(blocking("status").words.split())
    assert 'entitlements 2026-11-28: 2 newer ones wait for it (on_failed = "block")' in text
    assert told(blocking, *RUN)["intervals"][0]["blocks"] == 2
    assert blocking("resume", "entitlements", "2026-11-28").code == 0
    assert blocking(*RUN).code == 0
    assert set(states(blocking).values()) == {"completed"}


@pytest.mark.parametrize(
    ("act", "left"),
    [
        (("skip", "entitlements", "2026-11-28", "-m", "not needed"), "failed"),
        (("run", "entitlements", "--interval", "2026-11-29"), "failed"),
        (("rerun", "entitlements", "2026-11-28", "-m", "again"), "completed"),
    ],
)
def test_each_of_these_acts_of_a_person_lets_newer_ones_go_on(
    blocking: Cli, act: tuple[str, ...], left: str
) -> None:
    assert blocking(*act).code == 0
    assert blocking(*RUN).code == 0
    assert states(blocking) == {
        "2026-11-28": left,
        "2026-11-29": "completed",
        "2026-11-30": "completed",
    }


# --- times that no clock shows


def test_a_time_that_is_left_out_is_on_record_and_can_be_worked_all_the_same(cli: Cli) -> None:
    cli.clock = FakeClock(datetime(2026, 3, 30, 12, tzinfo=UTC))
    cli.configure(
        NIGHTLY.replace("start = 2026-11-28", "start = 2026-03-28").replace(
            "range_size", 'timezone = "Europe/Berlin"\ndst_gap = "skip"\nrange_size'
        )
    )
    write_source(cli.folder / "export.csv", SHOULD)
    write_target(cli.folder / "app.db")
    assert cli(*RUN).code == 0
    found = {one["interval"]: one for one in told(cli, "status", "entitlements")["intervals"]}
    assert {name: (one["state"], one["reason"]) for name, one in found.items()} == {
        "2026-03-28": ("completed", None),
        "2026-03-29": ("skipped", "dst_gap"),
        "2026-03-30": ("completed", None),
    }
    assert "the clock went past it" in cli("status", "entitlements").data
    assert cli(*RUN).code == 0, "and is not decided again"
    assert cli("rerun", "entitlements", "2026-03-29", "-m", "after all").code == 0
    assert states(cli)["2026-03-29"] == "completed"


def test_status_names_the_rate(minutely: Cli) -> None:
    text = " ".join(minutely("status", "entitlements").words.split())
    assert "every missed interval of the last 1h, oldest first, at most 5/m" in text
