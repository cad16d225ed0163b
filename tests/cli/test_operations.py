"""What the command line says of real operations on a small night: no answer is handed in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.cli import Cli

from reconcile.cli.render.watcher import AnyWatcher

NIGHT = "2026-11-30"
CONFIG = """
[jobs.entitlements]
schedule = "30 2 * * *"
start = 2026-11-30
source = "export.csv"
target = "app.db"
range_size = 400
"""
CONTRADICTION = "acct-0001,seats,1\nacct-0001,seats,2\n"


@pytest.fixture
def night(cli: Cli) -> Cli:
    """The demo's source and target, and a night of six ranges that is due now."""
    assert cli("init", "--demo").code == 0
    cli.configure(CONFIG)
    return cli


def without_an_account(cli: Cli) -> None:
    """The source contradicts itself about one account."""
    source = cli.folder / "export.csv"
    head, _, rest = source.read_text().partition("\n")
    rows = [row for row in rest.splitlines() if not row.startswith("acct-0001,")]
    source.write_text("\n".join([head, CONTRADICTION.strip(), *rows]) + "\n")


def killed_at(cli: Cli, step: str, count: int) -> None:
    """A run that is gone at that step and has given nothing back."""
    left = count

    def reached(self: Any, name: str) -> None:
        nonlocal left
        left -= name == step
        if left == 0:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AnyWatcher, "reached", reached)
        assert cli("run", "entitlements").code == 130


def test_an_incomplete_night_names_the_account_and_waits(night: Cli) -> None:
    without_an_account(night)
    first = night("run", "entitlements")
    assert first.code == 3
    assert "incomplete: 1 account is in quarantine: acct-0001 (" in first.words
    told = "; attempt 1, next not before 02:35:00Z, never given up; see: reconcile status"
    assert told in first.words
    found = json.loads(night("run", "entitlements", "--json").data)["intervals"][0]
    assert found["failed_at"] == "2026-11-30T02:30:00Z"
    assert found["retry_at"] == "2026-11-30T02:35:00Z"
    night.clock.advance(60)
    again = night("run", "entitlements")
    assert again.code == 3
    assert (
        f"entitlements {NIGHT} waiting until 02:35:00Z to try again; incomplete at 02:30:00Z: 1"
        in again.words
    )
    assert night("-q", "run", "entitlements").words == ""
    shown = night("status", "entitlements", NIGHT)
    assert "\n  acct-0001: " in shown.words
    assert "proof" not in shown.words
    status = json.loads(night("status", "entitlements", NIGHT, "--json").data)
    assert [*status["quarantined"]] == ["acct-0001"]
    problem = " ".join(night("status").words.split())
    assert f"! entitlements {NIGHT}: incomplete after 1 attempt: 1 account is in" in problem
    assert "tried again from 2026-11-30 02:35:00Z on, never given up" in problem
    night.clock.advance(2 * 86400)
    assert "incomplete" not in night("status", "entitlements", "latest").words


def test_an_overdue_night_that_failed_again_still_says_when_it_is_tried(night: Cli) -> None:
    night.clock.advance(25 * 3600)
    (night.folder / "export.csv").rename(night.folder / "away.csv")
    assert night("run", "entitlements").code == 69
    text = " ".join(night("status", "entitlements").words.split())
    assert "tried again from 2026-12-01 03:35:00Z on" in text


def test_a_night_given_up_by_hand_says_so_to_whoever_names_it(night: Cli) -> None:
    assert night("skip", "entitlements", NIGHT, "-m", "wrong export").code == 0
    for command in (
        ("run", "entitlements", "--interval", NIGHT),
        ("resume", "entitlements", NIGHT),
    ):
        shown = night(*command)
        assert shown.code == 3
        assert "skipped: given up by hand; work it all the same: reconcile rerun" in shown.words
    assert night("rerun", "entitlements", NIGHT, "-m", "it was right").code == 0


def test_nights_skipped_as_one_lead_to_no_command_that_is_refused(night: Cli) -> None:
    night.configure(CONFIG.replace("2026-11-30", "2025-01-01"))
    assert night("run", "entitlements").code == 0
    shown = night("run", "entitlements", "--interval", "2025-01-01")
    assert shown.code == 3
    assert "2025-01-01 skipped with 6" in shown.words
    assert "others: too old to be caught up; see:" in shown.words


