"""`pause` and `unpause`, on a small night: triggers start nothing, people do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.cli import Cli
from support.small import SHOULD, write_source, write_target

from reconcile.core.operations import pausing
from reconcile.core.operations.look import look

CONFIG = """
[jobs.entitlements]
schedule = "30 2 * * *"
start = 2026-11-30
source = "export.csv"
target = "app.db"
range_size = 8
catch_up.policy = "all"
"""
RUN = ("run", "entitlements")
PAUSE = ("pause", "entitlements", "-m", "failover, OPS-80", "--actor", "alice")
UNPAUSE = ("unpause", "entitlements", "-m", "done", "--actor", "bob")
DAY = 86400


@pytest.fixture
def night(cli: Cli) -> Cli:
    """A small night that is due now, at 02:30."""
    cli.configure(CONFIG)
    write_source(cli.folder / "export.csv", SHOULD)
    write_target(cli.folder / "app.db")
    return cli


def states(cli: Cli) -> dict[str, tuple[str, str | None]]:
    found = json.loads(cli("status", "entitlements", "--json").data)
    return {one["interval"]: (one["state"], one["reason"]) for one in found["intervals"]}


def job(cli: Cli) -> Any:
    return json.loads(cli("status", "--json").data)["jobs"][0]


def test_no_next_interval_is_announced_of_a_paused_job(night: Cli) -> None:
    night(*PAUSE, "--until", "6h")
    night.terminal, night.environ = True, {"NO_COLOR": "1"}
    head, row, *_ = str(night("status").data).splitlines()
    assert row[head.index("STATE") :].split()[0] == "paused"
    assert row[head.index("NEXT") :].split()[0] == "-"


def test_while_it_is_paused_triggers_start_nothing_and_exit_0(night: Cli) -> None:
    shown = night(*PAUSE)
    assert (shown.code, shown.words) == (
        0,
        'entitlements  paused until unpaused by alice: "failover, OPS-80"\n'
        "  Triggers start nothing until then. By hand you still can.\n"
        '  To let them go on: reconcile unpause entitlements -m "why"\n',
    )
    for _ in range(2):
        knock = night(*RUN)
        assert (knock.code, knock.words) == (
            0,
            "2026-11-30T02:30:00Z entitlements paused until unpaused by alice:"
            ' "failover, OPS-80"\n',
        )
    assert night("-q", *RUN).words == ""
    found = json.loads(night(*RUN, "--json").data)
    assert (found["outcome"], found["exit"], found["intervals"]) == ("paused", 0, [])
    assert found["pause"] == {
        "since": "2026-11-30T02:30:00Z",
        "until": None,
        "actor": "alice",
        "reason": "failover, OPS-80",
    }
    assert not (night.folder / "app.db-wal").exists()


def test_a_run_that_was_due_before_goes_on_afterwards(night: Cli) -> None:
    assert night(*PAUSE).code == 0
    night.clock.advance(3600)
    shown = night(*UNPAUSE)
    assert shown.words == "entitlements  goes on; nothing fell into the pause\n"
    assert night(*RUN).code == 0
    assert states(night) == {"2026-11-30": ("completed", None)}


def test_the_newest_that_fell_into_it_is_due_and_older_ones_are_on_record_at_once(
    night: Cli,
) -> None:
    assert night(*RUN).code == 0
    night.clock.advance(3600)
    assert night(*PAUSE).code == 0
    night.clock.advance(3 * DAY)
    assert night(*RUN).code == 0
    shown = night(*UNPAUSE)
    assert (shown.code, shown.words) == (
        0,
        "entitlements  goes on. 3 intervals fell into the pause:\n"
        "  2026-12-03              due now\n"
        "  2026-12-01, 2026-12-02  skipped (paused)\n"
        '  To work one that was skipped: reconcile rerun entitlements ID -m "why"\n',
    )
    assert states(night) == {
        "2026-11-30": ("completed", None),
        "2026-12-01": ("skipped", "paused"),
        "2026-12-02": ("skipped", "paused"),
        "2026-12-03": ("pending", None),
    }
    assert night(*RUN).code == 0
    assert states(night)["2026-12-03"] == ("completed", None)
    trail = night("status", "entitlements", "2026-12-01").words
    assert 'skipped: alice had paused the job: "failover, OPS-80"' in trail
    assert 'paused by alice: "failover, OPS-80"' in night("status", "entitlements").data
    found = json.loads(night("status", "entitlements", "2026-12-01", "--json").data)
    assert found["intervals"][0]["signed"] == {"actor": "alice", "reason": "failover, OPS-80"}
    assert night("rerun", "entitlements", "2026-12-02", "-m", "after all").code == 0
    assert states(night)["2026-12-02"] == ("completed", None)


def test_with_catch_up_the_policy_decides(night: Cli) -> None:
    assert night(*RUN).code == 0
    assert night(*PAUSE).code == 0
    night.clock.advance(3 * DAY)
    shown = night(*UNPAUSE, "--catch-up")
    assert shown.words == (
        "entitlements  goes on. 3 intervals fell into the pause:\n"
        "  They are left to the catch-up policy.\n"
    )
    assert night(*RUN).code == 0
    assert {state for state, _ in states(night).values()} == {"completed"}


def test_a_pause_until_a_time_ends_by_itself_by_the_same_rule(night: Cli) -> None:
    assert night(*RUN).code == 0
    shown = night(*PAUSE, "--until", "2026-12-02T05:00Z")
    assert "paused until 2026-12-02 05:00:00Z (2d 02h) by alice" in shown.words
    night.clock.advance(2 * DAY)
    assert json.loads(night(*RUN, "--json").data)["outcome"] == "paused"
    night.clock.advance(4 * 3600)
    assert night(*RUN).code == 0
    assert states(night) == {
        "2026-11-30": ("completed", None),
        "2026-12-01": ("skipped", "paused"),
        "2026-12-02": ("completed", None),
    }
    shown = night(*UNPAUSE)
    assert (shown.code, shown.words) == (
        0,
        "entitlements  is not paused: there is nothing to unpause\n",
    )


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("05:00Z", "2026-11-30T05:00:00Z"),
        ("02:30Z", "2026-12-01T02:30:00Z"),
        ("2026-12-01", "2026-12-01T00:00:00Z"),
        ("2026-12-01T05:00Z", "2026-12-01T05:00:00Z"),
        ("90m", "2026-11-30T04:00:00Z"),
    ],
)
def test_an_end_is_a_time_of_day_an_instant_a_date_or_a_duration(
    night: Cli, text: str, end: str
) -> None:
    found = json.loads(night(*PAUSE, "--until", text, "--json").data)
    assert found["pause"]["until"] == end


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("05:00", "2026-11-30T10:00:00Z"),
        ("21:30", "2026-12-01T02:30:00Z"),
        ("04:30+01:00", "2026-11-30T03:30:00Z"),
        ("2026-12-01", "2026-12-01T05:00:00Z"),
        ("2026-12-01T05:00", "2026-12-01T10:00:00Z"),
        ("2026-12-01T05:00-08:00", "2026-12-01T13:00:00Z"),
    ],
)
def test_an_end_without_an_offset_is_on_the_clock_of_the_job(
    night: Cli, text: str, end: str
) -> None:
    night.configure(CONFIG.replace("start =", 'timezone = "America/New_York"\nstart ='))
    found = json.loads(night(*PAUSE, "--until", text, "--json").data)
    assert found["pause"]["until"] == end


@pytest.mark.parametrize(
    "text", ["2026-11-29", "2026-11-30T02:30Z", "5:00", "25:00Z", "soon", "0m"]
)
def test_an_end_that_is_none_or_over_is_refused(night: Cli, text: str) -> None:
    shown = night(*PAUSE, "--until", text)
    assert shown.code == 2
    assert f"--until {text}" in shown.words.replace("'", "")
    assert night(*RUN).code == 0


def test_by_hand_everything_still_works(night: Cli) -> None:
    assert night(*PAUSE).code == 0
    assert night(*RUN, "--dry-run").code == 0
    assert night(*RUN, "--interval", "2026-11-30").code == 0
    assert night("rerun", "entitlements", "2026-11-30", "-m", "again").code == 0
    assert states(night) == {"2026-11-30": ("completed", None)}
    assert json.loads(night(*RUN, "--json").data)["outcome"] == "paused"


def test_status_names_who_paused_and_what_came_due_and_calls_nothing_overdue(night: Cli) -> None:
    assert night(*RUN).code == 0
    assert night(*PAUSE).code == 0
    night.clock.advance(3 * DAY)
    found = job(night)
    assert (found["state"], found["backlog"], found["next_due"]) == ("paused", 0, None)
    assert found["pause"]["actor"] == "alice"
    assert found["oldest_unfinished"] is None
    text = " ".join(night("status").words.split())
    assert (
        "- entitlements: paused by alice on 2026-11-30 02:30Z until unpaused:"
        ' "failover, OPS-80"; 3 intervals have come due reconcile unpause entitlements -m "why"'
    ) in text


def test_an_edited_schedule_is_seen_while_it_is_paused(night: Cli) -> None:
    """Or what it would have brought by then would be lost, and nobody would know since when."""
    assert night(*RUN).code == 0
    assert night(*PAUSE).code == 0
    night.configure(CONFIG.replace("30 2", "30 14"))
    assert night(*RUN).code == 0
    night.clock.advance(DAY)
    assert night(*UNPAUSE).code == 0
    assert states(night)["2026-11-30T14:30Z"] == ("pending", None)


def test_both_are_signed_on_the_trail_of_the_job(night: Cli) -> None:
    for argv in (PAUSE[:2], UNPAUSE[:2]):
        assert night(*argv).code == 2
    assert night(*PAUSE, "--until", "05:00Z").code == 0
    assert night(*UNPAUSE).code == 0
    acts = json.loads(night("status", "entitlements", "--json").data)["acts"]
    assert [(act["type"], act["actor"], act["reason"]) for act in acts] == [
        ("paused", "alice", "failover, OPS-80"),
        ("unpaused", "bob", "done"),
    ]
    shown = " ".join(night("status", "entitlements").words.split())
    assert 'bob unpaused it: "done"' in shown


def test_a_record_written_in_the_same_moment_is_no_obstacle(
    night: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder writes the job's record as well."""
    assert night(*RUN).code == 0
    tries = []

    def slow(store: Any, one: Any, now: Any) -> Any:
        seen = look(store, one, now)
        tries.append(seen)
        if len(tries) == 1:
            night.configure(CONFIG.replace("30 2", "30 3"))
            assert night(*RUN).code == 0
        return seen

    monkeypatch.setattr(pausing, "look", slow)
    assert night(*PAUSE).code == 0
    assert job(night)["state"] == "paused"
    assert len(tries) == 3


