"""What became of an interval or a trigger, in full: for a terminal, and for the mail that
cron makes of a new failure. The form of one line is in `lines`.

First what happened to what; then facts, indented; last the commands to type next, complete
and on one line each, so that they can be copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.model import Outcome
from . import words
from .guards import GUARDS, approve_command, guard_facts, planned

if TYPE_CHECKING:
    from ...core.errors import ReconcileError
    from ...core.events import DryRun, IntervalReport, RunReport, Started
    from .words import Style

_NARROWEST = 40


class Told:
    """One thing to say: about what, its state, the rest of that sentence, and details."""

    def __init__(self, about: str, state: str, rest: str = "") -> None:
        self.about = about
        self.state = state
        self.rest = rest
        self.details: list[str] = []

    def text(self, style: Style, *, before: str = "", gap: str = "  ") -> str:
        """All lines, ending with a newline; the sentence wrapped to the width."""
        sentence = f"{before}{self.about}{gap}{self.state}{self.rest}"
        first, *more = wrapped(sentence, style.width, first="")
        at = len(before) + len(self.about) + len(gap)
        if first[at : at + len(self.state)] == self.state:
            first = f"{first[:at]}{style.state(self.state)}{first[at + len(self.state) :]}"
        return "\n".join([first, *more, *self.details]) + "\n"

    def prose(self, text: str, width: int) -> None:
        """A sentence, indented and wrapped."""
        self.details += wrapped(text, width)

    def facts(self, rows: list[tuple[str, str]], width: int) -> None:
        """Labels and texts; what does not fit goes on below the text."""
        wide = max((len(label) for label, _ in rows), default=0)
        for label, text in rows:
            start = f"  {label:{wide}}  "
            self.details += wrapped(text, width, first=start, rest=" " * len(start))

    def command(self, label: str, command: str) -> None:
        """A command to type, never wrapped."""
        self.details.append(f"  {label}: {command}")


def wrapped(text: str, width: int, first: str = "  ", rest: str = "  ") -> list[str]:
    """Lines of at most `width` columns; words, paths and commands are not broken."""
    from textwrap import wrap

    return wrap(
        text,
        max(width, _NARROWEST),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    ) or [first.rstrip()]


# --- one interval


def started(report: Started, style: Style) -> Told | None:
    """How a run goes on where an earlier one stood; None for one that begins."""
    if report.at_range is None:
        return None
    at = words.of_total(report.at_range, report.total, exact=report.phase != "planning")
    told = Told(f"{report.job} {report.interval}", "resumed", f" at range {at}")
    if report.killed is not None:
        told.prose(
            f"The run on {report.killed} {words.gone(report)}: generation"
            f" {report.killed_generation} -> {report.generation}. The target was fenced first:"
            " whatever that run still tries is refused.",
            style.width,
        )
    return told


def interval(report: IntervalReport, style: Style) -> Told:
    """How one interval fared."""
    told = _INTERVALS[report.outcome](report, style)
    if report.rerun:
        told.about += f" r{report.rerun}"
    return told


def _about(report: IntervalReport) -> str:
    return f"{report.job} {report.interval}"


def _completed(report: IntervalReport, style: Style) -> Told:
    told = Told(_about(report), "completed")
    if report.known_before:
        told.rest = " already"
    elif report.runs > 1:
        told.rest = f" in {report.runs} runs, {words.span(report.due_seconds)} after it was due"
    else:
        told.rest = f" in {words.span(report.seconds)}"
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


def _failed(report: IntervalReport, style: Style) -> Told:
    told = Told(_about(report), "failed", _because(report.error))
    told.details += _hint(report.error, style)
    if tried := attempt(report):
        told.prose(tried, style.width)
    told.command("Try again now", f"{style.program} resume {report.job} {report.interval}")
    told.command("How it stands", f"{style.program} status {report.job} {report.interval}")
    return told


def _incomplete(report: IntervalReport, style: Style) -> Told:
    told = _failed(report, style)
    told.state = "incomplete"
    return told


def attempt(report: IntervalReport) -> str:
    """How often it was tried, and when it is tried again; empty where nothing is known."""
    parts = []
    if report.attempt:
        parts.append(f"attempt {report.attempt} of {report.max_attempts}")
    if report.attempt and report.attempt >= report.max_attempts:
        parts.append("no trigger tries it again")
    elif report.retry_at is not None:
        parts.append(f"next not before {words.moment(report.retry_at, report.at)}")
    return ", ".join(parts)


def _needs_approval(report: IntervalReport, style: Style) -> Told:
    told = Told(_about(report), "needs approval")
    guard = report.guard
    changed = sum(report.changes.values()) if report.changes else 0
    nothing = "Nothing more was changed." if changed and not guard else "Nothing was changed."
    if guard is None:
        told.rest = f": a guard waits for somebody. {nothing}"
        told.command("Look", f"{style.program} status {report.job} {report.interval}")
        return told
    if report.refused_hash:
        told.rest = ": not the changes that were approved"
        rows = [("approved", report.refused_hash), ("planned", f"{planned(guard)}, {guard.hash}")]
    else:
        told.rest = f": {GUARDS.get(guard.guard, guard.guard)}. {nothing}"
        rows = guard_facts(guard)
    told.facts(rows, style.width)
    told.details.append("")
    told.command("Approve", approve_command(report.job, report.interval, guard.hash, style))
    told.command("Refuse", f"{style.program} skip {report.job} {report.interval}")
    told.prose(
        "Until then no trigger tries this interval again; the next is judged on its own.",
        style.width,
    )
    return told


def _fenced_out(report: IntervalReport, style: Style) -> Told:
    told = Told(_about(report), "stopped", ": another run has taken over (fenced out)")
    if report.newer is not None:
        newer = report.newer
        told.prose(
            f"This run had generation {report.generation}. Generation {newer.fence.generation}"
            f" on {newer.holder} took over at {words.moment(newer.granted_at, report.at)}.",
            style.width,
        )
    told.prose(
        f"{_what_stands(report)} What was under way was refused and left nothing behind.",
        style.width,
    )
    told.command(
        "Nothing to do. Watch the other", f"{style.program} status {report.job} {report.interval}"
    )
    return told


def _what_stands(report: IntervalReport) -> str:
    if report.ranges_done == 0:
        return "No range was finished."
    return f"Ranges 1-{report.ranges_done} stand." if report.ranges_done > 1 else "Range 1 stands."


def _interrupted(report: IntervalReport, style: Style) -> Told:
    by = report.signal or ""
    rest = f" after range {_where(report)}; checkpoint saved"
    told = Told(_about(report), "interrupted", rest)
    if by and not by.startswith("SIG"):
        told.rest = f" ({by}){rest}"
    told.command(
        f"The next trigger goes on at range {report.ranges_done + 1}. Now",
        f"{style.program} resume {report.job}",
    )
    return told


def _out_of_time(report: IntervalReport, style: Style) -> Told:
    told = _interrupted(report, style)
    told.state, told.rest = "out of time", f" after range {_where(report)}; checkpoint saved"
    return told


def _where(report: IntervalReport) -> str:
    total = "" if report.ranges_total is None else f" of {report.ranges_total}"
    return f"{report.ranges_done}{total}"


def _waits(report: IntervalReport, style: Style) -> Told:
    del style
    until = "" if report.retry_at is None else f" until {words.moment(report.retry_at, report.at)}"
    return Told(_about(report), report.outcome.value.replace("_", " "), until)


_INTERVALS = {
    Outcome.COMPLETED: _completed,
    Outcome.FAILED: _failed,
    Outcome.INCOMPLETE: _incomplete,
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
        return _nothing_due(report)
    told = Told(report.job, report.outcome.value.replace("_", " "), _because(report.error))
    told.details += _hint(report.error, style)
    if report.outcome in {Outcome.INTERRUPTED, Outcome.OUT_OF_TIME}:
        told.rest += " before the next interval; the next trigger goes on"
    if report.retry_at is not None:
        told.rest += f" until {words.moment(report.retry_at, report.at)}"
    if report.guard is not None:
        told.facts(guard_facts(report.guard), style.width)
    return told


def _nothing_due(report: RunReport) -> Told:
    told = Told(report.job, "nothing due")
    if report.new:
        told.state = "new"
        told.rest = ", nothing due yet"
        if report.next_due is not None:
            until = words.seconds_between(report.at, report.next_due)
            told.rest += f": first interval {words.minute(report.next_due)}, in {words.span(until)}"
        return told
    parts = []
    if report.last_interval and report.last_completed_at:
        ago = words.seconds_between(report.last_completed_at, report.at)
        parts.append(f"{report.last_interval} completed {words.age(ago)} ago")
    if report.next_due is not None:
        parts.append(f"next {words.minute(report.next_due)}")
    told.rest = f": {', '.join(parts)}" if parts else ""
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
    told.command("Watch it", f"{style.program} status {report.job}")
    told.command("Stop it", f'{style.program} stop {report.job} -m "why"')
    return told


def _lease_range(report: RunReport) -> str:
    if report.lease_ranges is None:
        return ""
    done, total = report.lease_ranges
    return f"range {done}, " if total is None else f"range {done} of ~{total}, "


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
        told.facts(guard_facts(guard), style.width)
    return told


def _because(error: ReconcileError | None) -> str:
    return "" if error is None else f": {error}"


def _hint(error: ReconcileError | None, style: Style) -> list[str]:
    return (
        wrapped(style.commands(error.hint), style.width) if error is not None and error.hint else []
    )
