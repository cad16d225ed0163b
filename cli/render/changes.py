"""Changes of entitlements as lines, one each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.rows import Action

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.events import DryRun
    from ...core.operations.changes import Found
    from ...core.rows import Change, Row
    from .words import Style

_COLOURS = {Action.GRANT: "green", Action.REVOKE: "red", Action.UPDATE: "yellow"}
_SIGNS = {Action.GRANT: ("+", "green"), Action.REVOKE: ("-", "red"), Action.UPDATE: ("~", "yellow")}


def sample_text(found: DryRun, style: Style) -> str:
    """The sample of a dry run, aligned, with signs."""
    rows = [_cells(change, found.key) for change in found.sample]
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    out = []
    for change, cells in zip(found.sample, rows, strict=True):
        sign, colour = _SIGNS[change.action]
        line = "  ".join(f"{cell:{n}}" for cell, n in zip(cells, wide, strict=True))
        out.append(f"  {style.paint(sign, colour)} {line.rstrip()}\n")
    return "".join(out)


def _cells(change: Change, key: Sequence[int]) -> tuple[str, ...]:
    """The key's columns, then the values: `10 -> 50` for an update."""
    return (*(_text(change.row[i]) for i in key), _values(change, key))


def _values(change: Change, key: Sequence[int]) -> str:
    parts = []
    for i in range(len(change.row)):
        if i in key:
            continue
        before, after = _value(change.before, i), _value(change.after, i)
        if before is None or after is None or before == after:
            parts.append(after if after is not None else before or "-")
        else:
            parts.append(f"{before} -> {after}")
    return ", ".join(parts) or "-"


def _value(row: Row | None, i: int) -> str | None:
    return None if row is None else _text(row[i])


def _text(value: str | None) -> str:
    """NULL by its name; control characters and lone surrogates escaped, so a cell is one."""
    if value is None:
        return "NULL"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)


def page(changes: Sequence[Found], style: Style, *, first: bool) -> str:
    """Some changes aligned for a terminal, uncut; the `first` page has a heading above it,
    unless they are only planned."""
    rows = [[*_when(found), found.change.action.value, *_shown(found)] for found in changes]
    logged = bool(changes[0].facts)
    heads = ["TIME", "INTERVAL", "GENERATION", "WHAT", "KEY", "VALUES"]
    lines = [heads, *rows] if first and logged else rows
    wide = [max(map(len, column)) for column in zip(*lines, strict=True)]
    what = 3 if logged else 0
    out = []
    for cells in lines:
        padded = [f"{cell:{n}}" for cell, n in zip(cells, wide, strict=True)]
        if cells is not heads:
            padded[what] = style.paint(padded[what], _COLOURS[Action(cells[what])])
        out.append("  ".join(padded).rstrip() + "\n")
    return "".join(out)


def _when(found: Found) -> list[str]:
    facts = found.facts
    if not facts:
        return []
    at = f"{str(facts['at'])[:19].replace('T', ' ')}Z"
    return [at, str(facts["interval"]), str(facts["generation"])]


def _shown(found: Found) -> list[str]:
    """The key as one cell, and the values."""
    *key, values = _cells(found.change, found.key)
    return ["  ".join(key), values]


def change_line(found: Found) -> str:
    """One change as tab-separated cells: when, which interval, generation, what, key, values."""
    cells = _cells(found.change, found.key)
    facts = found.facts
    logged = [str(facts.get(name)) for name in ("at", "interval", "generation")] if facts else []
    return "\t".join((*logged, found.change.action.value, *cells)) + "\n"


def change_object(found: Found) -> str:
    """One change as one JSON object on a line."""
    from .objects import line

    change = found.change
    return line(
        {
            **found.facts,
            "action": change.action.value,
            "before": change.before,
            "after": change.after,
        }
    )
