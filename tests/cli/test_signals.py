"""A real process that is asked to stop, told to stop, or watched on a real terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support import forks
from support.scene import ENVIRONMENT

RECONCILE = [sys.executable, "-c", "from reconcile.cli.main import entry; entry()"]
STEPPER = Path(__file__).parents[1] / "support/stepper.py"


def call(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """What leads to what is looked at, or shows it: no signal is sent, so it may be forked."""
    process = forks.start([*RECONCILE, *argv], cwd=folder, env=ENVIRONMENT)
    out, err = process.communicate()
    return subprocess.CompletedProcess(argv, process.returncode, out, err)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo, in so many ranges that there is time to interrupt it."""
    folder = tmp_path_factory.mktemp("made")
    assert call(folder, "init", "--demo").returncode == 0
    config = folder / "reconcile.toml"
    text = config.read_text()
    assert "range_size = 500" in text
    config.write_text(text.replace("range_size = 500", "range_size = 20"))
    return folder


@pytest.fixture
def demo(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(made, tmp_path / "demo"))


@contextmanager
def begun(folder: Path, *argv: str) -> Iterator[subprocess.Popen[str]]:
    """A run of the demo that has committed a range and has many to go."""
    with subprocess.Popen(
        [*RECONCILE, "run", "entitlements", "-v", *argv],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            assert any(line.endswith("step range_committed\n") for line in process.stderr)
            yield process
        finally:
            process.kill()


def interval_of(folder: Path) -> dict[str, Any]:
    value = json.loads(call(folder, "status", "entitlements", "latest", "--json").stdout)
    found: dict[str, Any] = value["intervals"][0]
    return found


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_stops_at_a_checkpoint_and_the_next_run_goes_on(
    demo: Path, number: signal.Signals, code: int
) -> None:
    with begun(demo) as process:
        process.send_signal(number)
        _, err = process.communicate()
    assert process.returncode == code
    assert f"interrupted ({number.name}) after range " in err
    assert "step released" in err
    stopped = interval_of(demo)
    assert stopped["state"] == "unfinished"
    done = stopped["ranges"]["done"]
    assert 0 < done < stopped["ranges"]["total"]
    again = call(demo, "run", "entitlements")
    assert again.returncode == 0
    assert f"resumed at range {done + 1}/" in again.stderr
    assert interval_of(demo)["changes"] == {"grant": 212, "revoke": 63, "update": 9}


def test_looking_is_ended_by_the_first_signal(demo: Path) -> None:
    program = "import os, signal; from reconcile.cli import commands; "
    program += "import reconcile.core.operations.overview as o; "
    program += "o.closing = lambda *a: os.kill(os.getpid(), signal.SIGINT); "
    program += "from reconcile.cli.main import entry; entry()"
    ended = subprocess.run(
        [sys.executable, "-c", program, "status"],
        cwd=demo,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_a_reader_that_goes_away_does_not_stop_the_work(demo: Path) -> None:
    with begun(demo) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        process.stderr.close()
        process.stdout.close()
        assert process.wait() == 0
    assert interval_of(demo)["state"] == "completed"


def test_json_tells_of_an_interruption(demo: Path) -> None:
    with begun(demo, "--json") as process:
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate()
    value = json.loads(out)
    assert (process.returncode, value["exit"], value["outcome"]) == (143, 143, "interrupted")
    assert value["intervals"][0]["signal"] == "SIGTERM"


def on_a_terminal(folder: Path, *program: str) -> tuple[int, str]:
    """The exit status of a run on a terminal, and what it showed."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environ = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "COLUMNS"}}
    process = subprocess.Popen(
        [*(program or RECONCILE), "run", "entitlements"],
        cwd=folder,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**environ, "TERM": "xterm"},
        start_new_session=True,
    )
    os.close(follower)
    seen = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # EIO: nobody has the other end any more
            break
        if not piece:
            break
        seen += piece
    os.close(leader)
    return process.wait(), seen.decode().replace("\r\n", "\n")


def test_on_a_real_terminal_there_is_a_bar_and_then_the_outcome(demo: Path) -> None:
    code, text = on_a_terminal(demo)
    assert code == 0
    assert "applying range" in text
    assert "\x1b[?25h" in text, "the cursor is given back"
    _, _, last = text.rpartition("\x1b[2K")
    assert "\x1b[32mcompleted\x1b[0m in " in last
    assert "proved equal: 6,020 rows on both sides" in last


@pytest.mark.parametrize(
    ("step", "answer", "end"),
    [
        ("run_opened", "planning range 1", "interrupted\x1b[0m: planned 1 range, nothing"),
        ("judged", "range 1", "interrupted\x1b[0m after range "),
    ],
)
def test_a_ctrl_c_on_a_real_terminal_is_answered_before_the_run_ends(
    demo: Path, step: str, answer: str, end: str
) -> None:
    text = on_a_terminal(demo, sys.executable, str(STEPPER), f"{step}:1:SIGINT")[1]
    _, answered, rest = text.partition(f"  stopping after {answer} (Ctrl-C again: now)\n")
    assert answered
    assert end in rest
    assert text.count("stopping after") == 1
