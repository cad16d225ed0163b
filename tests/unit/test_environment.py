"""Streams, signals, clock and randomness of a real process."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import pytest

from reconcile.cli.environment import (
    Environment,
    OutputFailed,
    Signals,
    SystemClock,
    SystemEntropy,
    real_environment,
)
from reconcile.cli.host import LinuxHost

BEGIN = """
import os, sys, time
from reconcile.cli.environment import real_environment
env = real_environment()
"""
SAYS_ITS_SIGNAL = f"""{BEGIN}
env.heed_signals()
print("ready", flush=True)
while env.stop.reason is None:
    time.sleep(0.01)
print(env.stop.reason, flush=True)
sys.stdin.readline()
print("went on", flush=True)
"""


@pytest.mark.parametrize(
    ("called", "path", "typed"),
    [
        ("{0}/a/reconcile", "{0}/none:{0}/a:{0}/b", "reconcile"),
        ("{0}/b/reconcile", "{0}/a:{0}/b", "{0}/b/reconcile"),
        ("{0}/b/reconcile", "/nowhere", "{0}/b/reconcile"),
        ("{0}/link/reconcile", "{0}/a", "reconcile"),
        ("-c", "{0}/a", "reconcile"),
        ("{0}/a/pytest", "", "reconcile"),
    ],
)
def test_a_program_is_called_again_as_it_was_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: str, path: str, typed: str
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "reconcile").touch(mode=0o755)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    monkeypatch.setattr(sys, "argv", [called.format(tmp_path)])
    monkeypatch.setenv("PATH", path.format(tmp_path))
    assert real_environment().program == typed.format(tmp_path)


def environment(stdout: io.TextIOBase, stderr: io.TextIOBase) -> Environment:
    entropy = SystemEntropy()
    return Environment(
        stdin=io.StringIO(),
        stdout=stdout,  # type: ignore[arg-type]
        stderr=stderr,  # type: ignore[arg-type]
        environ={},
        cwd=Path(),
        clock=SystemClock(),
        entropy=entropy,
        host=LinuxHost(entropy.token, lambda error: None),
        stop=Signals(),
        login="alice",
        state_folder=Path(),
    )


class Failing(io.StringIO):
    """A stream that fails each time, and counts the times."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error
        self.times = 0

    def write(self, text: str) -> int:
        self.times += 1
        raise self.error


@dataclass
class Ended:
    code: int
    out: str
    err: str


def python(program: str, *, shell: str = '"$@"', **variables: str) -> Ended:
    """Run a program below a shell, with the test's variables and those given.

    Its streams are buffered, as they are for users, whatever the tests run under.
    """
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        ["/bin/sh", "-c", shell, "sh", sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**environ, **variables},
    )
    return Ended(done.returncode, done.stdout, done.stderr)


# --- clock and randomness


def test_the_clock_counts_from_the_hosts_boot() -> None:
    clock = SystemClock()
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    assert abs(clock.boot() - uptime) < 5
    assert clock.now().utcoffset() is not None
    assert abs(clock.now().timestamp() - time.time()) < 5


def test_the_clock_waits_until_it_is_woken() -> None:
    clock, wake = SystemClock(), Event()
    assert not clock.wait(0.001, wake)
    assert not clock.wait(-1.0, wake)
    wake.set()
    assert clock.wait(3600, wake)


