"""`reconcile run JOB`: what cron calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from ...core.errors import UsageError
from ..exit_codes import ExitCode, exit_code_of
from ..options import (
    ActorOption,
    Argument,
    Call,
    IntervalOption,
    Option,
    ReasonOption,
    actor_of,
    duration_of,
    reason_of,
)

if TYPE_CHECKING:
    from ...core.events import DryRun, RunReport
    from ...core.operations.application import Application

OneJobArgument = Annotated[str | None, Argument("[JOB]", "The job's name; or --all.")]
AllOption = Annotated[
    bool, Option(("--all",), "All jobs that have something due, each in its own process.")
]
NowOption = Annotated[
    bool, Option(("--now",), "An interval of this instant, beside those that are due; needs -m.")
]
JobsOption = Annotated[
    int | None, Option(("--jobs",), "With --all: at most N at a time (4).", "N", least=1)
]
DryRunOption = Annotated[bool, Option(("--dry-run",), "Show what would change; write nothing.")]
MaxRuntimeOption = Annotated[
    str | None, Option(("--max-runtime",), "Stop at a checkpoint after 90s, 10m, 6h, 3d.", "D")
]
WaitOption = Annotated[
    str | None, Option(("--wait",), "When busy, stay for 90s, 10m, 6h until it is free.", "D")
]
BusyExitOption = Annotated[
    int, Option(("--busy-exit", "-E"), "Exit with N when busy, not 75.", "N", least=0, most=255)
]


def run(
    call: Call,
    job: OneJobArgument = None,
    every: AllOption = False,
    interval: IntervalOption = None,
    now: NowOption = False,
    dry_run: DryRunOption = False,
    max_runtime: MaxRuntimeOption = None,
    wait: WaitOption = None,
    busy_exit: BusyExitOption = ExitCode.BUSY,
    jobs: JobsOption = None,
    reason: ReasonOption = None,
    actor: ActorOption = None,
) -> int:
    """Do what is due of JOB: take the lease, fence the target, work, prove, release.

    Called every few minutes by cron or a timer, it finds nothing due, goes on where an
    earlier run was killed, or does the night's work. Exit status: 0 completed, nothing
    due, paused or waiting for a rate, 1 failed, 2 usage, 3 incomplete, 4 needs approval,
    65 unusable, 69 unreachable, 70 a defect, 75 busy, 77 access denied, 78 configuration,
    80 fenced out, 124 out of time, 130 and 143 interrupted.
    """
    from ...core.operations.application import RunRequest
    from ...core.operations.trigger import run as operation
    from ..render.watch import watch
    from ..wiring import application

    call.busy_exit = busy_exit
    _check(job, every=every, interval=interval, now=now, jobs=jobs)
    if job is None:
        from .run_all import run_all

        return run_all(call, dry_run, max_runtime, wait, busy_exit, jobs)
    request = RunRequest(
        job=job,
        interval=interval,
        dry_run=dry_run,
        max_runtime=duration_of(max_runtime, "--max-runtime"),
        wait=duration_of(wait, "--wait"),
        actor=actor_of(call.env, actor),
        now=now,
        reason=reason or "",
    )
    call.env.heed_signals()
    with watch(call, dry_run=dry_run) as watcher:
        app = application(call, watcher.report, watcher.reached, makes_store=True)
        if now and not dry_run and app.job(job).schedule is not None:
            request = request._replace(reason=reason_of(call.env, reason, "--now"))
        report = operation(app, request)
        watcher.finish(report)
    code = exit_code_of(report, busy=busy_exit, signal=call.env.stop.reason)
    if call.options.json or call.env.tell is not None:
        from ..render import objects

        told = objects.line(objects.run(report, code))
        (call.env.tell or call.env.data)(told)
    if report.dry_run is not None and not call.options.json:
        _show_dry_run(call, app, report, report.dry_run)
    return code


def _check(
    job: str | None, *, every: bool, interval: str | None, now: bool, jobs: int | None
) -> None:
    """Raise `UsageError` for options that exclude each other."""
    if job is None and not every:
        raise UsageError("Missing argument 'JOB'.", hint="see reconcile run --help")
    if every and (job is not None or interval is not None or now):
        raise UsageError(
            "--all runs what is due of all jobs: no job, --interval or --now goes with it",
            hint="write reconcile run --all",
        )
    if jobs is not None and not every:
        raise UsageError("--jobs is for --all", hint="write reconcile run --all --jobs N")
    if now and interval is not None:
        raise UsageError("--now and --interval exclude each other", hint="leave one of them out")


def _show_dry_run(call: Call, app: Application, report: RunReport, found: DryRun) -> None:
    """The words, then the changes: some of them to a person, all of them into a pipe."""
    from ..render.changes import sample_text
    from ..render.outcomes import dry_run
    from ..render.watch import style_of

    env, quiet = call.env, call.options.quiet
    words = style_of(call, terminal=env.stderr_is_terminal)
    # That a guard would stop it, or accounts would be left out, is no success.
    if not quiet or report.guard is not None or found.quarantined:
        env.words(dry_run(report, found, words).text(words))
    if quiet:
        return
    if not env.stdout_is_terminal:
        _pipe_changes(call, app, report.job, found)
        return
    env.data(sample_text(found, style_of(call, terminal=True)))
    left_out = sum(found.changes.values()) - len(found.sample)
    if left_out > 0:
        every = f"{words.program} changes {report.job} --planned"
        env.words(f"  {words.dots} {left_out:,} more: {every}\n")


def _pipe_changes(call: Call, app: Application, job: str, found: DryRun) -> None:
    """All planned changes as they come, or a refusal: a program must not take some for all."""
    from ...core.operations.changes import ChangesRequest, changes
    from ..environment import OutputFailed
    from ..render.changes import change_line

    number, planned = 0, sum(found.changes.values())
    for one in changes(app, ChangesRequest(job, planned=True, plan=found.plan)):
        call.env.data(change_line(one))
        number += 1
    if number != planned:
        raise OutputFailed(
            f"{job}: {number:,} of {planned:,} planned changes were printed: another dry run has"
            " replaced this plan meanwhile",
            hint="call it again",
        )
