"""`reconcile drill`: rehearse the promises on the user's own store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..exit_codes import ExitCode
from ..options import Call

if TYPE_CHECKING:
    from ...core.operations.drill.findings import DrillReport


def drill(call: Call) -> int:
    """Rehearse kill, stall, takeover, overlap, missed nights and a guard, with real processes.

    It works in a scratch area of the configured store and on a scratch target; jobs, records and
    targets of yours are not touched, and all of it is removed afterwards. It takes less than 30
    seconds. Exit status: 0 all promises hold, 1 one broke or could not be rehearsed, 69
    unreachable, 75 another drill is under way in this store, 78 configuration, 130 and 143
    interrupted.
    """
    from ...core.config import as_written
    from ...core.operations.drill import drill as operation
    from ...core.operations.drill.findings import Interrupted
    from ..rehearsal.stage import FolderStage
    from ..wiring import application

    call.env.heed_signals()
    app = application(call, lambda report: None, lambda step: None)
    url = app.config.store.url
    words = not (call.options.json or call.options.quiet)

    def begins() -> None:
        if words:
            call.env.words(_begins(url))

    try:
        report = operation(app, FolderStage(call.env, as_written(url)), begins=begins)
    except Interrupted as error:
        return _interrupted(call, str(error))
    code = ExitCode.OK if report.holds else ExitCode.FAILED
    if call.options.json:
        from ..render.drill import as_object
        from ..render.objects import line

        call.env.data(line(as_object(report, code)))
    elif words or code:
        call.env.words(_ends(call, report))
    return code


def _interrupted(call: Call, left: str) -> int:
    from ..render.drill import interrupted, interrupted_object
    from ..render.objects import line

    code = ExitCode.SIGINT if call.env.stop.reason == "SIGINT" else ExitCode.SIGTERM
    if call.options.json:
        call.env.data(line(interrupted_object(left, code)))
    else:
        call.env.words(interrupted(left))
    return code


def _begins(url: str) -> str:
    from ...core.config import is_postgres, sqlite_path
    from ...core.masking import server_shown
    from ..render.drill import begins

    if url.startswith("sqlite:"):
        return begins(f"sqlite {sqlite_path(url)}")
    return begins(f"{'postgres ' if is_postgres(url) else ''}{server_shown(url)}")


def _ends(call: Call, report: DrillReport) -> str:
    from ..render.drill import text
    from ..render.watch import style_of

    return text(report, style_of(call, terminal=call.env.stderr_is_terminal))
