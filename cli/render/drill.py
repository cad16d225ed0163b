"""What a drill found: a line for each promise, with its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.operations.drill.findings import PROMISES, Verdict
from . import words
from .told import wrapped

if TYPE_CHECKING:
    from ...core.operations.drill.findings import DrillReport, Finding
    from .words import Style

_LABEL = 20
_SIGN = 3


def begins(store: str) -> str:
    """Before it begins."""
    return (
        f"Rehearsing on {store}, in a scratch area of its own.\n"
        "Your jobs, records and targets are not touched.\n\n"
    )


def text(report: DrillReport, style: Style) -> str:
    """A line for each finding, then the sum."""
    lines = [line for one in report.findings for line in _lines(one, style)]
    held = sum(one.verdict is Verdict.HOLDS for one in report.findings)
    removed = "Scratch area removed." if report.left is None else _left(report.left)
    end = f"{held} of {len(report.findings)} hold, {report.seconds:.1f} s. {removed}"
    lines += ["", *wrapped(end, style.width, first="", rest="")]
    if report.leftovers:
        found = words.count(report.leftovers, "record")
        lines += wrapped(
            f"A drill before this one was killed: {found} of it removed, too.",
            style.width,
            first="",
            rest="",
        )
    return "\n".join(lines) + "\n"


def interrupted(left: str) -> str:
    """It ended before its time; `left` is why something could not be removed, "" where all was."""
    removed = _left(left) if left else "Scratch area removed."
    return "\n".join(wrapped(f"Interrupted. {removed}", 80, first="", rest="")) + "\n"


def _lines(one: Finding, style: Style) -> list[str]:
    start = f"  {one.name:{_LABEL}}"
    if one.verdict is Verdict.HOLDS:
        plain = wrapped(one.evidence, style.width - _SIGN, first=start, rest=" " * len(start))
        room = style.width - _SIGN + 1
        plain[-1] = f"{plain[-1]:{room}}{style.sign('completed')}"
        return plain
    word = "FAILED" if one.verdict is Verdict.FAILED else "not rehearsed"
    rest = " " * len(start)
    first, *more = wrapped(f"{word}: {one.evidence}", style.width, first=start, rest=rest)
    first = first.replace(word, style.paint(word, "red"), 1)
    promise = f"promise {one.promise}, {PROMISES[one.promise]}"
    return [first, *more, *wrapped(promise, style.width, first=rest, rest=rest)]


def _left(why: str) -> str:
    return f"The scratch area is not removed: {why}. The next drill removes it, or prune."


def as_object(report: DrillReport, exit_code: int) -> dict[str, Any]:
    """For programs."""
    return {
        "exit": int(exit_code),
        "holds": report.holds,
        "store": report.store,
        "seconds": round(report.seconds, 3),
        "removed": report.left is None,
        "leftovers": report.leftovers,
        "rehearsals": [
            {
                "name": one.name,
                "promise": one.promise,
                "promised": PROMISES[one.promise],
                "verdict": one.verdict.value,
                "evidence": one.evidence,
                "figures": dict(one.figures),
            }
            for one in report.findings
        ],
    }


def interrupted_object(left: str, exit_code: int) -> dict[str, Any]:
    """For programs, of a drill that was interrupted; `left` as in `interrupted`."""
    return {
        "exit": int(exit_code),
        "holds": False,
        "interrupted": True,
        "removed": not left,
        "rehearsals": [],
    }
