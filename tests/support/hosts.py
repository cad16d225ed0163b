"""Hosts on this machine: each with a name, a machine id, a boot id and processes of its own.

A host is a UTS, a PID and a mount namespace, held open by a first process that ends with the
test's; all others of that host end with it. They share network and file systems, as hosts do
that see the same servers and the same disk, and the clock.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from .fakes import eventually

if TYPE_CHECKING:
    from .scene import Scene

ON_HOST = Path(__file__).with_name("on_host.py")
MADE = """\
set -e
read -r pid others </proc/self/stat
mount -t proc proc /proc
hostname "$1"
mount --bind "$2" /etc/machine-id
mount --bind "$3" /proc/sys/kernel/random/boot_id
echo "$pid"
exec cat
"""


class Host:
    """One host, until `close`. `folder` is where its identity is."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        ids = []
        for kind in ("machine", "boot"):
            path = folder / f"{name}-{kind}"
            path.write_text(f"{uuid4()}\n")
            ids.append(str(path))
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        spaces = ["--uts", "--mount", "--pid", "--fork", *user]
        self._first = subprocess.Popen(
            ["unshare", *spaces, "sh", "-c", MADE, "sh", name, *ids],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._first.stdout is not None
        self._folder = folder
        self._launched: list[Onto] = []
        self.pid = self._first.stdout.readline().strip()
        assert self.pid, "a host could not be made: it takes namespaces"

    def launch(self, scene: Scene, *argv: str, step: str = "") -> Onto:
        """Start a command there, in the scene's folder."""
        told = self._folder / f"{self.name}-{uuid4()}.pid"
        command = [sys.executable, str(ON_HOST), self.pid, str(told), step, *argv]
        self._launched.append(Onto(scene.launch(command), told))
        return self._launched[-1]

    def close(self) -> None:
        """Switch it off."""
        assert self._first.stdin is not None
        self._first.stdin.close()
        # It does not end before all that ended there has been waited for. Whose parent was
        # killed is ours, as `support/forks.py` has it.
        for one in self._launched:
            with suppress(ChildProcessError, FileNotFoundError):
                os.waitpid(int(one.told.read_text()), 0)
        assert self._first.stdout is not None
        self._first.stdout.close()
        assert self._first.wait() == 0


class Onto:
    """A command on a host. `process` is its parent on this side, which ends as it does."""

    def __init__(self, process: subprocess.Popen[str], told: Path) -> None:
        self.process = process
        self.told = told

    @property
    def pid(self) -> int:
        """What the command itself is known by on this side."""
        eventually(lambda: self.told.exists() and "\n" in self.told.read_text(), "it is started")
        return int(self.told.read_text())

    def send_signal(self, number: signal.Signals) -> None:
        """To the command itself."""
        os.kill(self.pid, number)

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None
