"""What `run` shows of each outcome: to a terminal, to a log, to cron's mail, to a program."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.cli import Cli
from support.fakes import FakeClock, holder

from reconcile.core.errors import (
    FailedBefore,
    NotProved,
    OldOverNew,
    SourceUnreachable,
    SourceUnusable,
)
from reconcile.core.events import (
    DryRun,
    IntervalReport,
    PlannedAnew,
    Progress,
    RunReport,
    Started,
    Stopping,
    Warned,
)
from reconcile.core.model import Fence, Lease, LeaseKey, Outcome, RunId, Trigger
from reconcile.core.operations import changes as planned
from reconcile.core.operations.changes import Found
from reconcile.core.records import GuardReport
from reconcile.core.rows import Change

AT = datetime(2026, 11, 30, 2, 41, 9, tzinfo=UTC)
NIGHT = datetime(2026, 11, 29, 2, 30, tzinfo=UTC)
GUARD = GuardReport(
    guard="max_revoke",
    limit=0.1,
    base=175_554,
    grant=15_302,
    revoke=19_892,
    update=7,
    hash="4e1f9c2ab0d3",
    losing_accounts=8613,
    losing_names=["2to3", "abinit"],
    revokes_elsewhere=13,
    most_revoked=[("role::shared-lib", 2902), ("section/libs", 2781), ("devel::library", 1050)],
    source="exports/2026-11-29.csv",
    source_rows=170_964,
    last_rows=175_554,
)
LEASE = Lease(
    fence=Fence(LeaseKey("entitlements"), 9, RunId("r9")),
    holder=holder("a"),
    interval="2026-11-29T02:30:00Z",
    ttl=timedelta(seconds=60),
    granted_at=AT - timedelta(hours=24, minutes=10),
    expires_at=AT + timedelta(seconds=50),
    progress=3,
    progress_at=AT - timedelta(seconds=2),
    live=True,
)
BUSY = RunReport(
    "entitlements",
    Outcome.BUSY,
    AT,
    lease=LEASE,
    lease_interval="2026-11-29",
    lease_ranges=(31, 69),
    waiting="2026-11-30",
    waiting_seconds=669,
    usual_seconds=665,
    slowest_seconds=2340,
)
IDLE = RunReport(
    "entitlements",
    Outcome.NOTHING_DUE,
    AT,
    next_due=datetime(2026, 11, 30, 23, 0, tzinfo=UTC),
    last_interval="2026-11-29",
    last_completed_at=AT - timedelta(minutes=3),
)
FAULT = SourceUnusable(
    "exports/2026-11-29.csv line 17 has 4 fields, not 3", hint="mend line 17, or export it again"
)


def fared(outcome: Outcome = Outcome.COMPLETED, **fields: Any) -> IntervalReport:
    report = IntervalReport(
        job="entitlements",
        interval="2026-11-29",
        scheduled_at=NIGHT,
        outcome=outcome,
        trigger=Trigger.SCHEDULE,
        generation=9,
        at=AT,
        ranges_done=69,
        ranges_total=69,
        accounts=68_824,
        changes={"grant": 15_302, "revoke": 19_892, "update": 7},
        count=170_964,
        checksum="sha256-sum:170964:7d04b1e2000000000000000000000000",
        seconds=665.2,
        due_seconds=1047.4,
        phase="applying",
    )
    return report._replace(**fields)


FAILED = fared(
    Outcome.FAILED,
    error=FAULT,
    attempt=1,
    max_attempts=5,
    retry_at=AT + timedelta(minutes=5),
)
OVERTAKEN = fared(
    Outcome.FAILED, error=OldOverNew("it is older than 2026-11-30"), reason="overtaken"
)
WAITING = fared(
    Outcome.FAILED,
    error=FailedBefore("line 17 is cut"),
    failed_at=AT - timedelta(minutes=1),
    retry_at=AT + timedelta(minutes=5),
    attempt=1,
    max_attempts=5,
    known_before=True,
)
SKIPPED = fared(Outcome.INCOMPLETE, reason="operator", known_before=True)
GIVEN_UP = SKIPPED._replace(
    reason="attempts",
    error=FailedBefore("line 17 is cut"),
    failed_at=AT - timedelta(minutes=1),
)
WAITS = fared(Outcome.NEEDS_APPROVAL, guard=GUARD, changes={})
STARTED = Started("entitlements", "2026-11-29", Trigger.SCHEDULE, 9, AT)
RESUMED = STARTED._replace(
    generation=8,
    at_range=18,
    total=69,
    phase="planning",
    killed=holder("b"),
    killed_generation=7,
    silent=102.4,
    after_range=17,
)
KILLED = RESUMED._replace(dead=True, silent=3.0, phase="applying")


@pytest.fixture
def terminal(cli: Cli) -> Cli:
    """A terminal without colour."""
    cli.terminal = True
    cli.environ = {"NO_COLOR": "1"}
    return cli


def words(cli: Cli, *intervals: IntervalReport, argv: tuple[str, ...] = ()) -> str:
    outcome = intervals[-1].outcome
    cli.run_answers(RunReport("entitlements", outcome, AT, intervals), *intervals)
    return cli(*argv, "run", "entitlements").words


# --- on a terminal


@pytest.mark.parametrize(
    ("report", "text"),
    [
        (
            fared(),
            """\
entitlements 2026-11-29  completed in 11m 05s
  68,824 accounts in 69 ranges: 15,302 granted, 19,892 revoked, 7 updated
  proved equal: 170,964 rows on both sides, checksum 7d04b1e2… on both sides
