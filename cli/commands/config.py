"""`reconcile config`: check the configuration, and show what it means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from ..exit_codes import ExitCode
from ..options import Argument, Call

if TYPE_CHECKING:
    from ...core.effective import Effective

OneJobArgument = Annotated[str | None, Argument("[JOB]", "This job only; all jobs without it.")]


def config(call: Call, job: OneJobArgument = None) -> int:
    """Check the configuration and print it with everything that it leaves to defaults.

    Needs neither the store nor a source or target. Secrets are masked. Exit status 0, or 78
    with every problem that was found, 77 for a file that may not be read.
    """
    found = _read(call, job)
    if call.options.json:
        from ..render.config import as_object
        from ..render.objects import line

        call.env.data(line(as_object(found)))
        return ExitCode.OK
    from ..render.config import text
    from ..render.watch import style_of

    call.env.data(text(found, style_of(call, terminal=call.env.stdout_is_terminal)))
    if not call.options.quiet:
        notes = (note for job in found.jobs for note in job.notes)
        call.env.words("".join(f"warning: {note}\n" for note in notes))
    if not found.jobs and not call.options.quiet:
        style = style_of(call, terminal=call.env.stderr_is_terminal)
        call.env.words(f"no job is configured; an example: {style.program} init\n")
    return ExitCode.OK


def _read(call: Call, name: str | None) -> Effective:
    from ...core.effective import effective
    from ...core.operations.application import job_named
    from ...core.toml import parse
    from ..configuration import read, read_secret
    from ..wiring import check_address, check_store

    env, options = call.env, call.options
    files = read(options.config, environ=env.environ, cwd=env.cwd)
    found = parse(
        files,
        env.environ,
        cwd=env.cwd,
        store=options.store,
        read_secret=read_secret,
        check_store=lambda url: check_address(url, env),
    )
    check_store(found, env)
    only = None if name is None else job_named(found, name)
    given = options.store is not None
    return effective(found, files, env.clock.now(), only=only, store_given=given)
