"""What is wrong with an interval, and what to type: for the full form and for that of a line.

A fault is one of: failed or incomplete just now; waiting for its next attempt; final, and
asked for by name; or met by a dry run, which must not lead to a command that writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...core.errors import CommandFailed
from ...core.model import Outcome
from . import words
from .reasons import FAILURES, reason_text
from .told import Told, wrapped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...core.errors import ReconcileError
    from ...core.events import IntervalReport
    from .words import Style

ACCOUNTS_SHOWN = 10
_OVERTAKEN = "overtaken"


class Fault(NamedTuple):
    """`state` and `text` are a sentence, `remarks` follow it. `do` is the command that mends
    it, `look` the one that shows how it stands, each with its label. `brief`: the sentence
    where a line has no room for the accounts. `insists`: a line names `do` too. `also` is another
    command, that mends it in another way; `tail` are a command's last lines."""

    state: str
    text: str
    remarks: tuple[str, ...] = ()
    do: tuple[str, str] | None = None
    look: tuple[str, str] | None = None
    accounts: Mapping[str, str] = {}
    brief: str = ""
    insists: bool = False
    also: tuple[str, str] | None = None
    tail: tuple[str, ...] = ()


def fault(report: IntervalReport, style: Style, *, dry_run: bool) -> Fault:
    """What is wrong with an interval that failed, is incomplete, or was stopped dry."""
    waits = report.known_before and report.retry_at is not None and report.failed_at is not None
    if dry_run:
        dry = _dry(report, style)
        return _waits(report, style)._replace(do=dry.do) if waits else dry
    if waits:
        return _waits(report, style)
    if report.known_before and report.reason is not None:
        return _ended(report, style)
    return _new(report, style)


def full(report: IntervalReport, found: Fault, style: Style) -> Told:
    """In several lines, each command on its own."""
    told = Told(f"{report.job} {report.interval}", found.state, found.text)
    told.details += left_out(found.accounts, style)
    for remark in found.remarks:
        told.prose(style.commands(remark), style.width)
    for text in found.tail:
        told.details += wrapped(text, style.width, "  | ", "  | ")
    for command in (found.do, found.also, found.look):
        if command is not None:
            told.command(*command, style.width)
    return told


def line(found: Fault, style: Style) -> str:
    """In one line, with the hint and where to look."""
    parts = [f"{found.state}{found.brief or found.text}", *map(style.commands, found.remarks)]
    if found.do is not None and (found.insists or found.look is None):
        label, command = found.do
        parts.append(f"{label[0].lower()}{label[1:]}: {command}")
    if found.also is not None:
        label, command = found.also
        parts.append(f"{label[0].lower()}{label[1:]}: {command}")
    if found.look is not None:
        parts.append(f"see: {found.look[1]}")
    return one_line("\n".join(parts))


def left_out(accounts: Mapping[str, str], style: Style, *, indent: int = 4) -> list[str]:
    """Accounts that were left as they are, the first of them by name, with the reason."""
    lines = []
    before = " " * indent
    for account, why in list(accounts.items())[:ACCOUNTS_SHOWN]:
        lines += wrapped(words.shown(f"{account}: {why}"), style.width, before, f"{before}  ")
    if len(accounts) > ACCOUNTS_SHOWN:
        more = len(accounts) - ACCOUNTS_SHOWN
        lines.append(f"{before}{style.dots} {more:,} more (--json has all)")
    return lines


def because(error: ReconcileError | None) -> str:
    """`: what happened`, or nothing."""
    if error is None or not str(error):
        return ""
    return ": " + "\n".join(words.shown(line) for line in str(error).split("\n"))


def attempt(report: IntervalReport) -> str:
    """How often it was tried, and when it is tried again; empty where nothing is known."""
    parts = _counted(report)
    if _was_the_last(report):
        parts.append("no trigger tries it again")
    elif report.retry_at is not None:
        begin = "next" if parts else "next attempt"
        parts.append(f"{begin} not before {words.moment(report.retry_at, report.at)}")
        if _is_never_given_up(report):
            parts.append("never given up")
    return ", ".join(parts)


def one_line(text: str) -> str:
    """A message of several lines as one."""
    joined = "; ".join(line.strip() for line in text.splitlines())
    return joined.replace(":; ", ": ")


def _counted(report: IntervalReport) -> list[str]:
    if not report.attempt:
        return []
    of = "" if _is_never_given_up(report) else f" of {report.max_attempts}"
    return [f"attempt {report.attempt}{of}"]


def _is_never_given_up(report: IntervalReport) -> bool:
    """What is only short of quarantined accounts is tried ever more rarely, but for ever."""
    return report.outcome is Outcome.INCOMPLETE


