"""What completion scripts are made by, and what they ask. Both commands are hidden from help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from ...core.errors import UsageError
from ..exit_codes import ExitCode
from ..options import Argument, Call

if TYPE_CHECKING:
    from collections.abc import Sequence

WhatArgument = Annotated[str, Argument("WHAT", "jobs, or intervals.")]
OneJobArgument = Annotated[str | None, Argument("[JOB]", "Whose intervals.")]
ShellArgument = Annotated[str, Argument("SHELL", "bash, zsh or fish.")]

SECONDS = 1.0
"""So long is a store asked; whoever types does not wait longer."""
_NEWEST = 30


def completion(call: Call, shell: ShellArgument) -> int:
    """Print the completion script of a shell: bash, zsh or fish. Exit status 0."""
    from ..completion import SHELLS, script

    if shell not in SHELLS:
        raise UsageError(f"there is no script for {shell}", hint=f"one of: {', '.join(SHELLS)}")
    call.env.data(script(shell))
    return ExitCode.OK


def complete(call: Call, what: WhatArgument, job: OneJobArgument = None) -> int:
    """Print what may be typed: names of jobs, or a job's newest intervals, a line each.

    Whatever is wrong is not said, for it would be written over what somebody types: then there is
    nothing to offer. Exit status 0.
    """
    from ..delivery.bounded import within

    found = within(SECONDS, lambda: _jobs(call) if what == "jobs" else _intervals(call, job or ""))
    call.env.data("".join(f"{one}\n" for one in found or () if one.isprintable()))
    return ExitCode.OK


def _jobs(call: Call) -> Sequence[str]:
    """Names as the files have them; whether they mean anything does not matter here."""
    import tomllib

    from ..configuration import read

    files = read(call.options.config, environ=call.env.environ, cwd=call.env.cwd)
    names: dict[str, None] = {}
    for _, text in files:
        try:
            names |= dict.fromkeys(tomllib.loads(text).get("jobs", {}))
        except tomllib.TOMLDecodeError:
            continue
    return sorted(names)


def _intervals(call: Call, name: str) -> Sequence[str]:
    """`latest` and `oldest`, then the newest that are on record; the store is not made for it."""
    from ...core.model import Kind
    from ..wiring import application, store_is_made

    fixed = ["latest", "oldest"]
    if not name or not store_is_made(call, SECONDS):
        return fixed
    app = application(
        call, lambda report: None, lambda step: None, makes_store=True, only_looks=True
    )
    store = app.open_store()
    try:
        newest = store.scan(Kind.INTERVAL, name, limit=_NEWEST, newest_first=True)
        return [*fixed, *(str(record.value["id"]) for record in newest)]
    finally:
        store.close()
