"""The small pieces that all texts are made of: numbers, spans of time, colour, signs.

Every function takes the present as an argument, so that a text is a function of values.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from ..app import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...core.events import IntervalReport, PlannedAnew, RunReport, Started, Stopping, Waits
    from ...core.model import Lease
    from ...core.planning import Pause

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}

COLOURS = {
    "ok": "green",
    "completed": "green",
    "running": "cyan",
    "fencing": "cyan",
    "needs approval": "yellow",
    "waiting": "yellow",
    "retrying": "yellow",
    "delayed": "yellow",
    "paused": "yellow",
    "busy": "yellow",
    "interrupted": "yellow",
    "out of time": "yellow",
    "stopped": "yellow",
    "unfinished": "yellow",
    "failed": "red",
    "overdue": "red",
    "stalled": "red",
    "incomplete": "red",
    "fenced out": "red",
    "skipped": "dim",
    "new": "dim",
}
"""Colour of a state or outcome by its word; the word alone is enough to understand."""

_SIGNS = {
    "completed": ("\N{CHECK MARK}", "+"),
    "failed": ("\N{BALLOT X}", "x"),
    "skipped": ("\N{EN DASH}", "-"),
    "running": ("\N{BLACK RIGHT-POINTING SMALL TRIANGLE}", ">"),
    "fencing": ("\N{BLACK RIGHT-POINTING SMALL TRIANGLE}", ">"),
    "needs approval": ("!", "!"),
    "pending": ("\N{MIDDLE DOT}", "."),
    "waiting": ("\N{MIDDLE DOT}", "."),
    "delayed": ("\N{MIDDLE DOT}", "."),
    "paused": ("\N{MIDDLE DOT}", "."),
}
_UNFINISHED = ("\N{HORIZONTAL ELLIPSIS}", "~")


_COMMAND = re.compile(rf"\breconcile (?=(?:{'|'.join(COMMANDS)})\b)")
"""Where a text of the core names a command to type."""


class Style(NamedTuple):
    """How a stream may be written to: escape codes, letters beyond ASCII, columns.

    `program` is how commands to type begin, with the options that find this configuration
    and store again.
    """

    colour: bool = False
    unicode: bool = True
    width: int = 80
    program: str = "reconcile"

    def paint(self, text: str, colour: str) -> str:
        """The text in a colour of `_CODES`, or as it is."""
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if self.colour and colour else text

    def commands(self, text: str) -> str:
        """The text with each command to type beginning with `program`."""
        if self.program == "reconcile":
            return text
        return _COMMAND.sub(lambda _: f"{self.program} ", text)

    def state(self, word: str) -> str:
        """A state or outcome in its colour."""
        return self.paint(word, COLOURS.get(word, ""))

    def sign(self, shows: str) -> str:
        """One letter for a displayed state of an interval."""
        letters = _SIGNS.get(shows, _UNFINISHED)
        return self.paint(letters[0 if self.unicode else 1], COLOURS.get(shows, ""))

    @property
    def dots(self) -> str:
        """What stands for something left out."""
        return "\N{HORIZONTAL ELLIPSIS}" if self.unicode else "..."


def shown(text: str) -> str:
    """Control characters as escapes: a name that has one in it begins no line of its own and
    tells a terminal nothing."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def names_command(text: str) -> bool:
    """Whether a text of the core has a command to type in it."""
    return _COMMAND.search(text) is not None


def number(value: int) -> str:
    """With thousands separators."""
    return f"{value:,}"


