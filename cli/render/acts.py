"""What became of an act by hand: `skip` and `stop`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import words
from .outcomes import Told
from .reasons import reason_text

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
    return Told(f"{report.job} {report.interval}", report.state or "done", reason)


def _stop(report: ActReport, lease: Lease, style: Style) -> Told:
    about = Told(f"{report.job} {report.interval}", "")
    stands = words.of_total(report.ranges_done, report.ranges_total, exact=True)
    if report.forced:
        about.state = "fenced out"
        about.rest = f": {lease.holder} had generation {lease.fence.generation}"
        about.prose(
            f"Whatever it still tries is refused: the fence is at generation {report.generation}."
            f" The next trigger goes on after range {stands}.",
            style.width,
        )
    elif report.done:
        about.state = "stopped"
        about.rest = f" by request: {lease.holder}, after range {stands}"
        about.prose("The next trigger goes on where it stopped.", style.width)
    else:
        about.state = "asked"
        about.rest = f" {lease.holder} to stop; it has not answered"
        about.prose(
            "It stops at its next checkpoint, or its lease ends by itself at"
            f" {words.moment(lease.expires_at, report.at)}, unless it is renewed.",
            style.width,
        )
        about.command("To fence it out now", f"{style.program} stop {report.job} --force")
    return about