""",
        ),
        (
            fared(runs=2, rerun=1),
            """\
entitlements 2026-11-29 r1  completed in 11m 05s
  68,824 accounts in 69 ranges: 15,302 granted, 19,892 revoked, 7 updated
  proved equal: 170,964 rows on both sides, checksum 7d04b1e2… on both sides
""",
        ),
        (
            fared(known_before=True, ranges_total=None, count=None),
            "entitlements 2026-11-29  completed already\n",
        ),
        (
            FAILED,
            """\
entitlements 2026-11-29  failed: exports/2026-11-29.csv line 17 has 4 fields,
  not 3
  mend line 17, or export it again
  attempt 1 of 5, next not before 02:46:09Z
  Try again now: reconcile resume entitlements 2026-11-29
  How it stands: reconcile status entitlements 2026-11-29
""",
        ),
        (
            fared(
                Outcome.FAILED,
                error=NotProved("7 ranges"),
                attempt=5,
                max_attempts=5,
                reason="attempts",
            ),
            """\
entitlements 2026-11-29  failed: 7 ranges
  attempt 5 of 5, no trigger tries it again
  Try again now: reconcile resume entitlements 2026-11-29
  How it stands: reconcile status entitlements 2026-11-29
""",
        ),
        (
            fared(Outcome.FAILED, error=NotProved("7 ranges"), attempt=5, max_attempts=5, rerun=1),
            """\
entitlements 2026-11-29 r1  failed: 7 ranges
  attempt 5 of 5, no trigger tries it again
  it stays completed as it was before this rerun
  Work it all the same: reconcile rerun entitlements 2026-11-29 -m "why"
  How it stands: reconcile status entitlements 2026-11-29
""",
        ),
        (
            OVERTAKEN,
            """\
entitlements 2026-11-29  failed: it is older than 2026-11-30
  How it stands: reconcile status entitlements 2026-11-29
""",
        ),
        (
            WAITING,
            """\
entitlements 2026-11-29  waiting until 02:46:09Z to try again; failed at
  02:40:09Z: line 17 is cut
  attempt 1 of 5
  Try again now: reconcile resume entitlements 2026-11-29
  How it stands: reconcile status entitlements 2026-11-29
""",
        ),
        (
            WAITING._replace(outcome=Outcome.INCOMPLETE, attempt=7),
            """\
entitlements 2026-11-29  waiting until 02:46:09Z to try again; incomplete at
  02:40:09Z: line 17 is cut
  attempt 7
  it is tried ever more rarely, and never given up
  Try again now: reconcile resume entitlements 2026-11-29
  How it stands: reconcile status entitlements 2026-11-29
""",
        ),
        (
            SKIPPED,
            """\
entitlements 2026-11-29  skipped: given up by hand
  Work it all the same: reconcile rerun entitlements 2026-11-29 -m "why"
  How it stands: reconcile status entitlements 2026-11-29
""",
        ),
        (
            SKIPPED._replace(error=FailedBefore("line 17 is cut")),
            """\
entitlements 2026-11-29  skipped: given up by hand; it had failed before: line
  17 is cut
  Work it all the same: reconcile rerun entitlements 2026-11-29 -m "why"
  How it stands: reconcile status entitlements 2026-11-29
""",
        ),
        (
            SKIPPED._replace(reason="catch_up_window", span=7),
            """\
entitlements 2026-11-29  skipped with 6 others: too old to be caught up
  How it stands: reconcile status entitlements 2026-11-29
""",
        ),
        (
            GIVEN_UP,
            """\
entitlements 2026-11-29  failed at 02:40:09Z: no attempt is left: line 17 is cut
  Work it all the same: reconcile resume entitlements 2026-11-29
  How it stands: reconcile status entitlements 2026-11-29
""",
        ),
        (
            GIVEN_UP._replace(reason="overtaken", error=None),
            """\
entitlements 2026-11-29  failed at 02:40:09Z: overtaken by a newer interval
  How it stands: reconcile status entitlements 2026-11-29
""",
        ),
        (
            fared(
                Outcome.INCOMPLETE,
                error=NotProved("1 account is in quarantine: acct-1 (level is empty)"),
                quarantined={"acct-1": "level is empty"},
                attempt=7,
                max_attempts=5,
                retry_at=AT + timedelta(hours=1),
            ),
            """\
entitlements 2026-11-29  incomplete: 1 account is in quarantine
    acct-1: level is empty
  attempt 7, next not before 03:41:09Z, never given up
  Try again now: reconcile resume entitlements 2026-11-29
  How it stands: reconcile status entitlements 2026-11-29
""",
        ),
        (
            fared(Outcome.INCOMPLETE, error=NotProved("3 accounts are quarantined")),
            """\
entitlements 2026-11-29  incomplete: 3 accounts are quarantined
  Try again now: reconcile resume entitlements 2026-11-29
  How it stands: reconcile status entitlements 2026-11-29
""",
        ),
        (
            WAITS,
            """\
entitlements 2026-11-29  needs approval: too many revokes. Nothing was changed.
  guard     max_revoke = 10%: 17,555 of the 175,554 rows in the target
  planned   15,302 grants, 19,892 revokes (11.3%), 7 updates
  accounts  8,613 would lose everything they have: 2to3, abinit, … 8,611 more;
            13 revokes are elsewhere
  most      role::shared-lib 2,902, section/libs 2,781, devel::library 1,050
  source    exports/2026-11-29.csv: 170,964 rows, last time 175,554

  Look: reconcile changes entitlements 2026-11-29 --planned
  Approve:
    reconcile resume entitlements 2026-11-29 --approve 4e1f9c2ab0d3 -m "why"
  Refuse: reconcile skip entitlements 2026-11-29 -m "why"
  Until then no trigger tries it again; the next is judged on its own.
