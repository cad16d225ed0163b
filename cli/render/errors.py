"""Refusals as text and as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...core.errors import ReconcileError
    from ...core.model import JsonObject
    from .words import Style


def error_text(error: ReconcileError, style: Style) -> str:
    """Each line of the message after the program's name, the hint indented below. A message
    of several problems has the hints of all but the last in it, indented already."""
    told = [line for line in str(error).splitlines() if line.strip()] or [error.name]
    lines = [line if line.startswith(" ") else f"reconcile: {line}" for line in told]
    lines += [f"  {line}" for line in style.commands(error.hint).splitlines()]
    return "\n".join(lines) + "\n"


def error_fields(error: ReconcileError, code: int) -> JsonObject:
    """What a program may want to know of an error."""
    return {"exit": code, "name": error.name, "message": str(error), "hint": error.hint}


def error_object(error: ReconcileError, code: int) -> str:
    """The one JSON object of a command that was refused, as a line."""
    return json.dumps({"schema": 1, "error": error_fields(error, code)}) + "\n"
