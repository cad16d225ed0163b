"""Starts `reconcile` as a process of its own, at a tenth of the price.

Importing costs more than most commands of a test do. So each test process has one Python that
has imported already (`support/fork_server.py`) and forks for each command. What comes out is a
real process with its own pid, start time, streams, signals, folder and environment, a child of
the test's own process, and ends as any does: exit handlers, buffers, status. It may be killed,
stopped and looked at in /proc, where only its command line is the server's.

What it does not show is how a process begins: the console script, the order of imports, signals
that come meanwhile, the locale, a terminal. Tests of these start a Python themselves, as
`cli/test_signals.py`, `process/test_surroundings.py`, `guards/test_startup.py` and
`guards/test_examples.py` do. With RECONCILE_TEST_EXEC=1 all do.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SERVER = Path(__file__).with_name("fork_server.py")
PR_SET_CHILD_SUBREAPER = 36
INTERPRETER = ("PYTHON", "LC_", "LANG")
"""Variables that a Python reads when it starts."""

DRIVERS = {
    "PYTHONIMPORTS": "psycopg redis reconcile.core.targets.postgres reconcile.stores.postgres"
    " reconcile.stores.redis"
}
"""For commands that talk to servers: names in their environment what they find imported already."""

PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
EXEC = os.environ.get("RECONCILE_TEST_EXEC") == "1"


class Server:
    """The Python that forks, for one environment of the interpreter."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        # Who loses its parent becomes ours, so that we learn how it ended.
        assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        self._asking = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with tempfile.TemporaryDirectory() as folder:
            self._process = subprocess.Popen(
                [sys.executable, str(SERVER), str(theirs.fileno()), folder],
                env=environ,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,  # of the kind that its children have
                stderr=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
            )
            theirs.close()
            self._answer()
        atexit.register(self.end)

    def fork(
        self,
        argv: Sequence[str],
        cwd: str | os.PathLike[str],
        environ: Mapping[str, str],
        streams: Sequence[int],
    ) -> int:
        """The pid of `python ARGV…`, with these descriptors as its streams."""
        text = json.dumps({"argv": argv, "cwd": os.fspath(cwd), "environ": dict(environ)})
        with self._asking:
            socket.send_fds(self._socket, [text.encode()], list(streams))
            return int(self._answer())

    def end(self) -> None:
        """Let it go, and see it end."""
        self._socket.close()
        self._process.communicate()

    def _answer(self) -> bytes:
        answer = self._socket.recv(64)
        if not answer:
            _, said = self._process.communicate()
            raise RuntimeError(f"the fork server ended: {said.decode()}")
        return answer


SERVERS: dict[tuple[tuple[str, str], ...], Server] = {}
STARTING = threading.Lock()


def server_for(environ: Mapping[str, str]) -> Server:
    """The one whose interpreter began with these variables; there is seldom a second."""
    key = tuple(sorted(item for item in environ.items() if item[0].startswith(INTERPRETER)))
    with STARTING:
        if key not in SERVERS:
            SERVERS[key] = Server(dict(key))
        return SERVERS[key]


class Forked(subprocess.Popen[str]):
    """What `subprocess.Popen` is, but for how it begins. Takes `args`, `cwd`, `env` and streams."""

    def _execute_child(self, *given: Any) -> None:
        # The one place that rests on what is private to subprocess.
        names = subprocess.Popen._execute_child.__code__.co_varnames  # type: ignore[attr-defined]
        options = dict(zip(names[1:], given, strict=False))
        environ = options["env"]
        streams = [options[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        argv = options["args"][1:]
        self.pid = server_for(environ).fork(argv, options["cwd"], environ, streams)
        self._child_created = True
        self._close_pipe_fds(*(options[name] for name in PIPES))  # type: ignore[attr-defined]


def start(
    command: Sequence[str], cwd: str | os.PathLike[str], env: Mapping[str, str]
) -> subprocess.Popen[str]:
    """As `subprocess.Popen` with pipes; forked where it is `python -c CODE` or `python FILE`."""
    kind = Forked if is_forked(command) else subprocess.Popen
    return kind(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=env,
    )


def is_forked(command: Sequence[str]) -> bool:
    python, first = command[:2]
    return not EXEC and python == sys.executable and (first == "-c" or first.endswith(".py"))
