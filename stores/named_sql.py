"""Reads SQL files in which each statement stands under its name.

A line ``-- name --`` begins a statement; other comment lines belong to the statement.
"""

from __future__ import annotations

from pathlib import Path


def load(name: str) -> dict[str, str]:
    """The statements of `stores/sql/NAME.sql` by name."""
    text = (Path(__file__).parent / "sql" / f"{name}.sql").read_text(encoding="utf-8")
    statements: dict[str, str] = {}
    title = ""
    for line in text.splitlines():
        if line.startswith("-- ") and line.endswith(" --"):
            title = line[3:-3]
            statements[title] = ""
        elif title and not line.startswith("--"):
            statements[title] += line + "\n"
    return statements
