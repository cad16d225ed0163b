"""`status --watch`: on a terminal a picture that is drawn anew; elsewhere a line a change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.events import Progress
from ...core.records import figures
from . import status as texts
from . import words
from .calendar import calendar
from .watch import style_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from ...core.ports import Clock
    from ...core.records import IntervalRecord
    from ...core.status import IntervalView, JobStatus, StatusReport
    from ..options import Call
    from .words import Style

SECONDS_BETWEEN = 10.0
"""A line that only says how far a run has come is printed no more often."""


def show(call: Call, reports: Iterable[StatusReport], *, one_job: bool) -> None:
    """Show reports as they come, until there are no more or nobody reads them."""
    env = call.env
    style = style_of(call, terminal=env.stdout_is_terminal)
    lively = env.stdout_is_terminal and env.environ.get("TERM") != "dumb" and not call.options.json
    if lively:
        from .progress import live

        picture = Picture(env.clock, style)
        with live(env.data, style, transient=False) as drawn:
            for report in reports:
                drawn.update(picture.of(report, one_job=one_job), refresh=True)
                if id(env.stdout) in env.closed:
                    return
        return
    lines = Lines(env.clock)
    for report in reports:
        new = "".join(lines.of(report))
        if new and call.options.json:
            from .objects import line
            from .status_objects import status as status_object

            new = line(status_object(report, with_intervals=one_job))
        env.data(new)
        if id(env.stdout) in env.closed:
            return


class Picture:
    """What a terminal shows: a bar for each job that is worked, and what `status` shows."""

    def __init__(self, clock: Clock, style: Style) -> None:
        from .progress import Drawing

        self._style = style
        self._clock = clock
        self._drawings: dict[str, Drawing] = {}

    def of(self, report: StatusReport, *, one_job: bool) -> RenderableType:
        """The whole picture."""
        from rich.console import Group
        from rich.text import Text

        from .progress import Drawing

        parts: list[RenderableType] = []
        for job in report.jobs:
            if job.worked is not None:
                drawing = self._drawings.setdefault(job.job.name, Drawing(self._clock, self._style))
                parts.append(drawing.of(_progress(job, job.worked)))
        if parts:
            parts.append(Text(""))
        parts.append(Text.from_ansi(self._text(report, one_job=one_job), no_wrap=True))
        return Group(*parts)

    def _text(self, report: StatusReport, *, one_job: bool) -> str:
        style = self._style
        at = f"{words.moment(report.now)}, Ctrl-C ends this\n"
        if report.interval is not None:
            from . import trail

            interval = report.interval
            head = trail.head(interval, report.now, style)
            return head + trail.runs(interval, style) + trail.trail(interval, style) + "\n" + at
        if one_job:
            job = report.jobs[0]
            strip = calendar(job.strip, style) if job.strip is not None else ""
            table = texts.intervals(job.recent, style, kind=job.job.work.kind)
            return texts.job_facts(report, style) + strip + table + at
        return texts.overview(report, style) + texts.overview_remarks(report, style) + at


def _progress(job: JobStatus, record: IntervalRecord) -> Progress:
    """How far a run is, by what it has written to the store."""
    exact = record.ranges_total is not None
    return Progress(
        job=job.job.name,
        interval=record.id,
        phase=record.phase,
        range=record.ranges_done,
        total=record.ranges_total if exact else job.expected_ranges,
        exact=exact,
        accounts=record.accounts if record.work is None else figures(record)[0] or 0,
        grant=record.grant,
        revoke=record.revoke,
        update=record.update,
    )


class Lines:
    """One line a change of a job or of its newest interval; how far a run is, now and then."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said: dict[str, tuple[str, str, float]] = {}
        self._notes: set[str] = set()

    def of(self, report: StatusReport) -> list[str]:
        """What there is to say since the last time."""
        wanted = report.interval.view if report.interval is not None else None
        lines = [self._job(job, wanted) for job in report.jobs]
        lines += [note for note in report.notes if note not in self._notes]
        self._notes = set(report.notes)
        at = words.stamp(report.now)
        return [f"{at} {line}\n" for line in lines if line]

    def _job(self, job: JobStatus, wanted: IntervalView | None) -> str:
        """A job with the interval that is worked, else the newest; or the one asked for."""
        newest = job.recent[0] if job.recent else None
        view, at_work = wanted or newest, job.worked
        if wanted is not None and at_work is not None and wanted.record.id != at_work.id:
            at_work = None
        text = job.job.name if wanted is not None else f"{job.job.name} {job.state}:"
        if at_work is not None:
            text += f" {at_work.id} {_shows(at_work, 'running')}"
        elif view is not None:
            text += f" {view.record.id} {_shows(view.record, view.shows)}"
        text = text.removesuffix(":")
        if job.lease is not None and (wanted is None or at_work is not None):
            text += f" on {job.lease.holder}, generation {job.lease.fence.generation}"
        if job.backlog > 1 and wanted is None:
            text += f"; {job.backlog} are due or unfinished"
        return self._new(job.job.name, text, "" if at_work is None else _far(job, at_work))

    def _new(self, about: str, text: str, far: str) -> str:
        """The line where it is new; what only goes on is said again after a while."""
        now = self._clock.boot()
        before, far_before, at = self._said.get(about, ("", "", 0.0))
        goes_on = text == before
        if goes_on and (far == far_before or now - at < SECONDS_BETWEEN):
            return ""
        self._said[about] = (text, far, now)
        return text + far


def _far(job: JobStatus, record: IntervalRecord) -> str:
    progress = _progress(job, record)
    where = words.of_total(progress.range, progress.total, exact=progress.exact)
    if record.work is not None:
        ranges = "" if progress.total is None else f", range {where}"
        return ranges + (f", count {progress.accounts:,}" if progress.accounts else "")
    changes = {"grant": record.grant, "revoke": record.revoke, "update": record.update}
    return f", {record.phase} range {where}, {words.short_changes(changes)}"


def _shows(record: IntervalRecord, shows: str) -> str:
    return f"{shows} r{record.rerun}" if record.rerun else shows
