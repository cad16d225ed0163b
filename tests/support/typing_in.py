"""Somebody who types into a real shell on a terminal of his own, and presses TAB."""

from __future__ import annotations

import os
import pty
import select
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

PATIENCE = 60.0
_TO_BEGIN, _TO_END = b"\x01", b"\x05"


class Typist:
    """A shell on a pseudo-terminal. What becomes of a line goes into a file, for on the terminal
    it stands among all that the shell draws."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:  # another process from here on
            os.chdir(cwd)
            os.execvpe(argv[0], list(argv), dict(env))
        self._lines = cwd / "typed"
        self._lines.touch()
        self._count = 0
        self.shown = b""
        """All that the terminal has shown."""

    def do(self, command: str) -> None:
        """A whole line, carried out."""
        self._type(f"{command}; echo done >>typed\n".encode())
        assert self._next() == "done", self.shown

    def completed(self, text: str) -> str:
        """What TAB makes of a line, which is not carried out."""
        self._type(text.encode() + b"\t")
        self._type(_TO_BEGIN + b"echo '" + _TO_END + b"' >>typed\n")
        return self._next()

    def close(self) -> None:
        """End the shell."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._terminal)

    def _type(self, text: bytes) -> None:
        os.write(self._terminal, text)

    def _next(self) -> str:
        """The next line of the file; what the shell shows is read meanwhile, or it would stop."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            lines = self._lines.read_text().split("\n")
            if len(lines) > self._count + 1:
                self._count += 1
                return lines[self._count - 1]
            if select.select([self._terminal], [], [], 0.02)[0]:
                self.shown += os.read(self._terminal, 65536)
        raise AssertionError(f"no line; the terminal shows {self.shown!r}")
