"""A command ends with its lease, whatever becomes of holder, supervisor and command."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.commands import (
    STAMPS,
    Heard,
    boot,
    held,
    living,
    run,
    shell,
    spec_of,
    supervised,
    wait_for,
)

from reconcile.cli.host import LinuxHost, read_process
from reconcile.core.work.commands.supervision import LONGEST_LINE, Ended, Spec
from reconcile.core.work.commands.supervision.supervised import SUPERVISOR, packed

DAEMON = "setsid sh -c '(trap \"\" TERM; echo up >> {sink}; exec sleep 600) &' &"
"""Double-forked into a session of its own, and deaf to SIGTERM."""

HOPS = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(6):
    if not os.fork():
        for _ in range(5000):
            if os.fork():
                os._exit(0)
print("up", flush=True)
signal.pause()
"""
"""Six processes that are others each half a millisecond; for a while, should the test fail."""


# --- how it ended


@pytest.mark.parametrize("status", [0, 1, 2, 126, 127, 128, 255])
def test_the_exit_status_is_told(status: int) -> None:
    ended, _ = run(shell(f"exit {status}"))
    assert (ended.status, ended.signal, ended.why) == (status, None, "itself")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_the_signal_that_ended_it_is_told(number: signal.Signals) -> None:
    ended, _ = run(shell(f"kill -{int(number)} $$"))
    assert (ended.status, ended.signal, ended.why) == (None, number, "itself")


def test_what_cannot_be_executed_is_told_with_the_reason(tmp_path: Path) -> None:
    plain, script, text = tmp_path / "plain", tmp_path / "script", tmp_path / "text"
    plain.write_text("")
    script.write_text("#!/no/interpreter\n")
    text.write_text("echo no first line\n")
    for path in (script, text):
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    told = {}
    for name in ("nowhere", str(plain), str(script), str(text)):
        ended, _ = run(spec_of(name))
        assert ended.not_executed is not None
        assert (ended.status, ended.signal) == (None, None)
        told[Path(name).name] = (ended.not_executed.what, ended.not_executed.text)
    assert told == {
        "nowhere": ("program", "nowhere: No such file or directory"),
        "plain": ("program", f"{plain}: Permission denied"),
        "script": ("program", f"{script}: the interpreter that its first line names is not there"),
        "text": ("program", f"{text}: neither a program nor a script that begins with #!"),
    }
    ended, _ = run(spec_of("true", cwd=tmp_path / "gone"))
    assert ended.not_executed is not None
    assert ended.not_executed.what == "cwd"


# --- what it gets


def test_it_gets_its_variables_and_nothing_else(tmp_path: Path) -> None:
    spec = spec_of("sh", "-c", "pwd; env; ls /proc/self/fd", cwd=tmp_path, env={"A": "\udcff b"})
    _, heard = run(spec)
    told = heard.output.splitlines()
    assert told[0] == os.fsencode(tmp_path)
    assert b"A=\xff b" in told
    assert b"RECONCILE_PROGRESS_FD=3" in told
    names = {line.partition(b"=")[0] for line in told if b"=" in line}
    assert names == {b"A", b"PATH", b"PWD", b"RECONCILE_PROGRESS_FD", b"RECONCILE_SUPERVISED"}
    # ls has one for the folder that it reads.
    assert told[-5:] == [b"0", b"1", b"2", b"3", b"4"]


def test_no_signal_is_ignored_or_blocked_in_it() -> None:
    _, heard = run(spec_of("grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"))
    assert set(heard.output.split()[1::2]) == {b"0" * 16}


def test_lines_of_progress_are_told_apart_from_output() -> None:
    ended, heard = run(
        shell("echo out; echo one >&3; printf tw >&3; echo err >&2; echo o >&3; printf x >&3")
    )
    assert ended.status == 0
    assert heard.output == b"out\nerr\n"
    assert [line.data for line in heard.lines] == [b"one", b"two", b"x"]


def test_a_flood_without_a_line_feed_is_cut() -> None:
    _, heard = run(shell(f"head -c {3 * LONGEST_LINE} /dev/zero >&3; echo >&3; echo next >&3"))
    assert [(len(line.data), line.is_cut) for line in heard.lines] == [
        (LONGEST_LINE, True),
        (4, False),
    ]


def test_all_output_comes_before_the_end() -> None:
    ended, heard = run(shell("head -c 3000000 /dev/zero; exit 3"))
    assert ended.status == 3
    assert len(heard.output) == 3000000


