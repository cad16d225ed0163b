"""Jobs run at the same time, each by a process of its own that is this same command.

What a child says on standard error is passed on line by line, so that lines of two jobs never
mix; its standard output whole, when it ends, but for what is too long for that. How its run ended
comes as one JSON object on a pipe of its own, because an exit status does not say how old the
interval is that decided it.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from .delivery.manager import without_manager
from .environment import OutputFailed, real_environment
from .exit_codes import ExitCode
from .main import main
from .render.levels import ERROR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .environment import Environment

CHILD = "from reconcile.cli.fleet import child; child()"
MOST_KEPT = 1 << 20
"""Bytes of one job's standard output that wait for its end; of more, whole lines are passed on."""
POLL_SECONDS = 0.2
"""How often it is looked whether a signal came."""


class Ended(NamedTuple):
    """How the run of one job ended. `told` is what `run --json` prints of it; None where it was
    refused, is gone without a word, or was never begun."""

    job: str
    code: int
    data: str = ""
    told: dict[str, Any] | None = None


@dataclass
class _Child:
    job: str
    process: subprocess.Popen[bytes]
    told: IO[bytes]
    words: bytes = b""
    data: list[bytes] = field(default_factory=list)
    kept: int = 0
    report: list[bytes] = field(default_factory=list)
    open: int = 3


def child() -> None:
    """The entry of a child: the command line, with what only its parent knows before it."""
    given = json.loads(sys.argv.pop(1))

    def tell(text: str) -> None:
        with os.fdopen(given["pipe"], "wb") as pipe:
            pipe.write(text.encode())

    outside = real_environment()
    env = replace(outside, tell=tell, program=given["program"], journald=given["journald"])
    sys.exit(main(sys.argv[1:], env))


class Fleet:
    """Runs jobs, at most `most` at a time."""

    def __init__(self, env: Environment, argv: Sequence[str], most: int) -> None:
        """`argv` is the command line of a child, but for the job."""
        self._env = env
        self._argv = list(argv)
        self._most = most
        self._selector = selectors.DefaultSelector()
        self._children: list[_Child] = []
        self._signalled = False

    def run(self, jobs: Sequence[str]) -> list[Ended]:
        """Begin them in that order; how each ended, in that order. A signal is passed on, and no
        further job is begun."""
        waiting = list(jobs)
        ended: dict[str, Ended] = {}
        try:
            while waiting or self._children:
                while waiting and len(self._children) < self._most and not self._stops():
                    self._children.append(self._start(waiting.pop(0)))
                if not self._children:
                    break
                self._relay()
                for one in [one for one in self._children if not one.open]:
                    self._children.remove(one)
                    ended[one.job] = self._end(one)
        finally:
            self._selector.close()
        stopped = ExitCode.SIGINT if self._env.stop.reason == "SIGINT" else ExitCode.SIGTERM
        return [ended.get(job) or Ended(job, stopped) for job in jobs]

    def _stops(self) -> bool:
        return self._env.stop.reason is not None

    def _start(self, job: str) -> _Child:
        reader, writer = os.pipe()
        env = self._env
        given = {"pipe": writer, "program": env.program, "journald": env.journald}
        argv = [sys.executable, "-P", "-c", CHILD, json.dumps(given)]
        try:
            process = subprocess.Popen(
                [*argv, *self._argv, job],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=env.cwd,
                env=without_manager(env.environ),
                pass_fds=[writer],
                start_new_session=True,  # the terminal's Ctrl-C comes to us alone, and is passed on
            )
        finally:
            os.close(writer)
        one = _Child(job, process, os.fdopen(reader, "rb", buffering=0))
        assert process.stdout is not None
        assert process.stderr is not None
        for stream in (process.stdout, process.stderr, one.told):
            self._selector.register(stream, selectors.EVENT_READ, one)
        return one

    def _relay(self) -> None:
        if self._env.manager is not None:
            self._env.manager.alive()  # the children's leases end them where nothing moves
        for key, _ in self._selector.select(POLL_SECONDS):
            one: _Child = key.data
            some = os.read(key.fd, 1 << 16)
            if not some:
                self._selector.unregister(key.fileobj)
                one.open -= 1
            if key.fileobj is one.process.stderr:
                self._pass_on(one, some)
            elif key.fileobj is one.told:
                one.report.append(some)
            else:
                self._collect(one, some)
        if self._stops() and not self._signalled:
            self._signalled = True
            number = signal.SIGINT if self._env.stop.reason == "SIGINT" else signal.SIGTERM
            for one in self._children:
                one.process.send_signal(number)

    def _collect(self, one: _Child, some: bytes) -> None:
        """What is for standard output, until it is too much to be kept to the end."""
        one.data.append(some)
        one.kept += len(some)
        if one.kept > MOST_KEPT:
            head, mark, tail = b"".join(one.data).rpartition(b"\n")
            one.data, one.kept = [tail], len(tail)
            with suppress(OutputFailed):  # the jobs go on, and the end says it
                self._env.data((head + mark).decode("utf-8", "replace"))

    def _pass_on(self, one: _Child, some: bytes) -> None:
        """Whole lines; at the end what is left."""
        head, mark, tail = (one.words + some).rpartition(b"\n")
        one.words = tail
        lines = head + mark
        if not some and tail:
            lines, one.words = lines + tail + b"\n", b""
        self._env.words(lines.decode("utf-8", "replace"))

    def _end(self, one: _Child) -> Ended:
        code = one.process.wait()
        for stream in (one.process.stdout, one.process.stderr, one.told):
            assert stream is not None
            stream.close()
        text = b"".join(one.report)
        told: dict[str, Any] | None = json.loads(text) if text else None
        data = b"".join(one.data).decode("utf-8", "replace")
        if code < 0 and told is not None:
            code = told["exit"]  # it had done all it had to; a signal came while Python ended
        elif code < 0:
            self._env.words(
                f"{one.job} was killed by signal {-code}; the next trigger goes on\n", ERROR
            )
            code = ExitCode.FAILED
        return Ended(one.job, code, data, told)
