"""A command as a job: real scripts, called by the real command line."""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import stat
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from support.command_scene import CommandScene
from support.commands import wait_for

Make = Callable[..., CommandScene]
LONG = bool(os.environ.get("RECONCILE_TEST_LONG"))
KILLS = 100 if LONG else 6
STEPS = 1000 if LONG else 120
STATUSES = range(256) if LONG else (0, 75, 255)
HARMLESS = {signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH}
STOPPING = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
DEADLY = sorted({*signal.Signals} - HARMLESS - STOPPING) if LONG else [signal.SIGKILL]


@pytest.fixture
def root() -> Path:
    return Path(__file__).parents[2]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def make(script: str, keys: str = "", command: str = "./work.sh") -> CommandScene:
        scene = CommandScene(tmp_path / "job", extra=f"command = '{command}'\n{keys}")
        scene.script(script)
        return scene

    return make


# --- what it is called with


def test_it_is_told_what_it_is_called_for(make: Make) -> None:
    scene = make("env | grep ^RECONCILE_ | sort; pwd; echo $MINE $FILE", 'env = { MINE = "m" }')
    ran = scene.run("run", "work")
    assert ran.code == 0, ran.err
    told = dict(line.split("=", 1) for line in ran.out.splitlines() if "=" in line)
    record = scene.interval()["intervals"][0]
    (run,) = scene.interval()["runs"]
    assert told.pop("RECONCILE_SUPERVISED")
    assert told == {
        "RECONCILE_JOB": "work",
        "RECONCILE_INTERVAL": record["interval"],
        "RECONCILE_SCHEDULED_AT": record["scheduled_at"],
        "RECONCILE_RUN_ID": run["run_id"],
        "RECONCILE_TRIGGER": "schedule",
        "RECONCILE_GENERATION": str(run["generation"]),
        "RECONCILE_CURSOR": "",
        "RECONCILE_RANGE": "1",
        "RECONCILE_RANGES": "1",
        "RECONCILE_PROGRESS_FD": "3",
    }
    assert ran.out.splitlines()[-2:] == [str(scene.folder), "m"]


def test_a_file_of_variables_is_read_at_each_call(make: Make) -> None:
    scene = make("echo $A-$B-$C", 'env_file = "job.env"\nenv = { C = "config" }')
    assert scene.run("run", "work").code == 69
    path = scene.folder / "job.env"
    path.write_text("# secret\nexport A='a b'\nB=\"$HOME\"\nC=file\n")
    assert scene.run("resume", "work").out == "a b-$HOME-config\n"
    path.write_text("A=1\nnot so\n")
    ran = scene.run("run", "work")
    assert (ran.code, "job.env line 2 is no NAME=VALUE" in ran.err) == (78, True)
    assert "not so" not in ran.err
    path.unlink()
    os.mkfifo(path)
    ran = scene.run("resume", "work")
    assert (ran.code, "job.env is a pipe" in ran.err) == (78, True), ran.err


# --- how it ends


def test_what_went_wrong_is_recorded_shown_and_mapped(make: Make) -> None:
    """Each status and each signal: `unit/test_command_endings.py`."""
    scene = make("exit $(cat how)", 'max_attempts = 50\nretry_delay = "1s"')
    (scene.folder / "how").write_text("75")
    ran = scene.run("run", "work", "--json")
    assert ran.code == 1
    error = ran.json()["intervals"][0]["error"]
    assert (error["name"], error["exit_status"]) == ("command_failed", 75)
    scene.script("echo begun; kill -SEGV $$")
    assert scene.run("resume", "work", "--json").json()["exit"] == 1
    scene.script("#!/no/interpreter\n")
    assert scene.run("resume", "work").code == 69
    (scene.folder / "work.sh").write_text("no first line\n")
    assert scene.run("resume", "work").code == 78
    (scene.folder / "work.sh").chmod(0o644)
    assert scene.run("resume", "work").code == 77
    (scene.folder / "work.sh").unlink()
    assert scene.run("resume", "work").code == 69
    scene.script("exit 0")
    assert scene.run("resume", "work").code == 0
    shown = scene.interval()
    assert [run["ending"] for run in shown["runs"]] == ["failed"] * 6 + ["completed"]
    ended = [event for event in shown["events"] if event["type"] == "run_ended"]
    assert [event.get("exit_status") or event.get("signal") for event in ended[:2]] == [
        75,
        "SIGSEGV",
    ]
    texts = [event["text"] for event in ended]
    assert texts[:2] == ["work.sh exited 75", "work.sh was ended by SIGSEGV"]
    assert "interpreter" in texts[2]
    assert "Permission denied" in texts[4]


