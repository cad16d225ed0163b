"""Which interval a run works, and on whose word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .rates import STARTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .config import Job
    from .model import Actor, Interval, Rate, Trigger, Write
    from .records import IntervalRecord


@dataclass(frozen=True, slots=True)
class Assignment:
    """One interval of one job to be worked.

    `version` is that of the record, `ABSENT` for a new one. `expected_ranges` is how many
    the last completed interval had, for an estimate. `replay`: it is begun late by a trigger,
    and its start counts towards this rate, among the `starts` of that key. `opening` is written
    in the batch that opens the run. `backfill`: its number, the how-manieth this is, of how many.
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
    starts: str = STARTS
    opening: Sequence[Write] = ()
    backfill: tuple[int, int, int] | None = None
