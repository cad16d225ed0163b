"""What the tests start by a fork is the process that a start would make, in all they look at."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from support import forks
from support.scene import ENVIRONMENT

if TYPE_CHECKING:
    from pathlib import Path

LOOKS = """
import faulthandler, gc, json, locale, os, signal, sys, threading, time
def stream(of):
    kept = ("encoding", "errors", "line_buffering", "write_through", "newlines", "mode", "name")
    return [*(str(getattr(of, name)) for name in kept), of.fileno(), of.isatty()]
from reconcile.cli.host import LinuxHost
me = LinuxHost(lambda: "", lambda error: None).holder()
MASKS = ("SigBlk", "SigIgn", "SigCgt")
status = open("/proc/self/status").read().splitlines()
print(json.dumps({
    "argv": sys.argv, "path": sys.path, "main": sorted(globals()), "name": __name__,
    "cwd": os.getcwd(), "environ": dict(os.environ), "zone": time.tzname,
    "streams": [stream(sys.stdin), stream(sys.stdout), stream(sys.stderr)],
    "original": [sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__],
    "descriptors": sorted(os.listdir("/proc/self/fd"), key=int),
    "handlers": {n: str(signal.getsignal(n)) for n in signal.valid_signals()},
    "signals": [line for line in status if "Pnd:" in line or line[:6] in MASKS],
    "ours": [os.getppid(), os.getpgid(0), os.getsid(0), me.pid == os.getpid()],
    "namespaces": [os.readlink(f"/proc/self/ns/{name}") for name in ("pid", "mnt", "time")],
    "mask": os.umask(0), "nice": os.nice(0), "cores": sorted(os.sched_getaffinity(0)),
    "user": [me.user, me.host, me.boot_id, me.machine_id, me.pid_namespace],
    "threads": [threading.active_count(), threading.current_thread().name],
    "gc": [gc.isenabled(), gc.get_threshold()], "faulthandler": faulthandler.is_enabled(),
    "flags": str(sys.flags), "limits": sys.getrecursionlimit(), "hooks": sys.excepthook.__name__,
    "locale": locale.setlocale(locale.LC_ALL), "warnings": sys.warnoptions,
}))
"""


def run(kind: Any, folder: Path, *argv: str, **environ: str) -> tuple[int, str, str]:
    process = kind(
        [forks.sys.executable, *argv],
        cwd=folder,
        env={**ENVIRONMENT, **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_all_that_can_be_seen_from_within_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "looks.py").write_text(LOOKS)
    for argv in (("-c", LOOKS, "a b", "\udcff"), (str(tmp_path / "looks.py"), "-c", "")):
        found = []
        for kind in (forks.Forked, subprocess.Popen):
            code, out, err = run(kind, tmp_path, *argv, TZ="Europe/Berlin", ODD="\udcff\n")
            assert (code, err) == (0, "")
            found.append(json.loads(out))
        assert found[0] == found[1]


def test_its_start_is_that_of_the_fork(tmp_path: Path) -> None:
    started = "print(open('/proc/self/stat').read().rpartition(')')[2].split()[19])"
    first, second = (int(run(forks.Forked, tmp_path, "-c", started)[1]) for _ in range(2))
    now = float((tmp_path / "/proc/uptime").read_text().split()[0]) * os.sysconf("SC_CLK_TCK")
    assert now - 60 * os.sysconf("SC_CLK_TCK") < first <= second <= now + 1


@pytest.mark.parametrize(
    "ends",
    [
        "pass",
        "sys.exit()",
        "sys.exit(75)",
        "sys.exit(256 + 3)",
        "sys.exit('words')",
        "sys.exit(True)",
        "1 / 0",
        "raise KeyboardInterrupt",
        "os.kill(os.getpid(), signal.SIGINT)",
        "os.kill(os.getpid(), signal.SIGTERM)",
        "os.kill(os.getpid(), signal.SIGKILL)",
        "os._exit(9)",
        "os.close(1); sys.exit(4)",
        "atexit.register(print, 'at the end'); sys.exit(5)",
        "atexit.register(sys.exit, 6); sys.exit(5)",
        "threading.Thread(target=lambda: (time.sleep(0.05), print('thread'))).start(); sys.exit(7)",
        "threading.Thread(target=time.sleep, args=[60], daemon=True).start(); sys.exit(8)",
        "kept = Kept(); sys.exit(9)",
        "held()",
        "threading.Thread(target=lambda: (time.sleep(0.05), print('thread'))).start()",
    ],
)
def test_it_ends_alike(tmp_path: Path, ends: str) -> None:
    program = (
        "import atexit, os, signal, sys, threading, time\n"
        "class Kept:\n    def __del__(self): os.write(1, b'closed')\n"
        "def held():\n    kept = Kept(); sys.exit(10)\n"
        "print('unflushed', end='')\n" + ends
    )
    forked, real = (run(kind, tmp_path, "-c", program) for kind in (forks.Forked, subprocess.Popen))
    assert forked[:2] == real[:2]
    assert forked[2].splitlines()[-1:] == real[2].splitlines()[-1:]


def test_who_waits_for_it_learns_what_killed_it(tmp_path: Path) -> None:
    """It is a child of ours, and a zombie until we have looked."""
    process = forks.start(
        [forks.sys.executable, "-c", "import time; time.sleep(60)"], cwd=tmp_path, env=ENVIRONMENT
    )
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert "\nState:\tZ" in (tmp_path / f"/proc/{process.pid}/status").read_text()
    assert (process.wait(timeout=20), process.poll()) == (-signal.SIGTERM, -signal.SIGTERM)
    process.communicate()