def test_whatever_it_exits_with_we_exit_with_0_or_1(make: Make) -> None:
    scene = make("exit $(($(date -d $RECONCILE_SCHEDULED_AT +%s) / 60 % 1440))")
    for status in STATUSES:
        name = f"2026-01-01T{status // 60:02}:{status % 60:02}Z"
        ran = scene.run("run", "work", "--interval", name)
        assert ran.code == (1 if status else 0), ran.err
        assert status == 0 or f"work.sh exited {status} after" in ran.err


def test_whatever_signal_ends_it_we_exit_with_1(make: Make) -> None:
    scene = make("ulimit -c 0; kill -$(($(date -d $RECONCILE_SCHEDULED_AT +%s) / 60 % 60)) $$")
    for number in DEADLY:
        if int(number) < 60:
            ran = scene.run("run", "work", "--interval", f"2026-01-01T00:{int(number):02}Z")
            assert ran.code == 1
            assert f"work.sh was ended by {number.name} after" in ran.err


def test_a_new_failure_is_one_mail_with_its_last_lines(make: Make) -> None:
    scene = make('echo "dumping app ... ok"; printf "lost \\033[31mconnection" >&2; exit 2')
    ran = scene.run("-q", "run", "work")
    assert (ran.code, ran.out) == (1, "")
    name = scene.interval()["intervals"][0]["interval"]
    first, second, *rest = ran.err.replace("after\n", "after ").splitlines()
    assert f" work {name} failed: work.sh exited 2 after" in first
    assert second.startswith("  attempt 1 of 5, next not before ")
    assert rest == [
        "  | dumping app ... ok",
        "  | lost \\x1b[31mconnection",
        f"  Try again now: reconcile resume work {name}",
        f"  All its output: reconcile logs work {name}",
    ]
    again = scene.run("-q", "run", "work")
    assert (again.code, again.out, again.err) == (1, "", "")


def test_who_is_told_of_a_failure_is_told_the_last_line(make: Make) -> None:
    scene = make("echo one; echo no route to host >&2; exit 3", "max_attempts = 1")
    config = scene.folder / "reconcile.toml"
    alerts = '[alerts]\ncommand = ["sh", "-c", "cat > alert.json"]\n'
    config.write_text(alerts + config.read_text())
    assert scene.run("run", "work").code == 1
    alert = json.loads((scene.folder / "alert.json").read_text())
    assert alert["kind"] == "failed"
    assert alert["text"].endswith('(attempts): work.sh exited 3; its last line: "no route to host"')
    assert alert["next"] == f"reconcile logs work {alert['interval']}"


def test_an_interval_does_not_complete_whose_figures_are_not_what_was_expected(make: Make) -> None:
    said = (
        'echo "{\\"expected_count\\": 10, \\"count\\": $(cat count), \\"checksum\\": \\"c\\"}" >&3'
    )
    scene = make(said, 'retry_delay = "1s"')
    (scene.folder / "count").write_text("9")
    ran = scene.run("run", "work")
    assert ran.code == 1
    assert "a count of 10 was expected, and 9 reported" in ran.err
    (scene.folder / "count").write_text("10")
    ran = scene.run("resume", "work")
    assert ran.code == 0
    record = scene.interval()["intervals"][0]
    assert (record["state"], record["count"], record["checksum"]) == ("completed", 10, "c")