""",
        ),
        (
            WAITS._replace(refused_hash="81d09f33c2aa"),
            """\
entitlements 2026-11-29  needs approval: not the changes that were approved
  approved  81d09f33c2aa
  planned   15,302 grants, 19,892 revokes (11.3%), 7 updates, 4e1f9c2ab0d3

  Look: reconcile changes entitlements 2026-11-29 --planned
  Approve:
    reconcile resume entitlements 2026-11-29 --approve 4e1f9c2ab0d3 -m "why"
  Refuse: reconcile skip entitlements 2026-11-29 -m "why"
  Until then no trigger tries it again; the next is judged on its own.
""",
        ),
        (
            fared(Outcome.FENCED_OUT, newer=LEASE, generation=8, ranges_done=17),
            """\
entitlements 2026-11-29  stopped: another run has taken over (fenced out)
  This run had generation 8. Generation 9 on db1 pid 4711 took over at
  2026-11-29 02:31:09Z.
  Ranges 1-17 stand; what it had not committed was refused and left nothing
  behind.
  Nothing to do. Watch the other: reconcile status entitlements 2026-11-29
""",
        ),
        (
            fared(Outcome.INTERRUPTED, signal="SIGINT", ranges_done=18),
            """\
entitlements 2026-11-29  interrupted after range 18 of 69; checkpoint saved
  The next trigger goes on at range 19. Now: reconcile resume entitlements
""",
        ),
        (
            fared(
                Outcome.INTERRUPTED,
                signal="stop by alice",
                ranges_done=0,
                ranges_total=None,
                phase="planning",
            ),
            """\
entitlements 2026-11-29  interrupted (stop by alice) before its first range
  The next trigger goes on planning. Now: reconcile resume entitlements
""",
        ),
        (
            fared(Outcome.INTERRUPTED, signal="SIGINT", ranges_done=0, changes={}),
            """\
entitlements 2026-11-29  interrupted: planned 69 ranges, nothing applied yet;
  checkpoint saved
  The next trigger goes on at range 1. Now: reconcile resume entitlements
""",
        ),
        (
            fared(
                Outcome.OUT_OF_TIME,
                signal="max_runtime",
                ranges_done=18,
                phase="planning",
                changes={"grant": 0},
            ),
            """\
entitlements 2026-11-29  out of time: planned 18 ranges, nothing applied yet;
  checkpoint saved
  The next trigger goes on planning. Now: reconcile resume entitlements
""",
        ),
        (
            fared(Outcome.OUT_OF_TIME, signal="max_runtime", ranges_done=18),
            """\
entitlements 2026-11-29  out of time after range 18 of 69; checkpoint saved
  The next trigger goes on at range 19. Now: reconcile resume entitlements
""",
        ),
    ],
    ids=lambda value: value.outcome.value if isinstance(value, IntervalReport) else "",
)
def test_a_terminal_is_told_in_full(terminal: Cli, report: IntervalReport, text: str) -> None:
    assert words(terminal, report) == text
    assert all(len(line) <= 80 for line in text.splitlines())


@pytest.mark.parametrize(
    ("guard", "says"),
    [
        ("empty_source", "the source is empty"),
        ("min_rows", "the source has too few rows"),
        ("must_contain", "the source lacks accounts that it must contain"),
        ("max_update", "too many updates"),
        ("of_tomorrow", "of_tomorrow"),
    ],
)
def test_each_guard_says_what_it_found(terminal: Cli, guard: str, says: str) -> None:
    terminal.width = 100
    text = words(terminal, WAITS._replace(guard=replace(GUARD, guard=guard)))
    assert text.startswith(f"entitlements 2026-11-29  needs approval: {says}.")


def test_a_terminal_is_told_why_nothing_happens(terminal: Cli) -> None:
    terminal.run_answers(IDLE)
    assert terminal("run", "entitlements").words == (
        "entitlements  nothing due: 2026-11-29 completed 3m ago, next 2026-11-30 23:00Z\n"
        "  To work it again all the same:\n"
        '    reconcile rerun entitlements 2026-11-29 -m "why"\n'
    )
    terminal.run_answers(IDLE._replace(new=True))
    assert terminal("run", "entitlements").words == (
        "entitlements  new, nothing due yet: first interval 2026-11-30 23:00Z, in 20h 18m\n"
        "  What it would change now: reconcile run entitlements --dry-run\n"
        "  To work the newest one now: reconcile run entitlements --interval latest\n"
    )


def test_a_terminal_is_told_who_is_at_work(terminal: Cli) -> None:
    terminal.run_answers(BUSY)
    shown = terminal("run", "entitlements")
    assert (shown.code, shown.data) == (75, "")
    assert (
        shown.words
        == """\
entitlements  busy: 2026-11-29 is being worked
  holder    db1 pid 4711, user svc-rec, since 2026-11-29 02:31:09Z (24h 10m)
  progress  range 31 of ~69, last 2s ago; usually done in 11m, at most 39m
  waiting   2026-11-30, 11m late; it is taken up next, nothing is lost
  Watch it: reconcile status entitlements
  Stop it: reconcile stop entitlements -m "why"
