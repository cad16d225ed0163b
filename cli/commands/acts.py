"""`rerun`, `skip` and `stop`: what a person does by hand to one interval or one holder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from ..exit_codes import ExitCode, exit_code_of
from ..options import (
    ActorOption,
    Argument,
    Call,
    JobArgument,
    Option,
    ReasonOption,
    actor_of,
    reason_of,
)

if TYPE_CHECKING:
    from ...core.events import ActReport
    from ...core.operations.application import ActRequest

OneIntervalArgument = Annotated[str, Argument("INTERVAL", "An id, latest or oldest.")]
ForceOption = Annotated[bool, Option(("--force",), "Fence the holder out now, whatever it does.")]
NoWaitOption = Annotated[bool, Option(("--no-wait",), "Ask, and do not wait for the answer.")]


def rerun(
    call: Call,
    job: JobArgument,
    interval: OneIntervalArgument,
    reason: ReasonOption = None,
    actor: ActorOption = None,
) -> int:
    """Work a finished interval again, from its first range, under the same identity.

    Exit status as that of run.
    """
    from ...core.operations.interventions import rerun as operation
    from ..render.watch import watch
    from ..wiring import application

    request = _request(call, "rerun", job, interval, reason, actor)
    call.env.heed_signals()
    with watch(call) as watcher:
        report = operation(application(call, watcher.report, watcher.reached), request)
        watcher.finish(report)
    code = exit_code_of(report, signal=call.env.stop.reason)
    if call.options.json:
        from ..render import objects

        call.env.data(objects.line(objects.run(report, code)))
    return code


def skip(
    call: Call,
    job: JobArgument,
    interval: OneIntervalArgument,
    reason: ReasonOption = None,
    actor: ActorOption = None,
) -> int:
    """Give an interval up: no trigger tries it again.

    It ends skipped, or failed (cancelled) where something was already applied.
    """
    from ...core.operations.interventions import skip as operation
    from ..wiring import application

    request = _request(call, "skip", job, interval, reason, actor)
    report = operation(application(call, lambda report: None, lambda step: None), request)
    return _end(call, report)


def stop(
    call: Call,
    job: JobArgument,
    force: ForceOption = False,
    no_wait: NoWaitOption = False,
    reason: ReasonOption = None,
    actor: ActorOption = None,
) -> int:
    """Ask the holder, on any host, to stop at its next checkpoint, and wait until it has.

    Exit status 75 where it does not answer while its lease lasts.
    """
    from ...core.operations.interventions import stop as operation
    from ..wiring import application

    request = _request(call, "stop", job, "", reason, actor, force=force, wait=not no_wait)
    call.env.heed_signals()
    report = operation(application(call, lambda report: None, lambda step: None), request)
    return _end(call, report)


def _request(
    call: Call,
    act: str,
    job: str,
    interval: str,
    reason: str | None,
    actor: str | None,
    *,
    force: bool = False,
    wait: bool = True,
) -> ActRequest:
    from ...core.operations.application import ActRequest

    return ActRequest(
        job=job,
        interval=interval,
        actor=actor_of(call.env, actor),
        reason=reason_of(call.env, reason, act),
        force=force,
        wait=wait,
    )


def _end(call: Call, report: ActReport) -> int:
    code = ExitCode.OK if report.done else ExitCode.BUSY
    if call.options.json:
        from ..render import objects

        call.env.data(objects.line(objects.act(report, code)))
    elif not call.options.quiet:
        from ..render import acts
        from ..render.watch import style_of

        style = style_of(call, terminal=call.env.stderr_is_terminal)
        call.env.words(acts.told(report, style).text(style))
    return code
