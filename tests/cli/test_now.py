"""An interval that somebody asks for: of now, of an instant, the newest, the oldest."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from support.cli import Cli
from support.fakes import eventually
from support.small import SHOULD, write_source, write_target

CONFIG = """
[jobs.entitlements]
schedule = "30 2 * * *"
start = 2026-11-29
source = "export.csv"
target = "app.db"
range_size = 100
catch_up.policy = "all"
"""
ON_DEMAND = """
[jobs.entitlements]
source = "export.csv"
target = "app.db"
range_size = 100
"""
RUN = ("run", "entitlements")
NOW = (*RUN, "--now", "-m", "first try", "--actor", "alice")


@pytest.fixture
def night(cli: Cli) -> Cli:
    """Two nights are due, at 02:30."""
    cli.configure(CONFIG)
    write_source(cli.folder / "export.csv", SHOULD)
    write_target(cli.folder / "app.db")
    return cli


def intervals(cli: Cli) -> dict[str, tuple[str, str]]:
    found = json.loads(cli("status", "entitlements", "--json").data)
    return {one["interval"]: (one["state"], one["trigger"]) for one in found["intervals"]}


def one(cli: Cli, name: str) -> Any:
    return json.loads(cli("status", "entitlements", name, "--json").data)


def test_an_interval_of_now_is_beside_the_scheduled_ones_and_signed(night: Cli) -> None:
    night.clock.advance(3600 + 8)
    shown = night(*NOW)
    assert shown.code == 0
    assert "entitlements 2026-11-30T03:30:08Z completed" in shown.words
    assert intervals(night) == {
        "2026-11-29": ("pending", None),
        "2026-11-30": ("pending", None),
        "2026-11-30T03:30:08Z": ("completed", "manual"),
    }
    found = one(night, "2026-11-30T03:30:08Z")
    assert found["intervals"][0]["repair_owner"] == "alice"
    asked = [event for event in found["events"] if event["type"] == "asked"]
    assert [(event["actor"], event["reason"]) for event in asked] == [("alice", "first try")]
    text = night("status", "entitlements", "2026-11-30T03:30:08Z").words
    assert 'alice asked for it: "first try"' in text


@pytest.mark.parametrize("seconds", [0, 1, 90, 86400])
def test_what_is_due_is_the_same_with_and_without_it(night: Cli, seconds: int) -> None:
    """A manual run took the place of a scheduled one elsewhere, which was then skipped."""
    night.clock.advance(seconds)
    due = [name for name, (state, _) in intervals(night).items() if state == "pending"]
    for _ in range(3):
        assert night(*NOW).code == 0
    after = intervals(night)
    assert [name for name, (state, _) in after.items() if state == "pending"] == due
    assert len(after) == len(due) + 3
    assert night(*RUN).code == 0
    assert {state for state, _ in intervals(night).values()} == {"completed"}


def test_at_the_scheduled_second_it_takes_another(night: Cli) -> None:
    assert night(*NOW).code == 0
    assert intervals(night)["2026-11-30T02:29:59Z"] == ("completed", "manual")


def test_it_needs_a_reason_where_there_is_a_schedule(night: Cli) -> None:
    assert night(*RUN, "--now").code == 2
    assert night(*RUN, "--now", "--interval", "latest", "-m", "x").code == 2
    night.configure(ON_DEMAND)
    assert night(*RUN, "--now").code == 0


def test_killed_it_is_finished_by_the_next_knock(night: Cli) -> None:
    night.configure(CONFIG.replace("range_size = 100", "range_size = 8"))
    with pytest.MonkeyPatch.context() as patch:

        def die(watcher: Any, step: str) -> None:
            del watcher
            if step == "range_committed":
                raise KeyboardInterrupt

        patch.setattr("reconcile.cli.render.watch.AnyWatcher.reached", die)
        assert night(*NOW).code == 130
    name = "2026-11-30T02:29:59Z"
    assert intervals(night)[name] == ("unfinished", "manual")
    night.clock.advance(3600)
    assert night(*RUN).code == 0
    assert intervals(night)[name] == ("completed", "manual")


def test_a_dated_source_is_not_worked_now_while_a_night_that_it_would_overtake_is_due(
    night: Cli,
) -> None:
    night.configure(CONFIG.replace("export.csv", "{date}.csv"))
    for day in ("29", "30"):
        write_source(night.folder / f"2026-11-{day}.csv", SHOULD)
    night.clock.advance(60)
    shown = night(*NOW)
    assert shown.code == 2
    assert "would overtake 2026-11-29, which is due" in shown.words
    assert "reconcile run entitlements --interval 2026-11-29\n" in shown.words
    assert night(*RUN).code == 0
    assert night(*NOW).code == 0
    night.clock.advance(86400)
    write_source(night.folder / "2026-12-01.csv", SHOULD)
    assert night(*RUN).code == 0
    assert night("pause", "entitlements", "-m", "x").code == 0
    night.clock.advance(86400)
    assert "would overtake what fell into the pause" in night(*NOW).words


def test_on_demand_any_past_instant_is_an_idempotency_key(night: Cli) -> None:
    night.configure(ON_DEMAND)
    key = "2026-11-28T17:03:21Z"
    first = json.loads(night(*RUN, "--interval", key, "--json").data)
    assert (first["exit"], first["intervals"][0]["interval"]) == (0, key)
    again = night(*RUN, "--interval", key)
    assert (again.code, "completed already" in again.words) == (0, True)
    assert night(*RUN, "--interval", "2026-11-28").code == 0
    assert night(*RUN, "--interval", "2026-12-28T17:03:21Z").code == 2
    assert list(intervals(night)) == [key, "2026-11-28T00:00Z"]


def test_on_demand_an_unfinished_interval_is_resumed_before_a_new_one(night: Cli) -> None:
    night.configure(ON_DEMAND)
    source = night.folder / "export.csv"
    source.rename(night.folder / "away.csv")
    assert night(*RUN).code == 69
    (night.folder / "away.csv").rename(source)
    night.clock.advance(600)
    assert night(*RUN).code == 0
    assert list(intervals(night)) == ["2026-11-30T02:30Z"]
    assert night(*RUN).code == 0
    assert list(intervals(night)) == ["2026-11-30T02:40Z", "2026-11-30T02:30Z"]


def test_on_demand_a_second_call_within_a_second_waits_for_the_next(night: Cli) -> None:
    night.configure(ON_DEMAND)
    night.clock.advance(0.25)
    assert night(*RUN).code == 0
    codes: list[int] = []
    call = threading.Thread(target=lambda: codes.append(night(*RUN).code))
    call.start()
    second = night.clock.boot() + 0.75
    eventually(lambda: second in night.clock.waiting_until, "it waits for the next second")
    assert (codes, list(intervals(night))) == ([], ["2026-11-30T02:30Z"])
    night.clock.advance(0.75)
    call.join()
    assert codes == [0]
    assert list(intervals(night)) == ["2026-11-30T02:30:01Z", "2026-11-30T02:30Z"]


@pytest.mark.parametrize("command", ["rerun", "skip", "resume", "status", "changes"])
def test_each_command_knows_latest_and_oldest(night: Cli, command: str) -> None:
    signed = ("-m", "x") if command in ("rerun", "skip") else ()
    nothing = night(command, "entitlements", "tomorrow", *signed)
    assert nothing.code == 2
    for name, means in (("latest", "2026-11-30"), ("oldest", "2026-11-29")):
        by_name = night(command, "entitlements", name, *signed)
        by_id = night(command, "entitlements", means, *signed)
        if command == "skip":
            assert means in by_name.words
        else:
            assert by_name.words.replace(name, means) == by_id.words


def test_resume_without_a_job_finishes_all_that_is_unfinished(night: Cli) -> None:
    other = CONFIG.replace("jobs.entitlements", "jobs.other")
    table = '[jobs.other.target]\nurl = "other.db"\ntable = "entitlements"\n'
    night.configure(CONFIG + other.replace('target = "app.db"\n', "") + table)
    write_target(night.folder / "other.db")
    source = night.folder / "export.csv"
    source.rename(night.folder / "away.csv")
    for job in ("entitlements", "other"):
        assert night("run", job, "--interval", "oldest").code == 69
    (night.folder / "away.csv").rename(source)
    found = json.loads(night("resume", "--json").data)
    assert found["exit"] == 0
    assert [(job["job"], len(job["intervals"])) for job in found["jobs"]] == [
        ("entitlements", 1),
        ("other", 1),
    ]
    assert json.loads(night("resume", "--json").data)["jobs"] == []
