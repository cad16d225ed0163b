"""Calls the command line in-process and shows what a user would see.

A test either hands in what an operation answers, to look at texts and exit statuses alone,
or leaves the operations as they are.
"""

from __future__ import annotations

import io
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reconcile.cli.environment import Environment
from reconcile.cli.main import main
from reconcile.core.operations import by_hand, interventions, overview, rerunning, trigger

from .fakes import Counting, FakeClock, FakeHost, NoSignal, holder

if TYPE_CHECKING:
    import pytest

    from reconcile.core.events import Report, RunReport
    from reconcile.core.status import StatusReport

CONFIG = """
[jobs.entitlements]
schedule = "30 2 * * *"
source = "exports/{date}.csv"
target = "app.db"
"""


@dataclass(frozen=True)
class Shown:
    """What a command line showed, and the requests its operation was given."""

    argv: Sequence[str]
    code: int
    data: str
    words: str
    requests: Sequence[Any] = ()

    def __str__(self) -> str:
        """One block: the command, standard output, standard error after `2>`, the status."""
        lines = [f"$ reconcile {shlex.join(self.argv)}".rstrip()]
        lines += self.data.splitlines()
        lines += [f"2> {line}".rstrip() for line in self.words.splitlines()]
        return "\n".join([*lines, f"exit {self.code}"]) + "\n"


class Stream(io.StringIO):
    """A stream that says how its letters are written, as real ones do."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:
        return self._encoding


@dataclass
class Cli:
    """A user at `folder`. `terminal` says that all three streams are one."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    clock: FakeClock = field(default_factory=FakeClock)
    stop: NoSignal = field(default_factory=NoSignal)
    terminal: bool = False
    data_into_pipe: bool = False
    journald: bool = False
    width: int = 80
    encoding: str = "utf-8"
    environ: Mapping[str, str] = field(default_factory=dict)
    typed: str = ""
    program: str = "reconcile"
    installation: tuple[Path, ...] = (Path("/opt/reconcile/bin/reconcile"), Path("/opt/reconcile"))
    ahead: timedelta = timedelta()
    zone: str = "UTC"
    requests: list[Any] = field(default_factory=list)
    calls: int = 0

    def configure(self, text: str = CONFIG) -> Path:
        path = self.folder / "reconcile.toml"
        path.write_text(text)
        return path

    def __call__(self, *argv: str) -> Shown:
        out, err = Stream(self.encoding), Stream(self.encoding)
        self.requests.clear()
        self.calls += 1
        env = Environment(
            stdin=io.StringIO(self.typed),
            stdout=out,
            stderr=err,
            environ=self.environ,
            cwd=self.folder,
            clock=self.clock,
            entropy=Counting(f"token-{self.calls}"),
            host=FakeHost(holder("a")),
            stop=self.stop,
            login="svc-rec",
            state_folder=self.folder / "state",
            stdin_is_terminal=self.terminal,
            stdout_is_terminal=self.terminal and not self.data_into_pipe,
            stderr_is_terminal=self.terminal,
            journald=self.journald,
            width=self.width,
            program=self.program,
            installation=self.installation,
            ahead=self.ahead,
            zone=self.zone,
        )
        code = main(argv, env)
        return Shown(argv, code, out.getvalue(), err.getvalue(), tuple(self.requests))

    def run_answers(self, answer: RunReport, *reports: Report, steps: Sequence[str] = ()) -> None:
        """Have `run` report these, pass those steps, and achieve the answer."""
        self._replace("run", self._operation(answer, reports, steps))

    def resume_answers(self, *answers: RunReport) -> None:
        """Have `resume` achieve these."""
        self._replace("resume", self._operation(answers, (), ()))

    def act_answers(self, name: str, answer: Any) -> None:
        """Have `rerun`, `skip` or `stop` achieve this."""
        self._replace(name, self._operation(answer, (), ()))

    def status_answers(self, answer: StatusReport) -> None:
        """Have `status` find this."""

        def status(app: Any, *args: Any, **options: Any) -> StatusReport:
            self.requests.append((*args, options))
            return answer

        self._replace("status", status)

    def fails_with(self, name: str, error: BaseException) -> None:
        """Have an operation raise."""

        def fail(*args: Any, **options: Any) -> None:
            raise error

        self._replace(name, fail)

    def _operation(
        self, answer: Any, reports: Sequence[Report], steps: Sequence[str]
    ) -> Callable[..., Any]:
        def operation(app: Any, request: Any) -> Any:
            self.requests.append(request)
            for step in steps:
                app.runtime.reached(step)
            for report in reports:
                app.runtime.report(report)
            return answer

        return operation

    def _replace(self, name: str, operation: Callable[..., Any]) -> None:
        self.configure()
        modules = {"run": trigger, "resume": by_hand, "status": overview, "rerun": rerunning}
        module = modules.get(name, interventions)
        self.monkeypatch.setattr(module, name, operation)
