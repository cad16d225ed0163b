"""`reconcile logs`: what a command printed."""

from __future__ import annotations

from contextlib import closing
from threading import Event
from typing import TYPE_CHECKING, Annotated

from ..exit_codes import ExitCode
from ..options import Argument, Call, JobArgument, Option

if TYPE_CHECKING:
    from ...core.operations.application import Application
    from ...core.operations.logs import FoundLog
    from ...core.ports import Store
    from ..render.printed import Shown

POLL_SECONDS = 0.2
"""How often `--follow` looks for more."""

SomeIntervalArgument = Annotated[
    str | None, Argument("[INTERVAL]", "An id, latest or oldest; the newest that ran without it.")
]
RunOption = Annotated[
    int | None, Option(("--run",), "Of this run; the last without it.", "N", least=1)
]
FollowOption = Annotated[bool, Option(("--follow", "-f"), "Wait for more until the run has ended.")]


def logs(
    call: Call,
    job: JobArgument,
    interval: SomeIntervalArgument = None,
    run: RunOption = None,
    follow: FollowOption = False,
) -> int:
    """Print what a command printed, both its standard output and its standard error.

    Into a pipe or a file the bytes come as they are; a terminal gets escapes for control
    characters. Of a long output the newest 10 MiB are kept. --json prints one object a line.
    Exit status 0, or 2 where there is no such output; --follow ends with the run, or by Ctrl-C.
    """
    from ...core.operations.logs import LogsRequest, find_log
    from ..wiring import application

    app = application(call, lambda report: None, lambda step: None, only_looks=True)
    with closing(app.open_store()) as store:
        found = find_log(app, store, LogsRequest(job, interval, run))
        if follow:
            call.env.heed_signals()
        _print(call, app, store, found, follow=follow)
    return ExitCode.OK


def _print(call: Call, app: Application, store: Store, found: FoundLog, *, follow: bool) -> None:
    from ...core.operations.logs import is_over
    from ...core.work.commands.logs import read
    from ..render.printed import shown_log

    shown: Shown = shown_log(call, found)
    position, never = 0, Event()
    while True:
        over = not follow or is_over(app, store, found)  # asked first: then all of it is there
        for at, data in read(found.path, position):
            if at > position:
                shown.cut(at - position)
            shown.feed(data)
            position = at + len(data)
        if over or call.env.stop.reason is not None:
            break
        call.env.clock.wait(POLL_SECONDS, never)
    shown.end()