def _was_the_last(report: IntervalReport) -> bool:
    return not _is_never_given_up(report) and 0 < report.max_attempts <= report.attempt


def _hint(error: ReconcileError | None) -> tuple[str, ...]:
    return (words.shown(error.hint),) if error is not None and error.hint else ()


def _look(report: IntervalReport, style: Style) -> tuple[str, str]:
    return "How it stands", f"{style.program} status {report.job} {report.interval}"


def _resume(label: str, report: IntervalReport, style: Style) -> tuple[str, str]:
    return label, f"{style.program} resume {report.job} {report.interval}"


def _rerun(report: IntervalReport, style: Style) -> tuple[str, str]:
    command = f'{style.program} rerun {report.job} {report.interval} -m "why"'
    return "Work it all the same", command


def _new(report: IntervalReport, style: Style) -> Fault:
    """It failed just now, or left accounts out."""
    error = report.error
    state, text, brief = report.outcome.value.replace("_", " "), because(error), ""
    if report.quarantined:
        n, brief = len(report.quarantined), text
        text = f": {words.count(n, 'account')} {'is' if n == 1 else 'are'} in quarantine"
    if isinstance(error, CommandFailed):
        return _command(report, error, style)
    remarks = (*_hint(error), *filter(None, [attempt(report)]))
    do: tuple[str, str] | None = _resume("Try again now", report, style)
    if report.reason == _OVERTAKEN or (error is not None and error.name == "old_over_new"):
        do = None
        if report.span > 1:
            text = f" with {words.count(report.span - 1, 'other')}{text}"
    elif _was_the_last(report) and report.reason is None:
        remarks = (*remarks, "it stays completed as it was before this rerun")
        do = _rerun(report, style)
    return Fault(state, text, remarks, do, _look(report, style), report.quarantined, brief)


def _command(report: IntervalReport, error: CommandFailed, style: Style) -> Fault:
    """A command ended as it should not."""
    text = f"{because(error)} after {words.span(report.seconds)}"
    do = None
    if not _was_the_last(report):
        do = _resume("Try again now", report, style)
    elif report.reason is None:
        do = _rerun(report, style)
    remarks = tuple(filter(None, [attempt(report)]))
    output = f"{style.program} logs {report.job} {report.interval}"
    return Fault(
        report.outcome.value, text, remarks, do, ("All its output", output), tail=error.tail
    )


def _waits(report: IntervalReport, style: Style) -> Fault:
    """It failed earlier, and waits for its next attempt."""
    assert report.retry_at is not None
    assert report.failed_at is not None
    word = "incomplete" if report.outcome is Outcome.INCOMPLETE else "failed"
    until = words.moment(report.retry_at, report.at)
    at = words.moment(report.failed_at, report.at)
    text = f" until {until} to try again; {word} at {at}{because(report.error)}"
    again = "it is tried ever more rarely, and never given up"
    rare = [again] if _is_never_given_up(report) else []
    do = _resume("Try again now", report, style)
    return Fault("waiting", text, (*_counted(report), *rare), do, _look(report, style))


def _ended(report: IntervalReport, style: Style) -> Fault:
    """It was asked for by name, and is final: how that came, and what can be done."""
    reason = str(report.reason)
    failed = reason in FAILURES
    why = because(report.error)
    when = ""
    if failed and report.failed_at is not None:
        when = f" at {words.moment(report.failed_at, report.at)}"
    elif not failed and why:
        why = f"; it had failed before{why}"
    text = f"{when}: {reason_text(reason)}{why}"
    if report.span > 1:
        text = f" with {words.count(report.span - 1, 'other')}{text}"
    do: tuple[str, str] | None = None
    if failed and reason != _OVERTAKEN:
        do = _resume("Work it all the same", report, style)
    elif not failed and report.span == 1:
        do = _rerun(report, style)
    ended = Fault(
        "failed" if failed else "skipped", text, (), do, _look(report, style), insists=True
    )
    if not report.blocks:
        return ended
    verb = "waits" if report.blocks == 1 else "wait"
    newer = words.count(report.blocks, "newer interval")
    skip = f'{style.program} skip {report.job} {report.interval} -m "why"'
    return ended._replace(
        remarks=(f'{newer} {verb} for it (on_failed = "block")',),
        also=("To go on without it", skip),
    )


def _dry(report: IntervalReport, style: Style) -> Fault:
    """A dry run could not see everything; whatever it was, nothing was written."""
    again = f"{style.program} run {report.job} --interval {report.interval} --dry-run"
    state = report.outcome.value.replace("_", " ")
    text = because(report.error) or ": nothing was written"
    return Fault(state, text, _hint(report.error), ("Try again", again))