def test_a_line_that_says_nothing_fails_the_run_and_ends_the_command(make: Make) -> None:
    scene = make('echo "{\\"cursor\\": }" >&3; exec sleep 600')
    ran = scene.run("run", "work")
    assert ran.code == 65
    assert 'a line of progress is no JSON: {"cursor": }' in ran.err


def test_what_it_leaves_behind_is_ended_and_named(make: Make) -> None:
    scene = make("setsid sleep 600 >&- 2>&- 3>&- & echo $! > pid")
    ran = scene.run("run", "work")
    assert ran.code == 0
    assert "left behind by the command, and ended: sleep (pid" in ran.err
    (pid,) = scene.lines("pid")
    assert not Path(f"/proc/{pid}").exists()


# --- going on


def test_with_ranges_it_is_called_for_each_and_goes_on_at_the_one_that_failed(make: Make) -> None:
    script = (
        "echo $RECONCILE_RANGE/$RECONCILE_RANGES >> calls; test $RECONCILE_RANGE != 3 -o -e mended"
        ' || exit 4; echo "{\\"count\\": 5}" >&3'
    )
    scene = make(script, "ranges = 4")
    ran = scene.run("run", "work")
    assert ran.code == 1
    assert "work.sh exited 4 in range 3" in ran.err
    assert scene.interval()["intervals"][0]["ranges"] == {"done": 2, "total": 4}
    (scene.folder / "mended").touch()
    ran = scene.run("resume", "work")
    assert (ran.code, "resumed at range 3/4" in ran.err) == (0, True)
    assert scene.lines("calls") == ["1/4", "2/4", "3/4", "3/4", "4/4"]
    record = scene.interval()["intervals"][0]
    assert (record["count"], record["ranges"]) == (20, {"done": 4, "total": 4})


NIGHT = "2026-01-01T00:00Z"


def kill(scene: CommandScene, at: int) -> None:
    """Kill a run of one interval once so many steps are done in all."""
    process = scene.start_process("run", "work", "--interval", NIGHT)
    wait_for(lambda: len(scene.lines("done")) >= at or process.poll() is not None, f"step {at}")
    process.send_signal(signal.SIGKILL)
    assert scene.end(process).code == -signal.SIGKILL, "it was done before it was killed"


def done_again(done: list[int]) -> list[int]:
    """How many steps each call has done again that did any."""
    return [before - after + 1 for before, after in pairwise(done) if after <= before]


def test_killed_at_random_each_step_is_done_and_the_cursor_never_goes_back(make: Make) -> None:
    """The next line waits until the one before is durable, and the one that was not yet when it
    was killed is left to the next run: so only a step is done again whose line was not written."""
    scene = make(
        f"i=${{RECONCILE_CURSOR:-0}}; echo $i >> begins; while [ $i -lt {STEPS} ]; do i=$((i+1));"
        ' sleep 0.004; echo $i >> done; echo "{\\"cursor\\": $i}" >&3; done'
    )
    rng = random.Random(5)
    for number in range(KILLS):
        lines = scene.lines("done")
        room = (STEPS - len(set(lines))) // (KILLS - number + 1)
        kill(scene, len(lines) + rng.randrange(room))
    assert scene.run("run", "work", "--interval", NIGHT).code == 0
    done = [int(line) for line in scene.lines("done")]
    assert set(done) == set(range(1, STEPS + 1))
    assert max(done_again(done), default=0) <= 1
    begins = [int(line) for line in scene.lines("begins")]
    assert begins == sorted(begins)


@pytest.mark.parametrize("name", ["steps.sh", "steps.py"])
def test_the_examples_checkpoint_themselves(make: Make, root: Path, name: str) -> None:
    program = str(root / "examples" / name)
    scene = make("", 'env = { STEPS = "300", OUTPUT = "done" }', command=program)
    for at in (3, 40):
        kill(scene, at)
    assert scene.run("run", "work", "--interval", NIGHT).code == 0
    done = [int(line) for line in scene.lines("done")]
    assert set(done) == set(range(1, 301))
    assert max(done_again(done), default=0) <= 1
    assert scene.interval(NIGHT)["intervals"][0]["count"] == 300


