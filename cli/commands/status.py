"""`reconcile status`: all jobs, one job's intervals, or one interval."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from ...core.errors import UsageError
from ..exit_codes import ExitCode
from ..options import Argument, Call, Option, duration_of

if TYPE_CHECKING:
    from datetime import timedelta

    from ...core.status import StatusReport
    from ..render.words import Style

OneJobArgument = Annotated[str | None, Argument("[JOB]", "This job and its intervals.")]
IntervalArgument = Annotated[
    str | None, Argument("[INTERVAL]", "This interval: an id, latest, oldest.")
]
NumberOption = Annotated[
    int | None, Option(("--number", "-n"), "Show the newest N intervals.", "N", least=1)
]
SinceOption = Annotated[str | None, Option(("--since",), "Show those of the last 6h, 90d.", "D")]
CheckOption = Annotated[
    bool, Option(("--check",), "One line for monitoring; exit 0, 1 warning, 2 critical, 3 unknown.")
]
MetricsOption = Annotated[bool, Option(("--metrics",), "Print the figures as OpenMetrics text.")]
WatchOption = Annotated[
    bool, Option(("--watch",), "Go on showing it until Ctrl-C, or until INTERVAL is finished.")
]
StateOption = Annotated[str | None, Option(("--state",), "Show those in this state only.", "S")]

_ON_A_TERMINAL = 8
_FOR_PROGRAMS = 1000


def status(
    call: Call,
    job: OneJobArgument = None,
    interval: IntervalArgument = None,
    number: NumberOption = None,
    since: SinceOption = None,
    state: StateOption = None,
    check: CheckOption = False,
    metrics: MetricsOption = False,
    watch: WatchOption = False,
) -> int:
    """Show all jobs, one job with its intervals, or one interval with its runs and trail.

    A table into a pipe is tab-separated and uncut. Exit status 0 whatever is shown; with
    --check that of monitoring plugins. With --watch a terminal shows it live, with a bar for
    what is worked on any host; elsewhere each change is one line.
    """
    if check or metrics:
        if interval or number or since or state or watch or (check and metrics):
            raise UsageError(
                "--check and --metrics are about jobs, and exclude each other",
                hint="write reconcile status [JOB] --check",
            )
        return _check(call, job) if check else _metrics(call, job)
    if job is None and (number or since or state):
        raise UsageError(
            "-n, --since and --state choose among the intervals of one job",
            hint="write reconcile status JOB",
        )
    brief = call.env.stdout_is_terminal and not call.options.json
    limit = number
    if number is None and since is None:
        limit = _ON_A_TERMINAL if brief else _FOR_PROGRAMS
    if job is None:
        from ..render.status import SIGNS_SHOWN

        limit = SIGNS_SHOWN
    span = duration_of(since, "--since")
    shown_as = None if state is None else state.replace("_", " ").replace("-", " ")
    if watch:
        return _watch(call, job, interval, limit, span, shown_as)
    from ...core.operations.overview import status as operation
    from ..wiring import application

    app = application(call, lambda report: None, lambda step: None, only_looks=True)
    report = operation(app, job, interval, limit=limit, since=span, state=shown_as)
    if call.options.json:
        from ..render.objects import line
        from ..render.status_objects import status as status_object

        call.env.data(line(status_object(report, with_intervals=job is not None)))
    elif report.interval is not None:
        _show_interval(call, report)
    elif job is not None:
        _show_job(call, report)
    else:
        _show_all(call, report)
    return ExitCode.OK


def _watch(
    call: Call,
    job: str | None,
    interval: str | None,
    limit: int | None,
    since: timedelta | None,
    state: str | None,
) -> int:
    from ...core.operations.views import Choice, check_state
    from ...core.operations.watching import watch as operation
    from ..render.live import show
    from ..wiring import application

    check_state(state)
    call.env.heed_signals()
    app = application(call, lambda report: None, lambda step: None, only_looks=True)
    reports = operation(app, job, interval, Choice(limit, since, state, older=job is not None))
    with closing(reports):
        show(call, reports, one_job=job is not None)
    return ExitCode.OK


def _check(call: Call, job: str | None) -> int:
    """One line on standard output, whatever is wrong: a plugin has no other way to say it."""
    from ...core.errors import ReconcileError
    from ...core.operations.checking import Level
    from ...core.operations.checking import check as operation
    from ..render import check as texts
    from ..wiring import application

    try:
        found = operation(application(call, lambda report: None, lambda step: None), job)
    except ReconcileError as error:
        call.env.data(texts.unknown(error))
        return Level.UNKNOWN
    if call.options.json:
        from ..render.objects import line

        call.env.data(line(texts.as_object(found)))
    else:
        call.env.data(texts.line(found))
    return found.level


def _metrics(call: Call, job: str | None) -> int:
    from ...core.operations.figures import figures
    from ..render.metrics import exposition
    from ..wiring import application

    app = application(call, lambda report: None, lambda step: None)
    with closing(app.open_store()) as store:
        call.env.data(exposition(figures(app, store, job)))
    return ExitCode.OK


def _show_all(call: Call, report: StatusReport) -> None:
    from ..render import status as texts
    from ..render.watch import style_of

    style = style_of(call, terminal=call.env.stdout_is_terminal)
    if call.env.stdout_is_terminal:
        call.env.data(texts.overview(report, style))
    else:
        call.env.data(texts.overview_tabbed(report, style))
    _remark(call, texts.overview_remarks(report, _words(call)))


def _show_job(call: Call, report: StatusReport) -> None:
    from ..render import status as texts
    from ..render.watch import style_of

    one = report.jobs[0]
    _remark(call, texts.job_facts(report, _words(call)))
    if call.env.stdout_is_terminal:
        style = style_of(call, terminal=True)
        if one.strip is not None:
            from ..render.calendar import calendar

            call.env.data(calendar(one.strip, style))
        call.env.data(texts.intervals(one.recent, style, kind=one.job.work.kind))
    else:
        call.env.data(texts.intervals_tabbed(one.recent, kind=one.job.work.kind))
    _remark(call, texts.intervals_remarks(one, _words(call), len(one.recent)))


def _show_interval(call: Call, report: StatusReport) -> None:
    from ..render import trail as texts
    from ..render.watch import style_of

    assert report.interval is not None
    _remark(call, texts.head(report.interval, report.now, _words(call)))
    if call.env.stdout_is_terminal:
        style = style_of(call, terminal=True)
        call.env.data(texts.runs(report.interval, style))
    else:
        call.env.data(texts.runs_tabbed(report.interval))
    _remark(call, texts.trail(report.interval, _words(call)))
    _remark(call, texts.remarks(report.interval, _words(call)))


def _words(call: Call) -> Style:
    from ..render.watch import style_of

    return style_of(call, terminal=call.env.stderr_is_terminal)


def _remark(call: Call, text: str) -> None:
    if not call.options.quiet:
        call.env.words(text)
