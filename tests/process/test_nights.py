"""Nights as users live them: guards, approval, faults, resumes, and what is said of them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from support.fakes import eventually
from support.scene import NIGHTS, Scene, drifted, is_stopped, night, recounted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.scene import Table

EARLIER, FIRST, SECOND = NIGHTS


def run_night(date: str) -> tuple[str, ...]:
    return ("run", "entitlements", "--interval", date)


def cut_down(table: Table, keep: float) -> Table:
    """The first part of a table, as a source gives that lost the rest."""
    return dict(sorted(table.items())[: int(len(table) * keep)])


@pytest.fixture
def three_nights(tmp_path: Path) -> Scene:
    """The first of three due nights completed."""
    scene = Scene(tmp_path / "three", range_size=100, start=EARLIER)
    truth = night(5)
    scene.write_night(EARLIER, truth)
    scene.write_night(FIRST, drifted(truth, 6))
    assert scene.run(*run_night(EARLIER)).code == 0
    return scene


def test_a_night_equal_to_the_one_before_commits_no_range_and_is_proved(
    three_nights: Scene,
) -> None:
    scene, before = three_nights, dict(three_nights.nights[EARLIER])
    scene.write_night(SECOND, scene.nights[FIRST])
    ran = scene.run("run", "entitlements", "-v")
    assert ran.code == 0, ran.err
    second = ran.err.partition(f"{FIRST} completed")[2]
    assert "step range_planned" in second
    assert "step range_committed" not in second
    scene.check(FIRST, before)
    scene.check(SECOND, scene.nights[FIRST])


def test_too_many_revokes_change_nothing_and_print_the_command_that_approves(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, before = second_night()
    scene.write_night(SECOND, cut_down(before, 0.8))
    stopped = scene.run(*run_night(SECOND))
    assert stopped.code == 4
    assert scene.rows() == before
    assert scene.log(SECOND) == []
    command = re.search(
        rf"reconcile (resume entitlements {SECOND} --approve \w{{12}})", stopped.err
    )
    assert command is not None, stopped.err
    # Cron goes on knocking: it says so each time by its code alone, and changes nothing.
    knock = scene.run("run", "entitlements", "-q")
    assert (knock.code, knock.err) == (4, "")
    assert scene.rows() == before
    refused = scene.run(*command[1].split()[:-1], "0" * 12, "-m", "guess")
    assert refused.code == 4
    assert scene.rows() == before
    approved = scene.run(*command[1].split(), "-m", "cancelled plans, OPS-12", "--actor", "alice")
    assert approved.code == 0, approved.err
    scene.check(SECOND, before)
    shown = scene.run("status", "entitlements", SECOND, "--json").json()
    (approval,) = [e for e in shown["events"] if e["type"] == "approved"]
    assert (approval["actor"], approval["reason"]) == ("alice", "cancelled plans, OPS-12")
    assert [run["ending"] for run in shown["runs"]] == ["needs approval", "completed"]


def test_an_approval_survives_kills_and_lets_exactly_the_approved_changes_pass(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, before = second_night()
    scene.write_night(SECOND, cut_down(before, 0.8))
    stopped = scene.run(*run_night(SECOND), "--json").json()
    hash_ = stopped["guard"]["hash"]
    approve = ("resume", "entitlements", SECOND, "--approve", hash_, "-m", "OPS-12")
    assert scene.run(*approve, step="range_committed:1:SIGKILL").code == -9
    assert scene.run("run", "entitlements", "--interval", SECOND).code == 0
    scene.check(SECOND, before)


def test_an_approval_is_not_for_another_source(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, before = second_night()
    scene.write_night(SECOND, cut_down(before, 0.8))
    hash_ = scene.run(*run_night(SECOND), "--json").json()["guard"]["hash"]
    scene.write_night(SECOND, cut_down(before, 0.7))
    approve = ("resume", "entitlements", SECOND, "--approve", hash_, "-m", "OPS-12")
    assert scene.run(*approve).code == 4
    assert scene.rows() == before


def test_a_changed_source_is_judged_again_without_anybody_asking(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, before = second_night()
    whole = scene.nights[SECOND]
    scene.write_night(SECOND, cut_down(before, 0.8))
    assert scene.run(*run_night(SECOND)).code == 4
    scene.write_night(SECOND, whole)
    assert scene.run("run", "entitlements").code == 0
    scene.check(SECOND, before)


def test_an_empty_answer_never_revokes(second_night: Callable[[], tuple[Scene, Table]]) -> None:
    scene, before = second_night()
    scene.write_night(SECOND, {})
    stopped = scene.run(*run_night(SECOND))
    assert stopped.code == 4
    assert "empty" in stopped.err
    assert scene.rows() == before


def test_a_cut_source_is_a_fault_and_not_an_absence(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, before = second_night()
    path = scene.folder / "exports" / f"{SECOND}.csv"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 99 // 100])
    assert scene.run(*run_night(SECOND)).code == 65
    assert scene.rows() == before
    path.write_bytes(whole)
    assert scene.run(*run_night(SECOND)).code == 0
    scene.check(SECOND, before)


def test_a_missing_file_is_no_attempt(second_night: Callable[[], tuple[Scene, Table]]) -> None:
    scene, before = second_night()
    path = scene.folder / "exports" / f"{SECOND}.csv"
    whole = path.read_bytes()
    path.unlink()
    for _ in range(7):
        assert scene.run(*run_night(SECOND)).code == 69
    path.write_bytes(whole)
    assert scene.run(*run_night(SECOND)).code == 0
    scene.check(SECOND, before)


def test_when_the_first_range_after_a_resume_fails_the_old_checkpoint_stands(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, before = second_night()
    scene.run(*run_night(SECOND), step="checkpoint_saved:5:SIGKILL")
    scene.ask(scene.target, "ALTER TABLE entitlements RENAME TO away")
    assert scene.run(*run_night(SECOND)).code == 65
    scene.ask(scene.target, "ALTER TABLE away RENAME TO entitlements")
    resumed = scene.run("resume", "entitlements", "-v")
    assert resumed.code == 0, resumed.err
    shown = scene.run("status", "entitlements", SECOND, "--json").json()
    planned = resumed.err.count("step range_planned")
    assert planned == shown["intervals"][0]["ranges"]["total"] - 5
    scene.check(SECOND, before)


def test_after_a_crash_before_the_first_range_there_is_something_to_resume(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, before = second_night()
    scene.run(*run_night(SECOND), step="run_opened:1:SIGKILL")
    assert scene.run("resume", "entitlements").code == 0
    scene.check(SECOND, before)


def test_a_range_that_kills_every_run_is_named_and_the_ranges_before_it_stay_done(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, before = second_night()
    scene.run(*run_night(SECOND), step="range_planned:3:SIGKILL")
    for _ in range(3):
        assert scene.run(*run_night(SECOND), step="range_planned:1:SIGKILL").code == -9
    shown = scene.run("status", "entitlements", SECOND, "--json").json()
    assert shown["intervals"][0]["ranges"]["done"] == 2
    assert "range 3" in scene.run("status").err + scene.run("status").out
    for _ in range(2):
        scene.run(*run_night(SECOND), step="range_planned:1:SIGKILL")
    knock = scene.run("run", "entitlements")
    assert knock.code == 1
    assert "times in range 3" in knock.err
    assert scene.run("resume", "entitlements").code == 0
    scene.check(SECOND, before)


def test_the_newest_checkpoint_wins_over_a_thousand_fast_ranges(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "fast", range_size=1)
    scene.write_night(FIRST, night(3))
    killed = scene.run(*run_night(FIRST), step="checkpoint_saved:1500:SIGKILL")
    assert killed.code == -9
    resumed = scene.run(*run_night(FIRST), "-v")
    assert resumed.code == 0, resumed.err
    assert resumed.err.count("step range_committed") == 500
    scene.check(FIRST, {})


def test_an_interval_with_quarantined_accounts_is_never_completed(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, before = second_night()
    path = scene.folder / "exports" / f"{SECOND}.csv"
    lines = path.read_text().splitlines(keepends=True)
    account, name, level = lines[1].rstrip("\n").split(",")
    path.write_text("".join([*lines[:2], f"{account},{name},{level}0\n", *lines[2:]]))
    ended = scene.run(*run_night(SECOND))
    assert ended.code == 3
    shown = scene.run("status", "entitlements", SECOND, "--json").json()
    assert shown["intervals"][0]["state"] == "unfinished"
    kept = {key: value for key, value in before.items() if key[0] == account}
    assert {k: v for k, v in scene.rows().items() if k[0] == account} == kept
    scene.write_night(SECOND, scene.nights[SECOND])
    assert scene.run("resume", "entitlements").code == 0
    scene.check(SECOND, before)


def test_a_stopped_holder_that_was_taken_over_writes_nothing_more_and_ends_with_80(
    tmp_path: Path,
) -> None:
    scene = Scene(
        tmp_path / "stalled", range_size=100, extra='[jobs.entitlements.lease]\nttl = "2s"\n'
    )
    scene.write_night(FIRST, night(4))
    stalled = scene.start_process(*run_night(FIRST), step="range_committed:3:SIGSTOP")
    eventually(lambda: is_stopped(stalled.pid), "it stops in mid-work")
    found: list[int] = []

    def taken_over() -> bool:
        found.append(scene.run(*run_night(FIRST)).code)
        return found[-1] == 0

    eventually(taken_over, "the lease expires and another run completes the night")
    assert set(found[:-1]) <= {75}
    stalled.send_signal(18)
    _, err = stalled.communicate(timeout=30)
    assert stalled.returncode == 80, err
    scene.check(FIRST, {})
    shown = scene.run("status", "entitlements", FIRST, "--json").json()
    assert [run["ending"] for run in shown["runs"]] == ["abandoned", "completed"]
    first, second = (run["generation"] for run in shown["runs"])
    assert second > first


def test_a_row_changed_by_somebody_else_since_it_was_compared_is_compared_again(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, before = second_night()
    scene.run(*run_night(SECOND), step="judged:1:SIGKILL")
    after = scene.nights[SECOND]
    moved = next(key for key in sorted(before) if key in after and before[key] != after[key])
    account, name = moved
    scene.ask(
        scene.target,
        f"UPDATE entitlements SET level = 'other' WHERE account_id = '{account}'"
        f" AND entitlement = '{name}'",
    )
    assert scene.run(*run_night(SECOND)).code == 0
    assert recounted(scene.rows()) == recounted(after)


def test_an_interval_out_of_time_goes_on_with_the_next_call(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, before = second_night()
    codes = [scene.run(*run_night(SECOND), "--max-runtime", "0s").code for _ in range(3)]
    assert codes == [124, 124, 124]
    shown = scene.run("status", "entitlements", SECOND, "--json").json()
    assert shown["intervals"][0]["ranges"]["done"] == 3
    assert scene.run(*run_night(SECOND)).code == 0
    scene.check(SECOND, before)


def test_a_dry_run_writes_nothing_and_says_what_it_would_do(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, before = second_night()
    dry = scene.run("run", "entitlements", "--interval", SECOND, "--dry-run", "--json")
    assert dry.code == 0, dry.err
    after = scene.nights[SECOND]
    assert dry.json()["dry_run"]["changes"] == {
        "grant": len(after.keys() - before.keys()),
        "revoke": len(before.keys() - after.keys()),
        "update": sum(before[key] != after[key] for key in before.keys() & after.keys()),
    }
    assert scene.rows() == before
    shown = scene.run("status", "entitlements", "--json").json()
    assert [i["interval"] for i in shown["intervals"] if i["runs"]] == [FIRST]


@pytest.mark.parametrize("word", ["latest", "oldest"])
def test_intervals_can_be_named_by_latest_and_oldest(
    word: str, second_night: Callable[[], tuple[Scene, Table]]
) -> None:
    scene, _ = second_night()
    shown = scene.run("status", "entitlements", word, "--json")
    assert shown.code == 0, shown.err


def test_a_late_older_night_does_not_undo_a_newer_one(three_nights: Scene) -> None:
    scene = three_nights
    newer = drifted(scene.nights[FIRST], 9)
    scene.write_night(SECOND, newer)
    assert scene.run(*run_night(SECOND)).code == 0
    late = scene.run(*run_night(FIRST))
    assert late.code == 1, late.err
    assert SECOND in late.err
    assert scene.rows() == newer
    shown = scene.run("status", "entitlements", FIRST, "--json").json()["intervals"][0]
    assert (shown["state"], shown["reason"]) == ("failed", "overtaken")


def test_a_mismatch_at_the_end_is_no_success_and_the_next_run_compares_everything_again(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, before = second_night()
    scene.run(*run_night(SECOND), step="proved:1:SIGKILL")
    (interval,) = scene.ask(
        scene.store, f"SELECT value FROM record WHERE kind = 'interval' AND key LIKE '{SECOND}%'"
    )
    plan = json.loads(interval[0])["cursor"]["plan"]
    ((key, value), *_) = scene.ask(
        scene.store, f"SELECT key, value FROM record WHERE kind = 'range' AND key LIKE '{plan}/%'"
    )
    damaged = json.loads(value) | {"applied": "sha256-sum:1:" + "0" * 32}
    scene.ask(scene.store, f"UPDATE record SET value = '{json.dumps(damaged)}' WHERE key = '{key}'")
    failed = scene.run(*run_night(SECOND))
    assert failed.code == 1
    shown = scene.run("status", "entitlements", SECOND, "--json").json()["intervals"][0]
    assert (shown["state"], shown["checksum"]) == ("unfinished", None)
    again = scene.run(*run_night(SECOND), "-v")
    assert again.code == 0, again.err
    assert again.err.count("step range_planned") == shown["ranges"]["total"]
    scene.check(SECOND, before)


def test_while_an_approval_was_waited_for_nothing_that_was_equal_may_have_changed_unseen(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, before = second_night()
    after = cut_down(before, 0.8)
    scene.write_night(SECOND, after)
    hash_ = scene.run(*run_night(SECOND), "--json").json()["guard"]["hash"]
    account, name = min(after)
    scene.ask(
        scene.target,
        f"UPDATE entitlements SET level = 'x' WHERE account_id = '{account}'"
        f" AND entitlement = '{name}'",
    )
    approve = ("resume", "entitlements", SECOND, "--approve", hash_, "-m", "OPS-12")
    approved = scene.run(*approve)
    assert approved.code == 0, approved.err
    assert scene.rows() == after
    log = scene.log(SECOND)
    assert [action for action, _ in log].count("update") == 1
    assert len(log) == len(set(log)) == len(before) - len(after) + 1


def test_what_is_new_since_an_approval_is_judged_as_always(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, before = second_night()
    after = cut_down(before, 0.8)
    scene.write_night(SECOND, after)
    hash_ = scene.run(*run_night(SECOND), "--json").json()["guard"]["hash"]
    kept = sorted(after)[: len(before) // 5]
    marks = ", ".join(f"('{account}', 'extra-{name}', '')" for account, name in kept)
    scene.ask(scene.target, f"INSERT INTO entitlements VALUES {marks}")
    approve = ("resume", "entitlements", SECOND, "--approve", hash_, "-m", "OPS-12")
    stopped = scene.run(*approve)
    assert stopped.code == 4, stopped.err
    extra = {(account, f"extra-{name}") for account, name in kept}
    assert len(extra - scene.rows().keys()) <= len(before) // 10


def test_the_share_of_revokes_is_one_of_the_target_and_not_of_the_source(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "grown", start=FIRST)
    small = night(7, accounts=100)
    scene.write_night(FIRST, small)
    assert scene.run(*run_night(FIRST)).code == 0
    grown = cut_down(small, 0.8) | {
        (f"new-{number:05d}", "sso"): "" for number in range(20 * len(small))
    }
    scene.write_night(SECOND, grown)
    assert scene.run(*run_night(SECOND)).code == 4
    assert scene.rows() == small


def test_what_waits_for_approval_can_be_looked_at_and_afterwards_in_the_log(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, before = second_night()
    after = cut_down(before, 0.8)
    scene.write_night(SECOND, after)
    hash_ = scene.run(*run_night(SECOND), "--json").json()["guard"]["hash"]
    planned = scene.run("changes", "entitlements", SECOND, "--planned")
    assert planned.code == 0, planned.err
    gone = sorted(before.keys() - after.keys())
    lines = [line.split("\t")[:3] for line in planned.out.splitlines()]
    assert lines == [["revoke", account, name] for account, name in gone]
    assert scene.run("changes", "entitlements", SECOND).out == ""
    scene.run("resume", "entitlements", SECOND, "--approve", hash_, "-m", "OPS-12")
    account = gone[0][0]
    logged = scene.run("changes", "entitlements", "--account", account, "--json")
    found = [json.loads(line) for line in logged.out.splitlines()]
    assert {(one["interval"], one["action"]) for one in found} == {
        (FIRST, "grant"),
        (SECOND, "revoke"),
    }


def test_a_new_plan_leaves_nothing_of_the_one_before_in_the_store(
    second_night: Callable[[], tuple[Scene, Table]],
) -> None:
    scene, before = second_night()
    scene.write_night(SECOND, cut_down(before, 0.8))
    assert scene.run(*run_night(SECOND)).code == 4
    scene.write_night(SECOND, cut_down(before, 0.7))
    assert scene.run(*run_night(SECOND)).code == 4
    for _ in range(2):
        assert scene.run("run", "entitlements", "--dry-run").code == 4
    plans = scene.ask(scene.store, "SELECT key, tag FROM record WHERE kind = 'plan'")
    assert sorted(tag for _, tag in plans) == ["", "", "dry"]
    of = {key for key, _ in plans}
    for kind in ("range", "changes"):
        keys = scene.ask(scene.store, f"SELECT key FROM record WHERE kind = '{kind}'")
        assert {key.partition("/")[0] for (key,) in keys} <= of
