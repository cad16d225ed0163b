"""`status --check`: one line as monitoring plugins print it, with performance data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.operations.checking import Level
from . import words

if TYPE_CHECKING:
    from ...core.errors import ReconcileError
    from ...core.operations.checking import Check

SHOWN = 3
"""So many troubles are told of; the others are counted."""


def line(found: Check) -> str:
    """`RECONCILE CRITICAL: … | backlog=6 oldest_unfinished=175320s;;21600 unrecorded=0`."""
    told = [_plain(trouble.text) for trouble in found.troubles[:SHOWN]]
    more = len(found.troubles) - len(told)
    if more:
        told.append(f"{more} more")
    text = "; ".join(told) or _well(found)
    limit = "" if found.oldest_deadline is None else f";;{round(found.oldest_deadline)}"
    data = (
        f"backlog={found.backlog} oldest_unfinished={round(found.oldest_age)}s{limit}"
        f" unrecorded={found.missing}"
    )
    return f"RECONCILE {found.level.name}: {text} | {data}\n"


def unknown(error: ReconcileError) -> str:
    """Nothing can be said."""
    return f"RECONCILE {Level.UNKNOWN.name}: {_plain(str(error))}\n"


def as_object(found: Check) -> dict[str, Any]:
    """For programs."""
    return {
        "level": found.level.name.lower(),
        "exit": int(found.level),
        "jobs": found.jobs,
        "troubles": [{"level": one.level.name.lower(), "text": one.text} for one in found.troubles],
        "backlog": found.backlog,
        "oldest_unfinished_seconds": round(found.oldest_age, 3),
        "deadline_seconds": found.oldest_deadline,
        "unrecorded": found.missing,
    }


def _well(found: Check) -> str:
    jobs = words.count(found.jobs, "job")
    if not found.backlog:
        return f"{jobs}, nothing unfinished"
    return f"{jobs}, {words.count(found.backlog, 'interval')} unfinished, none past its deadline"


def _plain(text: str) -> str:
    """In one line, and without the bar that begins performance data."""
    return words.shown(" ".join(text.split())).replace("|", "/")