# --- being stopped

HEEDS = 'trap "echo heard >> heard; exit 0" TERM; echo up >> up; while :; do sleep 0.05; done'
DEAF = 'trap "" TERM; echo $$ >> up; while :; do sleep 0.05; done'


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_it_and_leaves_the_interval_to_the_next(
    make: Make, number: signal.Signals, code: int
) -> None:
    scene = make(DEAF, 'kill_after = "1s"')
    process = scene.start_process("run", "work")
    scene.wait_for_lines("up", 1)
    process.send_signal(number)
    ran = scene.end(process)
    assert ran.code == code, ran.err
    assert "stopping: its command has been told to end" in ran.err
    assert not Path(f"/proc/{scene.lines('up')[0]}").exists()
    shown = scene.interval()
    assert (shown["intervals"][0]["state"], shown["runs"][0]["ending"]) == (
        "unfinished",
        "interrupted",
    )


def test_one_that_ends_well_when_it_is_told_to_end_has_ended_well(make: Make) -> None:
    scene = make(HEEDS)
    process = scene.start_process("run", "work")
    scene.wait_for_lines("up", 1)
    process.send_signal(signal.SIGTERM)
    assert scene.end(process).code == 0
    assert scene.lines("heard") == ["heard"]


def test_out_of_time_it_ends_and_without_a_checkpoint_that_is_an_attempt(make: Make) -> None:
    scene = make(DEAF, 'max_runtime = "1s"\nkill_after = "1s"\nmax_attempts = 1')
    ran = scene.run("run", "work")
    assert ran.code == 124, ran.err
    shown = scene.interval()
    assert (shown["intervals"][0]["state"], shown["intervals"][0]["reason"]) == (
        "failed",
        "attempts",
    )
    assert not Path(f"/proc/{scene.lines('up')[0]}").exists()


def test_stop_ends_it_through_its_lease(make: Make) -> None:
    scene = make(DEAF, 'kill_after = "1s"\nlease = { ttl = "3s" }')
    process = scene.start_process("run", "work")
    scene.wait_for_lines("up", 1)
    assert scene.run("stop", "work", "-m", "why").code == 0
    assert scene.end(process).code == 143
    assert not Path(f"/proc/{scene.lines('up')[0]}").exists()


def test_fenced_out_by_force_nobody_else_begins_before_it_is_gone(make: Make) -> None:
    scene = make(DEAF, 'kill_after = "1s"\nlease = { ttl = "3s" }')
    process = scene.start_process("run", "work")
    scene.wait_for_lines("up", 1)
    forced = scene.run("stop", "work", "--force", "-m", "why")
    assert forced.code == 0, forced.err
    assert not Path(f"/proc/{scene.lines('up')[0]}").exists()
    assert scene.end(process).code == 80


# --- what it printed


def test_its_output_goes_to_the_caller_safely_and_into_its_log_as_it_came(make: Make) -> None:
    scene = make("printf 'a\\033[2Jb\\377\\n50%%\\r100%%\\nlast'")
    ran = scene.run("run", "work")
    assert ran.out == "a\\x1b[2Jb\\xff\n100%\nlast\n"
    (path,) = scene.logs()
    assert path.read_bytes() == b"a\x1b[2Jb\xff\n50%\r100%\nlast"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    scene.launch(["sh", "-c", f"{shlex.join(scene.command('logs', 'work'))} > printed"]).wait()
    assert (scene.folder / "printed").read_bytes() == path.read_bytes()
    told = [json.loads(line) for line in scene.run("logs", "work", "--json").out.splitlines()]
    assert [line["line"] for line in told] == ["a\x1b[2Jb\\xff", "50%\r100%", "last"]


