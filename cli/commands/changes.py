"""`reconcile changes`: why did this account lose it?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from ..exit_codes import ExitCode
from ..options import Argument, Call, JobArgument, Option, duration_of

if TYPE_CHECKING:
    from ...core.operations.changes import Found

SomeIntervalArgument = Annotated[
    str | None, Argument("[INTERVAL]", "Of this interval: an id, latest, oldest.")
]
AccountOption = Annotated[str | None, Option(("--account",), "Of this account.", "A")]
SinceOption = Annotated[str | None, Option(("--since",), "Of the last 6h, 90d.", "D")]
PlannedOption = Annotated[
    bool, Option(("--planned",), "What the plan would change, instead of what was changed.")
]


def changes(
    call: Call,
    job: JobArgument,
    interval: SomeIntervalArgument = None,
    account: AccountOption = None,
    since: SinceOption = None,
    planned: PlannedOption = False,
) -> int:
    """Show what was changed, from the target's own log, or what a plan would change.

    One line a change, uncut; --json prints one object a line.
    """
    from ...core.operations.changes import ChangesRequest
    from ...core.operations.changes import changes as operation
    from ..render.changes import change_line, change_object, heading
    from ..wiring import application

    request = ChangesRequest(job, interval, account, duration_of(since, "--since"), planned)
    app = application(call, lambda report: None, lambda step: None)
    found: Found
    for number, found in enumerate(operation(app, request)):
        if call.options.json:
            call.env.data(change_object(found))
            continue
        if number == 0 and call.env.stdout_is_terminal and not planned:
            call.env.data(heading())
        call.env.data(change_line(found))
    return ExitCode.OK
