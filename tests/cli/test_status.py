"""The three levels of `status`: all jobs, one job, one interval."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.cli import Cli
from support.fakes import holder

from reconcile.core.checksum import Checksum
from reconcile.core.config import EntitlementsConfig, Job, SourceConfig, TargetConfig
from reconcile.core.model import Ending, Fence, Lease, LeaseKey, RunId, State, Trigger
from reconcile.core.records import IntervalRecord, RangeRecord, RunRecord
from reconcile.core.status import (
    EventView,
    IntervalStatus,
    IntervalView,
    JobStatus,
    Problem,
    StatusReport,
)

NOW = datetime(2026, 11, 30, 3, 41, tzinfo=UTC)
LEASE = Lease(
    fence=Fence(LeaseKey("ldap-groups"), 9, RunId("r9")),
    holder=holder("a"),
    interval="2026-11-30T02:30:00Z",
    ttl=timedelta(seconds=60),
    granted_at=datetime(2026, 11, 30, 2, 30, 4, tzinfo=UTC),
    expires_at=NOW + timedelta(seconds=50),
    progress=3,
    progress_at=NOW - timedelta(seconds=2),
    live=True,
)


def night(day: int, hour: int = 2, minute: int = 30, second: int = 0) -> datetime:
    return datetime(2026, 11, day, hour, minute, second, tzinfo=UTC)


def job(name: str = "entitlements", **fields: Any) -> Job:
    source = SourceConfig(type="csv", path="exports/{date}.csv")
    target = TargetConfig(type="sql", url="sqlite:///app.db", table=name)
    return Job(
        name, Path("reconcile.toml"), "30 2 * * *", EntitlementsConfig(source, target), **fields
    )


def completed(day: int, **fields: Any) -> IntervalView:
    record = IntervalRecord(
        id=f"2026-11-{day:02d}",
        scheduled_at=night(day),
        state=State.COMPLETED,
        trigger=Trigger.SCHEDULE,
        runs=1,
        started_at=night(day, second=4),
        last_checkpoint_at=night(day, minute=41),
        completed_at=night(day, minute=41, second=9),
        ranges_done=69,
        ranges_total=69,
        accounts=68_824,
        grant=511,
        revoke=97,
        update=1,
        checksum=Checksum(170_964, 0x7D04B1E2 << 96),
        cursor={"phase": "applying"},
        seconds=665.0,
    )
    record = replace(record, **fields)
    return IntervalView(record, record.state, night(day, 8))


GUARD = {
    "guard": "max_revoke",
    "limit": 0.1,
    "base": 175_554,
    "grant": 15_302,
    "revoke": 19_892,
    "update": 7,
    "hash": "4e1f9c2ab0d3",
    "losing_accounts": 8613,
    "losing_names": ["2to3", "abinit"],
    "revokes_elsewhere": 0,
    "most_revoked": [],
    "source": "exports/2026-11-29.csv",
    "source_rows": 170_964,
}


def unfinished(day: int, shows: str, **fields: Any) -> IntervalView:
    record = IntervalRecord(
        id=f"2026-11-{day:02d}",
        scheduled_at=night(day),
        state=State.UNFINISHED,
        runs=1,
        started_at=night(day, second=4),
        last_checkpoint_at=night(day, second=52),
        seconds=48.0,
    )
    return IntervalView(replace(record, **fields), shows, night(day, 8))


def stands(name: str, state: str, **fields: Any) -> JobStatus:
    status = JobStatus(
        job=job(name),
        state=state,
        next_due=night(30) + timedelta(days=1),
        lease=None,
        backlog=0,
        oldest_unfinished=None,
        oldest_overdue=False,
        last_completed=completed(30).record,
        recent=[completed(30), completed(29)],
    )
    return replace(status, **fields)


ALL = StatusReport(
    now=NOW,
    config="/etc/reconcile/reconcile.toml",
    store="/var/lib/reconcile/state.db",
    notes=["this host's clock is 7s off the store's"],
    jobs=[
        stands(
            "entitlements",
            "needs approval",
            backlog=2,
            last_completed=completed(28).record,
            recent=[
                unfinished(30, "needs approval"),
                unfinished(29, "needs approval"),
                *(completed(day) for day in range(28, 18, -1)),
                IntervalView(
                    IntervalRecord("2026-11-18", night(18), State.SKIPPED, "superseded"),
                    "skipped",
                    None,
                ),
                *(completed(day) for day in range(17, 10, -1)),
            ],
            problems=[
                Problem(
                    "!",
                    "entitlements 2026-11-29: 19,892 revokes (11.3%) wait for somebody's approval",
                    ("reconcile status entitlements 2026-11-29",),
                )
            ],
        ),
        stands("backup", "ok"),
        stands(
            "ldap-groups", "running", backlog=1, lease=LEASE, recent=[unfinished(30, "running")]
        ),
        stands("fresh", "new", last_completed=None, recent=[], next_due=None),
    ],
)


@pytest.fixture
def terminal(cli: Cli) -> Cli:
    cli.terminal = True
    cli.environ = {"NO_COLOR": "1"}
    return cli


def test_all_jobs_at_a_glance(terminal: Cli) -> None:
    terminal.status_answers(ALL)
    shown = terminal("status")
    assert (
        str(shown)
        == """\
