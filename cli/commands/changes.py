"""`reconcile changes`: why did this account lose it?"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

from ..exit_codes import ExitCode
from ..options import Argument, Call, JobArgument, Option, duration_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...core.operations.changes import Found

PAGE = 500
"""So many changes are aligned with each other on a terminal."""

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

    One line a change, uncut; --json prints one object a line. Exit status 0, or 2 for an
    interval that was not begun; 65, 69 or 77 where the target cannot tell.
    """
    from ...core.operations.changes import ChangesRequest
    from ...core.operations.changes import changes as operation
    from ..wiring import application

    request = ChangesRequest(job, interval, account, duration_of(since, "--since"), planned)
    app = application(call, lambda report: None, lambda step: None, only_looks=True)
    number = _show(call, operation(app, request))
    if number == 0 and not (call.options.json or call.options.quiet):
        whose = "the plan has" if planned else "the log has"
        such = " such" if account is not None or since is not None or interval is not None else ""
        call.env.words(f"{job}: {whose} no{such} change\n")
    return ExitCode.OK


def _show(call: Call, changes: Iterator[Found]) -> int:
    """Print them as they come; how many there were."""
    from ..render.changes import change_line, change_object, page

    number = 0
    if call.env.stdout_is_terminal and not call.options.json:
        from ..render.watch import style_of

        style = style_of(call, terminal=True)
        while some := list(islice(changes, PAGE)):
            call.env.data(page(some, style, first=number == 0))
            number += len(some)
        return number
    text = change_object if call.options.json else change_line
    for found in changes:
        call.env.data(text(found))
        number += 1
    return number
