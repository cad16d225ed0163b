"""`reconcile resume`: finish what was begun; approve what a guard has stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from ...core.errors import UsageError
from ..exit_codes import ExitCode, exit_code_of, exit_code_of_all
from ..options import ActorOption, Argument, Call, Option, ReasonOption, actor_of, reason_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.events import RunReport

OneJobArgument = Annotated[str | None, Argument("[JOB]", "Of this job only; all jobs without it.")]
IntervalArgument = Annotated[
    str | None, Argument("[INTERVAL]", "This interval only: an id, latest, oldest.")
]
ApproveOption = Annotated[
    str | None, Option(("--approve",), "Approve the plan of this hash; needs -m.", "HASH")
]


def resume(
    call: Call,
    job: OneJobArgument = None,
    interval: IntervalArgument = None,
    approve: ApproveOption = None,
    reason: ReasonOption = None,
    actor: ActorOption = None,
) -> int:
    """Finish unfinished intervals; never start a new one. A failed interval is reopened.

    With --approve, the planned changes of that hash may pass the guard that stopped them,
    and no others. Exit status as that of run.
    """
    from ...core.operations.application import ResumeRequest
    from ...core.operations.by_hand import resume as operation
    from ..render.watch import watch
    from ..wiring import application

    if approve is not None and (job is None or interval is None):
        raise UsageError(
            "--approve needs the job and the interval whose plan it approves",
            hint='write reconcile resume JOB INTERVAL --approve HASH -m "why"',
        )
    why = reason_of(call.env, reason, "--approve") if approve is not None else reason or ""
    request = ResumeRequest(
        job=job,
        interval=interval,
        approve=approve,
        actor=actor_of(call.env, actor),
        reason=why,
    )
    call.env.heed_signals()
    with watch(call) as watcher:
        reports = operation(application(call, watcher.report, watcher.reached), request)
        for report in reports:
            watcher.finish(report)
    if not reports and not (call.options.quiet or call.options.json):
        call.env.words("nothing is unfinished\n")
    return _end(call, reports, one_job=job is not None)


def _end(call: Call, reports: Sequence[RunReport], *, one_job: bool) -> int:
    signal = call.env.stop.reason
    code = exit_code_of_all(reports, signal=signal) if reports else ExitCode.OK
    if call.options.json:
        from ..render import objects

        codes = [exit_code_of(report, signal=signal) for report in reports]
        if one_job and len(reports) == 1:
            value = objects.run(reports[0], codes[0])
        else:
            value = objects.runs(reports, codes, code)
        call.env.data(objects.line(value))
    return code