def test_one_that_closes_its_pipes_is_still_waited_for() -> None:
    ended, heard = run(shell("exec >&- 2>&- 3>&-; sleep 0.2; exit 5"))
    assert (ended.status, heard.output) == (5, b"")


# --- what ends it


def test_extended_it_outlives_its_first_deadline() -> None:
    heard = Heard()
    with supervised(shell("sleep 2; exit 9"), ttl=2.0) as command:
        while heard.ended is None:
            command.extend(boot() + 2.0)
            limit = boot() + 0.2
            heard.listen(command, lambda heard, limit=limit: boot() > limit)
    assert heard.ended.status == 9


def test_at_its_deadline_it_is_over_though_it_ignores_the_signal(tmp_path: Path) -> None:
    sink = tmp_path / "sink"
    deadline = boot() + 2.0
    ended, _ = run(shell("trap '' TERM; " + STAMPS.format(sink=sink), kill_after=60.0), ttl=2.0)
    assert newest(sink) < deadline
    assert (ended.signal, ended.why) == (signal.SIGKILL, "deadline")
    assert ended.shortened is not None
    assert 0.0 < ended.shortened < 0.6


def test_told_to_end_it_may_say_goodbye() -> None:
    heard = Heard()
    script = "trap 'echo bye; exit 4' TERM; echo up; while :; do sleep 0.05; done"
    with supervised(shell(script)) as command:
        heard.listen(command, lambda heard: heard.output == b"up\n")
        command.terminate()
        heard.listen(command, lambda heard: False)
    assert heard.output.endswith(b"bye\n")
    assert heard.ended is not None
    assert (heard.ended.status, heard.ended.why, heard.ended.shortened) == (4, "terminated", None)


def test_while_its_lease_is_renewed_it_has_all_of_kill_after_for_its_goodbye() -> None:
    heard = Heard()
    deaf = "trap '' TERM; sleep 2 & "
    script = deaf + "trap 'wait $!; exit 4' TERM; echo up; while :; do sleep 9; done"
    with supervised(shell(script, kill_after=20.0), ttl=2.0) as command:
        heard.listen(command, lambda heard: bool(heard.output))
        command.terminate()
        while heard.ended is None:
            command.extend(boot() + 2.0)
            limit = boot() + 0.2
            heard.listen(command, lambda heard, limit=limit: boot() > limit)
    assert (heard.ended.status, heard.ended.why, heard.ended.shortened) == (4, "terminated", None)


def test_one_that_ignores_the_signal_is_killed_after_a_while() -> None:
    heard = Heard()
    with supervised(shell("trap '' TERM; echo up; exec sleep 600", kill_after=0.3)) as command:
        heard.listen(command, lambda heard: bool(heard.output))
        command.terminate()
        heard.listen(command, lambda heard: False)
    assert heard.ended is not None
    assert (heard.ended.signal, heard.ended.why) == (signal.SIGKILL, "terminated")
    assert heard.ended.shortened is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_supervisor_ends_the_command_first(number: signal.Signals) -> None:
    heard = Heard()
    spec = shell("trap 'sleep 0.1; echo bye; exit 4' TERM; echo up; while :; do sleep 0.05; done")
    with supervised(spec) as command:
        heard.listen(command, lambda heard: bool(heard.output))
        os.kill(supervisor_of(spec), number)
        heard.listen(command, lambda heard: False)
    assert heard.output.endswith(b"bye\n")
    assert heard.ended is not None
    assert (heard.ended.status, heard.ended.why) == (4, "signal")


def test_what_outlives_the_command_is_ended_and_named() -> None:
    script = "setsid sleep 600 & (trap '' TERM; exec sleep 601) & echo out; exit 6"
    ended, heard = run(shell(script, kill_after=0.2))
    assert (ended.status, ended.why, heard.output) == (6, "itself", b"out\n")
    assert [process.name for process in ended.leftovers] == ["sleep", "sleep"]
    assert ended.survivors == ()


def test_the_last_part_of_a_pipeline_may_finish() -> None:
    ended, heard = run(shell("(sleep 0.3; echo late) & exit 0"))
    assert heard.output == b"late\n"
    assert ended.leftovers == ()


def test_processes_that_fork_all_the_time_are_ended() -> None:
    """Each one forks and ends, so that whoever is read is gone when he is to be killed."""
    heard = Heard()
    with supervised(spec_of(sys.executable, "-I", "-S", "-c", HOPS)) as command:
        heard.listen(command, lambda heard: heard.output == b"up\n")
        command.kill()
        heard.listen(command, lambda heard: False)
    assert heard.ended is not None
    assert heard.ended.survivors == ()


