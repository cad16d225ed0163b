"""What a command shows its run to: the port, and what all who show it share."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from ...core.events import IntervalReport, NotTold, Printed
from ...core.model import Outcome
from ..environment import OutputFailed
from .levels import DEBUG, INFO, WARNING
from .words import Style, stamp

if TYPE_CHECKING:
    from types import TracebackType

    from ...core.events import PlannedAnew, Report, RunReport, Started, Waits, Warned
    from ..options import Call
    from .printed import Passing

_IN_A_DRY_RUN = frozenset({Outcome.COMPLETED, Outcome.NEEDS_APPROVAL})


class Watcher(Protocol):
    """What a command shows its run to. A context manager: the terminal is left as it was."""

    def report(self, report: Report) -> None:
        """Something happened; called while work goes on."""
        ...

    def reached(self, step: str) -> None:
        """A named step was passed; shown with `-v`."""
        ...

    def finish(self, report: RunReport) -> None:
        """The end, with everything that was not shown before."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was."""
        ...

    def __enter__(self) -> Watcher: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None: ...


class AnyWatcher:
    """What all watchers share: steps under `-v`, and knowing what was told already."""

    def __init__(self, call: Call, *, dry_run: bool) -> None:
        self._dry_run = dry_run
        self._env = call.env
        self._verbose = call.options.verbose
        self._told: list[IntervalReport] = []
        self._style = self.style(call)
        self._passing: Passing | None = None

    def __enter__(self) -> Watcher:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the terminal as it was."""

    def style(self, call: Call) -> Style:
        """A file's style; mails are read at 80 columns."""
        return Style(program=call.options.program(call.env.program))

    def say(self, text: str, level: int = INFO) -> None:
        """Words for the user."""
        self._env.words(text, level)

    def reached(self, step: str) -> None:
        """Under `-v`, a dated line."""
        if self._verbose:
            self.say(f"{self.begin(None)}step {step}\n", DEBUG)

    def report(self, report: Report) -> None:
        """Tell each interval once, and whatever a kind of watcher wants to add."""
        if isinstance(report, Printed):
            self._printed(report)
        elif isinstance(report, IntervalReport):
            self._told.append(report)
            if self._passing is not None:
                self._passing.end()
            if not (self._dry_run and _is_found_dry(report)):
                self.interval(report)
        elif isinstance(report, NotTold):
            self.not_told(report)
        else:
            self.going_on(report)

    def finish(self, report: RunReport) -> None:
        """What was not told yet; then what the intervals do not explain."""
        self.close()
        for one in report.intervals:
            if one not in self._told:
                self.report(one)
        explained = {one.outcome for one in report.intervals}
        if report.intervals and report.outcome in explained | {Outcome.COMPLETED}:
            return
        if report.dry_run is None:
            self.whole(report)

    def _printed(self, report: Printed) -> None:
        if self._passing is None:
            from .printed import Passing

            self._passing = Passing(self.pass_on)
        self._passing.feed(report.data)

    def pass_on(self, text: str) -> None:
        """Lines that a command printed: they are data."""
        with suppress(OutputFailed):  # a reader that is gone must not end the work
            self._env.data(text)

    def begin(
        self,
        report: IntervalReport
        | NotTold
        | PlannedAnew
        | RunReport
        | Started
        | Waits
        | Warned
        | None,
    ) -> str:
        """The date that begins a line, in the store's time where there is one."""
        at = self._env.clock.now() if report is None else report.at
        return "" if self._env.journald else f"{stamp(at)} "

    def not_told(self, report: NotTold) -> None:
        """One line: it concerns whoever waits for an alert, and not the work."""
        self.close()
        self.say(f"{self.begin(report)}{report.job} warning: {report.text}\n", WARNING)

    def going_on(self, report: Report) -> None:
        """Something happened that is no outcome."""

    def interval(self, report: IntervalReport) -> None:
        """An interval has its outcome."""
        raise NotImplementedError

    def whole(self, report: RunReport) -> None:
        """The whole trigger has an outcome of its own."""
        raise NotImplementedError


def _is_found_dry(report: IntervalReport) -> bool:
    """Whether a dry run has looked at everything, so that what it found says it all."""
    left_out = report.outcome is Outcome.INCOMPLETE and bool(report.quarantined)
    return left_out or report.outcome in _IN_A_DRY_RUN
