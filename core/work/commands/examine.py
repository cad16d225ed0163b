"""`doctor` on a command: whether it can be called as it is written, calling nothing."""

from __future__ import annotations

import os
from errno import ENOTDIR
from importlib.machinery import PathFinder
from pathlib import Path
from shutil import which
from stat import S_ISDIR
from typing import TYPE_CHECKING

from ...errors import ReconcileError
from ...findings import fail, ok, refused
from ...placeholders import names_interval
from .surroundings import read_env_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...config import CommandConfig
    from ...findings import Finding


def examine_command(
    job: str, work: CommandConfig, environ: Mapping[str, str], logs: Path
) -> Iterator[Finding]:
    """Its folder, its program, its file of variables, and where its output is kept."""
    env = {**environ, **work.env}
    if work.env_file is not None:
        try:
            env = {**environ, **read_env_file(work.env_file), **work.env}
        except ReconcileError as error:
            yield refused(job, error)
    reason = _in_the_way(Path(work.cwd), is_folder=True)
    if reason is not None:
        yield fail(job, f"cwd {work.cwd} is no folder to work in: {reason}", "make it, or mend cwd")
        return
    program = work.program
    if work.python is not None:
        yield _function(job, work.python, work.cwd)
    elif names_interval(program):
        yield ok(job, f"{program}: another program for each interval")
    elif "/" not in program:
        yield _found(job, program, which(program, path=env.get("PATH", os.defpath)))
    elif (reason := _in_the_way(Path(work.cwd, program))) is not None:
        text = f"{program} is not there: {reason}"
        yield fail(job, text, "put it there, or mend command")
    elif not os.access(Path(work.cwd, program), os.X_OK):
        yield fail(job, f"{program} is not executable", f"chmod +x {Path(work.cwd, program)}")
    else:
        yield ok(job, f"{program}, executable")
    there = next(one for one in (logs, *logs.parents) if _in_the_way(one) is None)
    if not os.access(there, os.W_OK | os.X_OK):
        yield fail(job, f"its output cannot be kept in {logs}", f"make {logs} for this user")


def _in_the_way(path: Path, *, is_folder: bool = False) -> str | None:
    """Why nothing of that kind is there for this user; None where it is."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        return error.strerror
    return os.strerror(ENOTDIR) if is_folder and not S_ISDIR(mode) else None


def _function(job: str, function: str, cwd: str) -> Finding:
    """Whether its module, or the package that has it, is there; nothing is imported."""
    top = function.partition(":")[0].partition(".")[0]
    if PathFinder.find_spec(top, [cwd]) or PathFinder.find_spec(top):
        return ok(job, f"{function}, a function")
    return fail(job, f"there is no module {top} in {cwd}, and none is installed", "mend python")


def _found(job: str, program: str, path: str | None) -> Finding:
    if path is None:
        return fail(
            job, f"{program} is not found in PATH", "write its whole path, as cron has a short PATH"
        )
    return ok(job, f"{program} is {path}")
