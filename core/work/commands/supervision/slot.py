"""The pipe for progress: it has room for one line, which stays in it until it has been dealt with.

A command writes that a step is done and goes on with the next. How far it may get before that line
is durable is how much is done again after a kill. An ordinary pipe takes thousands of lines. This
one is of packets, a page in all, and what is read from it is looked at (`tee`) and only taken out
when the next is asked for: so of two lines the second waits in the command's `write` until the
first is durable. When the holder is killed, and the command with it, the supervisor finds the
first still in the pipe and leaves it to the next run (`Spec.last_words`). So a kill costs at most
the one step whose line was not written yet.

Who opens the pipe anew, as `> /dev/fd/3` does in bash, writes no packets: what it writes is added
to the page while there is room. So no more is taken out than was looked at, or what came meanwhile
would be lost. Such a command may be ahead by as many lines as fit into the page.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
from contextlib import suppress

_PAGE = 4096
_PACKET = 1 << 16
_NONBLOCK = 2  # SPLICE_F_NONBLOCK


class Slot:
    """Both ends of it; `write_end` is the command's, and closed by whoever hands it over."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe2(os.O_CLOEXEC | os.O_DIRECT)
        fcntl.fcntl(self.write_end, fcntl.F_SETPIPE_SZ, _PAGE)
        os.set_blocking(self.read_end, False)
        self._copy = os.pipe()
        self._tee = ctypes.CDLL(None, use_errno=True).tee
        self._looked_at = 0
        """Bytes that are in it still, and were read."""

    def take_out(self) -> None:
        """What was read has been dealt with."""
        size, self._looked_at = self._looked_at, 0
        if size:
            with suppress(BlockingIOError):
                os.read(self.read_end, size)

    def read(self) -> bytes:
        """What is in it, which stays there; empty at its end. Raises `BlockingIOError`."""
        self.take_out()
        size = self._tee(self.read_end, self._copy[1], _PACKET, _NONBLOCK)
        if size < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        if size == 0:
            return b""
        self._looked_at = size
        return os.read(self._copy[0], size)

    def close(self) -> None:
        """Free it, but for the command's end."""
        for fd in (self.read_end, *self._copy):
            os.close(fd)