# --- when its holder is gone, or stands still


def test_a_stopped_holder_has_no_command_left_at_the_end_of_its_window(tmp_path: Path) -> None:
    sink = tmp_path / "sink"
    script = "trap '' TERM; " + STAMPS.format(sink=sink)
    with held(shell(script, kill_after=60.0), 2.0, tmp_path) as holder:
        wait_for(lambda: sink.exists() and sink.stat().st_size > 5000, "a stamp")
        holder.signal(signal.SIGSTOP)
        wait_for(lambda: not living(holder.spec), "the end of the command")
        assert newest(sink) < holder.deadline


def test_a_full_pipe_of_a_stopped_holder_keeps_nothing_alive(tmp_path: Path) -> None:
    sink = tmp_path / "sink"
    floods = "trap '' TERM; yes >&3 & yes & "
    spec = shell(floods + STAMPS.format(sink=sink), kill_after=60.0)
    with held(spec, 2.0, tmp_path, listens=False) as holder:
        wait_for(lambda: sink.exists() and sink.stat().st_size > 5000, "a stamp")
        holder.signal(signal.SIGSTOP)
        wait_for(lambda: not living(holder.spec), "the end of the command")
        assert newest(sink) < holder.deadline


@pytest.mark.parametrize(
    "script",
    [
        "echo up >> {sink}; exec sleep 600",
        "trap '' TERM; echo up >> {sink}; while :; do sleep 0.05; done",
        DAEMON + "exec sleep 600",
        DAEMON + "exit 0",
    ],
    ids=["plain", "deaf", "daemon", "daemon alone"],
)
def test_a_killed_holder_leaves_nothing_behind(script: str, tmp_path: Path) -> None:
    sink = tmp_path / "sink"
    with held(shell(script.format(sink=sink), kill_after=0.3), 30.0, tmp_path) as holder:
        wait_for(sink.exists, "the command")
        holder.signal(signal.SIGKILL)
        wait_for(lambda: not living(holder.spec), "the end of the command")


def test_a_supervisor_whose_holder_is_gone_already_begins_nothing(tmp_path: Path) -> None:
    sink = tmp_path / "sink"
    spec = shell(f"echo up >> {sink}")
    given = [os.open(os.devnull, os.O_RDWR) for _ in range(5)]
    gone = os.fork()
    if gone == 0:
        os._exit(0)
    os.waitpid(gone, 0)
    done = subprocess.run(
        [sys.executable, "-I", "-S", SUPERVISOR, f"{spec.holder}/{spec.run}", str(gone)]
        + [str(fd) for fd in given],
        stdin=packed(spec, boot() + 60.0),
        pass_fds=given,
        check=False,
        capture_output=True,
    )
    for fd in given:
        os.close(fd)
    assert (done.returncode, done.stderr) == (0, b"")
    assert not sink.exists()


# --- when the supervisor is gone, or stands still


def test_a_killed_supervisor_takes_the_command_with_it_and_the_holder_the_rest(
    tmp_path: Path,
) -> None:
    sink = tmp_path / "sink"
    spec = shell(DAEMON.format(sink=sink) + "exec sleep 600")
    heard = Heard()
    with supervised(spec) as command:
        heard.listen(command, lambda heard: sink.exists())
        assert len(living(spec)) >= 3
        os.kill(supervisor_of(spec), signal.SIGKILL)
        heard.listen(command, lambda heard: False)
        assert living(spec) == []
    assert heard.ended is not None
    assert (heard.ended.why, heard.ended.status, heard.ended.signal) == ("supervisor", None, None)


def test_a_supervisor_that_was_stopped_goes_on_to_end_the_command() -> None:
    spec = shell("trap '' TERM; echo up; exec sleep 600")
    heard = Heard()
    with supervised(spec) as command:
        heard.listen(command, lambda heard: bool(heard.output))
        os.kill(supervisor_of(spec), signal.SIGSTOP)
        command.kill()
        heard.listen(command, lambda heard: False)
    assert heard.ended is not None
    assert (heard.ended.why, heard.ended.signal) == ("killed", signal.SIGKILL)


def test_a_renewed_deadline_wakes_a_supervisor_that_was_stopped() -> None:
    spec = shell("echo up; exec sleep 0.2")
    heard = Heard()
    with supervised(spec) as command:
        heard.listen(command, lambda heard: bool(heard.output))
        os.kill(supervisor_of(spec), signal.SIGSTOP)
        command.extend(boot() + 60)
        heard.listen(command, lambda heard: False)
    assert heard.ended is not None
    assert (heard.ended.why, heard.ended.status) == ("itself", 0)


