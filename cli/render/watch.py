"""Shows a run while it goes on, and what became of it, as the caller wants it.

One `Watcher` is chosen for each call: a terminal gets a bar and full texts, anything else
one line per outcome, `-q` only what is new and wrong, `--json` one object at the end.
Showing is never allowed to disturb the work: `Environment.words` does not raise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.events import (
    BackfillWaits,
    IntervalReport,
    NotTold,
    PlannedAnew,
    Progress,
    Started,
    Stopping,
    Waits,
    Warned,
)
from ...core.model import Outcome
from .levels import INFO, NOTICE, WARNING, level_of
from .watcher import AnyWatcher
from .words import Style, planned_anew, stamp, stopping, waits

if TYPE_CHECKING:
    from datetime import datetime

    from ...core.events import Report, RunReport
    from ..environment import Environment
    from ..options import Call
    from .progress import Bar
    from .watcher import Watcher

_WORTH_A_LINE = 60
"""Shorter waits, in seconds, are not told of in a log."""
_UNREMARKABLE = frozenset(
    {
        Outcome.COMPLETED,
        Outcome.NOTHING_DUE,
        Outcome.BUSY,
        Outcome.WAITING,
        Outcome.PAUSED,
        Outcome.OUT_OF_TIME,
    }
)


class Lines(AnyWatcher):
    """One line per outcome, dated unless the journal does that."""

    _waits_until: datetime | None = None

    def going_on(self, report: Report) -> None:
        """Only that a run began; progress is for terminals."""
        from . import lines

        if isinstance(report, Started):
            self.say(f"{self.begin(report)}{lines.started(report)}\n")
        elif isinstance(report, PlannedAnew):
            about = f"{report.job} {report.interval}"
            self.say(f"{self.begin(report)}{about} {planned_anew(report)}\n", NOTICE)
        elif isinstance(report, Stopping):
            about = f"{report.job} {report.interval}"
            self.say(f"{self.begin(None)}{about} {stopping(report)}\n", NOTICE)
        elif isinstance(report, Waits):
            self.say(f"{self.begin(report)}{report.job} {waits(report)}\n")
        elif isinstance(report, BackfillWaits):
            self._backfill_waits(report)
        elif isinstance(report, Warned):
            self.say(f"{self.begin(report)}{report.job} warning: {report.text}\n", WARNING)

    def _backfill_waits(self, report: BackfillWaits) -> None:
        """Once for each wait of a minute or more."""
        from .backfills import pauses

        until, number = report.until, report.view.backfill.record.number
        if until is None or (until - report.at).total_seconds() < _WORTH_A_LINE:
            return
        if until != self._waits_until:
            self._waits_until = until
            line = f"{report.job} {pauses(number, until, report.at, report.view.left)}"
            self.say(f"{stamp(report.at)} {line}\n" if not self._env.journald else f"{line}\n")

    def interval(self, report: IntervalReport) -> None:
        """One line."""
        from . import lines

        line = lines.interval(report, self._style, dry_run=self._dry_run)
        self.say(f"{self.begin(report)}{line}\n", level_of(report))

    def whole(self, report: RunReport) -> None:
        """One line."""
        from . import lines

        self.say(f"{self.begin(report)}{lines.run(report, self._style)}\n", level_of(report))


class Quiet(AnyWatcher):
    """Nothing but a failure that was not told for this interval before: cron mails it."""

    def going_on(self, report: Report) -> None:
        """Nothing but what somebody has to see to."""
        if isinstance(report, Warned) and report.urgent:
            self.say(f"{self.begin(report)}{report.job} warning: {report.text}\n")

    def not_told(self, report: NotTold) -> None:
        """Once: the mail may be the only way left."""
        if not report.known_before:
            super().not_told(report)

    def interval(self, report: IntervalReport) -> None:
        """In full, when it is new and wrong."""
        if report.outcome not in _UNREMARKABLE and not report.known_before:
            from . import outcomes

            told = outcomes.interval(report, self._style, dry_run=self._dry_run, quotes=True)
            self.say(told.text(self._style, before=self.begin(report), gap=" "), level_of(report))

    def pass_on(self, text: str) -> None:
        """Nothing: its last lines come with a failure, and all of it is in the log."""

    def whole(self, report: RunReport) -> None:
        """In full, when it is wrong."""
        if report.outcome not in _UNREMARKABLE:
            from . import outcomes

            told = outcomes.run(report, self._style)
            self.say(told.text(self._style, before=self.begin(report), gap=" "), level_of(report))


class Silent(AnyWatcher):
    """`--json`: the object at the end says it all."""

    def pass_on(self, text: str) -> None:
        """Not where the object goes."""
        self._env.words(text)

    def not_told(self, report: NotTold) -> None:
        """Nothing."""

    def interval(self, report: IntervalReport) -> None:
        """Nothing."""

    def whole(self, report: RunReport) -> None:
        """Nothing."""


class Terminal(AnyWatcher):
    """A bar while work goes on, and the full texts."""

    def __init__(self, call: Call, *, dry_run: bool) -> None:
        super().__init__(call, dry_run=dry_run)
        self._bar: Bar | None = None
        self._drawn = 0
        """So many lines of a countdown stand there."""

    def style(self, call: Call) -> Style:
        """That of standard error."""
        return style_of(call, terminal=True)

    def going_on(self, report: Report) -> None:
        """Move the bar; say what a person at a terminal has to know now."""
        from . import outcomes

        if isinstance(report, Progress):
            if self._bar is None:
                from .progress import Bar

                self._bar = Bar(self._env, self._style)
            self._bar.show(report)
        elif isinstance(report, Started):
            told = outcomes.started(report, self._style)
            self.say(told.text(self._style) if told else "")
        elif isinstance(report, PlannedAnew):
            self.say(f"{report.job} {report.interval}  {planned_anew(report)}\n")
        elif isinstance(report, Stopping):
            again = " (Ctrl-C again: now)" if self._env.stop.reason == "SIGINT" else ""
            self.say(f"{report.job} {report.interval}  {stopping(report)}{again}\n")
        elif isinstance(report, Waits):
            self.say(f"{report.job}  {waits(report)}\n")
        elif isinstance(report, BackfillWaits):
            self._count_down(report)
        elif isinstance(report, Warned):
            from .told import wrapped

            lines = wrapped(f"{report.job}  warning: {report.text}", self._style.width, "")
            self.say("\n".join(lines) + "\n")

    def pass_on(self, text: str) -> None:
        """Above the bar, where it is the same terminal."""
        if self._env.stdout_is_terminal:
            self.say(text)
        else:
            super().pass_on(text)

    def _count_down(self, report: BackfillWaits) -> None:
        """In the place of the one before."""
        from .backfills import waiting_lines

        self.close()
        lines = waiting_lines(report, self._style)
        self._env.words("".join(f"{line}\n" for line in lines))
        self._drawn = len(lines)

    def say(self, text: str, level: int = INFO) -> None:
        """Above the bar where there is one."""
        self._erase()
        if self._bar is not None and text:
            self._bar.above(text)
        else:
            super().say(text, level)

    def _erase(self) -> None:
        """Take the countdown away."""
        self._env.words("\x1b[1A\x1b[2K" * self._drawn + "\r" if self._drawn else "")
        self._drawn = 0

    def close(self) -> None:
        """Take the bar, or the countdown, away."""
        self._erase()
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def interval(self, report: IntervalReport) -> None:
        """In full, in place of the bar."""
        from . import outcomes

        self.close()
        told = outcomes.interval(report, self._style, dry_run=self._dry_run)
        self.say(told.text(self._style))

    def whole(self, report: RunReport) -> None:
        """In full."""
        from . import outcomes

        self.close()
        self.say(outcomes.run(report, self._style).text(self._style))


def watch(call: Call, *, dry_run: bool = False) -> Watcher:
    """The watcher this call wants, and systemd with it. What a dry run found is data, which it does
    not show."""
    watcher = _wanted(call, dry_run=dry_run)
    if call.env.manager is None:
        return watcher
    from .managed import Managed

    return Managed(watcher, call.env.manager)


def _wanted(call: Call, *, dry_run: bool) -> Watcher:
    if call.options.json:
        return Silent(call, dry_run=dry_run)
    if call.options.quiet:
        return Quiet(call, dry_run=dry_run)
    kind = Terminal if _is_lively(call.env) else Lines
    return kind(call, dry_run=dry_run)


def _is_lively(env: Environment) -> bool:
    """Whether standard error is a terminal that can redraw a line."""
    return env.stderr_is_terminal and env.environ.get("TERM") != "dumb"


def style_of(call: Call, *, terminal: bool) -> Style:
    """How to write to a stream that is a terminal, or is not.

    `NO_COLOR` forbids colour, `FORCE_COLOR` asks for it anywhere; either counts when it is
    set to anything but the empty text. `TERM=dumb` knows no colour.
    """
    env, environ = call.env, call.env.environ
    forced = bool(environ.get("FORCE_COLOR"))
    capable = terminal and environ.get("TERM") != "dumb"
    encoding = (getattr(env.stdout, "encoding", None) or "utf-8").lower().replace("-", "")
    return Style(
        colour=(capable or forced) and not environ.get("NO_COLOR"),
        unicode=encoding in {"utf8", "utf16", "utf32"},
        width=env.width if terminal else 80,
        program=call.options.program(call.env.program),
    )
