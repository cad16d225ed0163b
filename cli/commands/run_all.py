"""`reconcile run --all`: one line of cron for all jobs of a configuration."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..exit_codes import exit_code_of, exit_code_of_told
from ..fleet import Ended, Fleet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...core.events import RunReport
    from ..options import Call

AT_A_TIME = 4


def run_all(
    call: Call,
    dry_run: bool,
    max_runtime: str | None,
    wait: str | None,
    busy_exit: int,
    jobs: int | None,
) -> int:
    """Run all jobs that have something due, each in a process of its own.

    Of all their intervals the oldest that did not complete decides the exit status; where none
    has the say, the first job by name that did not do well.
    """
    from ...core.operations.several import knock, tell
    from ..options import duration_of
    from ..render import objects
    from ..render.watch import watch
    from ..wiring import application

    for text, option in ((max_runtime, "--max-runtime"), (wait, "--wait")):
        duration_of(text, option)  # refused once, and not by each child
    call.env.heed_signals()
    idle: dict[str, RunReport] = {}
    names: list[str] = []
    with watch(call, dry_run=dry_run) as watcher:
        app = application(call, watcher.report, watcher.reached, makes_store=True)
        for name, report in knock(app, dry_run=dry_run):
            names.append(name)
            if report is not None:
                idle[name] = report
                watcher.finish(report)
    due = [name for name in names if name not in idle]
    argv = [*_options(call), "run", *_arguments(dry_run, max_runtime, wait, busy_exit)]
    ended = {one.job: one for one in Fleet(call.env, argv, jobs or AT_A_TIME).run(due)}
    if not dry_run:
        tell(app, idle)
    for name, report in idle.items():
        status = exit_code_of(report, busy=busy_exit)
        ended[name] = Ended(name, status, told=objects.run(report, status))
    in_order = [ended[name] for name in names]
    code = exit_code_of_told([(one.told, one.code) for one in in_order])
    if call.options.json:
        call.env.data(objects.line({"exit": code, "jobs": [_object(one) for one in in_order]}))
    else:
        for one in in_order:
            call.env.data(one.data)
    return code


def _object(one: Ended) -> dict[str, Any]:
    """What is told of one job; of one that was refused, its error."""
    if one.told is not None:
        return one.told
    refused = json.loads(one.data) if one.data else {}
    return {"job": one.job, "exit": one.code, **refused}


def _options(call: Call) -> Iterator[str]:
    """The global options as they were given."""
    options = call.options
    if options.config is not None:
        yield from ("-c", str(options.config))
    if options.store is not None:
        yield from ("--store", options.store)
    for given, word in ((options.quiet, "-q"), (options.verbose, "-v"), (options.json, "--json")):
        if given:
            yield word


def _arguments(
    dry_run: bool, max_runtime: str | None, wait: str | None, busy_exit: int
) -> Iterator[str]:
    if dry_run:
        yield "--dry-run"
    if max_runtime is not None:
        yield from ("--max-runtime", max_runtime)
    if wait is not None:
        yield from ("--wait", wait)
    yield from ("-E", str(busy_exit))
