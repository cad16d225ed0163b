"""Tables: aligned for a terminal, tab-separated and uncut for anything else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .words import Style


_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, and on which side its cells are aligned. A cell of more than `most` columns
    has a line of its own, above the rest of its row; for the first column only."""

    heading: str
    right: bool = False
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """Cells, a colour for one of them, and lines that explain the row below it."""

    cells: Sequence[str]
    below: Sequence[str] = ()
    state: int | None = None
    colour: str = ""


def aligned(columns: Sequence[Column], rows: Sequence[Row], style: Style) -> str:
    """Columns two spaces apart, or one where that does not fit; a heading above each."""
    heads = [column.heading for column in columns]
    wide = [
        max(_width(cells[i]) for cells in (heads, *(row.cells for row in rows)))
        for i in range(len(columns))
    ]
    most = columns[0].most
    if most is not None and wide[0] > most:
        fitting = [_width(row.cells[0]) for row in rows if _width(row.cells[0]) <= most]
        wide[0] = max([_width(heads[0]), *fitting])
    gap = "  " if sum(wide) + 2 * (len(wide) - 1) <= style.width else " "
    lines = [gap.join(_pad(heads, columns, wide)).rstrip()]
    for row in rows:
        cells = _pad(row.cells, columns, wide)
        if _width(row.cells[0]) > wide[0]:
            lines.append(row.cells[0])
            cells[0] = " " * wide[0]
        if row.state is not None:
            text = row.cells[row.state]
            cells[row.state] = cells[row.state].replace(text, style.paint(text, row.colour), 1)
        lines.append(gap.join(cells).rstrip())
        lines += row.below
    return "\n".join(lines) + "\n"


def _pad(cells: Sequence[str], columns: Sequence[Column], wide: Sequence[int]) -> list[str]:
    padded = []
    for cell, column, n in zip(cells, columns, wide, strict=True):
        blank = " " * (n - _width(cell))
        padded.append(blank + cell if column.right else cell + blank)
    return padded


def _width(text: str) -> int:
    """Columns on a terminal, where escape codes have none."""
    return len(_ESCAPES.sub("", text))


def tabbed(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A heading and one line a row, cells with a tab between them."""
    return "".join("\t".join(map(_cell, row)) + "\n" for row in (headings, *rows))


def _cell(text: str) -> str:
    """A tab or a newline in a cell would make two of it."""
    return " ".join(text.split()) if not text.isprintable() else text