def test_logs_follow_until_the_run_has_ended(make: Make) -> None:
    scene = make("echo begun; while ! test -e go; do sleep 0.05; done; echo over")
    process = scene.start_process("run", "work")
    wait_for(lambda: [path for path in scene.logs() if path.stat().st_size], "output")
    following = scene.start_process("logs", "work", "--follow")
    (scene.folder / "go").touch()
    assert scene.end(process).code == 0
    ran = scene.end(following)
    assert (ran.code, ran.out) == (0, "begun\nover\n")


def test_what_has_no_output_says_so_and_old_output_is_pruned(make: Make) -> None:
    scene = make("echo one")
    assert "work has not run yet" in scene.run("logs", "work").err
    assert scene.run("run", "work").code == 0
    (path,) = scene.logs()
    assert scene.run("logs", "work", "--run", "2").code == 2
    os.utime(path, (1000, 1000))
    assert scene.run("prune", "work").code == 0
    assert scene.logs() == []
    ran = scene.run("logs", "work")
    assert (ran.code, "is not here" in ran.err) == (2, True)


# --- by hand


def test_rerun_begins_anew_and_now_works_beside_what_is_due(make: Make) -> None:
    scene = make('echo "[$RECONCILE_TRIGGER $RECONCILE_CURSOR]"; echo "{\\"cursor\\": 1}" >&3')
    assert scene.run("run", "work").out == "[schedule ]\n"
    assert scene.run("rerun", "work", "latest", "-m", "why").out == "[rerun ]\n"
    assert scene.run("run", "work", "--now").out == "[manual ]\n"
    for argv in (("run", "work", "--dry-run"), ("changes", "work")):
        assert scene.run(*argv).code == 2


def test_past_nights_are_filled_in(make: Make) -> None:
    scene = make("echo $1 >> nights", 'schedule = "0 0 * * *"\n', command="./work.sh {date}")
    assert scene.run("run", "work").code == 0
    argv = ("backfill", "work", "--from", "2026-01-01", "--to", "2026-01-03", "-m", "why")
    ran = scene.run(*argv)
    assert ran.code == 0, ran.err
    assert {"2026-01-01", "2026-01-02", "2026-01-03"} <= {*scene.lines("nights")}


# --- and its lease

SHORT = 'lease = { ttl = "2s", progress_deadline = "1s" }\nkill_after = "1s"'


def test_a_silent_command_may_take_longer_than_its_lease_and_than_the_progress_deadline(
    make: Make,
) -> None:
    scene = make("sleep 4; echo done >> up", SHORT)
    ran = scene.run("run", "work")
    assert (ran.code, scene.lines("up")) == (0, ["done"]), ran.err
    assert len(scene.interval()["runs"]) == 1


def test_one_that_has_told_of_progress_is_held_to_it(make: Make) -> None:
    scene = make('echo $$ >> up; echo "{\\"progress\\": 1}" >&3; exec sleep 600', SHORT)
    ran = scene.run("run", "work")
    assert ran.code == 1
    assert "made no progress for" in ran.err
    assert not Path(f"/proc/{scene.lines('up')[0]}").exists()


def test_of_all_jobs_at_once_a_long_output_is_passed_on_whole_and_in_order(make: Make) -> None:
    scene = make("seq 300000", 'schedule = "@hourly"')
    assert scene.run("run", "--all").out.splitlines() == [str(n) for n in range(1, 300_001)]


def test_all_jobs_at_once_pass_on_what_their_commands_print(make: Make) -> None:
    scene = make("echo one", 'schedule = "@hourly"')
    config = scene.folder / "reconcile.toml"
    more = '\n[jobs.other]\ncommand = "sh -c \'echo two; exit 3\'"\nschedule = "@hourly"\n'
    config.write_text(config.read_text() + more)
    for job in ("work", "other"):
        scene.run("status", job)
    ran = scene.run("run", "--all")
    assert ran.code == 1, ran.err
    assert sorted(ran.out.splitlines()) == ["one", "two"]
    assert "other" in ran.err
