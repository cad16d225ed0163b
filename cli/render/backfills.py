"""How a backfill stands: what it would do, how far it is, what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.rates import show_rate
from . import words
from .told import Told
from .words import rfc3339

if TYPE_CHECKING:
    from datetime import datetime

    from ...core.backfills import BackfillReport, BackfillView
    from ...core.events import BackfillWaits
    from .words import Style

_WIDEST = 34


def told(report: BackfillReport, style: Style) -> Told:
    """What became of a call of `backfill`."""
    if report.view is None:
        return Told(report.job, "has no backfill", " that runs")
    says = {
        "planned": _planned,
        "nothing": _nothing,
        "changed": _changed,
        "cancelled": _cancelled,
        "finished": _finished,
        "finished_before": _finished,
    }.get(report.did, _left)
    return says(report, report.view, style)


def _name(report: BackfillReport, view: BackfillView) -> str:
    return f"{report.job} backfill #{view.backfill.record.number}"


def _planned(report: BackfillReport, view: BackfillView, style: Style) -> Told:
    record = view.backfill.record
    parts = [f"{record.to_run:,} to run"]
    if record.standing:
        again = ", to be done again" if record.rerun_completed else " already"
        parts.append(f"{record.standing:,} completed{again}")
    if record.opened:
        goes = "goes" if record.opened == 1 else "go"
        parts.append(f"{record.opened:,} unfinished ({goes} first)")
    if report.overtaken:
        parts.append(f"{report.overtaken:,} too old")
    about = Told(report.job, words.count(record.total, "interval"), f": {', '.join(parts)}")
    about.prose(_forecast(report, view), style.width)
    if report.overtaken:
        about.prose(_too_old(report), style.width)
    about.prose("live intervals go first. Nothing registered (--dry-run).", style.width)
    return about


def _too_old(report: BackfillReport) -> str:
    return (
        f"{report.overtaken:,} are older than {report.newest}, which the target has completed: they"
        " would undo newer truth, and end failed (overtaken) without being tried"
    )


def _forecast(report: BackfillReport, view: BackfillView) -> str:
    rate, paused = view.backfill.rate, view.backfill.paused
    if paused:
        return "at a rate of 0 none is begun until it gets another"
    at = [] if rate is None else [show_rate(rate)]
    if report.usual is not None:
        at.append(f"the usual {words.span(report.usual)} each")
    if view.until is None:
        return "none has been completed yet, so nobody knows how long one takes"
    span = words.age(words.seconds_between(report.at, view.until))
    until = words.minute(view.until.replace(second=0, microsecond=0))
    return f"at {' and '.join(at)}: about {span}, until {until}"


def _nothing(report: BackfillReport, view: BackfillView, style: Style) -> Told:
    record = view.backfill.record
    rest = f": {record.standing:,} of {words.count(record.total, 'interval')} are completed"
    if record.opened:
        rest += f", {record.opened:,} unfinished, which triggers go on with"
    about = Told(report.job, "nothing to do", rest)
    if record.standing:
        about.prose("To work completed ones again: --rerun-completed", style.width)
    return about


def _changed(report: BackfillReport, view: BackfillView, style: Style) -> Told:
    record, rate = view.backfill.record, view.backfill.rate
    if view.backfill.paused:
        about = Told(_name(report, view), "paused", f" after {_of(view)}; nothing more is begun")
        on = f'{style.program} backfill {report.job} --rate 10/h -m "why"'
        about.command("To go on", on, style.width)
        return about
    pace = "without a rate" if rate is None else f"at {show_rate(rate)}"
    about = Told(_name(report, view), "goes on", f" {pace} after {_of(view)}{_ends(report, view)}")
    about.prose(f"Every trigger of {report.job} goes on with it.", style.width)
    return about if record.ended_at is None else _finished(report, view, style)


def _ends(report: BackfillReport, view: BackfillView) -> str:
    if view.until is None:
        return ""
    return f", about {words.about(words.seconds_between(report.at, view.until))} left"


def _cancelled(report: BackfillReport, view: BackfillView, style: Style) -> Told:
    done = _done(view)
    if view.backfill.record.ended_at is None:
        about = Told(_name(report, view), "is being cancelled", f" after {_of(view)}")
        about.prose("Its rest ends when the holder decides next.", style.width)
        return about
    about = Told(_name(report, view), "cancelled", f": {done}")
    again = f'{style.program} rerun {report.job} ID -m "why"'
    about.command("To work one of the rest after all", again, style.width)
    return about


def _finished(report: BackfillReport, view: BackfillView, style: Style) -> Told:
    record = view.backfill.record
    if record.cancelled:
        return _cancelled(report, view, style)
    about = Told(_name(report, view), "finished", f": {_done(view)}")
    if report.did == "finished_before":
        about.prose(
            "It was asked for in the same words before, so nothing was done again. To do it once"
            " more, give another reason.",
            style.width,
        )
    if view.done.get("failed"):
        look = f"{style.program} status {report.job} --state failed"
        about.command("Which failed", look, style.width)
    return about


def _left(report: BackfillReport, view: BackfillView, style: Style) -> Told:
    program = f"{style.program} backfill {report.job}"
    if view.backfill.paused:
        return _changed(report, view, style)
    about = Told(
        _name(report, view),
        f"left after {_of(view)}",
        f"; every trigger of {report.job} goes on with it",
    )
    about.command("Another rate, 0 pauses", f'{program} --rate 30/h -m "why"', style.width)
    about.command("Give up the rest", f'{program} --cancel -m "why"', style.width)
    return about


def _of(view: BackfillView) -> str:
    return f"{_ended(view):,} of {max(view.backfill.record.to_run, _ended(view)):,}"


def _ended(view: BackfillView) -> int:
    return sum(view.done.values())


def _done(view: BackfillView) -> str:
    return ", ".join(
        f"{view.done.get(state, 0):,} {state}" for state in ("completed", "failed", "skipped")
    )


def waiting_lines(report: BackfillWaits, style: Style) -> list[str]:
    """Two lines for a terminal: how far it is, and when it goes on."""
    view = report.view
    record = view.backfill.record
    ended = _ended(view)
    number = max(record.to_run, ended, 1)
    tail = f"{ended:,}/{number:,}"
    if view.until is not None:
        tail += f"  about {words.span(words.seconds_between(report.at, view.until))} left"
    name = f"{report.job} backfill #{record.number}"
    room = min(_WIDEST, style.width - len(name) - len(tail) - 5)
    full = room * ended // number
    done, rest = ("\N{BOX DRAWINGS HEAVY HORIZONTAL}",) * 2 if style.unicode else "#-"
    if style.unicode and not style.colour:
        rest = "\N{BOX DRAWINGS LIGHT HORIZONTAL}"
    bar = ""
    if room > 0:
        bar = f"{style.paint(done * full, 'cyan')}{style.paint(rest * (room - full), 'dim')}  "
    now = "" if view.next_id is None else f"  next {view.next_id}"
    starts = "while somebody else works"
    if report.until is not None:
        starts = f"next start in {words.span(words.seconds_between(report.at, report.until))}"
    return [f"{name}  {bar}{tail}", f"{now}   {_done(view)}   {starts}"[: style.width]]


def pauses(number: int, until: datetime, now: datetime, left: int) -> str:
    """`backfill #4 pauses for its rate to 14:56:02Z; 66 left`."""
    return f"backfill #{number} pauses for its rate to {words.moment(until, now)}; {left:,} left"


def summary(view: BackfillView, now: datetime) -> str:
    """`#4, 2026-08-01 to 2026-10-31 at 10/h: 23 of 90, 67 left, about 6h`, in `status`."""
    backfill, record = view.backfill, view.backfill.record
    pace = "" if backfill.rate is None else f" at {show_rate(backfill.rate)}"
    if backfill.cancelled is not None:
        pace = f", being cancelled by {backfill.cancelled.name}"
    elif backfill.paused:
        pace = ", paused"
    ends = ""
    if view.until is not None:
        ends = f", about {words.about(words.seconds_between(now, view.until))}"
    failed = view.done.get("failed", 0)
    bad = f" ({failed:,} failed)" if failed else ""
    return (
        f"#{record.number}, {record.first_id} to {record.last_id}{pace}: {_of(view)}{bad},"
        f" {view.left:,} left{ends}; by {record.actor}"
    )


def as_object(report: BackfillReport, code: int) -> dict[str, Any]:
    """What `backfill --json` says."""
    return {
        "job": report.job,
        "exit": code,
        "did": report.did,
        "backfill": None if report.view is None else view_object(report.view),
        "overtaken": report.overtaken,
        "usual_seconds": report.usual,
    }


def view_object(view: BackfillView) -> dict[str, Any]:
    """A backfill, for programs."""
    backfill, record = view.backfill, view.backfill.record
    by = backfill.cancelled
    return {
        "number": record.number,
        "from": record.first_id,
        "to": record.last_id,
        "actor": record.actor,
        "reason": record.reason,
        "asked_at": rfc3339(record.asked_at),
        "rate": None if backfill.rate is None else show_rate(backfill.rate),
        "paused": backfill.paused,
        "rerun_completed": record.rerun_completed,
        "cancelled": record.cancelled or by is not None,
        "intervals": record.total,
        "to_run": record.to_run,
        "completed_before": record.standing,
        "unfinished_before": record.opened,
        "begun": record.begun,
        "done": dict(view.done),
        "left": view.left,
        "next": view.next_id,
        "next_start_at": rfc3339(view.starts_at),
        "until": rfc3339(view.until),
        "ended_at": rfc3339(record.ended_at),
    }