"""
    )


def test_a_terminal_is_told_how_a_killed_night_goes_on(terminal: Cli) -> None:
    terminal.run_answers(RunReport("entitlements", Outcome.COMPLETED, AT, [fared()]), RESUMED)
    assert terminal("run", "entitlements").words.startswith("""\
entitlements 2026-11-29  resumed planning at range 18/~69
  The run on db1 pid 4711 has been silent for 1m: generation 7 -> 8. The target
  was fenced first: whatever that run still tries is refused.
entitlements 2026-11-29  completed""")


def test_commands_to_type_find_the_same_configuration_again(terminal: Cli) -> None:
    terminal.run_answers(RunReport("entitlements", Outcome.FAILED, AT, [FAILED]))
    terminal.configure().rename(terminal.folder / "my jobs.toml")
    text = terminal("-c", "my jobs.toml", "run", "entitlements").words
    assert "\n  Try again now: reconcile -c 'my jobs.toml' resume entitlements 2026-11-29\n" in text


def test_each_interval_is_told_once(terminal: Cli) -> None:
    done, failed = fared(), FAILED._replace(interval="2026-11-30")
    answer = RunReport("entitlements", Outcome.FAILED, AT, [done, failed])
    terminal.run_answers(answer, done)
    text = terminal("run", "entitlements").words
    assert text.count("2026-11-29  completed") == 1
    assert text.count("2026-11-30  failed") == 1


def test_an_end_that_no_interval_explains_is_told_too(terminal: Cli) -> None:
    terminal.run_answers(BUSY._replace(intervals=[fared()]), fared())
    text = terminal("run", "entitlements").words
    assert "2026-11-29  completed" in text
    assert "entitlements  busy:" in text


def test_an_end_between_two_intervals_says_who_goes_on(terminal: Cli) -> None:
    terminal.stop.reason = "SIGTERM"
    terminal.run_answers(RunReport("entitlements", Outcome.INTERRUPTED, AT, [fared()]), fared())
    shown = terminal("run", "entitlements")
    assert shown.code == 143
    assert shown.words.endswith(
        "entitlements  interrupted before the next interval; the next trigger goes on\n"
    )


def test_colour_is_for_terminals_that_want_it(cli: Cli) -> None:
    cli.terminal = True
    plain = "entitlements 2026-11-29  completed"
    green = "entitlements 2026-11-29  \x1b[32mcompleted\x1b[0m"
    for environ, begins in (
        ({}, green),
        ({"NO_COLOR": "1"}, plain),
        ({"NO_COLOR": ""}, green),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, plain),
    ):
        cli.environ = environ
        assert words(cli, fared()).startswith(begins)
    cli.environ = {"TERM": "dumb"}
    assert words(cli, fared()).startswith("2026-11-30T02:41:09Z entitlements 2026-11-29 completed")


def test_a_terminal_without_unicode_gets_ascii(terminal: Cli) -> None:
    terminal.encoding = "iso-8859-1"
    assert words(terminal, fared()).isascii()


# --- the bar


def test_a_terminal_sees_a_bar_that_goes_away(terminal: Cli) -> None:
    clock = terminal.clock = FakeClock()
    progress = Progress("entitlements", "2026-11-29", "applying", 7, 69, True, 7000, 11, 22, 3)

    class Moving(Cli):
        def _operation(self, answer: Any, reports: Any, steps: Any) -> Any:
            def operation(app: Any, request: Any) -> Any:
                app.runtime.report(progress)
                clock.advance(100)
                app.runtime.report(progress._replace(range=17, accounts=17_000))
                app.runtime.report(answer.intervals[0])
                return answer

            return operation

    cli = Moving(terminal.folder, terminal.monkeypatch, clock, terminal=True)
    cli.environ = terminal.environ
    text = words(cli, fared())
    assert "entitlements 2026-11-29  " in text
    assert "applying range 17/69  8m 40s left" in text
    assert "  17,000 accounts   +11 -22 ~3   100 accounts/s" in text
    before, _, after = text.rpartition("\x1b[2K")
    assert "accounts/s" not in after
    assert "completed in 11m 05s" in after
    assert "\x1b[?25h" in before + after, "the cursor is given back"


def test_the_bar_has_no_attributes_under_no_color(terminal: Cli) -> None:
    progress = Progress("entitlements", "2026-11-29", "applying", 7, 69, True, 1, 11, 22, 3)
    terminal.run_answers(RunReport("entitlements", Outcome.COMPLETED, AT, [fared()]), progress)
    plain = terminal("run", "entitlements").words
    assert "  1 account   " in plain
    assert re.findall(r"\x1b\[[0-9;]*m", plain) == []
    terminal.environ = {}
    assert "\x1b[2m" in terminal("run", "entitlements").words


def test_a_terminal_is_told_that_the_plan_is_made_anew(terminal: Cli) -> None:
    anew = PlannedAnew("entitlements", "2026-11-29", AT, "the source has changed")
    answer = RunReport("entitlements", Outcome.COMPLETED, AT, [fared()])
    terminal.run_answers(answer, anew)
    told = "entitlements 2026-11-29  the source has changed: planned anew\n"
    assert terminal("run", "entitlements").words.startswith(told)
    assert told not in terminal("-q", "run", "entitlements").words


def test_a_first_ctrl_c_is_answered(terminal: Cli) -> None:
    stopped = fared(Outcome.INTERRUPTED, signal="SIGINT", ranges_done=18)
    terminal.stop.reason = "SIGINT"
    terminal.run_answers(
        RunReport("entitlements", Outcome.INTERRUPTED, AT, [stopped]),
        Stopping("entitlements", "2026-11-29", 18, "applying"),
        Stopping("entitlements", "2026-11-29", 18, "planning"),
    )
    shown = terminal("run", "entitlements")
    assert shown.code == 130
    assert shown.words.startswith(
        "entitlements 2026-11-29  stopping after range 18 (Ctrl-C again: now)\n"
        "entitlements 2026-11-29  stopping after planning range 18 (Ctrl-C again: now)\n"
    )


@pytest.mark.parametrize("quiet", [False, True])
def test_a_warning_is_said_where_work_begins_and_mails_nobody(cli: Cli, quiet: bool) -> None:
    warned = Warned("entitlements", "the store redis://h:6379/0 keeps nothing on a disk", AT)
    cli.run_answers(RunReport("entitlements", Outcome.COMPLETED, AT, [fared()]), warned)
    shown = cli("run", "entitlements", *(["-q"] if quiet else []))
    line = f"{AT:%Y-%m-%dT%H:%M:%SZ} entitlements warning: {warned.text}\n"
    assert (line in shown.words) is not quiet
    assert shown.code == 0


def test_a_warning_on_a_terminal_is_wrapped(terminal: Cli) -> None:
    warned = Warned("entitlements", "the store keeps nothing on a disk " * 4, AT)
    terminal.run_answers(RunReport("entitlements", Outcome.COMPLETED, AT, [fared()]), warned)
    shown = terminal("run", "entitlements").words.splitlines()
    assert shown[0].startswith("entitlements  warning: the store keeps nothing")
    assert max(map(len, shown[:2])) <= terminal.width


# --- in a log


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (fared(), "completed in 11m 05s: +15,302 -19,892 ~7, 170,964 rows proved equal"),
        (
            fared(runs=2),
            "completed in 2 runs, 17m 27s after it was due: +15,302 -19,892 ~7,"
            " 170,964 rows proved equal",
        ),
        (fared(known_before=True), "completed already"),
        (
            FAILED,
            "failed: exports/2026-11-29.csv line 17 has 4 fields, not 3;"
            " mend line 17, or export it again; attempt 1 of 5, next not before 02:46:09Z;"
            " see: reconcile status entitlements 2026-11-29",
        ),
        (
            WAITS,
            "needs approval: too many revokes; max_revoke = 10%: 17,555 of the 175,554 rows in"
            " the target; planned +15,302 -19,892 ~7; accounts: 8,613 would lose everything they"
            " have: 2to3, abinit, … 8,611 more; to look: reconcile changes entitlements 2026-11-29"
            " --planned; to approve: reconcile resume entitlements 2026-11-29 --approve"
            ' 4e1f9c2ab0d3 -m "why"; to refuse: reconcile skip entitlements 2026-11-29 -m "why"',
        ),
        (
            fared(Outcome.FENCED_OUT, newer=LEASE, generation=8),
            "fenced out: generation 9 on db1 pid 4711 took over from generation 8 at"
            " 2026-11-29 02:31:09Z",
        ),
        (
            fared(Outcome.INTERRUPTED, signal="SIGTERM", ranges_done=18),
            "interrupted (SIGTERM) after range 18 of 69; checkpoint saved",
        ),
        (
            fared(Outcome.OUT_OF_TIME, signal="max_runtime", ranges_done=18),
            "out of time (max_runtime) after range 18 of 69; checkpoint saved",
        ),
        (
            fared(Outcome.INCOMPLETE, error=NotProved("3 accounts\nare quarantined")),
            "incomplete: 3 accounts; are quarantined; see: reconcile status entitlements"
            " 2026-11-29",
        ),
        (
            fared(
                Outcome.INCOMPLETE,
                error=NotProved("1 account is in quarantine: acct-1 (level is empty)"),
                quarantined={"acct-1": "level is empty"},
            ),
            "incomplete: 1 account is in quarantine: acct-1 (level is empty); see: reconcile status"
            " entitlements 2026-11-29",
        ),
        (
            WAITING,
            "waiting until 02:46:09Z to try again; failed at 02:40:09Z: line 17 is cut; attempt 1"
            " of 5; see: reconcile status entitlements 2026-11-29",
        ),
        (
            SKIPPED,
            "skipped: given up by hand; work it all the same: reconcile rerun entitlements"
            ' 2026-11-29 -m "why"; see: reconcile status entitlements 2026-11-29',
        ),
        (
            OVERTAKEN,
            "failed: it is older than 2026-11-30; see: reconcile status entitlements 2026-11-29",
        ),
        (
            fared(Outcome.OUT_OF_TIME, ranges_done=1, phase="planning", changes={}),
            "out of time: planned 1 range, nothing applied yet; checkpoint saved",
        ),
    ],
    ids=lambda value: value.outcome.value if isinstance(value, IntervalReport) else "",
)
def test_a_log_gets_one_dated_line(cli: Cli, report: IntervalReport, line: str) -> None:
    assert words(cli, report) == f"2026-11-30T02:41:09Z entitlements 2026-11-29 {line}\n"
    cli.journald = True
    told = words(cli, report)
    assert re.sub(r"^<[345]>", "", told) == f"entitlements 2026-11-29 {line}\n"


def test_accounts_that_are_missing_are_named_and_many_are_counted(cli: Cli) -> None:
    names = [f"svc-{n}" for n in range(8)]
    lacking = replace(GUARD, guard="must_contain", limit=9, losing_accounts=0, missing=names)
    shown = words(cli, WAITS._replace(guard=lacking))
    told = "the source lacks accounts that it must contain: svc-0, svc-1, svc-2, svc-3, svc-4, … 3"
    assert f"needs approval: {told} more; must_contain = 9 accounts, 8 of them missing;" in shown


def test_a_line_of_a_trigger_that_was_refused_has_its_hint_too(cli: Cli) -> None:
    error = SourceUnreachable("no such file", hint="look:\nreconcile status x\nor wait")
    cli.run_answers(RunReport("entitlements", Outcome.FAILED, AT, error=error))
    assert cli("run", "entitlements", "-c", "reconcile.toml").words == (
        "2026-11-30T02:41:09Z entitlements failed: no such file; look: reconcile -c reconcile.toml"
        " status x; or wait; see: reconcile -c reconcile.toml status entitlements\n"
    )


def test_a_log_tells_of_the_beginning_and_of_whom_was_taken_over(cli: Cli) -> None:
    progress = Progress("entitlements", "2026-11-29", "applying", 7, 69, True, 7000, 11, 22, 3)
    answer = RunReport("entitlements", Outcome.COMPLETED, AT, [fared()])
    anew = PlannedAnew("entitlements", "2026-11-29", AT, "the source has changed")
    cli.run_answers(answer, STARTED, progress, RESUMED, KILLED, anew)
    assert cli("run", "entitlements").words.splitlines()[:4] == [
        "2026-11-30T02:41:09Z entitlements 2026-11-29 started, generation 9",
        "2026-11-30T02:41:09Z entitlements 2026-11-29 resumed planning at range 18/~69: the run on"
        " db1 pid 4711 has been silent for 1m; generation 7 -> 8",
        "2026-11-30T02:41:09Z entitlements 2026-11-29 resumed at range 18/69: the run on db1 pid"
        " 4711 was killed after range 17; generation 7 -> 8",
        "2026-11-30T02:41:09Z entitlements 2026-11-29 the source has changed: planned anew",
    ]


def test_a_log_tells_why_nothing_happens(cli: Cli) -> None:
    cli.run_answers(IDLE)
    assert cli("run", "entitlements").words == (
        "2026-11-30T02:41:09Z entitlements nothing due, next 2026-11-30 23:00Z\n"
    )
    cli.run_answers(BUSY)
    assert cli("run", "entitlements").words == (
        "2026-11-30T02:41:09Z entitlements busy: 2026-11-29 runs on db1 pid 4711, generation 9,"
        " since 2026-11-29 02:31:09Z, range 31/~69, last progress 2s ago; 2026-11-30 waits\n"
    )


def test_verbose_names_each_step(cli: Cli) -> None:
    cli.run_answers(IDLE, steps=["due_computed", "lease_acquired"])
    assert "step" not in cli("run", "entitlements").words
    text = cli("run", "entitlements", "-v").words
    assert text.startswith(
        "2026-11-30T02:30:00Z step due_computed\n2026-11-30T02:30:00Z step lease_acquired\n"
    )
    assert "step due_computed" in cli("-v", "--json", "run", "entitlements").words


# --- in cron's mail


@pytest.mark.parametrize(
    "report",
    [
        fared(),
        FAILED._replace(known_before=True),
        WAITS._replace(known_before=True),
        WAITING,
        WAITING._replace(outcome=Outcome.INCOMPLETE),
        fared(Outcome.OUT_OF_TIME),
    ],
    ids=lambda report: report.outcome.value,
)
def test_quiet_says_nothing_of_success_or_of_what_was_said(
    cli: Cli, report: IntervalReport
) -> None:
    assert words(cli, report, argv=("-q",)) == ""


def test_quiet_says_nothing_of_idle_and_busy_triggers(cli: Cli) -> None:
    for answer, code in ((IDLE, 0), (BUSY, 75), (IDLE._replace(outcome=Outcome.PAUSED), 0)):
        cli.run_answers(answer)
        shown = cli("-q", "run", "entitlements")
        assert (shown.code, shown.data, shown.words) == (code, "", "")


@pytest.mark.parametrize(
    "report",
    [
        FAILED,
        WAITS,
        fared(Outcome.INCOMPLETE),
        fared(Outcome.FENCED_OUT),
        fared(Outcome.INTERRUPTED),
    ],
    ids=lambda report: report.outcome.value,
)
def test_quiet_tells_of_a_new_failure_once_and_in_full(cli: Cli, report: IntervalReport) -> None:
    text = words(cli, report, argv=("-q",))
    assert text.startswith("2026-11-30T02:41:09Z entitlements 2026-11-29 ")
    assert text.count("2026-11-30T02:41:09Z") == 1
    assert "reconcile " in text
    assert "\x1b" not in text


def test_a_mail_says_what_failed_and_what_to_type(cli: Cli) -> None:
    cli.run_answers(RunReport("entitlements", Outcome.FAILED, AT, [FAILED]), STARTED)
    shown = cli("-q", "run", "entitlements")
    assert (
        str(shown)
        == """\
