"""`reconcile backfill`, as a user calls it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from support.cli import Cli
from support.screens import Moving
from support.small import SHOULD, write_source, write_target

CONFIG = """
[jobs.entitlements]
schedule = "* * * * *"
start = 2026-11-30T03:00:00Z
source = "export-{interval}.csv"
target = "app.db"
range_size = 100
"""
NOW = datetime(2026, 11, 30, 2, 30, tzinfo=UTC)
JOB = ("backfill", "entitlements")
BOUNDS = ("--from", "2026-11-30T02:01Z", "--to", "2026-11-30T02:12Z")
WHY = ("-m", "new price column, OPS-9")


def minute(number: int) -> str:
    return f"2026-11-30T02:{number:02d}Z"


@pytest.fixture
def minutely(cli: Cli) -> Cli:
    """Nothing is due before three; the exports of half an hour are there."""
    cli.clock = Moving(NOW)
    cli.configure(CONFIG)
    for number in range(31):
        write_source(cli.folder / f"export-{minute(number)}.csv", SHOULD)
    write_target(cli.folder / "app.db")
    return cli


def told(cli: Cli, *argv: str) -> Any:
    return json.loads(cli(*argv, "--json").data)


def states(cli: Cli) -> dict[str, str]:
    found = told(cli, "status", "entitlements", "-n", "100")["intervals"]
    return {one["interval"]: one["state"] for one in found}


def test_a_dry_run_forecasts_and_registers_nothing(minutely: Cli) -> None:
    assert minutely(*JOB, "--from", minute(3), "--to", minute(3), *WHY).code == 0
    shown = minutely(*JOB, *BOUNDS, "--rate", "5/m", "--dry-run")
    assert (shown.code, shown.data) == (0, "")
    assert shown.words == (
        "entitlements  12 intervals: 9 to run, 1 completed already, 2 too old\n"
        "  at 5/m and the usual 0s each: about 1m, until 2026-11-30 02:31Z\n"
        "  2 are older than 2026-11-30T02:03Z, which the target has completed: they would\n"
        "  undo newer truth, and end failed (overtaken) without being tried\n"
        "  live intervals go first. Nothing registered (--dry-run).\n"
    )
    found = told(minutely, *JOB, *BOUNDS, "--dry-run")
    assert (found["did"], found["overtaken"], found["backfill"]["to_run"]) == ("planned", 2, 9)
    assert told(minutely, "status")["jobs"][0]["backfill"] is None
    assert len(states(minutely)) == 1


def test_in_a_log_each_interval_and_each_longer_wait_is_a_line(minutely: Cli) -> None:
    shown = minutely(*JOB, *BOUNDS, "--rate", "5/m", *WHY)
    assert shown.code == 0
    lines = shown.words.splitlines()
    assert lines[1].endswith(": +3 -2 ~0, 121 rows proved equal (backfill #1, 1/12)")
    pauses = "entitlements backfill #1 pauses for its rate to 02:31:00Z; 7 left"
    assert f"2026-11-30T02:30:00Z {pauses}" in lines
    assert lines[-1] == "entitlements backfill #1  finished: 12 completed, 0 failed, 0 skipped"
    assert minutely(*JOB, *BOUNDS, *WHY).words.startswith("entitlements  nothing to do: 12 of 12")


def test_what_a_trigger_leaves_to_the_next_is_said_and_shown(minutely: Cli) -> None:
    minutely.stop.reason = "SIGINT"
    left = minutely(*JOB, *BOUNDS, "--rate", "5/m", *WHY)
    assert left.code == 130
    assert left.words == (
        "entitlements backfill #1  left after 0 of 12; every trigger of entitlements goes\n"
        "  on with it\n"
        '  Another rate, 0 pauses: reconcile backfill entitlements --rate 30/h -m "why"\n'
        '  Give up the rest: reconcile backfill entitlements --cancel -m "why"\n'
    )
    minutely.stop.reason = None
    shown = minutely("run", "entitlements", "--max-runtime", "30s")
    assert shown.code == 0
    assert shown.words.splitlines()[-1].endswith(
        "entitlements backfill #1 pauses for its rate to 02:31:00Z; 7 left"
    )
    found = told(minutely, "run", "entitlements", "--max-runtime", "30s")
    assert (found["outcome"], found["backfill"], found["backlog"]) == ("waiting", 1, 7)
    assert minutely("-q", "run", "entitlements", "--max-runtime", "30s").words == ""
    text = " ".join(minutely("status", "entitlements").words.split())
    assert f"backfill #1, {minute(1)} to {minute(12)} at 5/m: 5 of 12, 7 left" in text
    one = told(minutely, "status")["jobs"][0]["backfill"]
    assert (one["number"], one["left"], one["done"]["completed"]) == (1, 7, 5)
    metrics = minutely("status", "--metrics").data
    assert 'reconcile_backfill_remaining_intervals{job="entitlements"} 7.0' in metrics
    trail = minutely("status", "entitlements", minute(2)).words
    assert 'svc-rec asked for it in backfill #1: "new price column, OPS-9"' in trail


def test_it_is_changed_paused_and_cancelled(minutely: Cli) -> None:
    minutely.stop.reason = "SIGINT"
    minutely(*JOB, *BOUNDS, "--rate", "5/m", *WHY)
    minutely.stop.reason = None
    minutely("run", "entitlements", "--max-runtime", "30s")
    assert "goes on at 30/h after 5 of 12" in minutely(*JOB, "--rate", "30/h", *WHY).words
    assert "paused after 5 of 12" in minutely(*JOB, "--rate", "0", *WHY).words
    assert minutely("run", "entitlements").code == 0
    assert "7 left" in " ".join(minutely("status", "entitlements").words.split())
    shown = minutely(*JOB, "--cancel", *WHY)
    assert (shown.code, shown.words.splitlines()[0]) == (
        0,
        "entitlements backfill #1  cancelled: 5 completed, 0 failed, 7 skipped",
    )
    assert [states(minutely)[minute(n)] for n in (5, 6, 12)] == ["completed", "skipped", "skipped"]
    assert "has no backfill that runs" in minutely(*JOB, "--cancel", *WHY).words
    assert minutely("rerun", "entitlements", minute(9), *WHY).code == 0


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("--from", minute(1)), "--from and --to go together"),
        (("--cancel", "--rate", "3/h"), "--cancel is about the one that runs"),
        (("--dry-run",), "which intervals?"),
        ((*BOUNDS, "--rate", "fast", *WHY), "--rate: 'fast' is not a rate"),
        ((*BOUNDS, "--rate", "999999/h", *WHY), "is not counted"),
        (BOUNDS, "backfill needs a reason"),
        (("--from", "2026-11-30T02:01:30Z", "--to", minute(3), *WHY), "not on the schedule"),
    ],
)
def test_what_makes_no_sense_is_refused(minutely: Cli, argv: tuple[str, ...], says: str) -> None:
    shown = minutely(*JOB, *argv)
    assert (shown.code, says in shown.words) == (2, True), shown
    assert told(minutely, "status")["jobs"][0]["backfill"] is None


def test_on_a_terminal_the_wait_is_counted_down(minutely: Cli) -> None:
    minutely.terminal = True
    shown = minutely(*JOB, *BOUNDS, "--rate", "5/m", *WHY)
    assert shown.code == 0
    assert "next start in 59s" in shown.words
    assert "5/12  about 1m 59s left" in shown.words
    assert shown.words.count("next start in") > 100
    last = shown.words.splitlines()[-1]
    assert "finished" in last
