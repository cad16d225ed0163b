"""What a command shows to each kind of reader, as text that can be kept and compared.

A `Stage` is a folder with a job, on a clock, a host and a randomness of the test's own, so
that a screen is the same on each machine and each day. Only the folder's name is replaced
afterwards: it is as long as the name shown in its place, so that lines break alike.

A screen is what is left on a terminal when the command has ended: `settled` follows the
cursor of the progress bar. Escape codes of colours are kept, shown as `␛`.
"""

from __future__ import annotations

import io
import re
import shlex
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from reconcile.cli.environment import Environment
from reconcile.cli.main import main
from reconcile.cli.render.watcher import AnyWatcher
from reconcile.core.model import Holder

from .cli import Stream
from .fakes import Counting, FakeClock, FakeHost, NoSignal

SHOWN_AS = "/var/lib/reconcile"
BEGIN = datetime(2026, 11, 27, 2, 30, 4, tzinfo=UTC)
PACE = 0.4
"""Seconds that pass with each step of a run."""
ONE = Holder("db1", "m1", "b1", "pid:[1]", 4711, 1, "one", "svc-rec")
OTHER = Holder("db1", "m1", "b1", "pid:[1]", 5102, 1, "other", "svc-rec")
"""Another process of the same host: a SQLite store has one."""


@dataclass(frozen=True)
class Eye:
    """A kind of reader. `options` are put before the command."""

    name: str
    terminal: bool = False
    journald: bool = False
    environ: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()


TERMINAL = Eye("terminal", terminal=True, environ=(("TERM", "xterm-256color"),))
EYES = (
    TERMINAL,
    Eye("terminal, no colour", terminal=True, environ=(("NO_COLOR", "1"),)),
    Eye("pipe"),
    Eye("cron, -q", options=("-q",)),
    Eye("journald", journald=True),
    Eye("--json", options=("--json",)),
)


@dataclass(frozen=True)
class Screen:
    """What one call showed: on standard output, on standard error, and as they came."""

    argv: Sequence[str]
    code: int
    data: str
    words: str
    parts: Sequence[tuple[str, str]]

    def __str__(self) -> str:
        """The command, all in the order it came, standard error after `2> `, the status."""
        lines = [f"$ {shlex.join(['reconcile', *self.argv])}"]
        for stream, parts in groupby(self.parts, key=lambda part: part[0]):
            text = settled("".join(text for _, text in parts))
            lines += [f"{stream}{line}".rstrip() for line in text.splitlines()]
        return "\n".join([*lines, f"exit {self.code}"]).replace("\x1b", "␛") + "\n"


class _Stream(Stream):
    """A stream that also notes when it was written to, among others."""

    def __init__(self, mark: str, parts: list[tuple[str, str]]) -> None:
        super().__init__("utf-8")
        self._mark, self._parts = mark, parts

    def write(self, text: str) -> int:
        self._parts.append((self._mark, text))
        return super().write(text)


class Moving(FakeClock):
    """Passes by itself while the working thread waits for it."""

    def wait(self, seconds: float, wake: threading.Event) -> bool:
        if threading.current_thread() is not threading.main_thread():
            return super().wait(seconds, wake)
        self.advance(seconds)
        return wake.is_set()


Hook = Callable[["Stage"], None]


