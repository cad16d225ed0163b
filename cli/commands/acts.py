"""What a person does by hand to one interval, one holder or the triggers of one job: `rerun`,
`skip`, `stop`, `pause` and `unpause`."""

from __future__ import annotations

from datetime import timedelta
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
    duration_of,
    reason_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...core.events import ActReport, PauseReport, Report
    from ...core.operations.application import ActRequest

TURN = timedelta(seconds=10)
"""So long does a rerun wait for one that works the same interval, unless told otherwise."""

OneIntervalArgument = Annotated[str, Argument("INTERVAL", "An id, latest or oldest.")]
ForceOption = Annotated[bool, Option(("--force",), "Fence the holder out now, whatever it does.")]
UntilOption = Annotated[
    str | None,
    Option(
        ("--until",),
        "To 05:00 on the job's clock, 05:00Z, 2026-12-01T05:00Z; for 90m, 6h.",
        "T",
    ),
]
StopOption = Annotated[bool, Option(("--stop",), "Ask the holder that works now to stop, too.")]
CatchUpOption = Annotated[
    bool, Option(("--catch-up",), "Leave what was missed to the catch-up policy.")
]
PatienceOption = Annotated[
    str | None,
    Option(("--wait",), "While it is worked, stay for 90s, 10m, 6h (10s) for your turn.", "D"),
]
NoWaitOption = Annotated[bool, Option(("--no-wait",), "Ask, and do not wait for the answer.")]


def rerun(
    call: Call,
    job: JobArgument,
    interval: OneIntervalArgument,
    wait: PatienceOption = None,
    reason: ReasonOption = None,
    actor: ActorOption = None,
) -> int:
    """Work a finished interval again, from its first range, under the same identity.

    Of two at once the second waits, then is rerun number two; 75 where that takes too long, and
    both stand on the interval's trail. Exit status as that of run.
    """
    from ...core.operations.rerunning import rerun as operation
    from ..render.watch import watch
    from ..wiring import application

    patience = duration_of(wait, "--wait") if wait is not None else TURN
    request = _request(call, "rerun", job, interval, reason, actor)._replace(patience=patience)
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

    It ends skipped, or failed (cancelled) where something was already applied. Exit status 0, 2
    where it is not for skip, or 75 while it is worked.
    """
    from ...core.operations.interventions import skip as operation
    from ..wiring import application

    request = _request(call, "skip", job, interval, reason, actor)
    report = operation(application(call, _teller(call), lambda step: None), request)
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

    Exit status 0, also where nobody works; 75 where it does not answer while its lease lasts.
    """
    from ...core.operations.interventions import stop as operation
    from ..wiring import application

    request = _request(call, "stop", job, "", reason, actor, force=force, wait=not no_wait)
    call.env.heed_signals()
    report = operation(application(call, _teller(call), lambda step: None), request)
    return _end(call, report)


def pause(
    call: Call,
    job: JobArgument,
    until: UntilOption = None,
    stop: StopOption = False,
    reason: ReasonOption = None,
    actor: ActorOption = None,
) -> int:
    """Let no trigger of JOB start anything, until a time or until unpause. By hand it works.

    Exit status 0, or 75 where a holder that was asked to stop does not answer.
    """
    from ...core.operations.pausing import pause as operation
    from ..wiring import application

    request = _request(call, "pause", job, "", reason, actor)
    call.env.heed_signals()
    app = application(call, lambda report: None, lambda step: None, makes_store=True)
    return _end_pause(call, operation(app, request, until=until, stops=stop))


def unpause(
    call: Call,
    job: JobArgument,
    catch_up: CatchUpOption = False,
    reason: ReasonOption = None,
    actor: ActorOption = None,
) -> int:
    """Let triggers of JOB go on.

    The newest interval of the pause is due, older ones are skipped. Exit status 0, also where
    nothing was paused.
    """
    from ...core.operations.pausing import unpause as operation
    from ..wiring import application

    request = _request(call, "unpause", job, "", reason, actor)
    app = application(call, lambda report: None, lambda step: None)
    return _end_pause(call, operation(app, request, catch_up=catch_up))


def _teller(call: Call) -> Callable[[Report], None]:
    """Tells warnings, as of what was ended for good; how the act ended is told by its report."""
    from ...core.events import Warned

    def tell(report: Report) -> None:
        if isinstance(report, Warned):
            call.env.words(f"{report.job}  warning: {report.text}\n")

    return tell


def _end_pause(call: Call, report: PauseReport) -> int:
    asked = report.stopped
    code = ExitCode.OK if asked is None or asked.done else ExitCode.BUSY
    if call.options.json:
        from ..render import objects

        call.env.data(objects.line(objects.pausing(report, code)))
    elif not call.options.quiet:
        from ..render import pauses
        from ..render.watch import style_of

        style = style_of(call, terminal=call.env.stderr_is_terminal)
        call.env.words(pauses.told(report, style).text(style))
    return code


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
