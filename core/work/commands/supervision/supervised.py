"""The holder's side: starts a supervisor, tells it deadlines, and hears from the command."""

from __future__ import annotations

import marshal
import os
import select
import socket
import subprocess
import sys
from contextlib import suppress
from errno import ENOENT, ENOEXEC
from pathlib import Path
from shutil import which
from signal import SIGCONT
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

from .events import Ended, NotExecuted, Output, Process
from .lines import Lines
from .orphans import end_orphans, mark_of
from .slot import Slot
from .supervisor.processes import MARK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    from .events import Event, Spec, Why

SUPERVISOR = Path(__file__).parent / "supervisor" / "__main__.py"
"""Where its process begins, by path."""
_PROGRESS_FD = 3
_PART = 1 << 16
_MOST_AT_END = 64
"""Parts read of each pipe after the end: more than the kernel keeps in one, so that a survivor
that goes on writing is not read for ever."""
_ANSWERS_WITHIN = 5.0
"""Seconds, after the time for SIGKILL, in which a supervisor has to be done; else it is ended."""


class Supervised:
    """A command under a supervisor of its own. Implements `SupervisedCommand`.

    Nothing raises for a command that cannot be run: `Ended` says so.
    """

    def __init__(self, spec: Spec, deadline: float) -> None:
        """Begin it. `deadline` is the end of the trust window, a reading of `CLOCK_BOOTTIME` in
        seconds as `Clock.boot` gives it."""
        self._spec = spec
        self._lock = Lock()
        self._pipes: dict[int, Lines | None] = {}
        self._slot: Slot | None = None
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._ended: Ended | None = None
        self._is_told = False
        self._done_by: float | None = None
        try:
            self._begin(deadline)
        except OSError as error:
            self._free()
            said = f"no supervisor could be started: {error.strerror}"
            self._ended = _not_executed(NotExecuted("supervisor", error.errno or 0, said))

    # --- from any thread

    def extend(self, deadline: float) -> None:
        """See `SupervisedCommand.extend`."""
        self._send("extend", deadline)
        self._wake()

    def terminate(self) -> None:
        """See `SupervisedCommand.terminate`."""
        self._order("terminate", self._spec.kill_after)

    def kill(self) -> None:
        """See `SupervisedCommand.kill`."""
        self._order("kill", 0.0)

    def _order(self, order: str, after: float) -> None:
        by = monotonic() + after + _ANSWERS_WITHIN
        self._done_by = by if self._done_by is None else min(by, self._done_by)
        self._send(order, 0.0)
        self._wake()

    def _wake(self) -> None:
        """Should it have been stopped: else nobody learns that its command has ended."""
        with self._lock:
            if self._process is not None:
                self._process.send_signal(SIGCONT)

    def _send(self, order: str, value: float) -> None:
        with self._lock:
            if self._control is not None:
                # Full, because the supervisor is stopped: the deadlines that it has are earlier
                # ones, and an order that it does not follow is the end of it (`_done_by`).
                with suppress(OSError):
                    self._control.send(marshal.dumps((order, value)))

    # --- in the thread that made it

    def events(self, timeout: float) -> Iterator[Event]:
        """See `SupervisedCommand.events`."""
        if self._ended is None:
            yield from self._come(timeout)
        if self._ended is not None and not self._is_told:
            self._is_told = True
            yield from self._rest()
            yield self._ended

    def close(self) -> None:
        """See `SupervisedCommand.close`."""
        if self._ended is None:
            self.kill()
            while self._ended is None:
                for _ in self._come(1.0):
                    pass
        self._is_told = True
        self._free()

    def _begin(self, deadline: float) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = ours
        ours.setblocking(False)
        out, slot = os.pipe(), Slot()
        os.set_blocking(out[0], False)
        self._pipes = {out[0]: None, slot.read_end: Lines()}
        self._slot = slot
        given = [theirs.fileno(), *out, slot.read_end, slot.write_end]
        given_on_stdin = packed(self._spec, deadline)
        try:
            self._process = subprocess.Popen(
                [
                    _python(),
                    "-I",
                    "-S",
                    SUPERVISOR,
                    mark_of(self._spec.holder, self._spec.run),
                    str(os.getpid()),
                    *map(str, given),
                ],
                cwd="/",
                stdin=given_on_stdin,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=given,
                start_new_session=True,
            )
        finally:
            theirs.close()
            for fd in (given_on_stdin, out[1], slot.write_end):
                os.close(fd)

    def _come(self, timeout: float) -> Iterator[Event]:
        """What is there, once something is; `_ended` when that was the end. Who asks has dealt
        with the line of progress that was there before."""
        assert self._control is not None
        if self._slot is not None:
            self._slot.take_out()
        poll = select.poll()
        for fd in (self._control.fileno(), *self._pipes):
            poll.register(fd, select.POLLIN)
        if self._done_by is not None:
            timeout = min(timeout, max(0.0, self._done_by - monotonic()))
        ready = {fd for fd, _ in poll.poll(timeout * 1000)}
        for fd in ready & set(self._pipes):
            yield from self._read(fd)
        if self._control.fileno() in ready:
            self._hear(self._control)
        elif self._done_by is not None and monotonic() >= self._done_by:
            self._lost()

    def _read(self, fd: int) -> Iterator[Event]:
        lines = self._pipes[fd]
        try:
            slot = self._slot
            is_slot = slot is not None and fd == slot.read_end
            data = slot.read() if slot is not None and is_slot else os.read(fd, _PART)
        except BlockingIOError:
            return
        if not data:  # no command has it any more; its end is still to come
            self._shut(fd)
            if lines is not None:
                yield from lines.last()
        elif lines is None:
            yield Output(data)
        else:
            yield from lines.of(data)

    def _hear(self, control: socket.socket) -> None:
        try:
            said = control.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        if not said:
            self._lost()
            return
        kind, *values = marshal.loads(said)
        if kind == "defect":
            self._free()
            self._ended = _not_executed(None)
            raise RuntimeError(f"the supervisor of {self._spec.argv[0]} failed:\n{values[0]}")
        self._ended = self._end(*values)

    def _end(
        self,
        status: int | None,
        signal: int | None,
        failure: tuple[Literal["cwd", "program", "supervisor"], int] | None,
        why: Why,
        leftovers: list[tuple[int, str]],
        survivors: list[tuple[int, str, str]],
        shortened: float | None,
    ) -> Ended:
        return Ended(
            status=status,
            signal=signal,
            not_executed=NotExecuted(*failure, _in_words(self._spec, *failure))
            if failure
            else None,
            why=why,
            leftovers=tuple(Process(*one) for one in leftovers),
            survivors=tuple(Process(*one) for one in survivors),
            shortened=shortened,
        )

    def _lost(self) -> None:
        """The supervisor is gone, or does not do what it has to: end it, and then what it leaves.
        Its command was killed with it; what that has started is found by what it inherited."""
        self._end_supervisor(0.0)
        survivors = end_orphans(self._spec.holder, self._spec.run)
        self._ended = Ended(None, None, None, "supervisor", survivors=survivors)

    def _rest(self) -> Iterator[Event]:
        """What was written before the end."""
        for fd in list(self._pipes):
            for _ in range(_MOST_AT_END):
                came = list(self._read(fd)) if fd in self._pipes else []
                yield from came
                if fd not in self._pipes or not came:
                    break
            lines = self._pipes.get(fd)
            if lines is not None:
                yield from lines.last()

    def _free(self) -> None:
        with self._lock:
            control, self._control = self._control, None
        if control is not None:
            control.close()
        for fd in list(self._pipes):
            self._shut(fd)
        self._end_supervisor(_ANSWERS_WITHIN)

    def _shut(self, fd: int) -> None:
        del self._pipes[fd]
        if self._slot is not None and fd == self._slot.read_end:
            self._slot.close()
            self._slot = None
        else:
            os.close(fd)

    def _end_supervisor(self, patience: float) -> None:
        if self._process is None:
            return
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_ANSWERS_WITHIN)