def count(value: int, noun: str) -> str:
    """`1 range`, `69 ranges`."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def span(seconds: float) -> str:
    """A span of time in at most two units: `0.4s`, `46s`, `11m 05s`, `24h 10m`, `3d 02h`."""
    if 0 < seconds < 10:
        return f"{seconds:.1f}s"
    whole = round(max(0.0, seconds))
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m {whole % _MINUTE:02d}s"
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h {whole % _HOUR // _MINUTE:02d}m"
    return f"{whole // _DAY}d {whole % _DAY // _HOUR:02d}h"


def age(seconds: float) -> str:
    """A span of time in one unit: `2s`, `41m`, `24h`, `3d`."""
    whole = int(max(0.0, seconds))
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    return f"{whole // _DAY}d"


def about(seconds: float) -> str:
    """How long something usually takes: `0.4s`, `46s`, `11m`, `2h`."""
    return span(seconds) if seconds < _MINUTE else age(seconds)


def stamp(instant: datetime) -> str:
    """`2026-11-29T02:30:04Z`, as it begins a line of a log."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(instant: datetime, now: datetime | None = None) -> str:
    """`2026-11-29 02:30:04Z`; the time alone where the date is that of `now`."""
    utc = instant.astimezone(UTC)
    if now is not None and utc.date() == now.astimezone(UTC).date():
        return utc.strftime("%H:%M:%SZ")
    return utc.strftime("%Y-%m-%d %H:%M:%SZ")


def minute(instant: datetime) -> str:
    """`2026-11-30 02:30Z`; with seconds where they are not zero."""
    utc = instant.astimezone(UTC)
    return utc.strftime("%Y-%m-%d %H:%MZ" if utc.second == 0 else "%Y-%m-%d %H:%M:%SZ")


def local(instant: datetime) -> str:
    """`Mon 2026-11-30 03:30 +01:00`, in the zone that the instant has; with seconds where
    they are not zero."""
    seconds = ":%S" if instant.second else ""
    return f"{instant:%a %Y-%m-%d %H:%M{seconds}} {instant.isoformat()[19:]}"


def rfc3339(instant: datetime | None) -> str | None:
    """For JSON; fractions of a second only where there are any."""
    if instant is None:
        return None
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def seconds_between(earlier: datetime, later: datetime) -> float:
    """Never below zero: clocks of two machines differ a little."""
    return max(0.0, (later - earlier).total_seconds())


def of_total(done: int, total: int | None, *, exact: bool) -> str:
    """`17/69`, `17/~69` where the total is a guess, `17` where there is none."""
    if total is None:
        return f"{done}"
    return f"{done}/{total}" if exact else f"{done}/~{total}"


def command_standing(done: int, total: int | None) -> str:
    """The same of a command, which has ranges only where it is configured so."""
    if total is None:
        return ""
    return f" after range {done:,} of {total:,}" if done else " before its first range ended"


def standing(done: int, total: int | None, phase: str, *, changed: bool = False) -> str:
    """Where a run stands, as the end of a sentence: ` after range 18 of 69` while it applies,
    `: planned 18 ranges, nothing applied yet` before. `changed`: an earlier plan was applied
    in part."""
    if phase == "command":
        return command_standing(done, total)
    if phase != "planning" and done:
        return f" after range {done:,}" + ("" if total is None else f" of {total:,}")
    planned = done if phase == "planning" else total or 0
    if not planned:
        return " before its first range"
    none = "nothing of that" if changed else "nothing"
    return f": planned {count(planned, 'range')}, {none} applied yet"


def stopping(report: Stopping) -> str:
    """`stopping after range 18`: the one under way."""
    if report.phase == "command":
        return "stopping: its command has been told to end"
    planning = "planning " if report.phase == "planning" else ""
    return f"stopping after {planning}range {report.range}"


def planned_anew(report: PlannedAnew) -> str:
    """`the source has changed: planned anew`."""
    return f"{report.why}: planned anew"


def waits(report: Waits) -> str:
    """`waits for db1 pid 4711 until 02:51:09Z`: whoever has the lease."""
    until = moment(report.until, report.at)
    return f"waits for {report.lease.holder} until {until}"


def stopped_at(report: IntervalReport) -> str:
    """Where a run was stopped, as the end of a sentence."""
    at = standing(
        report.ranges_done,
        report.ranges_total,
        report.phase,
        changed=any(report.changes.values()),
    )
    if report.work == "command":
        return f"{at}; the next run goes on from its last checkpoint"
    return f"{at}; checkpoint saved" if report.ranges_done or report.phase != "planning" else at