$ reconcile status
JOB           STATE           LAST COMPLETED   NEXT    BEHIND  LAST 14
entitlements  needs approval  2026-11-28   2d  in 22h  2       ✓\N{EN DASH}✓✓✓✓✓✓✓✓✓✓!!
backup        ok              2026-11-30  59m  in 22h  -                   ✓✓
ldap-groups   running         2026-11-30  59m  in 22h  1                    ▸
fresh         new             -                -       -
2>
2> ! entitlements 2026-11-29: 19,892 revokes (11.3%) wait for somebody's approval
2>     reconcile status entitlements 2026-11-29
2> this host's clock is 7s off the store's
2>
2> /etc/reconcile/reconcile.toml, store /var/lib/reconcile/state.db
exit 0
"""
    )
    assert all(len(line) <= 80 for line in shown.data.splitlines())


def test_what_can_only_be_looked_at_does_not_bury_what_wants_an_act(terminal: Cli) -> None:
    late = [
        Problem("!", f"nightly 2026-11-{day}: failed", (f"reconcile status nightly 2026-11-{day}",))
        for day in range(10, 18)
    ]
    act = Problem("!", "nightly 2026-11-18: waits", ("reconcile resume nightly 2026-11-18",))
    job = stands("nightly", "overdue", backlog=9, problems=[*late, act])
    terminal.status_answers(replace(ALL, notes=[], jobs=[job]))
    words = terminal("status").words
    told = [line for line in words.splitlines() if line.startswith("!")]
    assert [line[:20] for line in told[:-1]] == [
        *(f"! nightly 2026-11-{day}" for day in (10, 11, 12, 13, 14)),
        "! nightly 2026-11-18",
    ]
    assert told[-1] == "! nightly: 3 newer intervals wait too"
    assert "    reconcile status nightly -n 9\n" in words


def test_signs_are_ascii_where_the_locale_is_not_utf_8(terminal: Cli) -> None:
    terminal.status_answers(ALL)
    terminal.encoding = "iso-8859-1"
    shown = terminal("status")
    assert "+-++++++++++!!" in shown.data
    assert shown.data.isascii()


def test_a_narrow_terminal_loses_signs_and_no_words(terminal: Cli) -> None:
    terminal.status_answers(ALL)
    terminal.width = 72
    data = terminal("status").data
    assert all(len(line) <= 72 for line in data.splitlines())
    assert "LAST 9" in data
    terminal.width = 60
    data = terminal("status").data
    assert "LAST 1" not in data
    assert "needs approval 2026-11-28" in data


def test_a_state_is_a_word_first_and_a_colour_second(cli: Cli) -> None:
    cli.terminal = True
    cli.status_answers(ALL)
    coloured = cli("status").data
    assert "\x1b[33mneeds approval\x1b[0m" in coloured
    assert "\x1b[36mrunning\x1b[0m" in coloured
    cli.environ = {"NO_COLOR": "1"}
    plain = cli("status").data
    assert "\x1b" not in plain
    uncoloured = coloured
    for code in ("\x1b[33m", "\x1b[36m", "\x1b[32m", "\x1b[31m", "\x1b[2m", "\x1b[0m"):
        uncoloured = uncoloured.replace(code, "")
    assert uncoloured == plain


def test_into_a_pipe_all_jobs_are_a_table_for_programs(cli: Cli) -> None:
    cli.status_answers(ALL)
    shown = cli("status")
    rows = [line.split("\t") for line in shown.data.splitlines()]
    assert rows[0] == [
        "JOB",
        "STATE",
        "LAST COMPLETED",
        "COMPLETED AT",
        "NEXT",
        "BEHIND",
        "LAST 14",
    ]
    assert [row[:6] for row in rows[1:]] == [
        [
            "entitlements",
            "needs approval",
            "2026-11-28",
            "2026-11-28T02:41:09Z",
            "2026-12-01T02:30:00Z",
            "2",
        ],
        ["backup", "ok", "2026-11-30", "2026-11-30T02:41:09Z", "2026-12-01T02:30:00Z", "0"],
        [
            "ldap-groups",
            "running",
            "2026-11-30",
            "2026-11-30T02:41:09Z",
            "2026-12-01T02:30:00Z",
            "1",
        ],
        ["fresh", "new", "-", "-", "-", "0"],
    ]
    assert all(len(row) == 7 for row in rows)
    assert "wait for somebody's approval" in shown.words


def test_a_table_into_a_pipe_beside_a_terminal_is_still_for_programs(terminal: Cli) -> None:
    terminal.status_answers(ALL)
    terminal.data_into_pipe = True
    assert terminal("status").data.startswith("JOB\tSTATE\t")


def test_a_table_for_programs_has_no_colour(cli: Cli) -> None:
    cli.status_answers(ALL)
    plain = cli("status").data
    cli.environ = {"FORCE_COLOR": "1"}
    assert cli("status").data == plain
    cli.status_answers(ONE)
    assert "\x1b[36mrunning\x1b[0m" in cli("status", "entitlements").words


def test_quiet_leaves_the_data(cli: Cli) -> None:
    cli.status_answers(ALL)
    shown = cli("-q", "status")
    assert shown.data.count("\n") == 5
    assert shown.words == ""


def test_commands_to_type_find_the_same_store_again(terminal: Cli) -> None:
    terminal.status_answers(ALL)
    (terminal.folder / "a b.db").touch()
    text = terminal("status", "--store", "a b.db").words
    assert "    reconcile --store 'a b.db' status entitlements 2026-11-29\n" in text


# --- one job

ONE = StatusReport(
    now=NOW,
    config="reconcile.toml",
    store="state.db",
    jobs=[
        stands(
            "entitlements",
            "running",
            lease=LEASE,
            deadline=timedelta(hours=6),
            source="csv exports/{date}.csv",
            target="sqlite app.db, table entitlements",
            usual_seconds=665,
            slowest_seconds=2340,
            timed=30,
            older=23,
            worked=unfinished(30, "running").record,
            recent=[
                unfinished(30, "running", grant=3, started_at=night(30, 2, 31), seconds=0.0),
                completed(29, rerun=1, runs=2),
                completed(28, started_at=night(28, 4, 31), seconds=725.0),
                replace(
                    unfinished(
                        27,
                        "overdue",
                        runs=3,
                        failure={"text": "exports/2026-11-27.csv: no such file"},
                    ),
                    retry_at=night(30, 3, 43),
                ),
                IntervalView(
                    IntervalRecord(
                        "2026-11-20",
                        night(20),
                        State.SKIPPED,
                        "catch_up_window",
                        span=7,
                        until_at=night(26),
                    ),
                    "skipped",
                    None,
                ),
                completed(
                    19,
                    state=State.FAILED,
                    reason="attempts",
                    completed_at=None,
                    failure={"text": "line 3 has 2 fields"},
                ),
            ],
        )
    ],
)


def test_one_job_with_its_newest_intervals(terminal: Cli) -> None:
    terminal.status_answers(ONE)
    assert (
        str(terminal("status", "entitlements"))
        == """\