def packed(spec: Spec, deadline: float) -> int:
    """All that the command is given, as a file without a name: a pipe might have to be waited
    for, and an argument is there for all to see."""
    mark = f"{spec.env.get(MARK, '')} {mark_of(spec.holder, spec.run)}".strip()
    env = {**spec.env, MARK: mark, "RECONCILE_PROGRESS_FD": str(_PROGRESS_FD)}
    file = os.memfd_create("reconcile-command")
    with open(file, "wb", closefd=False) as memory:
        marshal.dump(
            (
                [os.fsencode(one) for one in spec.argv],
                os.fsencode(spec.cwd),
                {os.fsencode(name): os.fsencode(value) for name, value in env.items()},
                float(spec.kill_after),
                float(deadline),
                os.fsencode(spec.last_words),
            ),
            memory,
        )
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _python() -> str:
    """The interpreter; where another program has Python in it, the one that belongs to it."""
    if sys.executable and "python" in Path(sys.executable).name:
        return sys.executable
    return str(Path(sys.exec_prefix, "bin", "python3"))


def _not_executed(why: NotExecuted | None) -> Ended:
    return Ended(None, None, why, "itself" if why else "supervisor")


def _in_words(spec: Spec, what: str, number: int) -> str:
    """Why there is no program, and of what path."""
    reason = os.strerror(number)
    if what == "supervisor":
        return f"no process could be started: {reason}"
    if what == "cwd":
        return f"its folder {spec.cwd}: {reason}"
    program = spec.argv[0]
    path = Path(spec.cwd, program) if "/" in program else which(program, path=spec.env.get("PATH"))
    if number == ENOENT and path is not None and Path(path).exists():
        return f"{program}: the interpreter that its first line names is not there"
    if number == ENOEXEC:
        return f"{program}: neither a program nor a script that begins with #!"
    return f"{program}: {reason}"
