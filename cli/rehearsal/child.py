"""The entry of a process that is rehearsed with: the command line, which dies with its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from ..main import entry

CALL = "from reconcile.cli.rehearsal.child import child; child()"
_PR_SET_PDEATHSIG = 1


def child() -> None:
    """`argv[1]` is the pid of the parent, the rest is for `reconcile`."""
    parent = int(sys.argv.pop(1))
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)  # it was gone before we asked
    entry()
