"""A run as systemd sees it: `systemctl status` has a line of how far it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.events import IntervalReport, Progress, Started, Stopping, Waits
from . import lines
from .words import Style, of_total, stopping, waits

if TYPE_CHECKING:
    from types import TracebackType

    from ...core.events import Report, RunReport
    from ..delivery.manager import ServiceManager
    from .watcher import Watcher


class Managed:
    """A watcher whose reports systemd gets too. Implements `watch.Watcher`."""

    def __init__(self, inner: Watcher, manager: ServiceManager) -> None:
        self._inner = inner
        self._manager = manager
        self._style = Style()
        manager.ready()

    def report(self, report: Report) -> None:
        """Shown, and said in one line."""
        self._inner.report(report)
        self._manager.alive()
        self._manager.status(_line(report, self._style), passing=isinstance(report, Progress))
        if isinstance(report, Stopping):
            self._manager.stopping()

    def reached(self, step: str) -> None:
        """Something moves."""
        self._inner.reached(step)
        self._manager.alive()

    def finish(self, report: RunReport) -> None:
        """How it ended."""
        self._inner.finish(report)
        if not report.intervals:
            self._manager.status(lines.run(report, self._style))

    def close(self) -> None:
        """As the watcher does."""
        self._inner.close()

    def __enter__(self) -> Managed:
        self._inner.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._inner.__exit__(kind, error, at)


def _line(report: Report, style: Style) -> str:
    """What goes on; empty for what does not tell how far it is."""
    if isinstance(report, Started):
        return lines.started(report)
    if isinstance(report, Progress):
        where = f"range {of_total(report.range, report.total, exact=report.exact)}"
        if report.phase == "command":
            where = where if report.total else "runs"
        return f"{report.job} {report.interval} {report.phase} {where}"
    if isinstance(report, Stopping):
        return f"{report.job} {report.interval} {stopping(report)}"
    if isinstance(report, Waits):
        return f"{report.job} {waits(report)}"
    if isinstance(report, IntervalReport):
        return lines.interval(report, style)
    return ""
