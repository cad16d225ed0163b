"""`reconcile prune`: drop what is older than `[store] keep`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from ..exit_codes import ExitCode
from ..options import Argument, Call, Option

if TYPE_CHECKING:
    from ...core.operations.application import Application
    from ...core.operations.pruning import PruneReport

OneJobArgument = Annotated[str | None, Argument("[JOB]", "This job only; all jobs without it.")]
DryRunOption = Annotated[bool, Option(("--dry-run",), "Show what would go; drop nothing.")]


def prune(call: Call, job: OneJobArgument = None, dry_run: DryRunOption = False) -> int:
    """Drop final intervals older than keep in [store], with their runs, trails, plans and alerts.

    The runs of a job do the same by themselves, once a day and a few at a time. What is
    unfinished stays, and so does the newest completed interval. What was dropped never comes
    due again. What a drill left that was killed goes, too. Exit status 75 where a job is being
    worked: nothing of it was dropped.
    """
    from ...core.operations.pruning import prune as operation
    from ..wiring import application

    app = application(call, lambda report: None, lambda step: None)
    reports = operation(app, job, dry_run=dry_run)
    leftovers = 0 if job is not None or dry_run else _sweep(app)
    code = ExitCode.BUSY if any(one.busy for one in reports) else ExitCode.OK
    if call.options.json:
        from ..render.objects import line
        from ..render.pruned import as_object

        call.env.data(line(as_object(reports, code, leftovers)))
    elif not call.options.quiet:
        call.env.words(_text(call, reports, leftovers))
    return code


def _sweep(app: Application) -> int:
    """Remove what a drill left that was killed; how many records there were."""
    from ...core.operations.drill.area import sweep
    from ..rehearsal.folders import sweep_folders

    sweep_folders()
    return sweep(app)


def _text(call: Call, reports: list[PruneReport], leftovers: int) -> str:
    from ..render.pruned import swept, told
    from ..render.watch import style_of

    style = style_of(call, terminal=call.env.stderr_is_terminal)
    parts = [told(one, style) for one in reports]
    return "".join(one.text(style) for one in [*parts, *swept(leftovers)])