def test_the_end_of_the_holder_wakes_a_supervisor_that_was_stopped(tmp_path: Path) -> None:
    spec = shell("exec sleep 600", kill_after=0.3)
    with held(spec, 30.0, tmp_path) as holder:
        wait_for(lambda: len(living(spec)) == 2, "the command")
        os.kill(supervisor_of(spec), signal.SIGSTOP)
        holder.signal(signal.SIGKILL)
        wait_for(lambda: not living(spec), "the end of both")


# --- when a holder is dead


def test_a_killed_holder_is_not_dead_while_its_command_ends(tmp_path: Path) -> None:
    go_on = tmp_path / "go on"
    wait = f'until [ -e "{go_on}" ]; do sleep 0.02; done; exit'
    script = f"trap '{wait}' TERM; while :; do sleep 0.05; done"
    here = LinuxHost(lambda: "here", lambda error: None)
    with held(shell(script, kill_after=20.0), 60.0, tmp_path) as holder:
        wait_for(lambda: len(living(holder.spec)) >= 2, "the command")
        known = here.holder()._replace(
            pid=holder.pid, started=read_process(holder.pid).started, token=holder.spec.holder
        )
        assert not here.is_dead(known)
        holder.signal(signal.SIGKILL)
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
        assert not here.is_dead(known)
        assert here.is_dead(known._replace(token="of one without commands"))
        go_on.touch()
        wait_for(lambda: here.is_dead(known), "its death")
        assert living(holder.spec) == []


def test_a_holder_killed_with_its_supervisor_is_not_dead_while_a_daemon_lives(
    tmp_path: Path,
) -> None:
    sink = tmp_path / "sink"
    spec = shell(DAEMON.format(sink=sink) + "exec sleep 600")
    here = LinuxHost(lambda: "here", lambda error: None)
    with held(spec, 60.0, tmp_path) as holder:
        wait_for(sink.exists, "the daemon")
        known = here.holder()._replace(
            pid=holder.pid, started=read_process(holder.pid).started, token=spec.holder
        )
        os.kill(holder.pid, signal.SIGSTOP)  # or it would see to the daemon
        os.kill(supervisor_of(spec), signal.SIGKILL)
        holder.signal(signal.SIGKILL)
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
        wait_for(lambda: len(living(spec)) == 1, "the end of the command itself")
        assert not here.is_dead(known)
        (left,) = living(spec)
        os.kill(int(left.split()[0]), signal.SIGKILL)
        wait_for(lambda: here.is_dead(known), "its death")


def newest(sink: Path) -> float:
    """The last whole stamp."""
    return float(sink.read_text().rpartition("\n")[0].rpartition("\n")[2])


def supervisor_of(spec: Spec) -> int:
    """The process that has the mark on its command line."""
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and spec.holder in (folder / "cmdline").read_text():
                return int(folder.name)
        except OSError:
            continue
    raise AssertionError("there is no supervisor")


def test_it_is_never_more_than_a_line_ahead_of_what_was_dealt_with(tmp_path: Path) -> None:
    done = tmp_path / "done"
    done.touch()  # a slow start has written nothing yet
    script = f"i=0; while [ $i -lt 200 ]; do i=$((i+1)); echo $i >> {done}; echo $i >&3; done"
    ahead, heard = [], 0
    with supervised(shell(script)) as command:
        ended = False
        while not ended:
            dealt_with = heard
            for event in command.events(0.1):
                ended = isinstance(event, Ended)
                heard += not ended
            time.sleep(0.002)  # as long as a checkpoint takes, which is not made yet
            ahead.append(len(done.read_text().splitlines()) - dealt_with)
    assert heard == 200
    # One line is being dealt with, and the next waits in the command's `write`.
    assert max(ahead) <= 2


def test_long_lines_go_through_a_pipe_that_is_shorter() -> None:
    _, heard = run(shell("printf '%0100000d\\n%d\\n' 1 2 >&3"))
    assert [len(line.data) for line in heard.lines] == [100_000, 1]


def test_who_opens_the_pipe_anew_for_each_line_loses_none() -> None:
    script = "i=0; while [ $i -lt 100 ]; do i=$((i+1)); echo $i > /dev/fd/3; done"
    heard, ended = [], False
    with supervised(shell(script)) as command:
        while not ended:
            for event in command.events(0.1):
                ended = isinstance(event, Ended)
                heard += [] if ended else [event]
            time.sleep(0.002)  # more comes while a line is dealt with
    assert [line.data for line in heard] == [b"%d" % number for number in range(1, 101)]
