"""What became of `pause` and `unpause`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import words
from .told import Told

if TYPE_CHECKING:
    from ...core.events import ActReport, PauseReport
    from .words import Style

NAMED = 3
"""Up to so many intervals are named each."""


def told(report: PauseReport, style: Style) -> Told:
    """Whether triggers start anything now, and what became of what they missed."""
    if report.pause is not None:
        about = Told(report.job, "paused", f" {words.paused(report.pause, report.at)}")
        if report.stopped is not None:
            about.prose(_stopped(report.stopped), style.width)
        about.prose("Triggers start nothing until then. By hand you still can.", style.width)
        on = f'{style.program} unpause {report.job} -m "why"'
        about.command("To let them go on", on, style.width)
        return about
    if not report.was_paused:
        return Told(report.job, "is not paused", ": there is nothing to unpause")
    return _unpaused(report, style)


def _stopped(asked: ActReport) -> str:
    if asked.interval is None:
        return "Nobody was at work."
    stands = words.standing(asked.ranges_done, asked.ranges_total, asked.phase)
    if asked.state == "completed":
        return f"{asked.interval} was completed before it could be stopped."
    if asked.done:
        return f"{asked.interval} was stopped{stands}, and goes on then."
    assert asked.lease is not None, "somebody was asked"
    return f"{asked.interval} was asked to stop, and {asked.lease.holder} has not answered."


def _unpaused(report: PauseReport, style: Style) -> Told:
    fell = report.skipped_count + (report.due is not None) + report.left_to_policy
    if not fell:
        return Told(report.job, "goes on", "; nothing fell into the pause")
    about = Told(report.job, "goes on", f". {words.count(fell, 'interval')} fell into the pause:")
    if report.left_to_policy:
        about.prose("They are left to the catch-up policy.", style.width)
        return about
    rows = [(report.due, "due now")] if report.due is not None else []
    if report.skipped_count:
        rows.append((_names(report, style), "skipped (paused)"))
    about.facts(rows, style.width)
    if report.skipped_count:
        again = f'{style.program} rerun {report.job} ID -m "why"'
        about.command("To work one that was skipped", again, style.width)
    return about


def _names(report: PauseReport, style: Style) -> str:
    if report.skipped_count == len(report.skipped) <= NAMED:
        return ", ".join(report.skipped)
    return f"{report.skipped_count:,} from {report.skipped[0]} on"