$ reconcile -q run entitlements
2> 2026-11-30T02:41:09Z entitlements 2026-11-29 failed: exports/2026-11-29.csv line
2>   17 has 4 fields, not 3
2>   mend line 17, or export it again
2>   attempt 1 of 5, next not before 02:46:09Z
2>   Try again now: reconcile resume entitlements 2026-11-29
2>   How it stands: reconcile status entitlements 2026-11-29
exit 65
"""
    )


# --- for programs


def test_json_is_one_object_and_no_words(cli: Cli) -> None:
    cli.run_answers(RunReport("entitlements", Outcome.COMPLETED, AT, [fared()]), STARTED, fared())
    shown = cli("run", "entitlements", "--json")
    assert (shown.code, shown.words, shown.data.count("\n")) == (0, "", 1)
    assert json.loads(shown.data) == {
        "schema": 1,
        "job": "entitlements",
        "outcome": "completed",
        "exit": 0,
        "intervals": [
            {
                "interval": "2026-11-29",
                "scheduled_at": "2026-11-29T02:30:00Z",
                "outcome": "completed",
                "trigger": "schedule",
                "generation": 9,
                "runs": 1,
                "rerun": 0,
                "ranges": {"done": 69, "total": 69},
                "phase": "applying",
                "accounts": 68824,
                "changes": {"grant": 15302, "revoke": 19892, "update": 7},
                "count": 170964,
                "checksum": "sha256-sum:170964:7d04b1e2000000000000000000000000",
                "seconds": 665.2,
            }
        ],
    }


def test_json_names_the_lease_of_a_busy_job(cli: Cli) -> None:
    cli.run_answers(BUSY)
    shown = cli("run", "entitlements", "--json", "-E", "0")
    value = json.loads(shown.data)
    assert (shown.code, value["exit"], value["outcome"]) == (0, 0, "busy")
    assert value["intervals"] == []
    assert value["lease"] == {
        "holder": "db1:4711:a",
        "host": "db1",
        "pid": 4711,
        "generation": 9,
        "interval": "2026-11-29",
        "since": "2026-11-29T02:31:09Z",
        "expires_at": "2026-11-30T02:41:59Z",
        "progress_at": "2026-11-30T02:41:07Z",
    }


def test_a_fault_of_the_source_is_an_outcome_and_no_error_object(cli: Cli) -> None:
    gone = fared(Outcome.FAILED, error=SourceUnreachable("no such file", hint="wait for it"))
    cli.run_answers(RunReport("entitlements", Outcome.FAILED, AT, [gone]))
    shown = cli("run", "entitlements", "--json")
    value = json.loads(shown.data)
    assert (shown.code, value["exit"], value["outcome"]) == (69, 69, "failed")
    assert "error" not in value
    assert value["intervals"][0]["error"] == {
        "exit": 69,
        "name": "source_unreachable",
        "message": "no such file",
        "hint": "wait for it",
    }


def test_json_has_the_hash_that_approves_a_plan(cli: Cli) -> None:
    cli.run_answers(RunReport("entitlements", Outcome.NEEDS_APPROVAL, AT, [WAITS]))
    shown = cli("run", "entitlements", "--json")
    guard = json.loads(shown.data)["intervals"][0]["guard"]
    assert shown.code == 4
    assert (guard["guard"], guard["hash"]) == ("max_revoke", "4e1f9c2ab0d3")
    assert guard["planned"] == {"grant": 15302, "revoke": 19892, "update": 7}


# --- a dry run

FOUND = DryRun(
    interval="2026-11-30",
    changes={"grant": 212, "revoke": 63, "update": 9},
    sample=[
        Change(None, ("acct-0007", "seats", "25")),
        Change(("acct-0012", "exports", "true"), None),
        Change(("acct-0031", "seats", "10"), ("acct-0031", "seats", "50")),
        Change(("acct-0032", "a\tb", None), ("acct-0032", "a\tb", "")),
    ],
    key=[0, 1],
)
DRY = RunReport("entitlements", Outcome.COMPLETED, AT, [fared()], dry_run=FOUND)
DRY_OF_FOUR = DRY._replace(dry_run=FOUND._replace(changes={"grant": 1, "revoke": 1, "update": 2}))


def shows_all(cli: Cli) -> None:
    """Have the store hold the sample and no more."""
    every = [Found({}, change, FOUND.key) for change in FOUND.sample]
    cli.monkeypatch.setattr(planned, "changes", lambda app, request: iter(every))


def test_a_dry_run_shows_changes_as_data(terminal: Cli) -> None:
    terminal.run_answers(DRY)
    assert (
        str(terminal("run", "entitlements", "--dry-run"))
        == """\
