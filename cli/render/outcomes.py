"""What became of an interval or a trigger, in full: for a terminal, and for the mail that
cron makes of a new failure. The form of one line is in `lines`.

First what happened to what; then facts, indented; last the commands to type next, complete
and on one line each, so that they can be copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.model import Outcome
from . import faults, words
from .faults import because
from .guards import (
    GUARDS,
    approve_command,
    guard_facts,
    look_command,
    not_approved,
    refuse_command,
)
from .told import Told, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...core.errors import ReconcileError
    from ...core.events import DryRun, IntervalReport, RunReport, Started
    from .words import Style

# --- one interval


def started(report: Started, style: Style) -> Told | None:
    """How a run goes on where an earlier one stood; None for one that begins."""
    if report.at_range is None:
        return None
    told = Told(f"{report.job} {report.interval}", "resumed", words.resumed(report))
    if report.killed is not None and report.work == "command":
        told.prose(
            f"The run on {report.killed} {words.gone(report)}: generation"
            f" {report.killed_generation} -> {report.generation}. What it had started has ended.",
            style.width,
        )
    elif report.killed is not None:
        told.prose(
            f"The run on {report.killed} {words.gone(report)}: generation"
            f" {report.killed_generation} -> {report.generation}. The target was fenced first:"
            " whatever that run still tries is refused.",
            style.width,
        )
    return told


def interval(
    report: IntervalReport, style: Style, *, dry_run: bool = False, quotes: bool = False
) -> Told:
    """How one interval fared. After a dry run no command is named that writes. `quotes`: with the
    last lines of a command that failed, which its reader has not seen."""
    says = _INTERVALS.get(report.outcome)
    if says is None or dry_run:
        found = faults.fault(report, style, dry_run=dry_run)
        told = faults.full(report, found if quotes else found._replace(tail=()), style)
    else:
        told = says(report, style)
    if report.rerun:
        told.about += f" r{report.rerun}"
    told.rest += words.backfilled(report)
    return told


def _about(report: IntervalReport) -> str:
    return f"{report.job} {report.interval}"


def _completed(report: IntervalReport, style: Style) -> Told:
    told = Told(_about(report), "completed")
    if report.known_before:
        told.rest = " already"
    elif report.runs > 1 and not report.rerun:
        told.rest = f" in {report.runs} runs, {words.span(report.due_seconds)} after it was due"
    else:
        told.rest = f" in {words.span(report.seconds)}"
    if report.work == "command":
        told.rest += words.figures(report)
        return told
    if report.ranges_total is not None:
        told.prose(
            f"{words.count(report.accounts, 'account')} in"
            f" {words.count(report.ranges_done, 'range')}: {words.long_changes(report.changes)}",
            style.width,
        )
    if report.count is not None:
        told.prose(
            f"proved equal: {words.count(report.count, 'row')} on both sides,"
            f" checksum {words.cut_sum(report.checksum, style)} on both sides",
            style.width,
        )
    return told


def _needs_approval(report: IntervalReport, style: Style) -> Told:
    told = Told(_about(report), "needs approval")
    guard = report.guard
    changed = sum(report.changes.values()) if report.changes else 0
    before = f"Nothing more was changed, {words.count(changed, 'change')} before."
    nothing = before if changed else "Nothing was changed."
    if guard is None:
        told.rest = f": a guard waits for somebody. {nothing}"
        look = f"{style.program} status {report.job} {report.interval}"
        told.command("Look", look, style.width)
        return told
    if report.refused_hash:
        told.rest = ": not the changes that were approved"
        rows = not_approved(guard, report.refused_hash, report.refused_guard)
    else:
        told.rest = f": {GUARDS.get(guard.guard, guard.guard)}. {nothing}"
        rows = guard_facts(guard, style)
    told.facts(rows, style.width)
    told.details.append("")
    told.command("Look", look_command(report.job, report.interval, style), style.width)
    approve = approve_command(report.job, report.interval, guard.hash, style)
    told.command("Approve", approve, style.width)
    told.command("Refuse", refuse_command(report.job, report.interval, style), style.width)
    told.prose(
        "Until then no trigger tries it again; the next is judged on its own.",
        style.width,
    )
    return told


def _fenced_out(report: IntervalReport, style: Style) -> Told:
    told = Told(_about(report), "stopped", ": another run has taken over (fenced out)")
    newer, this = report.newer, f"This run had generation {report.generation}"
    if newer is not None:
        if newer.released:
            told.rest = ": its lease was taken away (fenced out)"
        gone = " and has let go of it since" if newer.released else ""
        told.prose(
            f"{this}. Generation {newer.fence.generation} on {newer.holder} took over at"
            f" {words.moment(newer.granted_at, report.at)}{gone}.",
            style.width,
        )
    elif report.error is not None:
        told.prose(f"{this}: {report.error}.", style.width)
    told.prose(_what_stands(report), style.width)
    other = f"{style.program} status {report.job} {report.interval}"
    over = newer is not None and newer.released
    label = "Who did it, and how it stands" if over else "Nothing to do. Watch the other"
    told.command(label, other, style.width)
    return told


def _what_stands(report: IntervalReport) -> str:
    if report.work == "command":
        return "Its command was ended before the other's began."
    refused = "was refused and left nothing behind."
    if report.phase == "planning":
        return f"Nothing was applied; what was under way {refused}"
    if report.ranges_done == 0:
        return f"What it had not committed {refused}"
    ranges = f"Ranges 1-{report.ranges_done} stand" if report.ranges_done > 1 else "Range 1 stands"
    return f"{ranges}; what it had not committed {refused}"


def _interrupted(report: IntervalReport, style: Style) -> Told:
    by = report.signal or ""
    asked = f" ({by})" if by and not by.startswith("SIG") else ""
    return _stopped(report, "interrupted", asked, style)


def _out_of_time(report: IntervalReport, style: Style) -> Told:
    return _stopped(report, "out of time", "", style)


def _stopped(report: IntervalReport, state: str, asked: str, style: Style) -> Told:
    told = Told(_about(report), state, f"{asked}{words.stopped_at(report)}")
    if report.work == "command":
        resume = f"{style.program} resume {report.job}"
        told.command("The next trigger goes on. Now", resume, style.width)
        return told
    on = "planning" if report.phase == "planning" else f"at range {report.ranges_done + 1}"
    resume = f"{style.program} resume {report.job}"
    told.command(f"The next trigger goes on {on}. Now", resume, style.width)
    return told


def _waits(report: IntervalReport, style: Style) -> Told:
    until = "" if report.retry_at is None else f" until {words.moment(report.retry_at, report.at)}"
    told = Told(_about(report), report.outcome.value.replace("_", " "), until)
    if report.error is not None:
        told.prose(f"{report.error}.", style.width)
    return told


_INTERVALS: Mapping[Outcome, Callable[[IntervalReport, Style], Told]] = {
    Outcome.COMPLETED: _completed,
    Outcome.NEEDS_APPROVAL: _needs_approval,
    Outcome.FENCED_OUT: _fenced_out,
    Outcome.INTERRUPTED: _interrupted,
    Outcome.OUT_OF_TIME: _out_of_time,
    Outcome.BUSY: _waits,
    Outcome.WAITING: _waits,
    Outcome.PAUSED: _waits,
    Outcome.NOTHING_DUE: _waits,
}


# --- a whole command


def run(report: RunReport, style: Style) -> Told:
    """What a trigger has to say beyond its intervals."""
    if report.outcome is Outcome.BUSY and report.lease is not None:
        return _busy(report, style)
    if report.outcome is Outcome.NOTHING_DUE:
        return _nothing_due(report, style)
    if report.pause is not None:
        told = Told(report.job, "paused", f" {words.paused(report.pause, report.at)}")
        on = f'{style.program} unpause {report.job} -m "why"'
        told.command("To let triggers go on", on, style.width)
        return told
    if report.backfill is not None and report.retry_at is not None:
        about = f"{report.job} backfill #{report.backfill}"
        until = words.moment(report.retry_at, report.at)
        return Told(about, "pauses", f" for its rate to {until}; {report.left:,} left")
    if report.rate is not None:
        told = Told(report.job, "waiting", words.rated(report))
        told.prose("The next trigger goes on then; nothing is lost.", style.width)
        return told
    told = Told(report.job, report.outcome.value.replace("_", " "), because(report.error))
    told.details += _hint(report.error, style)
    if report.lease is not None:
        told.rest += f" while it waited for {report.lease.holder}; nothing was done"
    elif report.outcome in {Outcome.INTERRUPTED, Outcome.OUT_OF_TIME}:
        told.rest += f"{words.left_over(report)}; the next trigger goes on"
    if report.retry_at is not None:
        told.rest += f" until {words.moment(report.retry_at, report.at)}"
    if report.guard is not None:
        told.facts(guard_facts(report.guard, style), style.width)
    return told


def _nothing_due(report: RunReport, style: Style) -> Told:
    told = Told(report.job, "nothing due")
    if report.new:
        told.state = "new"
        told.rest = ", nothing due yet"
        if report.next_due is not None:
            until = words.seconds_between(report.at, report.next_due)
            told.rest += f": first interval {words.minute(report.next_due)}, in {words.span(until)}"
        dry = f"{style.program} run {report.job} --dry-run"
        told.command("What it would change now", dry, style.width)
        newest = f"{style.program} run {report.job} --interval latest"
        told.command("To work the newest one now", newest, style.width)
        return told
    parts = []
    if report.last_interval and report.last_completed_at:
        ago = words.seconds_between(report.last_completed_at, report.at)
        parts.append(f"{report.last_interval} completed {words.age(ago)} ago")
    if report.next_due is not None:
        parts.append(f"next {words.minute(report.next_due)}")
    told.rest = f": {', '.join(parts)}" if parts else ""
    if report.last_interval:
        again = f'{style.program} rerun {report.job} {report.last_interval} -m "why"'
        told.command("To work it again all the same", again, style.width)
    return told


def _busy(report: RunReport, style: Style) -> Told:
    lease = report.lease
    assert lease is not None
    told = Told(report.job, "busy", f": {report.lease_interval or lease.interval} is being worked")
    since = words.seconds_between(lease.granted_at, report.at)
    rows = [
        (
            "holder",
            f"{words.holder_of(lease)}, since {words.moment(lease.granted_at)}"
            f" ({words.span(since)})",
        ),
        ("progress", f"{_lease_range(report)}last {_progress_age(report)} ago{_usually(report)}"),
    ]
    if report.waiting:
        late = words.age(report.waiting_seconds)
        rows.append(
            ("waiting", f"{report.waiting}, {late} late; it is taken up next, nothing is lost")
        )
    told.facts(rows, style.width)
    told.command("Watch it", f"{style.program} status {report.job}", style.width)
    told.command("Stop it", f'{style.program} stop {report.job} -m "why"', style.width)
    return told


def _lease_range(report: RunReport) -> str:
    if report.lease_ranges is None:
        return ""
    done, total = report.lease_ranges
    if report.lease_phase == "command" and total is None:
        return ""
    planning = "planning, " if report.lease_phase == "planning" else ""
    of = "" if total is None else f" of ~{total}"
    return f"{planning}range {done}{of}, "


def _progress_age(report: RunReport) -> str:
    assert report.lease is not None
    return words.age(words.seconds_between(report.lease.progress_at, report.at))


def _usually(report: RunReport) -> str:
    if report.usual_seconds is None or report.slowest_seconds is None:
        return ""
    return (
        f"; usually done in {words.about(report.usual_seconds)},"
        f" at most {words.about(report.slowest_seconds)}"
    )


def dry_run(report: RunReport, found: DryRun, style: Style) -> Told:
    """What a dry run found, and which guard would stop it; the changes themselves are data."""
    changes = found.changes
    told = Told(
        f"{report.job} {found.interval}",
        "would",
        f" grant {changes.get('grant', 0):,}, revoke {changes.get('revoke', 0):,},"
        f" update {changes.get('update', 0):,}; nothing written",
    )
    if report.guard is not None:
        guard = report.guard
        told.prose(f"It would need approval: {GUARDS.get(guard.guard, guard.guard)}.", style.width)
        told.facts(guard_facts(guard, style), style.width)
    if found.quarantined:
        n = len(found.quarantined)
        stay = (
            "is in quarantine; it stays as it is"
            if n == 1
            else ("are in quarantine; they stay as they are")
        )
        told.prose(f"{words.count(n, 'account')} {stay}:", style.width)
        told.details += faults.left_out(found.quarantined, style)
    return told


def _hint(error: ReconcileError | None, style: Style) -> list[str]:
    return (
        wrapped(style.commands(error.hint), style.width) if error is not None and error.hint else []
    )
