"""A Python that has imported what a night needs, and forks for each command it is given.

    python fork_server.py DESCRIPTOR FOLDER

`support/forks.py` starts it, and has the other end of the socket DESCRIPTOR. A request is JSON
(argv, cwd, environ) with three descriptors. The answer is the pid of a process that is, to
whoever looks at it, `python ARGV…` with these as its streams, but that some modules were there
before it began.

Which these are is learned: a child makes a night and looks at it, and what it has imported by
then is imported here. So no command finds a module that a night of its own would not have, and
no list has to follow the program's.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import socket
import sys
import threading
import time
import types
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

JOB = """\
[jobs.entitlements]
schedule = "0 0 * * *"
start = 2026-01-01
source = "source.csv"
target = "app.db"
account = "account_id"
columns = ["entitlement"]
"""
TABLE = """\
CREATE TABLE entitlements (account_id TEXT NOT NULL, entitlement TEXT NOT NULL,
PRIMARY KEY (account_id, entitlement))
"""


def in_a_child(do: Callable[[], list[str]]) -> list[str]:
    """What it answers in a process of its own."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        with os.fdopen(writer, "w") as stream:
            stream.write("\n".join(do()))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        answer = stream.read()
    if os.waitpid(pid, 0)[1] != 0:
        os._exit(1)
    return answer.splitlines()


def called(*commands: str) -> list[str]:
    """The modules that are there once these have run in the current folder."""
    from reconcile.cli.environment import real_environment
    from reconcile.cli.main import main

    for command in commands:
        code = main(command.split(), real_environment())
        if code != 0:
            raise SystemExit(f"fork_server.py: {command} ended with {code}")
    return [name for name, module in sys.modules.items() if getattr(module, "__spec__", None)]


def learned(folder: str) -> list[str]:
    """What a night imports whose store is there already, in the order of the imports; it is
    made in that empty folder."""
    import sqlite3

    os.chdir(folder)
    Path("reconcile.toml").write_text(JOB)
    Path("source.csv").write_text("account_id,entitlement\na,b\n")
    sqlite3.connect("app.db").execute(TABLE).connection.close()
    in_a_child(lambda: called("run entitlements --interval 2026-01-01"))
    Path("source.csv").write_text("account_id,entitlement\na,c\n")
    second = ("run entitlements --interval 2026-01-02", "status --json", "status")
    return in_a_child(lambda: called(*second))


def fork_for_the_test() -> int:
    """As fork(2), but the child's parent is the test, by `PR_SET_CHILD_SUBREAPER`: whoever is
    between has ended when this returns to the server."""
    reader, writer = os.pipe()
    between = os.fork()
    if between == 0:
        pid = os.fork()
        if pid == 0:
            return 0
        os.write(writer, str(pid).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        pid = int(stream.read())
    os.waitpid(between, 0)
    return pid


def next_request(server: socket.socket) -> dict[str, Any]:
    """Answer requests until nobody can send any; returns in each child, with its own."""
    while True:
        text, streams, _, _ = socket.recv_fds(server, 1 << 20, 3)
        if not text:
            os._exit(0)
        pid = fork_for_the_test()
        if pid == 0:
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            server.detach()
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            request: dict[str, Any] = json.loads(text)
            return request
        for stream in streams:
            os.close(stream)
        server.send(str(pid).encode())


def become(request: dict[str, Any]) -> tuple[types.CodeType, dict[str, Any]]:
    """Become what was asked for, up to its first line: `-c CODE` or a file, and its globals."""
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environ"])
    time.tzset()
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__annotations__ = {}
    first, *rest = request["argv"]
    if first == "-c":
        sys.path.insert(0, "")
        sys.argv = ["-c", *rest[1:]]
        return compile(rest[0], "<string>", "exec"), main.__dict__
    sys.path.insert(0, str(Path(first).parent))
    sys.argv = [first, *rest]
    main.__dict__.update(__file__=first, __cached__=None)
    return compile(Path(first).read_bytes(), first, "exec"), main.__dict__


def end_soon(status: int) -> None:
    """End as Python would, short of taking every module apart, which costs more than many a
    command. Returns where that fails, for Python to say so. Call it with no thread left."""
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
        del sys.modules["__main__"]
        gc.collect()  # what the program made and left: connections are closed, files written
        os._exit(status)


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file, in which there is a `cli` too
    for name in in_a_child(lambda: learned(sys.argv[2])):
        import_module(name)
    for name in os.environ.get("PYTHONIMPORTS", "").split():
        import_module(name)
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as server:
        server.send(b"ready")
        request = next_request(server)
    # From here on each child is a program of its own.
    status = 0
    try:
        exec(*become(request))
    except SystemExit as ended:
        if not isinstance(ended.code, int):
            raise
        status = ended.code
    if threading.active_count() == 1:
        end_soon(status)
    sys.exit(status)