$ reconcile run entitlements --dry-run
  + acct-0007  seats    25
  - acct-0012  exports  true
  ~ acct-0031  seats    10 -> 50
  ~ acct-0032  a\\tb     NULL ->
2> entitlements 2026-11-30  would grant 212, revoke 63, update 9; nothing written
2>   … 280 more: reconcile changes entitlements --planned
exit 0
"""
    )


def test_a_dry_run_into_a_pipe_is_separated_by_tabs(cli: Cli) -> None:
    cli.run_answers(DRY_OF_FOUR)
    shows_all(cli)
    assert cli("run", "entitlements", "--dry-run").data == (
        "grant\tacct-0007\tseats\t25\n"
        "revoke\tacct-0012\texports\ttrue\n"
        "update\tacct-0031\tseats\t10 -> 50\n"
        "update\tacct-0032\ta\\tb\tNULL -> \n"
    )


def test_a_dry_run_that_a_guard_would_stop_says_so(cli: Cli) -> None:
    answer = DRY._replace(outcome=Outcome.NEEDS_APPROVAL, intervals=[WAITS], guard=GUARD)
    cli.run_answers(answer, WAITS)
    cli.terminal, cli.environ = True, {"NO_COLOR": "1"}
    shown = cli("run", "entitlements", "--dry-run")
    assert shown.code == 4
    assert shown.words.startswith(
        """\
