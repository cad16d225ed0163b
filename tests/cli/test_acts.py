"""`rerun`, `skip` and `stop`: signed, and clear about what they did."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.cli import Cli
from support.fakes import holder

from reconcile.core.errors import LeaseBusy, UsageError
from reconcile.core.events import ActReport, IntervalReport, RunReport
from reconcile.core.model import Fence, Lease, LeaseKey, Outcome, RunId, Trigger

AT = datetime(2026, 11, 30, 2, 41, 9, tzinfo=UTC)
LEASE = Lease(
    fence=Fence(LeaseKey("entitlements"), 9, RunId("r9")),
    holder=holder("a"),
    interval="2026-11-30T02:30:00Z",
    ttl=timedelta(seconds=60),
    granted_at=AT - timedelta(minutes=11),
    expires_at=AT + timedelta(seconds=50),
    progress=3,
    progress_at=AT - timedelta(seconds=2),
    live=True,
)
STOPPED = ActReport(
    "entitlements",
    "2026-11-30",
    AT,
    done=True,
    state="unfinished",
    lease=LEASE,
    ranges_done=22,
    ranges_total=69,
    phase="applying",
)
RERAN = RunReport(
    "entitlements",
    Outcome.COMPLETED,
    AT,
    [
        IntervalReport(
            job="entitlements",
            interval="2026-11-30",
            scheduled_at=AT,
            outcome=Outcome.COMPLETED,
            trigger=Trigger.RERUN,
            generation=9,
            at=AT,
            rerun=1,
            seconds=11.0,
        )
    ],
)


@pytest.mark.parametrize(
    ("argv", "answer"),
    [
        (("rerun", "entitlements", "latest"), RERAN),
        (("skip", "entitlements", "latest"), STOPPED),
        (("stop", "entitlements"), STOPPED),
    ],
)
def test_every_act_by_hand_is_signed_or_refused(
    cli: Cli, argv: tuple[str, ...], answer: Any
) -> None:
    cli.act_answers(argv[0], answer)
    shown = cli(*argv)
    assert (shown.code, shown.requests) == (2, ())
    assert f"{argv[0]} needs a reason" in shown.words
    (request,) = cli(*argv, "-m", "OPS-80", "--actor", "alice").requests
    assert (request.job, request.actor, request.reason) == ("entitlements", "alice", "OPS-80")
    cli.terminal, cli.typed = True, "OPS-81\n"
    assert cli(*argv).requests[0].reason == "OPS-81"


def test_a_rerun_is_shown_as_a_run(cli: Cli) -> None:
    cli.act_answers("rerun", RERAN)
    shown = cli("rerun", "entitlements", "2026-11-30", "-m", "x")
    assert shown.requests[0].interval == "2026-11-30"
    assert (shown.code, shown.words) == (
        0,
        "2026-11-30T02:41:09Z entitlements 2026-11-30 r1 completed in 11s\n",
    )
    assert json.loads(cli("rerun", "entitlements", "x", "-m", "x", "--json").data)["exit"] == 0


@pytest.mark.parametrize(
    ("state", "reason", "words", "again"),
    [
        (
            "skipped",
            "operator",
            "skipped: given up by hand",
            'rerun entitlements 2026-11-29 -m "why"',
        ),
        (
            "failed",
            "cancelled",
            "failed: refused by hand, after something was applied",
            "resume entitlements 2026-11-29",
        ),
    ],
)
def test_a_skip_says_what_became_of_the_interval(
    cli: Cli, state: str, reason: str, words: str, again: str
) -> None:
    cli.act_answers("skip", ActReport("entitlements", "2026-11-29", AT, True, state, reason))
    shown = cli("skip", "entitlements", "2026-11-29", "-m", "x")
    assert (shown.code, shown.words) == (
        0,
        f"entitlements 2026-11-29  {words}\n  To work it after all: reconcile {again}\n",
    )


@pytest.mark.parametrize(
    ("report", "code", "text"),
    [
        (
            ActReport("entitlements", None, AT, done=True),
            0,
            "entitlements  nobody is at work: there is nothing to stop\n",
        ),
        (
            STOPPED,
            0,
            """\
entitlements 2026-11-30  stopped by request after range 22 of 69 (db1 pid 4711)
  The next trigger goes on where it stopped.
""",
        ),
        (
            STOPPED._replace(done=False),
            75,
            """\
entitlements 2026-11-30  asked db1 pid 4711 to stop; it has not answered
  It stops at its next checkpoint, or its lease ends by itself at 02:41:59Z,
  unless it is renewed.
  To fence it out now: reconcile stop entitlements --force -m "why"
""",
        ),
        (
            STOPPED._replace(phase="planning"),
            0,
            """\
entitlements 2026-11-30  stopped by request: planned 22 ranges, nothing applied
  yet (db1 pid 4711)
  The next trigger goes on where it stopped.
""",
        ),
        (
            STOPPED._replace(state="completed"),
            0,
            """\
entitlements 2026-11-30  completed before it could be stopped: db1 pid 4711 has
  finished it
  Nothing is left to stop, unless that run goes on with another.
  How it stands: reconcile status entitlements
""",
        ),
        (
            STOPPED._replace(forced=True, generation=10),
            0,
            """\
entitlements 2026-11-30  fenced out: db1 pid 4711 had generation 9
  Whatever it still tries is refused: the fence is at generation 10. It stopped
  after range 22 of 69; the next trigger goes on from there.
""",
        ),
    ],
    ids=["nobody", "stopped", "silent", "planning", "completed", "forced"],
)
def test_a_stop_says_what_became_of_the_holder(
    cli: Cli, report: ActReport, code: int, text: str
) -> None:
    cli.act_answers("stop", report)
    shown = cli("stop", "entitlements", "-m", "x")
    assert (shown.code, shown.data, shown.words) == (code, "", text)
    quiet = cli("-q", "stop", "entitlements", "-m", "x")
    assert (quiet.code, quiet.words) == (code, "")
    value = json.loads(cli("stop", "entitlements", "-m", "x", "--json").data)
    assert (value["exit"], value["done"], value["forced"]) == (code, report.done, report.forced)


def test_a_stop_asks_as_the_command_line_says(cli: Cli) -> None:
    cli.act_answers("stop", STOPPED)
    (request,) = cli("stop", "entitlements", "-m", "x").requests
    assert (request.force, request.wait) == (False, True)
    (request,) = cli("stop", "entitlements", "-m", "x", "--force", "--no-wait").requests
    assert (request.force, request.wait) == (True, False)


def test_an_interval_that_is_being_worked_is_busy(cli: Cli) -> None:
    cli.fails_with("skip", LeaseBusy(LEASE))
    assert cli("skip", "entitlements", "latest", "-m", "x").code == 75


def test_commands_in_refusals_find_the_same_configuration_again(cli: Cli) -> None:
    hint = "see how it stands: reconcile status entitlements\nreconcile needs Linux"
    cli.fails_with("skip", UsageError("there is nothing to skip", hint=hint))
    assert cli("skip", "entitlements", "x", "-m", "x", "-c", "reconcile.toml").words == (
        "reconcile: there is nothing to skip\n"
        "  see how it stands: reconcile -c reconcile.toml status entitlements\n"
        "  reconcile needs Linux\n"
    )
