"""What became of an act by hand: `skip` and `stop`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import words
from .reasons import reason_text
from .told import Told

if TYPE_CHECKING:
    from ...core.events import ActReport
    from ...core.model import Lease
    from .words import Style


def told(report: ActReport, style: Style) -> Told:
    """The act, and what it means for the next trigger."""
    if report.interval is None:
        return Told(report.job, "nobody is at work", ": there is nothing to stop")
    if report.lease is not None:
        return _stop(report, report.lease, style)
    reason = f": {reason_text(report.reason)}" if report.reason else ""
    about = Told(f"{report.job} {report.interval}", report.state or "done", reason)
    name = f"{report.job} {report.interval}"
    again = f'rerun {name} -m "why"' if report.state == "skipped" else f"resume {name}"
    about.command("To work it after all", f"{style.program} {again}", style.width)
    return about


def _stop(report: ActReport, lease: Lease, style: Style) -> Told:
    about = Told(f"{report.job} {report.interval}", "")
    stands = words.standing(report.ranges_done, report.ranges_total, report.phase)
    if report.forced:
        about.state = "fenced out"
        about.rest = f": {lease.holder} had generation {lease.fence.generation}"
        about.prose(
            f"Whatever it still tries is refused: the fence is at generation {report.generation}."
            f" It stopped{stands}; the next trigger goes on from there.",
            style.width,
        )
    elif report.done and report.state == "completed":
        about.state = "completed"
        about.rest = f" before it could be stopped: {lease.holder} has finished it"
        about.prose("Nothing is left to stop, unless that run goes on with another.", style.width)
        about.command("How it stands", f"{style.program} status {report.job}", style.width)
    elif report.done:
        about.state = "stopped"
        about.rest = f" by request{stands} ({lease.holder})"
        about.prose("The next trigger goes on where it stopped.", style.width)
    else:
        about.state = "asked"
        about.rest = f" {lease.holder} to stop; it has not answered"
        about.prose(
            "It stops at its next checkpoint, or its lease ends by itself at"
            f" {words.moment(lease.expires_at, report.at)}, unless it is renewed.",
            style.width,
        )
        force = f'{style.program} stop {report.job} --force -m "why"'
        about.command("To fence it out now", force, style.width)
    return about
