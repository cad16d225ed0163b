"""Refusals as text and as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ...core.errors import ConfigError
from .words import shown

if TYPE_CHECKING:
    from ...core.errors import ReconcileError
    from ...core.model import JsonObject
    from .words import Style


def error_text(error: ReconcileError, style: Style) -> str:
    """The message after the program's name, the hint indented below. That of a configuration
    has a line for each problem, with the hints of all but the last in it, indented already."""
    several = isinstance(error, ConfigError)
    told = str(error).split("\n") if several else [str(error)]
    found = [shown(line) for line in told if line.strip()] or [error.name]
    lines = [line if line.startswith(" ") else f"reconcile: {line}" for line in found]
    lines += [f"  {shown(line)}" for line in style.commands(error.hint).split("\n") if line]
    return "\n".join(lines) + "\n"


def error_fields(error: ReconcileError, code: int) -> JsonObject:
    """What a program may want to know of an error."""
    return {"exit": code, "name": error.name, "message": str(error), "hint": error.hint}


def error_object(error: ReconcileError, code: int) -> str:
    """The one JSON object of a command that was refused, as a line."""
    return json.dumps({"schema": 1, "error": error_fields(error, code)}) + "\n"
