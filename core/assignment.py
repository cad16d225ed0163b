"""Which interval a run works, and on whose word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .config import Job
    from .model import Actor, Interval, Rate, Trigger
    from .records import IntervalRecord


@dataclass(frozen=True, slots=True)
class Assignment:
    """One interval of one job to be worked.

    `version` is that of the record, `ABSENT` for a new one. `expected_ranges` is how many
    the last completed interval had, for an estimate. `replay`: it is begun late by a trigger,
    and its start counts towards this rate.
    """

    job: Job
    interval: Interval
    record: IntervalRecord
    version: int
    trigger: Trigger
    actor: Actor | None = None
    dry_run: bool = False
    expected_ranges: int | None = None
    replay: Rate | None = None
