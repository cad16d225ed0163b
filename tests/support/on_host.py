"""Runs the command line on a host of `support/hosts.py`.

    python on_host.py PID FILE SPEC ARGV…

PID is the host's first process. FILE is told the pid that this one knows the program by, which
on that host has another. SPEC is what `stepper.py` takes, or empty.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1


def enter(*namespaces: int) -> None:
    """Be where somebody else is, by descriptors of /proc/PID/ns."""
    for namespace in namespaces:
        if LIBC.setns(namespace, 0) != 0:
            raise OSError(ctypes.get_errno(), "setns")


def end_as(status: int) -> None:
    """End in the way that a child did."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


def main(first: str, told: str, spec: str, *argv: str) -> None:
    """Go there, and be the program."""
    here, there = Path("/proc/self/ns"), Path("/proc", first, "ns")
    names = ["pid", "uts", "mnt"]
    if (here / "user").readlink() != (there / "user").readlink():
        names.insert(0, "user")  # which gives the right to enter the others
    *before, uts, mounts = [os.open(there / name, os.O_RDONLY) for name in names]
    enter(*before)
    pid = os.fork()  # only a child is in the other process namespace
    if pid:
        Path(told).write_text(f"{pid}\n")
        end_as(os.waitpid(pid, 0)[1])
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    folder = Path.cwd()
    enter(uts, mounts)
    os.chdir(folder)
    os.closerange(uts, mounts + 1)
    if spec:
        from stepper import install

        install(spec)
    from reconcile.cli.main import entry

    sys.argv = ["reconcile", *argv]
    entry()


if __name__ == "__main__":
    main(*sys.argv[1:])