$ reconcile status entitlements
INTERVAL    STATE          STARTED  TOOK  RUNS  GRANT  REVOKE  UPDATE
2026-11-30  running        02:31Z      -     1      3       0       0
2026-11-29  completed r1   02:30Z    11m     2    511      97       1
2026-11-28  completed +2h  04:31Z    12m     1    511      97       1
2026-11-27  overdue        02:30Z    48s     3      0       0       0
              exports/2026-11-27.csv: no such file; tried again from 2026-11-30
              03:43:00Z on
2026-11-20  skipped        -           -     0      -       -       -
              7 intervals up to 2026-11-26 02:30Z: too old to be caught up
2026-11-19  failed         02:30Z    11m     1    511      97       1
              no attempt is left: line 3 has 2 fields
2> entitlements   running
2>   due       30 2 * * * UTC, next 2026-12-01 02:30Z (in 22h 49m), deadline 6h
2>   work      csv exports/{date}.csv -> sqlite app.db, table entitlements
2>   catch-up  every missed interval, oldest first
2>   usually   11m, slowest 39m (last 30)
2>   lease     db1 pid 4711, user svc-rec, generation 9, since 2026-11-30
2>             02:30:04Z, last progress 2s ago
2>   stands    2026-11-30 before its first range
2>
2>   23 older: reconcile status entitlements -n 29 (also --since 90d, --state S)
exit 0
"""
    )


def test_into_a_pipe_one_jobs_intervals_are_a_table_for_programs(cli: Cli) -> None:
    cli.status_answers(ONE)
    rows = [line.split("\t") for line in cli("status", "entitlements").data.splitlines()]
    assert rows[0] == [
        *("INTERVAL", "STATE", "STARTED", "COMPLETED", "RUNS", "RERUN"),
        *("GRANT", "REVOKE", "UPDATE", "WHY"),
    ]
    assert rows[2] == [
        *("2026-11-29", "completed", "2026-11-29T02:30:04Z", "2026-11-29T02:41:09Z"),
        *("2", "1", "511", "97", "1", "-"),
    ]
    assert rows[5][9] == "7 intervals up to 2026-11-26 02:30Z: too old to be caught up"
    assert all(len(row) == 10 for row in rows)


def test_a_cell_of_a_table_for_programs_is_one_cell(cli: Cli) -> None:
    odd = unfinished(27, "retrying", failure={"text": "one\ttwo\nthree"})
    cli.status_answers(replace(ONE, jobs=[replace(ONE.jobs[0], recent=[odd])]))
    _, row = cli("status", "entitlements").data.splitlines()
    assert row.split("\t")[9] == "one two three"


@pytest.mark.parametrize(
    ("argv", "terminal_limit", "pipe_limit"),
    [
        (("status", "entitlements"), 8, 1000),
        (("status", "entitlements", "-n", "30"), 30, 30),
        (("status", "entitlements", "--since", "90d"), None, None),
        (("status", "entitlements", "--since", "90d", "-n", "3"), 3, 3),
        (("status",), 14, 14),
        (("status", "entitlements", "--json"), 1000, 1000),
    ],
)
def test_how_many_intervals_are_asked_for(
    cli: Cli, argv: tuple[str, ...], terminal_limit: int | None, pipe_limit: int | None
) -> None:
    cli.status_answers(ONE)
    assert cli(*argv).requests[0][-1]["limit"] == pipe_limit
    cli.terminal = True
    assert cli(*argv).requests[0][-1]["limit"] == terminal_limit


def test_what_is_asked_for_is_what_the_command_line_says(cli: Cli) -> None:
    cli.status_answers(ONE)
    (request,) = cli("status", "entitlements", "--since", "6h", "--state", "failed").requests
    assert request[0] == "entitlements"
    assert request[-1]["since"] == timedelta(hours=6)
    assert request[-1]["state"] == "failed"


@pytest.mark.parametrize("state", ["needs approval", "needs_approval", "needs-approval"])
def test_a_state_of_two_words_needs_no_quotes(cli: Cli, state: str) -> None:
    cli.status_answers(ONE)
    (request,) = cli("status", "entitlements", "--state", state).requests
    assert request[-1]["state"] == "needs approval"


def test_a_state_that_is_none_is_refused(cli: Cli) -> None:
    cli.configure()
    shown = cli("status", "entitlements", "--state", "complete")
    assert shown.code == 2
    assert "'complete' is no state of an interval" in shown.words


@pytest.mark.parametrize("option", [("-n", "3"), ("--since", "3d"), ("--state", "failed")])
def test_choosing_among_intervals_needs_a_job(cli: Cli, option: tuple[str, str]) -> None:
    shown = cli("status", *option)
    assert shown.code == 2
    assert "write reconcile status JOB" in shown.words


# --- one interval

RUN = RunRecord(
    number=1,
    run_id="r1",
    trigger=Trigger.SCHEDULE,
    generation=7,
    holder={"host": "db1", "pid": 4711, "user": "svc-rec"},
    started_at=night(29, second=4),
    ended_at=night(29, second=52),
    ending=Ending.NEEDS_APPROVAL,
    seconds=48.0,
)
PROOF = str(Checksum(170_964, 0x7D04B1E2 << 96))
PLANNING: dict[str, Any] = {"ranges_total": 69, "cursor": {"phase": "planning"}}
INTERVAL = IntervalStatus(
    job=job(),
    view=completed(29, runs=3, repair_owner="alice", completed_at=night(29, 2, 47, 27)),
    runs=[
        RUN,
        replace(
            RUN,
            number=2,
            trigger=Trigger.RESUME,
            generation=8,
            started_at=night(29, 2, 34, 10),
            ending=Ending.ABANDONED,
            first_range=1,
            last_range=17,
            seconds=249.0,
        ),
        replace(RUN, number=3, generation=9, ending=None, ended_at=None, seconds=None),
    ],
    ranges=[
        RangeRecord(1, Checksum(), Checksum(), upper="m", quarantined={"acct-1": "level is empty"})
    ],
    events=[
        EventView(night(29, second=4), {"type": "due", "at": "2026-11-29T02:30:00.000000Z"}),
        EventView(
            night(29, second=4),
            {
                "type": "run_started",
                "run": 1,
                "trigger": "schedule",
                "host": "db1",
                "generation": 7,
            },
        ),
        EventView(
            night(29, second=52),
            {
                "type": "guard",
                "guard": "max_revoke",
                "revoke": 19_892,
                "base": 175_554,
                "hash": "4e1f9c2ab0d3",
            },
        ),
        EventView(
            night(29, 2, 34, 10),
            {
                "type": "approved",
                "hash": "4e1f9c2ab0d3",
                "actor": "alice",
                "reason": "cancelled plans, OPS-12",
            },
        ),
        EventView(
            night(29, 2, 40, 1),
            {
                "type": "taken_over",
                "run": 2,
                "generation": 9,
                "after_range": 17,
                "phase": "planning",
                "silent": 102.0,
                "dead": False,
            },
        ),
        EventView(
            night(29, 2, 40, 1),
            {
                "type": "run_started",
                "run": 3,
                "trigger": "schedule",
                "host": "db1",
                "generation": 9,
                "at_range": 18,
                "phase": "applying",
            },
        ),
        EventView(night(29, 2, 41), {"type": "attempt_failed", "text": "app.db is locked"}),
        EventView(
            night(30), {"type": "completed", "ranges": 69, "count": 170_964, "checksum": PROOF}
        ),
        EventView(night(30), {"type": "of_tomorrow", "what": "ever"}),
    ],
    desired=PROOF,
    observed=PROOF,
)
THIRD = StatusReport(
    now=NOW, config="c", store="s", jobs=[stands("entitlements", "ok")], interval=INTERVAL
)


def interval_text(cli: Cli, view: IntervalView) -> str:
    cli.status_answers(replace(THIRD, interval=replace(INTERVAL, view=view)))
    return cli("status", "entitlements", "2026-11-29").words


def test_one_interval_with_its_runs_and_trail(terminal: Cli) -> None:
    terminal.status_answers(THIRD)
    assert (
        str(terminal("status", "entitlements", "2026-11-29"))
        == """\