def paused(pause: Pause, now: datetime) -> str:
    """`until 05:00:00Z (1h 46m) by alice: "failover, OPS-80"`."""
    until = "until unpaused"
    if pause.until is not None:
        left = span(seconds_between(now, pause.until))
        until = f"until {moment(pause.until, now)} ({left})"
    return f'{until} by {shown(pause.actor)}: "{shown(pause.reason)}"'


def rated(report: RunReport) -> str:
    """` for its rate of 4/h until 03:31:00Z: 2026-11-28 and 12 more`."""
    from ...core.rates import show_rate  # not before there is a rate

    assert report.rate is not None
    assert report.retry_at is not None
    more = f" and {report.left - 1:,} more" if report.left > 1 else ""
    until = moment(report.retry_at, report.at)
    return f" for its rate of {show_rate(report.rate)} until {until}: {report.waiting}{more}"


def backfilled(report: IntervalReport) -> str:
    """` (backfill #4, 24/90)` of one that belongs to a backfill."""
    if report.backfill is None:
        return ""
    number, nth, of = report.backfill
    return f" (backfill #{number}, {nth:,}/{of:,})"


def short_changes(changes: Mapping[str, int]) -> str:
    """`+402 -91 ~0`: granted, revoked, updated."""
    grant, revoke, update = (changes.get(kind, 0) for kind in ("grant", "revoke", "update"))
    return f"+{grant:,} -{revoke:,} ~{update:,}"


def long_changes(changes: Mapping[str, int]) -> str:
    """`402 granted, 91 revoked, 0 updated`."""
    grant, revoke, update = (changes.get(kind, 0) for kind in ("grant", "revoke", "update"))
    return f"{grant:,} granted, {revoke:,} revoked, {update:,} updated"


def percent(part: int, whole: int) -> str:
    """`11.3%`; `-` where there is no whole."""
    return f"{100 * part / whole:.1f}%" if whole else "-"


def holder_of(lease: Lease) -> str:
    """`db1 pid 4711, user svc-rec`."""
    user = f", user {lease.holder.user}" if lease.holder.user else ""
    return f"{lease.holder}{user}"


def resumed(report: Started) -> str:
    """` at range 18/69`; while it plans, ` planning at range 18/~69`."""
    if report.work == "command" and report.total is None:
        return " from its last checkpoint"
    planning = report.phase == "planning"
    at = of_total(report.at_range or 1, report.total, exact=not planning)
    return f" planning at range {at}" if planning else f" at range {at}"


def figures(report: IntervalReport) -> str:
    """`, 24 ranges, count 1,000`: what a command is known to have done."""
    ranges = "" if report.ranges_total is None else f", {count(report.ranges_done, 'range')}"
    counted = "" if report.count is None else f", count {report.count:,}"
    return f"{ranges}{counted}"


def cut_sum(text: str | None, style: Style) -> str:
    """The first digits of a checksum, enough to compare two at a glance."""
    return f"{text.rsplit(':', 1)[-1][:8]}{style.dots}" if text else "-"


def facts(rows: Sequence[tuple[str, str]], *, indent: int = 2) -> list[str]:
    """Lines of label and text, the texts one below the other."""
    wide = max((len(label) for label, _ in rows), default=0)
    return [f"{'':{indent}}{label:{wide}}  {text}" for label, text in rows]


def gone(report: Started) -> str:
    """What became of the holder that a run was taken over from."""
    if report.dead:
        if report.work == "command" and report.total is None:
            return "was killed"
        planning = "planning " if report.phase == "planning" else ""
        where = f" after {planning}range {report.after_range}" if report.after_range else ""
        return f"was killed{where}"
    if report.silent is None:
        return "has gone silent"
    return f"has been silent for {age(report.silent)}"


def left_over(report: RunReport) -> str:
    """What a trigger did not get to: ` before 2026-11-29, and 2 more are due`."""
    if not report.waiting:
        return " before the next interval"
    more = report.left - 1
    rest = f", and {more:,} more {'is' if more == 1 else 'are'} due" if more else ""
    return f" before {report.waiting}{rest}"