@pytest.mark.parametrize(
    ("step", "count", "stands"),
    [
        ("checkpoint_saved", 2, "planned 2 ranges, nothing applied yet"),
        ("judged", 1, "planned 6 ranges, nothing applied yet"),
    ],
)
def test_what_is_only_planned_is_not_called_done(
    night: Cli, step: str, count: int, stands: str
) -> None:
    killed_at(night, step, count)
    status = night("status", "entitlements", NIGHT).words
    assert f"  ranges    {stands}, " in status
    assert "proof" not in status
    stopped = " ".join(night("stop", "entitlements", "--force", "-m", "hung").words.split())
    assert f"It stopped: {stands}; the next trigger goes on from there." in stopped
    assert night("run", "entitlements").code == 0


def test_the_trail_counts_what_was_planned_and_what_was_applied(night: Cli, tmp_path: Path) -> None:
    killed_at(night, "checkpoint_saved", 2)
    night.clock.advance(120)
    killed_at(night, "range_committed", 3)
    night.clock.advance(120)
    assert night("run", "entitlements").code == 0
    trail = " ".join(night("status", "entitlements", NIGHT).words.split())
    assert "run 1 went silent after planning range 2;" in trail
    assert "run 2 started by schedule on db1 planning at range 3," in trail
    assert "run 2 went silent after range 2;" in trail
    assert "run 3 started by schedule on db1 at range 3," in trail


def test_a_night_that_failed_for_good_is_a_problem_until_a_newer_one_is_completed(
    night: Cli,
) -> None:
    night.configure(CONFIG + "max_attempts = 1\n")
    source = night.folder / "export.csv"
    whole = source.read_text()
    source.write_text(whole[:-9])
    assert night("run", "entitlements").code == 65
    for command in (("status",), ("status", "entitlements")):
        words = " ".join(night(*command).words.split())
        told = f"! entitlements {NIGHT}: failed, and no trigger tries it again: "
        assert told in words
        assert f'reconcile resume entitlements {NIGHT} -m "why"' in words
    (problem,) = json.loads(night("status", "--json").data)["jobs"][0]["problems"]
    assert problem["commands"][-1] == f'reconcile resume entitlements {NIGHT} -m "why"'
    assert night("skip", "entitlements", NIGHT, "-m", "so be it").code == 0
    assert json.loads(night("status", "--json").data)["jobs"][0]["problems"] == []
    assert night("skip", "entitlements", NIGHT, "-m", "so be it").code == 2
    night.clock.advance(86400)
    source.write_text(whole)
    assert night("run", "entitlements").code == 0
    assert json.loads(night("status", "--json").data)["jobs"][0]["problems"] == []


def test_of_many_nights_that_failed_for_good_the_newest_are_told_of_each(night: Cli) -> None:
    night.configure(CONFIG + "max_attempts = 1\n")
    (night.folder / "export.csv").write_text("account_id\n")
    for _ in range(7):
        assert night("run", "entitlements").code == 65
        night.clock.advance(86400)
    words = " ".join(night("status").words.split())
    assert "2026-12-01: failed" not in words
    assert words.count("no trigger tries it again") == 5
    assert words.index("2026-12-02: failed") < words.index("2026-12-06: failed")
    assert "entitlements: 2 older ones failed for good too" in words
    asked = night("status", "entitlements", "--state", "failed")
    assert len(asked.data.splitlines()) == 8


def test_a_night_that_is_rerun_is_still_the_last_that_was_completed(night: Cli) -> None:
    assert night("run", "entitlements").code == 0
    source = night.folder / "export.csv"
    source.write_text(source.read_text()[:-9])
    assert night("rerun", "entitlements", NIGHT, "-m", "OPS-77").code == 65
    (job,) = json.loads(night("status", "--json").data)["jobs"]
    assert (job["last_completed"], job["backlog"]) == (NIGHT, 1)
    assert job["last_completed_at"] is not None


def test_a_job_that_has_begun_nothing_says_how_to_begin(night: Cli) -> None:
    config = "".join(line for line in CONFIG.splitlines(True) if not line.startswith("start"))
    night.configure(config)
    night.clock.advance(12 * 3600)  # the night lies before the job's first hour
    assert night("run", "entitlements").code == 0
    assert night("status", "entitlements", "latest").words == (
        "reconcile: entitlements has no interval yet\n"
        "  to work the newest one now: reconcile run entitlements --interval latest\n"
    )
