"""`reconcile backfill JOB`: replay a span of past intervals, bounded and durable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from ...core.errors import UsageError
from ..exit_codes import ExitCode, exit_code_of
from ..options import (
    ActorOption,
    Call,
    JobArgument,
    Option,
    ReasonOption,
    actor_of,
    reason_of,
)

if TYPE_CHECKING:
    from ...core.backfills import BackfillReport
    from ...core.operations.application import BackfillRequest

FromOption = Annotated[str | None, Option(("--from",), "Its first interval: an id.", "ID")]
ToOption = Annotated[str | None, Option(("--to",), "Its last interval: an id, or latest.", "ID")]
RateOption = Annotated[
    str | None, Option(("--rate",), "Begin at most 10/h, 30/m; alone: from now on. 0 pauses.", "R")
]
RerunCompletedOption = Annotated[
    bool, Option(("--rerun-completed",), "Work those again, too, that are completed.")
]
ForecastOption = Annotated[
    bool, Option(("--dry-run",), "Show what there is to do, and until when; write nothing.")
]
CancelOption = Annotated[bool, Option(("--cancel",), "Give up the rest of the one that runs.")]


def backfill(
    call: Call,
    job: JobArgument,
    first: FromOption = None,
    last: ToOption = None,
    rate: RateOption = None,
    rerun_completed: RerunCompletedOption = False,
    dry_run: ForecastOption = False,
    cancel: CancelOption = False,
    reason: ReasonOption = None,
    actor: ActorOption = None,
) -> int:
    """Work each interval of JOB from ID to ID that is not completed, oldest first.

    It is kept in the store: killed, it goes on when it is called again, or with any trigger.
    Live intervals go first; of four places one is its own. Exit status as that of run.
    """
    from ...core.operations.application import BackfillRequest

    bounds = first is not None and last is not None
    _check(first, last, rate, rerun_completed=rerun_completed, dry_run=dry_run, cancel=cancel)
    speaks = bounds or rate is not None or cancel
    request = BackfillRequest(
        job=job,
        first=first,
        last=last,
        rate=rate,
        rerun_completed=rerun_completed,
        actor=actor_of(call.env, actor),
        reason=reason_of(call.env, reason, "backfill") if speaks and not dry_run else "",
    )
    if dry_run:
        return _plan(call, request)
    if cancel or (rate is not None and not bounds):
        return _say(call, request, cancel=cancel)
    return _work(call, request, asks=bounds)


def _check(
    first: str | None,
    last: str | None,
    rate: str | None,
    *,
    rerun_completed: bool,
    dry_run: bool,
    cancel: bool,
) -> None:
    """Raise `UsageError` for options that exclude each other, or lack one."""
    bounds = first is not None and last is not None
    if not bounds and (first is not None or last is not None):
        raise UsageError("--from and --to go together", hint="name its first and last interval")
    if cancel and (bounds or rate is not None or rerun_completed or dry_run):
        raise UsageError("--cancel is about the one that runs", hint="leave the others out")
    if not bounds and (dry_run or rerun_completed):
        raise UsageError("which intervals?", hint="name the first and the last: --from ID --to ID")


def _plan(call: Call, request: BackfillRequest) -> int:
    from ...core.operations.backfill.asking import plan
    from ..wiring import application

    return _end(call, plan(application(call, lambda report: None, lambda step: None), request))


def _say(call: Call, request: BackfillRequest, *, cancel: bool) -> int:
    from contextlib import closing

    from ...core.operations.backfill import asking
    from ..wiring import application

    app = application(call, lambda report: None, lambda step: None)
    if cancel:
        return _end(call, asking.cancel(app, request))
    with closing(app.open_store()) as store:
        report = asking.change(app, store, request)
    return _end(call, report)


def _work(call: Call, request: BackfillRequest, *, asks: bool) -> int:
    from contextlib import closing

    from ...core.operations.backfill import asking, waiting
    from ..render.watch import watch
    from ..wiring import application

    call.env.heed_signals()
    with watch(call) as watcher:
        app = application(call, watcher.report, watcher.reached, makes_store=asks)
        with closing(app.open_store()) as store:
            report = asking.ask(app, store, request) if asks else asking.found(app, store, request)
            if report.did == "goes_on":
                report = waiting.wait_for(app, store, report)
        watcher.close()
    return _end(call, report)


def _end(call: Call, report: BackfillReport) -> int:
    code: int = ExitCode.OK
    if report.report is not None:
        code = exit_code_of(report.report, signal=call.env.stop.reason)
    if call.options.json:
        from ..render import objects
        from ..render.backfills import as_object

        call.env.data(objects.line(as_object(report, code)))
    elif not call.options.quiet:
        from ..render import backfills
        from ..render.watch import style_of

        style = style_of(call, terminal=call.env.stderr_is_terminal)
        call.env.words(backfills.told(report, style).text(style))
    return code