$ reconcile status entitlements 2026-11-29
RUN  TRIGGER   GENERATION  WHERE         STARTED    TOOK  RANGES  END
1    schedule           7  db1 pid 4711  02:30:04Z   48s  -       needs approval
2    resume             8  db1 pid 4711  02:34:10Z     -  1-17    abandoned
3    schedule           9  db1 pid 4711  02:30:04Z     -  -       open
2> entitlements 2026-11-29   completed, 17m 27s after it was due
2>   due        2026-11-29 02:30:00Z
2>   started    2026-11-29 02:30:04Z
2>   completed  2026-11-29 02:47:27Z
2>   deadline   2026-11-29 08:30:00Z, kept
2>   by hand    alice
2>   ranges     69/69, 68,824 accounts
2>   changes    511 granted, 97 revoked, 1 updated
2>   proof      170,964 rows = 170,964 rows, checksum 7d04b1e2… = 7d04b1e2…
2>
2>
2> TIME       WHAT
2> 02:30:00Z  due
2> 02:30:04Z  run 1 started by schedule on db1, generation 7
2> 02:30:52Z  guard max_revoke: 19,892 of 175,554 rows (11.3%); plan 4e1f9c2ab0d3
2>            waits for approval
2> 02:34:10Z  alice approved 4e1f9c2ab0d3: "cancelled plans, OPS-12"
2> 02:40:01Z  run 2 silent for 1m after planning range 17; target fenced at 9, run
2>            2 closed
2> 02:40:01Z  run 3 started by schedule on db1 at range 18, generation 9
2> 02:41:00Z  an attempt failed before its run began: app.db is locked
2> 2026-11-30 02:30:00Z  69 ranges and their sums agree, 170,964 rows proved equal:
2>            completed
2> 2026-11-30 02:30:00Z  of_tomorrow what=ever
2>
2> 1 account was left as it is:
2>   acct-1: level is empty
2>
2>   What changed: reconcile changes entitlements 2026-11-29
exit 0
"""
    )


def test_an_interval_that_waits_says_how_to_go_on(terminal: Cli) -> None:
    waits = unfinished(29, "needs approval", waiting=GUARD)
    text = interval_text(terminal, waits)
    assert "  accounts  8,613 would lose everything they have: 2to3, abinit, … 8,611 more\n" in text
    assert text.endswith(
        "\n\n  Look: reconcile changes entitlements 2026-11-29 --planned\n  Approve:\n"
        '    reconcile resume entitlements 2026-11-29 --approve 4e1f9c2ab0d3 -m "why"\n'
        '  Refuse: reconcile skip entitlements 2026-11-29 -m "why"\n'
    )


@pytest.mark.parametrize(
    ("view", "command"),
    [
        (
            completed(29, state=State.FAILED, reason="attempts"),
            "Go on now: reconcile resume entitlements 2026-11-29",
        ),
        (unfinished(29, "stalled"), "Go on now: reconcile resume entitlements 2026-11-29"),
        (unfinished(29, "running"), 'Stop it: reconcile stop entitlements -m "why"'),
        (unfinished(29, "fencing"), 'Stop it: reconcile stop entitlements -m "why"'),
        (
            completed(29, state=State.SKIPPED, reason="operator"),
            'Work it all the same: reconcile rerun entitlements 2026-11-29 -m "why"',
        ),
        (completed(29, state=State.SKIPPED, reason="superseded", span=3), None),
        (completed(29, state=State.FAILED, reason="overtaken"), None),
        (completed(29), "What changed: reconcile changes entitlements 2026-11-29"),
        (completed(29, grant=0, revoke=0, update=0), None),
    ],
)
def test_a_command_is_named_where_it_leads_on(
    terminal: Cli, view: IntervalView, command: str | None
) -> None:
    text = interval_text(terminal, view)
    if command is None:
        assert "reconcile " not in text
    else:
        assert text.endswith(f"\n\n  {command}\n")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"ranges_done": 18, **PLANNING}, "planned 18 ranges, nothing applied yet"),
        ({"ranges_done": 1, **PLANNING}, "planned 1 range, nothing applied yet"),
        (
            {"ranges_done": 18, "grant": 3, **PLANNING},
            "planned 18 ranges, nothing of that applied yet",
        ),
        ({"ranges_done": 68, "ranges_total": 69, "cursor": None}, "69 compared"),
        (
            {"ranges_total": 69, "cursor": {"phase": "applying"}},
            "planned 69 ranges, nothing applied yet",
        ),
        ({"ranges_done": 18, "ranges_total": 69, "cursor": {"phase": "applying"}}, "18/69"),
    ],
)
def test_ranges_that_are_only_planned_are_said_to_be(
    terminal: Cli, fields: dict[str, Any], says: str
) -> None:
    text = interval_text(terminal, unfinished(29, "unfinished", accounts=1, **fields))
    assert f"  ranges    {says}, 1 account\n" in text
    assert "proof" not in text
    assert "  ranges    none yet\n" in interval_text(terminal, unfinished(29, "unfinished"))


def test_a_holder_that_is_gone_is_named_as_such(terminal: Cli) -> None:
    gone = replace(INTERVAL, view=unfinished(29, "stalled"), lease=replace(LEASE, live=False))
    terminal.status_answers(replace(THIRD, interval=gone))
    assert (
        "  lease     db1 pid 4711, user svc-rec, last progress 2s ago; it is silent or\n"
        "            gone, the next trigger takes over\n"
    ) in terminal("status", "entitlements", "x").words


def test_an_interval_nobody_has_begun_shows_what_is_known(terminal: Cli) -> None:
    pending = IntervalView(IntervalRecord("2026-11-30", night(30)), "pending", night(30, 8))
    bare = IntervalStatus(job(), pending, (), (), ())
    terminal.status_answers(replace(THIRD, interval=bare))
    assert (
        str(terminal("status", "entitlements", "latest"))
        == """\
