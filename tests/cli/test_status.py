"""What `status` shows of all jobs, and of one with its intervals."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from support.cli import Cli
from support.status_reports import (
    ALL,
    ONE,
    stands,
    unfinished,
)

from reconcile.core.status import (
    Problem,
)


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
2>     reconcile changes entitlements 2026-11-29 --planned
2>     reconcile resume entitlements 2026-11-29 --approve 4e1f9c2ab0d3 -m "why"
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
    assert "    reconcile --store 'a b.db' changes entitlements 2026-11-29 --planned\n" in text


# --- one job


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
