"""Refusals as text and as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ...core.errors import CommandFailed, ConfigError
from .words import names_command, shown

if TYPE_CHECKING:
    from ...core.errors import ReconcileError
    from ...core.model import Json, JsonObject
    from .words import Style


def error_text(error: ReconcileError, style: Style) -> str:
    """The message after the program's name, the hint indented below. That of a configuration
    has a line for each problem, with the hints of all but the last in it, indented already.
    Lines are folded to the width, but for commands, which can be copied; 0 folds nothing."""
    several = isinstance(error, ConfigError)
    told = str(error).split("\n") if several else [str(error)]
    found = [shown(line) for line in told if line.strip()] or [error.name]
    lines = [line if line.startswith(" ") else f"reconcile: {line}" for line in found]
    lines += [f"  {shown(line)}" for line in error.hint.split("\n") if line]
    return "".join(f"{part}\n" for line in lines for part in _folded(line, style))


def _folded(line: str, style: Style) -> list[str]:
    full = style.commands(line)
    if not style.width or len(full) <= style.width or names_command(line):
        return [full]
    from .told import wrapped

    indent = " " * (len(line) - len(line.lstrip()))
    return wrapped(line.strip(), style.width, indent, f"{indent}  " if indent else "    ")


def error_fields(error: ReconcileError, code: int) -> JsonObject:
    """What a program may want to know of an error; of several problems, each with its hint."""
    fields: dict[str, Json] = {
        "exit": code,
        "name": error.name,
        "message": str(error),
        "hint": error.hint,
    }
    if isinstance(error, ConfigError) and error.problems:
        fields["problems"] = [{"message": text, "hint": hint} for text, hint in error.problems]
    if isinstance(error, CommandFailed):
        fields.update(error.facts)
        fields["output"] = list(error.tail)
    return fields


def error_object(error: ReconcileError, code: int) -> str:
    """The one JSON object of a command that was refused, as a line."""
    return json.dumps({"schema": 1, "error": error_fields(error, code)}) + "\n"
