"""One job's intervals as a calendar, above their list on a terminal; here with the signs of ASCII.

          1   5    10   15   20   25   30
2026-10   +++++++++++++++++++++++++++++++
2026-11   ++++++++++-++++++x++++++++++!>
          + completed  - skipped  x failed  ! needs approval  > running
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from . import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.status import Strip
    from .words import Style

_LABELS = {"month": "%Y-%m", "day": "%Y-%m-%d", "hour": "%Y-%m-%d %HZ"}
_GAP = "   "
_MINUTES = range(0, 60, 15)
_HOURS = range(0, 24, 6)
_DAYS = (1, 5, 10, 15, 20, 25, 30)


def calendar(strip: Strip, style: Style) -> str:
    """The rows below a ruler, and what the signs mean; an empty line at the end."""
    labels = [row.at.strftime(_LABELS[strip.row]) for row in strip.rows]
    before = " " * len(labels[0]) + _GAP
    lines = [before + _ruler(strip)]
    shown: dict[str, None] = {}
    for label, row in zip(labels, strip.rows, strict=True):
        signs = [" " if cell is None else style.sign(cell) for cell in row.cells]
        while signs and signs[-1] == " ":
            signs.pop()
        lines.append(f"{label}{_GAP}{''.join(signs)}".rstrip())
        shown.update((cell, None) for cell in row.cells if cell is not None)
    lines += _legend(list(shown), before, style)
    return "\n".join([*lines, "", ""])


def _ruler(strip: Strip) -> str:
    if strip.row == "month":
        marks = {day - 1: str(day) for day in _DAYS}
    elif strip.row == "day":
        marks = {hour: f"{hour:02}" for hour in _HOURS}
    else:
        cell = strip.cell // timedelta(minutes=1)
        marks = {minute // cell: f"{minute:02}" for minute in _MINUTES}
    text = ""
    for at, mark in marks.items():
        if len(text) <= at:
            text = f"{text:{at}}{mark}"
    return text


def _legend(shown: Sequence[str], before: str, style: Style) -> list[str]:
    """Each sign with the states it stands for here, best first, wrapped."""
    of_sign: dict[str, list[str]] = {}
    for state in (one for one in words.COLOURS if one in shown):
        of_sign.setdefault(style.sign(state), []).append(state)
    for state in (one for one in shown if one not in words.COLOURS):
        of_sign.setdefault(style.sign(state), []).append(state)
    parts = [(sign, " or ".join(states)) for sign, states in of_sign.items()]
    lines, used = [before], len(before)
    for sign, text in parts:
        wide = len(text) + 2
        if used > len(before) and used + 2 + wide > style.width:
            lines.append(before)
            used = len(before)
        gap = "  " if used > len(before) else ""
        lines[-1] += f"{gap}{sign} {text}"
        used += len(gap) + wide
    return lines
