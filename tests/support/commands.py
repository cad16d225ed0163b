"""Commands under a real supervisor: started, ended, and looked for afterwards."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from reconcile.core.work.commands.supervision import Ended, Output, ProgressLine, Spec, Supervised
from reconcile.core.work.commands.supervision.supervisor import processes

SOON = 15.0
"""Seconds after which what is waited for is taken not to come."""

STAMPS = "while read now idle < /proc/uptime; do echo $now; done >> {sink}"
"""A shell that leaves readings of `CLOCK_BOOTTIME` in a file, as fast as it can."""

_numbers = count()


def boot() -> float:
    """`CLOCK_BOOTTIME` in seconds."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def spec_of(
    *argv: str, kill_after: float = 5.0, cwd: str | Path = "/", env: dict[str, str] | None = None
) -> Spec:
    """A command of a run of its own."""
    token = f"{os.getpid():016x}{next(_numbers):016x}"
    env = {"PATH": os.environ["PATH"], **(env or {})}
    return Spec(argv, str(cwd), env, kill_after, run=f"run{token}", holder=token)


def shell(script: str, kill_after: float = 5.0) -> Spec:
    """A shell script, as a command."""
    return spec_of("sh", "-c", script, kill_after=kill_after)


class Heard:
    """All that a command has told."""

    def __init__(self) -> None:
        self.output = b""
        self.lines: list[ProgressLine] = []
        self.ended: Ended | None = None

    def listen(self, command: Supervised, until: Callable[[Heard], bool]) -> None:
        """Until that is so, or the command has ended."""
        limit = time.monotonic() + SOON
        while self.ended is None and not until(self):
            assert time.monotonic() < limit, f"heard only {self.output!r} {self.lines}"
            for event in command.events(0.1):
                if isinstance(event, Output):
                    self.output += event.data
                elif isinstance(event, ProgressLine):
                    self.lines.append(event)
                else:
                    self.ended = event


@contextmanager
def supervised(spec: Spec, ttl: float = 60.0) -> Iterator[Supervised]:
    """The command, begun; nothing of it is left behind."""
    command = Supervised(spec, boot() + ttl)
    try:
        yield command
    finally:
        command.close()
        assert living(spec) == []


def run(spec: Spec, ttl: float = 60.0) -> tuple[Ended, Heard]:
    """The command, to its end."""
    heard = Heard()
    with supervised(spec, ttl) as command:
        heard.listen(command, lambda heard: False)
    assert heard.ended is not None
    return heard.ended, heard


def living(spec: Spec) -> list[str]:
    """Whoever belongs to that command, its supervisor too."""
    mark = f"{spec.holder}/".encode()
    return [
        f"{one.pid} {one.name}"
        for one in processes.everyone()
        if not one.has_ended and processes.bears(one.pid, mark)
    ]


def wait_for(is_so: Callable[[], object], what: str) -> None:
    """Poll, with a bound."""
    limit = time.monotonic() + SOON
    while not is_so():
        assert time.monotonic() < limit, f"{what} did not come"
        time.sleep(0.01)


class Holder:
    """A process that holds a command and extends its deadline, until it is stopped or killed."""

    def __init__(
        self, spec: Spec, window: float, folder: Path, listens: bool, group: Path | None
    ) -> None:
        self._told = folder / "deadline"
        self.spec = spec
        self.pid = os.fork()
        if self.pid == 0:
            try:
                if group is not None:
                    (group / "cgroup.procs").write_text("0")
                self._hold(window, listens)
            finally:
                os._exit(1)

    def _hold(self, window: float, listens: bool) -> None:
        until = self._tell(window)
        command = Supervised(self.spec, until)
        while True:
            renewed = boot() + window / 4
            while boot() < renewed:
                if listens:
                    list(command.events(max(0.0, renewed - boot())))
                else:
                    time.sleep(0.05)
            command.extend(self._tell(window))

    def _tell(self, window: float) -> float:
        until = boot() + window
        self._told.write_text(repr(until))  # before it is sent: what was sent last is not later
        return until

    @property
    def deadline(self) -> float:
        """The last that it sent, or was about to."""
        return float(self._told.read_text())

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def end(self) -> None:
        """SIGKILL, and no zombie left."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


@contextmanager
def held(
    spec: Spec, window: float, folder: Path, *, listens: bool = True, group: Path | None = None
) -> Iterator[Holder]:
    """A holder, in a control group, that is no more afterwards."""
    holder = Holder(spec, window, folder, listens, group)
    try:
        yield holder
    finally:
        holder.end()
        wait_for(lambda: not living(spec), "the end of all processes")
