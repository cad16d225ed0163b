"""Which interval a run works, and on whose word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .config import Job
    from .model import Actor, Interval, Trigger
    from .records import IntervalRecord


@dataclass(frozen=True, slots=True)
class Assignment:
    """One interval of one job to be worked.

    `version` is that of the record, `ABSENT` for a new one. `expected_ranges` is how many
    the last completed interval had, for an estimate.
    """

    job: Job
    interval: Interval
    record: IntervalRecord
    version: int
    trigger: Trigger
    actor: Actor | None = None
    dry_run: bool = False
    expected_ranges: int | None = None