@dataclass
class Stage:
    """A folder, and who calls the command there: `holder`, on a host that finds the holders
    in `dead` to be dead. `hooks` are called when a run passes a step for the n-th time."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    clock: FakeClock = field(default_factory=lambda: Moving(BEGIN))
    holder: Holder = ONE
    dead: frozenset[str] = frozenset()
    login: str = "alice"
    eye: Eye = EYES[2]
    hooks: dict[tuple[str, int], Hook] = field(default_factory=dict)
    stop: NoSignal = field(default_factory=NoSignal)
    typed: str = ""
    calls: list[int] = field(default_factory=lambda: [0])
    """How many there were in this folder, so that no two name anything alike."""
    kept: str = ""
    """What the preparation of a scene wants to know later."""
    seen: io.StringIO = field(default_factory=io.StringIO)
    """Standard error of the newest call."""

    def __call__(self, *argv: str) -> Screen:
        """Call the command as this stage's eye sees it."""
        self.calls[0] += 1
        parts: list[tuple[str, str]] = []
        out, err = _Stream("", parts), _Stream("2> ", parts)
        self.seen = err
        eye = self.eye
        env = Environment(
            stdin=io.StringIO(self.typed),
            stdout=out,
            stderr=err,
            environ=dict(eye.environ),
            cwd=self.folder,
            clock=self.clock,
            entropy=Counting(f"{self.holder.token}-{self.calls[0]}"),
            host=FakeHost(self.holder, dead=set(self.dead)),
            stop=self.stop,
            login=self.login,
            state_folder=self.folder / "state",
            stdin_is_terminal=eye.terminal,
            stdout_is_terminal=eye.terminal,
            stderr_is_terminal=eye.terminal,
            journald=eye.journald,
        )
        passed: dict[str, int] = {}
        hooks = dict(self.hooks)

        def reached(watcher: Any, step: str) -> None:
            del watcher
            self.clock.advance(PACE)
            passed[step] = passed.get(step, 0) + 1
            hook = hooks.get((step, passed[step]))
            if hook is not None:
                hook(self)

        full = [*eye.options, *argv]
        with self.monkeypatch.context() as patch:
            patch.setattr(AnyWatcher, "reached", reached)
            code = main(full, env)
        named = [(mark, self.named(text)) for mark, text in parts]
        texts = self.named(out.getvalue()), self.named(err.getvalue())
        return Screen(full, code, *texts, named)

    def named(self, text: str) -> str:
        """The text with the folder's name for readers."""
        return text.replace(str(self.folder), SHOWN_AS)

    def elsewhere(self, **changes: Any) -> Stage:
        """Another caller in the same folder, whom nobody looks at."""
        return replace(self, **{"hooks": {}, "eye": EYES[2], "stop": NoSignal(), **changes})

    def killed_at(self, step: str, count: int, *argv: str) -> None:
        """A run that is gone at that step and has given nothing back."""

        def die(stage: Stage) -> None:
            del stage
            raise KeyboardInterrupt

        other = self.elsewhere(hooks={(step, count): die})
        assert other(*argv).code == 130

    def day(self, day: int, hour: int = 2, minute: int = 30, second: int = 4) -> None:
        """Let it be that time of November 2026, or later where it is."""
        at = datetime(2026, 11, day, hour, minute, second, tzinfo=UTC)
        self.clock.advance(max(0.0, (at - self.clock.now()).total_seconds()))


def new_folder() -> Path:
    """An empty folder in memory, whose name is as long as `SHOWN_AS`."""
    folder = Path(tempfile.mkdtemp(prefix="s", dir="/dev/shm"))
    assert len(str(folder)) == len(SHOWN_AS), folder
    return folder


@dataclass
class Keep:
    """A stage as it is, to be put up again."""

    stage: Stage
    copy: Path

    @classmethod
    def of(cls, stage: Stage, copy: Path) -> Keep:
        """Remember it; `copy` is a folder of that name that is not there yet."""
        shutil.copytree(stage.folder, copy)
        return cls(stage, copy)

    def again(self, eye: Eye) -> Stage:
        """The stage as it was, with its clock, for another eye."""
        shutil.rmtree(self.stage.folder)
        shutil.copytree(self.copy, self.stage.folder)
        clock = Moving(BEGIN)
        clock.advance(self.stage.clock.boot() - clock.boot())
        return replace(self.stage, clock=clock, eye=eye, stop=NoSignal(), calls=[*self.stage.calls])


_CONTROL = re.compile(r"\x1b\[\?25[lh]|\x1b\[(\d*)([AK])|[\r\n]")


def settled(text: str) -> str:
    """What is left of a text on a terminal where the cursor went up and lines were erased."""
    lines, at, column = [""], 0, 0
    position, drawn = 0, False

    def put(part: str) -> None:
        nonlocal column
        if part:
            lines[at] = part if column == 0 else lines[at] + part
            column += len(part)

    for match in _CONTROL.finditer(text):
        put(text[position : match.start()])
        position = match.end()
        if match[0] == "\n":
            at, column = at + 1, 0
            if at == len(lines):
                lines.append("")
        elif match[0] == "\r":
            column = 0
        elif match[2] == "A":
            drawn = True
            at = max(0, at - int(match[1] or 1))
        elif match[2] == "K":
            lines[at], column = "", 0
    put(text[position:])
    if not lines[-1]:
        lines.pop()
    while len(lines) > 1 and drawn and not lines[-1]:
        lines.pop()
    return "".join(f"{line}\n" for line in lines)
