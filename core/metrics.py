"""The figures that a monitoring system gets: how each job stands, and what happened how often.

Five of them measure what the program is for:

run delay             from the scheduled time to the beginning of the newest interval begun
duplicate attempts    triggers that came while somebody worked (`turned_away`: each would have been
                      a second run beside the first), and runs beyond the first of one interval
                      (`again`: after a kill, an interruption or a failure)
lease losses          runs that lost their lease: `killed`, `silent` (it expired), `forced`
backlog age           how long the oldest unfinished interval has been owed
time until consistent from the scheduled time of the newest completed interval to its proof

Counters come from the records (`tally.py`), so that they go on over restarts and are the same
for every host. A trigger that was turned away leaves a record only where `[alerts]` asks for
anything. Gauges are computed when they are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class JobFigures:
    """One job. Times are in seconds; None: there is no interval yet to measure.

    `backfill` counts those of its backfill that are left, `intervals` intervals by state and
    reason ("" where there is none), those of a span one by one; `changes` what was done to the
    target by kind; `alerts` those that stand, and `undelivered` those that somebody has still to
    hear of.
    """

    job: str
    backlog: int
    backfill: int
    backlog_age: float
    run_delay: float | None
    consistent: float | None
    intervals: Mapping[tuple[str, str], int]
    changes: Mapping[str, int]
    attempts: int
    duplicates: Mapping[str, int]
    lost: Mapping[str, int]
    ranges_saved: int
    ranges_repeated: int
    alerts: Mapping[str, int]
    undelivered: int
