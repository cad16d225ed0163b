"""What `doctor` is told of a target."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..findings import Finding
    from ..rows import Schema

COUNTED = 1_000_000
"""Rows are counted up to so many."""


class TargetLook(NamedTuple):
    """The findings, and the compared columns where the table can serve."""

    findings: Sequence[Finding]
    schema: Schema | None


def rows_text(count: int) -> str:
    """`175,554 rows`, as far as they were counted."""
    if count > COUNTED:
        return f"more than {COUNTED:,} rows"
    return f"{count:,} row{'' if count == 1 else 's'}"
