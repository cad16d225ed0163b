"""The form of one line: what a run leaves in a file or a journal, for `grep` and for people.

What is wrong is worded by modules that a knock with nothing due does not wait for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.model import Outcome
from . import words

if TYPE_CHECKING:
    from ...core.events import IntervalReport, RunReport, Started
    from .words import Style


def started(report: Started) -> str:
    """`entitlements 2026-11-30 started, generation 9`, or resumed after whom."""
    about = f"{report.job} {report.interval}"
    if report.at_range is None and report.killed is None:
        return f"{about} started, generation {report.generation}"
    line = f"{about} started"
    if report.at_range is not None:
        line = f"{about} resumed{words.resumed(report)}"
    if report.killed is None:
        return f"{line}, generation {report.generation}"
    return (
        f"{line}: the run on {report.killed} {words.gone(report)};"
        f" generation {report.killed_generation} -> {report.generation}"
    )


def interval(report: IntervalReport, style: Style, *, dry_run: bool = False) -> str:
    """How one interval fared. After a dry run no command is named that writes."""
    rerun = f" r{report.rerun}" if report.rerun else ""
    about = f"{report.job} {report.interval}{rerun}"
    says = _SAYS.get(report.outcome)
    if says is None or dry_run:
        from . import faults

        return f"{about} {faults.line(faults.fault(report, style, dry_run=dry_run), style)}"
    return f"{about} {says(report, style)}{words.backfilled(report)}"


def _completed(report: IntervalReport, style: Style) -> str:
    del style
    if report.known_before:
        return "completed already"
    took = f"in {words.span(report.seconds)}"
    if report.runs > 1 and not report.rerun:
        took = f"in {report.runs} runs, {words.span(report.due_seconds)} after it was due"
    if report.work == "command":
        return f"completed {took}{words.figures(report)}"
    proved = "" if report.count is None else f", {words.count(report.count, 'row')} proved equal"
    changes = f": {words.short_changes(report.changes)}{proved}" if report.changes else ""
    return f"completed {took}{changes}"


def _needs_approval(report: IntervalReport, style: Style) -> str:
    from .guards import (
        GUARDS,
        approve_command,
        counted_before,
        guard_limit,
        look_command,
        losing,
        missing,
        refuse_command,
    )

    guard = report.guard
    if guard is None:
        return "needs approval: a guard waits for somebody"
    found = GUARDS.get(guard.guard, guard.guard)
    if report.refused_hash:
        found = f"not the changes that were approved ({report.refused_hash})"
    if guard.missing and not report.refused_hash:
        found = f"{found}: {missing(guard, style)}"
    changes = {"grant": guard.grant, "revoke": guard.revoke, "update": guard.update}
    before = counted_before(guard)
    counted = f" {before};" if before else ""
    accounts = f" accounts: {losing(guard, style)};" if guard.losing_accounts else ""
    return (
        f"needs approval: {found}; {guard_limit(guard)};"
        f" planned {words.short_changes(changes)};{counted}{accounts}"
        f" to look: {look_command(report.job, report.interval, style)};"
        f" to approve: {approve_command(report.job, report.interval, guard.hash, style)};"
        f" to refuse: {refuse_command(report.job, report.interval, style)}"
    )


def _fenced_out(report: IntervalReport, style: Style) -> str:
    del style
    newer = report.newer
    if newer is None:
        return f"fenced out: {report.error or 'another run has taken over'}"
    return (
        f"fenced out: generation {newer.fence.generation} on {newer.holder} took over from"
        f" generation {report.generation} at {words.moment(newer.granted_at, report.at)}"
    )


def _stopped(report: IntervalReport, style: Style) -> str:
    del style
    word = report.outcome.value.replace("_", " ")
    why = f" ({report.signal})" if report.signal else ""
    return f"{word}{why}{words.stopped_at(report)}"


def _waits(report: IntervalReport, style: Style) -> str:
    del style
    until = "" if report.retry_at is None else f" until {words.moment(report.retry_at, report.at)}"
    why = "" if report.error is None else f": {report.error}"
    return f"{report.outcome.value.replace('_', ' ')}{until}{why}"


_SAYS = {
    Outcome.COMPLETED: _completed,
    Outcome.NEEDS_APPROVAL: _needs_approval,
    Outcome.FENCED_OUT: _fenced_out,
    Outcome.INTERRUPTED: _stopped,
    Outcome.OUT_OF_TIME: _stopped,
    Outcome.BUSY: _waits,
    Outcome.WAITING: _waits,
    Outcome.PAUSED: _waits,
    Outcome.NOTHING_DUE: _waits,
}


def run(report: RunReport, style: Style) -> str:
    """What a trigger has to say beyond its intervals."""
    if report.outcome is Outcome.BUSY and report.lease is not None:
        return f"{report.job} {_busy(report)}"
    word = report.outcome.value.replace("_", " ")
    if report.outcome is Outcome.NOTHING_DUE:
        due = "" if report.next_due is None else f", next {words.minute(report.next_due)}"
        return f"{report.job} {word}{due}"
    if report.pause is not None:
        return f"{report.job} {word} {words.paused(report.pause, report.at)}"
    if report.rate is not None:
        return f"{report.job} {_rated(report, word)}"
    from .faults import because, one_line

    until = ""
    if report.retry_at is not None:
        until = f" until {words.moment(report.retry_at, report.at)}"
    elif report.lease is not None:
        until = f" while it waited for {report.lease.holder}; nothing was done"
    elif report.waiting and report.outcome in {Outcome.INTERRUPTED, Outcome.OUT_OF_TIME}:
        until = words.left_over(report)
    text = f"{report.job} {word}{because(report.error)}{until}"
    if report.error is None:
        return text
    hint = style.commands(report.error.hint)
    return one_line(
        "\n".join([text, *filter(None, [hint]), f"see: {style.program} status {report.job}"])
    )


def _rated(report: RunReport, word: str) -> str:
    if report.backfill is None or report.retry_at is None:
        return f"{word}{words.rated(report)}"
    from .backfills import pauses

    return pauses(report.backfill, report.retry_at, report.at, report.left)


def _busy(report: RunReport) -> str:
    lease = report.lease
    assert lease is not None
    ranges = ""
    known = report.lease_ranges
    if known is not None and not (report.lease_phase == "command" and known[1] is None):
        planning = ", planning" if report.lease_phase == "planning" else ""
        ranges = f"{planning}, range {words.of_total(*known, exact=False)}"
    last = words.age(words.seconds_between(lease.progress_at, report.at))
    waits = f"; {report.waiting} waits" if report.waiting else ""
    return (
        f"busy: {report.lease_interval or lease.interval} runs on {lease.holder}, generation"
        f" {lease.fence.generation}, since {words.moment(lease.granted_at, report.at)}{ranges},"
        f" last progress {last} ago{waits}"
    )