def test_a_pause_in_the_middle_of_a_night_lets_it_end_and_starts_no_other(night: Cli) -> None:
    night.clock.advance(2 * DAY)
    done = []

    def reached(watcher: Any, step: str) -> None:
        if step == "interval_completed" and not done:
            done.append(step)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("reconcile.cli.render.watch.AnyWatcher.reached", lambda *_: None)
                assert night(*PAUSE).code == 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reconcile.cli.render.watch.AnyWatcher.reached", reached)
        assert night(*RUN).code == 0
    assert states(night) == {
        "2026-11-30": ("completed", None),
        "2026-12-01": ("pending", None),
        "2026-12-02": ("pending", None),
    }


def test_a_pause_between_a_decision_and_its_record_is_seen_before_anything_is_begun(
    night: Cli,
) -> None:
    """The knock writes down what it decided, finds the job's record changed, and decides again."""
    came = []

    def reached(watcher: Any, step: str) -> None:
        if step == "decided" and not came:
            came.append(step)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("reconcile.cli.render.watch.AnyWatcher.reached", lambda *_: None)
                assert night(*PAUSE).code == 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reconcile.cli.render.watch.AnyWatcher.reached", reached)
        shown = night(*RUN)
    assert (shown.code, came) == (0, ["decided"])
    assert "paused until unpaused by alice" in shown.words
    assert states(night) == {"2026-11-30": ("pending", None)}
