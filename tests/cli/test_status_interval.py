"""What `status` shows of one interval: its runs, ranges and trail, and how to go on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.cli import Cli
from support.small import HAS, write_source, write_target
from support.status_reports import (
    GUARD,
    INTERVAL,
    LEASE,
    PLANNING,
    THIRD,
    completed,
    job,
    night,
    unfinished,
)

from reconcile.core.model import State
from reconcile.core.records import IntervalRecord
from reconcile.core.status import (
    IntervalStatus,
    IntervalView,
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


def test_what_a_guard_of_updates_stopped_is_counted_in_updates(cli: Cli) -> None:
    cli.configure(
        '[jobs.entitlements]\nschedule = "30 2 * * *"\nstart = 2026-11-30\n'
        'source = "export.csv"\ntarget = "app.db"\n'
    )
    write_target(cli.folder / "app.db")
    write_source(cli.folder / "export.csv", [(*row[:-1], f"{row[-1]}0") for row in HAS])
    assert cli("run", "entitlements").code == 4
    assert f"{len(HAS)} updates (100.0%) wait" in cli("status").words
    words = cli("status", "entitlements", "2026-11-30").words
    assert f"guard max_update: {len(HAS)} of {len(HAS)} rows (100.0%)" in words