def test_tokens_are_32_hex_digits_and_differ() -> None:
    tokens = {SystemEntropy().token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(re.fullmatch("[0-9a-f]{32}", token) for token in tokens)


# --- streams


def test_words_that_nobody_reads_do_not_stop_the_work() -> None:
    for error in (BrokenPipeError(32, "gone"), OSError(28, "No space left on device")):
        stream = Failing(error)
        env = environment(io.StringIO(), stream)
        env.words("one")
        env.words("two")
        assert stream.times == 1


def test_data_that_nobody_reads_any_more_is_dropped_without_a_word() -> None:
    stream = Failing(BrokenPipeError(32, "gone"))
    env = environment(stream, io.StringIO())
    env.data("one")
    env.data("two")
    assert stream.times == 1


def test_data_that_cannot_be_written_is_an_error() -> None:
    env = environment(Failing(OSError(28, "No space left on device")), io.StringIO())
    with pytest.raises(OutputFailed, match="No space left on device"):
        env.data("one")


def test_head_ends_a_long_listing_quietly() -> None:
    program = f"{BEGIN}\nfor n in range(100_000): env.data(f'line {{n}}\\n')\nenv.words('end\\n')"
    ended = python(program, shell='{ "$@"; echo "code $?" >&2; } | head -n 1')
    assert (ended.out, ended.err) == ("line 0\n", "end\ncode 0\n")


def test_closed_streams_are_nowhere() -> None:
    program = f"{BEGIN}\nenv.data('data')\nenv.words('words')\nassert env.stdin.read() == ''"
    assert python(program, shell='"$@" <&- >&- 2>&-') == Ended(0, "", "")


def test_a_letter_that_the_locale_lacks_is_written_as_its_code() -> None:
    program = f"{BEGIN}\nenv.data('\\N{{BALLOT X}}\\n')"
    assert python(program, PYTHONIOENCODING="ascii") == Ended(0, "\\u2717\n", "")


def test_the_journal_is_known_by_its_stream() -> None:
    program = f"{BEGIN}\nenv.data(str(env.journald))"
    marked = f"""
import os
facts = os.fstat(2)
os.environ["JOURNAL_STREAM"] = f"{{facts.st_dev}}:{{facts.st_ino}}"
{program}
"""
    assert python(marked).out == "True"
    assert python(program, JOURNAL_STREAM="8:1").out == "False"
    assert python(program, JOURNAL_STREAM="").out == "False"


def test_columns_say_how_wide_the_terminal_is() -> None:
    program = f"{BEGIN}\nenv.data(str(env.width))"
    assert python(program, COLUMNS="132").out == "132"
    assert python(program, COLUMNS="0").out == "80"
    assert python(program, COLUMNS="wide").out == "80"


def test_a_folder_that_was_removed_is_no_reason_to_fail(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    leave = f"""
import os
os.mkdir({gone!r})
os.chdir({gone!r})
os.rmdir({gone!r})
os.environ["PWD"] = {gone!r}
"""
    ended = python(f"{leave}\n{BEGIN}\nenv.data(str(env.cwd))")
    assert ended == Ended(0, gone, "")


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"STATE_DIRECTORY": "/var/lib/one:/var/lib/two"}, "/var/lib/one"),
        ({"STATE_DIRECTORY": "", "XDG_STATE_HOME": "/home/a/state"}, "/home/a/state/reconcile"),
        (
            {"STATE_DIRECTORY": "", "XDG_STATE_HOME": "", "HOME": "/home/a"},
            "/home/a/.local/state/reconcile",
        ),
    ],
)
def test_tracebacks_go_where_state_belongs(variables: dict[str, str], folder: str) -> None:
    assert python(f"{BEGIN}\nenv.data(str(env.state_folder))", **variables).out == folder


# --- signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_is_a_request_and_the_second_an_order(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SAYS_ITS_SIGNAL],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    assert process.stdout.readline() == f"{number.name}\n"
    deadline = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < deadline:
        process.send_signal(number)
        time.sleep(0.05)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (-number, "", "")


def test_a_signal_sent_twice_at_once_is_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    orders: list[int] = []
    monkeypatch.setattr("reconcile.cli.environment.time.monotonic", lambda: now)
    monkeypatch.setattr("reconcile.cli.environment.os.kill", lambda pid, n: orders.append(n))
    monkeypatch.setattr("reconcile.cli.environment.signal.signal", lambda number, handler: None)
    signals = Signals()
    signals._came(signal.SIGTERM, None)
    now += Signals.TOGETHER_SECONDS / 2
    signals._came(signal.SIGTERM, None)
    assert (signals.reason, orders) == ("SIGTERM", [])
    now += Signals.TOGETHER_SECONDS
    signals._came(signal.SIGINT, None)
    assert (signals.reason, orders) == ("SIGTERM", [signal.SIGINT])


def test_a_signal_that_the_caller_ignores_stays_ignored() -> None:
    program = f"""
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
{BEGIN}
env.heed_signals()
os.kill(os.getpid(), signal.SIGINT)
env.data(str(env.stop.reason))
"""
    assert python(program).out == "None"


def test_abort_does_not_wait_for_who_reads_no_more() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write, b"x" * 4096)
    os.set_blocking(write, True)
    program = f"{BEGIN}env.host.abort(RuntimeError('odd'))"
    try:
        done = subprocess.run(
            [sys.executable, "-c", program], check=False, stderr=write, timeout=30
        )
        assert done.returncode == 70
    finally:
        os.close(read)
        os.close(write)


def test_abort_says_why_and_ends_the_process_at_once() -> None:
    program = f"""{BEGIN}
import atexit
from reconcile.core.errors import LeaseLapsed
atexit.register(print, "cleaned up")
env.host.abort(LeaseLapsed("no progress for 10m"))
"""
    assert python(program) == Ended(1, "", "reconcile: no progress for 10m\n")
    program = f"{BEGIN}\nenv.host.abort(RuntimeError('odd'))"
    assert python(program) == Ended(70, "", "reconcile: odd\n")


def test_signals_are_heeded_only_by_who_asks_for_it() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        env = real_environment()
        assert {n: signal.getsignal(n) for n in before} == before
        env.heed_signals()
        os.kill(os.getpid(), signal.SIGINT)
        assert env.stop.reason == "SIGINT"
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
