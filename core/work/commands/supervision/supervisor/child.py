"""The command's own process, from fork to exec."""

from __future__ import annotations

import marshal
import os
import signal

from . import kernel

PROGRESS_FD = 3
_REPORT_FD = 4
"""Closed by a successful exec; else tells why there was none."""


def start(
    argv: list[bytes], cwd: bytes, env: dict[bytes, bytes], out: int, progress: int, join: int
) -> tuple[int, int]:
    """Its pid, and a descriptor that ends when the program has begun; before that, what was in
    the way may be read from it (`failure`). `join` is a descriptor of the control group's
    `cgroup.procs`, -1 for none. Raises OSError where there can be no process."""
    report, theirs = os.pipe()
    supervisor = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _become(argv, cwd, env, out, progress, join, theirs, supervisor)
        finally:
            os._exit(127)
    os.close(theirs)
    os.set_blocking(report, False)
    return pid, report


def failure(said: bytes) -> tuple[str, int]:
    """What failed ("cwd" or "program"), and the number of the error."""
    what, number = marshal.loads(said)
    return what, number


def _become(
    argv: list[bytes],
    cwd: bytes,
    env: dict[bytes, bytes],
    out: int,
    progress: int,
    join: int,
    report: int,
    supervisor: int,
) -> None:
    kernel.signal_when_parent_ends(signal.SIGKILL)
    if os.getppid() != supervisor:
        return
    os.setpgid(0, 0)
    if join >= 0:
        os.write(join, b"0")
    for catchable in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(catchable, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    # Above all numbers that are given out below, so that none is written over before it is moved.
    streams = [os.open(os.devnull, os.O_RDONLY), out, out, progress, report]
    for number, stream in enumerate([_high(stream) for stream in streams]):
        os.dup2(stream, number)
    os.set_inheritable(_REPORT_FD, False)
    os.closerange(_REPORT_FD + 1, os.sysconf("SC_OPEN_MAX"))
    what = "cwd"
    try:
        os.chdir(cwd)
        what = "program"
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        os.write(_REPORT_FD, marshal.dumps((what, error.errno or 0)))
    except ValueError:  # a NUL byte
        os.write(_REPORT_FD, marshal.dumps((what, 22)))


def _high(stream: int) -> int:
    import fcntl

    return fcntl.fcntl(stream, fcntl.F_DUPFD, _REPORT_FD + 1)