$ reconcile status entitlements latest
2> entitlements 2026-11-30   pending
2>   due       2026-11-30 02:30:00Z
2>   deadline  2026-11-30 08:30:00Z, in 4h 49m
2>
exit 0
"""
    )


def test_a_deadline_that_was_missed_is_said_to_be(terminal: Cli) -> None:
    late = completed(29, completed_at=night(30))
    terminal.status_answers(replace(THIRD, interval=replace(INTERVAL, view=late)))
    assert (
        "deadline   2026-11-29 08:30:00Z, missed\n" in terminal("status", "entitlements", "x").words
    )
    open_still = unfinished(29, "overdue")
    terminal.status_answers(replace(THIRD, interval=replace(INTERVAL, view=open_still)))
    assert (
        "deadline  2026-11-29 08:30:00Z, over 19h ago\n"
        in terminal("status", "entitlements", "x").words
    )


def test_into_a_pipe_an_intervals_runs_are_a_table_for_programs(cli: Cli) -> None:
    cli.status_answers(THIRD)
    rows = [line.split("\t") for line in cli("status", "entitlements", "x").data.splitlines()]
    assert rows[0] == ["RUN", "TRIGGER", "GENERATION", "WHERE", "STARTED", "ENDED", "RANGES", "END"]
    assert rows[3][4:] == ["2026-11-29T02:30:04Z", "-", "-", "open"]


# --- for programs


def test_all_jobs_as_an_object(cli: Cli) -> None:
    cli.status_answers(ALL)
    shown = cli("status", "--json")
    value = json.loads(shown.data)
    assert (shown.code, shown.words, value["schema"]) == (0, "", 1)
    assert "intervals" not in value
    assert value["jobs"][2] == {
        "job": "ldap-groups",
        "state": "running",
        "next_due": "2026-12-01T02:30:00Z",
        "lease": {
            "holder": "db1:4711:a",
            "host": "db1",
            "pid": 4711,
            "generation": 9,
            "interval": "2026-11-30",
            "since": "2026-11-30T02:30:04Z",
            "expires_at": "2026-11-30T03:41:50Z",
            "progress_at": "2026-11-30T03:40:58Z",
        },
        "backlog": 1,
        "pause": None,
        "backfill": None,
        "oldest_unfinished": None,
        "last_completed": "2026-11-30",
        "last_completed_at": "2026-11-30T02:41:09Z",
        "problems": [],
    }


def test_the_oldest_unfinished_interval_has_an_age(cli: Cli) -> None:
    behind = stands(
        "invoices", "overdue", oldest_unfinished=unfinished(28, "overdue"), oldest_overdue=True
    )
    cli.status_answers(replace(ALL, jobs=[behind]))
    assert json.loads(cli("status", "--json").data)["jobs"][0]["oldest_unfinished"] == {
        "interval": "2026-11-28",
        "age_seconds": 177_060.0,
        "overdue": True,
    }


def test_one_job_as_an_object_has_its_intervals(cli: Cli) -> None:
    cli.status_answers(ONE)
    intervals = json.loads(cli("status", "entitlements", "--json").data)["intervals"]
    assert len(intervals) == 6
    first = intervals[1]
    assert first["interval"] == "2026-11-29"
    assert (first["state"], first["shows"], first["rerun"], first["runs"]) == (
        "completed",
        "completed",
        1,
        2,
    )
    assert first["ranges"] == {"done": 69, "total": 69}
    assert first["changes"] == {"grant": 511, "revoke": 97, "update": 1}
    assert (first["count"], first["checksum"]) == (170_964, PROOF)
    assert (first["phase"], first["seconds"]) == ("applying", 665.0)
    assert first["completed_at"] == "2026-11-29T02:41:09Z"
    assert (intervals[0]["state"], intervals[0]["shows"]) == ("unfinished", "running")
    assert (intervals[4]["span"], intervals[4]["reason"]) == (7, "catch_up_window")


def test_one_interval_as_an_object_has_runs_ranges_and_events(cli: Cli) -> None:
    cli.status_answers(THIRD)
    value = json.loads(cli("status", "entitlements", "2026-11-29", "--json").data)
    assert [one["interval"] for one in value["intervals"]] == ["2026-11-29"]
    assert value["runs"][0]["ending"] == "needs approval"
    assert value["runs"][0]["holder"]["pid"] == 4711
    assert value["runs"][2]["ended_at"] is None
    assert value["ranges"][0]["quarantined"] == {"acct-1": "level is empty"}
    assert value["quarantined"] == {"acct-1": "level is empty"}
    assert value["events"][0] == {"at": "2026-11-29T02:30:00Z", "type": "due"}
    assert value["desired"] == value["observed"] == PROOF
