"""Finds a function, calls it, and writes what it yields to the progress pipe.

All that is used here is imported before anything of the user's is: see the package.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import reprlib
import sys
import traceback
from collections.abc import Generator, Mapping
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from signal import SIGTERM
from typing import TYPE_CHECKING

from . import REFUSED, SAYS
from .context import Checkpoint, from_environment, heed_stop

if TYPE_CHECKING:
    from types import ModuleType, TracebackType

    from .context import RunContext

_KEYS = frozenset(Checkpoint.__annotations__)
_WANTED = "yield a dict with a cursor, count, checksum or progress"
_GOES_ON: Mapping[str, object] = {"progress": True}
_NOT_THEIRS = (__file__, importlib.__file__)


class Refused(Exception):
    """There is nothing to call, or nothing to be made of what it yields. In one line."""


def main(function: str, before: frozenset[str]) -> int:
    """Call `module:function` for what the environment says. `before`: the modules that are not
    ours to forget. Returns the exit status."""
    heed_stop()
    pipe = int(os.environ["RECONCILE_PROGRESS_FD"])
    os.set_inheritable(pipe, False)
    context = from_environment(os.environ)
    folder = str(Path.cwd())
    sys.argv = [function]
    forgotten = _make_room(folder, before)
    try:
        generator = _begun(function, folder, context)
        return 0 if _heard_out(function, generator, pipe, context) else 128 + SIGTERM
    except Refused as error:
        sys.stdout.flush()
        sys.stderr.write(f"{SAYS}{' '.join(str(error).split())}\n")
        return REFUSED
    except Exception as error:  # noqa: BLE001  whatever it is, it is the user's
        sys.stdout.flush()
        sys.path.remove(folder)
        sys.modules.update(forgotten)  # what writes tracebacks is not to import what lies there
        traceback.print_exception(error.with_traceback(_theirs(error.__traceback__)))
        return 1


def _make_room(folder: str, before: frozenset[str]) -> dict[str, ModuleType]:
    """Let modules of that folder be found first, under any name that was free when Python began.
    Returns what is forgotten for that."""
    kept = {name.partition(".")[0] for name in before} | {"reconcile"}
    forgotten = {}
    for top in {name.partition(".")[0] for name in sys.modules} - kept:
        found = PathFinder.find_spec(top, [folder])
        if found is None or found.loader is None:  # a mere folder is found last, as everywhere
            continue
        for name in [one for one in sys.modules if one == top or one.startswith(f"{top}.")]:
            forgotten[name] = sys.modules.pop(name)
    sys.path.insert(0, folder)
    return forgotten


def _begun(function: str, folder: str, context: RunContext) -> Generator[object]:
    """The generator, which has done nothing yet. Nothing is called that would be none."""
    module, _, path = function.partition(":")
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        text = f"there is no module {error.name} in {folder}, and none is installed"
        raise Refused(text) from None
    for name in path.split("."):
        if not hasattr(found, name):
            raise Refused(f"{module} has no function {path}")
        found = getattr(found, name)
    plain = inspect.unwrap(found) if callable(found) else found
    if not callable(found) or inspect.isclass(found):
        raise Refused(f"{function} is no function")
    if inspect.iscoroutinefunction(plain) or inspect.isasyncgenfunction(plain):
        raise Refused(f"{function} is asynchronous: it has to be a plain generator")
    if inspect.isfunction(plain) and not inspect.isgeneratorfunction(plain):
        raise Refused(f"{function} is no generator: there is no yield in it")
    try:
        inspect.signature(found).bind(context)
    except TypeError:
        raise Refused(f"{function} has to take one argument, the RunContext") from None
    except ValueError:  # of some that are built in nobody knows what they take
        raise Refused(f"{function} is no generator that takes the RunContext") from None
    generator = found(context)
    if not isinstance(generator, Generator):
        raise Refused(f"{function} returned {reprlib.repr(generator)}, which is no generator")
    return generator


def _heard_out(function: str, generator: Generator[object], pipe: int, context: RunContext) -> bool:
    """Write what it yields, until it ends; False where it was closed because it is to stop."""
    for yielded in generator:
        value = _checked(function, yielded)
        goes_on = _write(pipe, value)
        if value is not _GOES_ON:
            goes_on = goes_on and _write(pipe, _GOES_ON)  # there is room when that is durable
        if context.is_stopping or not goes_on:
            generator.close()
            return False
    return True


def _checked(function: str, yielded: object) -> Mapping[str, object]:
    """What may be written: what it says is looked at by who reads it."""
    if yielded is None:
        return _GOES_ON
    if not isinstance(yielded, Mapping) or not yielded:
        shown = reprlib.repr(yielded)
        raise Refused(f"{function} yielded {shown}, which is no checkpoint: {_WANTED}")
    unknown = [key for key in yielded if key not in _KEYS]
    if unknown:
        raise Refused(f"{function} yielded a checkpoint with {unknown[0]!r} in it: {_WANTED}")
    return yielded


def _write(pipe: int, value: Mapping[str, object]) -> bool:
    """A line of progress; whether anybody still takes note of it."""
    try:
        line = json.dumps(dict(value), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Refused(f"a checkpoint that was yielded is no JSON: {error}") from None
    left = memoryview(f"{line}\n".encode())
    try:
        while left:
            left = left[os.write(pipe, left) :]
    except BrokenPipeError:
        return False
    return True


def _theirs(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame on that is the user's."""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith("<frozen importlib") and file not in _NOT_THEIRS:
            break
        trace = trace.tb_next
    return trace