entitlements 2026-11-30  would grant 212, revoke 63, update 9; nothing written
  It would need approval: too many revokes.
  guard     max_revoke = 10%: 17,555 of the 175,554 rows in the target
"""
    )
    assert "--approve" not in shown.words
    quiet = cli("-q", "run", "entitlements", "--dry-run")
    assert quiet.code == 4
    assert shown.words.startswith(quiet.words)
    assert "It would need approval" in quiet.words
    assert quiet.data == ""


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (
            FAILED,
            "failed: exports/2026-11-29.csv line 17 has 4 fields, not 3; mend line 17, or export it"
            " again; try again: {again}",
        ),
        (fared(Outcome.INTERRUPTED), "interrupted: nothing was written; try again: {again}"),
        (
            WAITING,
            "waiting until 02:46:09Z to try again; failed at 02:40:09Z: line 17 is cut; attempt 1"
            " of 5; see: reconcile status entitlements 2026-11-29",
        ),
    ],
    ids=["failed", "interrupted", "waiting"],
)
def test_a_dry_run_never_leads_to_a_command_that_writes(
    cli: Cli, report: IntervalReport, line: str
) -> None:
    again = "reconcile run entitlements --interval 2026-11-29 --dry-run"
    cli.run_answers(RunReport("entitlements", report.outcome, AT, [report]), report)
    text = cli("run", "entitlements", "--dry-run").words
    assert text == (f"2026-11-30T02:41:09Z entitlements 2026-11-29 {line.format(again=again)}\n")
    for argv, terminal in ((("-q",), False), ((), True)):
        cli.terminal, cli.environ = terminal, {"NO_COLOR": "1"}
        text = cli(*argv, "run", "entitlements", "--dry-run").words
        assert "resume" not in text
        assert again in text or (argv and report.known_before)


def test_json_says_why_an_interval_is_not_completed(cli: Cli) -> None:
    left = fared(Outcome.INCOMPLETE, quarantined={"acct-1": "level is empty"}, reason="attempts")
    cli.run_answers(RunReport("entitlements", Outcome.INCOMPLETE, AT, [left]))
    value = json.loads(cli("run", "entitlements", "--json").data)["intervals"][0]
    assert (value["quarantined"], value["reason"]) == ({"acct-1": "level is empty"}, "attempts")
    cli.run_answers(RunReport("entitlements", Outcome.FAILED, AT, [WAITING]))
    value = json.loads(cli("run", "entitlements", "--json").data)["intervals"][0]
    assert value["failed_at"] == "2026-11-30T02:40:09Z"
    assert value["retry_at"] == "2026-11-30T02:46:09Z"


def test_many_accounts_in_quarantine_are_cut_short(terminal: Cli) -> None:
    many = {f"acct-{n:02}": "level is empty" for n in range(12)}
    text = words(terminal, fared(Outcome.INCOMPLETE, quarantined=many))
    assert "incomplete: 12 accounts are in quarantine\n    acct-00: level is empty\n" in text
    assert "    acct-09: level is empty\n    … 2 more (--json has all)\n" in text


def test_a_dry_run_is_an_object_for_programs(cli: Cli) -> None:
    cli.run_answers(DRY)
    found = json.loads(cli("run", "entitlements", "--dry-run", "--json").data)["dry_run"]
    assert found["changes"] == {"grant": 212, "revoke": 63, "update": 9}
    assert found["sample"][1] == {
        "action": "revoke",
        "before": ["acct-0012", "exports", "true"],
        "after": None,
    }


# --- what is asked for


def test_the_request_is_what_the_command_line_says(cli: Cli) -> None:
    cli.run_answers(IDLE)
    (request,) = cli(
        "run", "entitlements", "--interval", "latest", "--dry-run", "--max-runtime", "10m"
    ).requests
    assert (request.job, request.interval, request.dry_run) == ("entitlements", "latest", True)
    assert request.max_runtime == timedelta(minutes=10)
    assert request.actor == "svc-rec"


@pytest.mark.parametrize(
    ("environ", "actor"),
    [
        ({}, "svc-rec"),
        ({"SUDO_USER": "bob"}, "bob"),
        ({"SUDO_USER": "bob", "RECONCILE_ACTOR": "alice"}, "alice"),
        ({"RECONCILE_ACTOR": ""}, "svc-rec"),
    ],
)
def test_the_actor_is_whoever_calls(cli: Cli, environ: dict[str, str], actor: str) -> None:
    cli.run_answers(IDLE)
    cli.environ = environ
    assert cli("run", "entitlements").requests[0].actor == actor


def test_the_journal_is_told_how_urgent_each_line_is(cli: Cli) -> None:
    cli.journald = True
    assert words(cli, FAILED).startswith("<3>entitlements 2026-11-29 failed")
    assert words(cli, WAITS).startswith("<4>entitlements 2026-11-29 needs approval")
    assert words(cli, FAILED._replace(known_before=True)).startswith("<5>")
    quiet = words(cli, FAILED, argv=("-q",)).splitlines()
    assert {line[:3] for line in quiet} == {"<3>"}
    assert len(quiet) > 1
    shown = cli("run", "nojob").words.splitlines()
    assert {line[:3] for line in shown} == {"<3>"}
