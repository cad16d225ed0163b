"""What `prune` dropped, or would drop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.toml_values import show_duration
from . import words
from .told import Told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.operations.pruning import PruneReport
    from .words import Style


def told(report: PruneReport, style: Style) -> Told:
    """One job."""
    keep, dropped = show_duration(report.keep), report.dropped
    if report.busy:
        about = Told(report.job, "busy", ": it is being worked, and nothing was dropped")
        about.prose("Its own runs do the same, once a day.", style.width)
        return about
    if not dropped.records:
        return Told(report.job, "nothing to prune", f": no final interval is older than {keep}")
    which = dropped.first if dropped.records == 1 else f"{dropped.first} to {dropped.last}"
    state = "would prune" if report.dry_run else "pruned"
    about = Told(report.job, state, f" {words.count(dropped.intervals, 'interval')}: {which}")
    runs, events = words.count(dropped.runs, "run"), words.count(dropped.events, "event")
    about.prose(f"older than {keep}, with {runs} and {events}", style.width)
    return about


def swept(leftovers: int) -> list[Told]:
    """What a killed drill had left, where there was anything."""
    if not leftovers:
        return []
    return [Told("drill", "pruned", f" {words.count(leftovers, 'record')} of one that was killed")]


def as_object(reports: Sequence[PruneReport], exit_code: int, leftovers: int = 0) -> dict[str, Any]:
    """For programs. `leftovers`: records that a killed drill had left."""
    return {
        "exit": int(exit_code),
        "drill_leftovers": leftovers,
        "dry_run": any(one.dry_run for one in reports),
        "jobs": [
            {
                "job": one.job,
                "outcome": "busy" if one.busy else "pruned",
                "keep": show_duration(one.keep),
                "intervals": one.dropped.intervals,
                "runs": one.dropped.runs,
                "events": one.dropped.events,
                "first": one.dropped.first,
                "last": one.dropped.last,
            }
            for one in reports
        ],
    }
