"""A process of the drill that says one line at a time."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
from threading import Thread
from typing import TYPE_CHECKING

from ..host import read_process
from .child import CALL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

ONE_LINE = 4096
"""Bytes: one page, the smallest pipe there is. In packet mode each write takes a page."""
_STEP = " step "
_STOPPED = "Tt"


class ActorProcess:
    """Implements `core.operations.drill.stage.Actor`."""

    def __init__(self, argv: Sequence[str], folder: Path, environ: Mapping[str, str]) -> None:
        self._reader, writer = os.pipe2(os.O_CLOEXEC | os.O_DIRECT)
        try:
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, ONE_LINE)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", CALL, str(os.getpid()), *argv],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=writer,
                cwd=folder,
                env=dict(environ),
                start_new_session=True,  # a Ctrl-C is the drill's, which ends them itself
            )
        except BaseException:
            os.close(self._reader)
            raise
        finally:
            os.close(writer)
        self._lines: list[str] = []
        self._steps: list[str] = []
        self._free: Thread | None = None
        self._at_end = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def steps(self) -> Sequence[str]:
        return self._steps

    def hear(self, seconds: float) -> bool:
        """Take one line from the pipe, waiting so long for it; False where none came."""
        if self._at_end or not select.select([self._reader], [], [], seconds)[0]:
            return False
        return self._take()

    def _take(self) -> bool:
        packet = os.read(self._reader, 1 << 16)
        if not packet:
            self._at_end = True
            return False
        for line in packet.decode("utf-8", "replace").splitlines():
            self._lines.append(line)
            _, mark, step = line.rpartition(_STEP)
            if mark:
                self._steps.append(step)
        return True

    def let_go(self) -> None:
        """Take whatever it says from now on, so that nothing stops it any more."""
        if self._free is None:
            self._free = Thread(target=self._take_all, daemon=True)
            self._free.start()

    def _take_all(self) -> None:
        while self._take():
            pass

    def freeze(self) -> None:
        """SIGSTOP, and see it stopped."""
        self._process.send_signal(signal.SIGSTOP)
        while self._process.poll() is None and read_process(self.pid).state not in _STOPPED:
            select.select([], [], [], 0.005)

    def thaw(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, and see it ended."""
        self._process.kill()
        self._process.wait()

    def ended(self) -> int | None:
        """Its exit status, negative for a signal; None while it lives. All its words are heard."""
        code = self._process.poll()
        if code is not None and self._free is not None:
            self._free.join()
        return code

    def last_words(self) -> str:
        """The last thing that it said, for a message."""
        plain = [line for line in self._lines if _STEP not in line and line.strip()]
        begins = [line for line in plain if not line[0].isspace()]
        return (begins or plain or ["it said nothing"])[-1].strip()

    def close(self) -> None:
        """End it, if it still lives, and free what it holds."""
        self.kill()
        if self._free is not None:
            self._free.join()
        os.close(self._reader)
