"""One job's intervals as a calendar: a row a month, a day or an hour, a cell an instant or so.

Cells are as long as the schedule asks for: days for a nightly job, hours for an hourly one, a few
minutes for what runs all the time. So a calendar needs no more records than it has cells, however
long the history is. Rows and cells are those of UTC, as interval ids are.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import TYPE_CHECKING, NamedTuple

from ..config import DAY, HOUR, MINUTE
from ..schedule import TICK
from ..status import Strip, StripRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..status import IntervalView
    from .history import History
    from .look import Look
    from .views import Choice, Viewer

MOST = 400
"""So many intervals are looked at."""
MOST_ROWS = 24
URGENT = (
    "failed",
    "overdue",
    "needs approval",
    "stalled",
    "running",
    "fencing",
    "retrying",
    "unfinished",
    "delayed",
    "pending",
    "paused",
    "skipped",
    "completed",
)
"""Of several states in one cell the first of these is shown."""


class _Scale(NamedTuple):
    """Rows of that name with cells so long, of which so many are shown unless more are asked
    for; for jobs whose instants are at least `period` apart."""

    row: str
    cell: timedelta
    rows: int
    period: timedelta


SCALES = (
    _Scale("month", DAY, 3, DAY / 2),
    _Scale("day", HOUR, 7, HOUR / 2),
    *(_Scale("hour", n * MINUTE, 6, n * MINUTE) for n in (15, 10, 5, 2, 1)),
)


def strip(viewer: Viewer, seen: Look, history: History, choice: Choice) -> Strip | None:
    """The calendar of a job's newest intervals; None for a job that has no schedule now."""
    period = seen.schedule.period if seen.schedule is not None else None
    if period is None:
        return None
    scale = next((one for one in SCALES if period >= one.period), SCALES[-1])
    starts = list(_starts(scale, seen.now, choice.since))
    cells: dict[datetime, str] = {}
    for view in _views(viewer, seen, history, starts[-1]):
        for at in _instants(view, seen, starts[-1]):
            place = _cell(at, scale)
            known = cells.get(place)
            if known is None or URGENT.index(view.shows) < URGENT.index(known):
                cells[place] = view.shows
    rows = [StripRow(at, [cells.get(c) for c in _cells(at, scale)]) for at in reversed(starts)]
    while rows and not any(rows[0].cells):
        del rows[0]
    return Strip(scale.row, scale.cell, rows) if rows else None


def _views(viewer: Viewer, seen: Look, history: History, since: datetime) -> Iterator[IntervalView]:
    due = [one.interval.scheduled_at for one in seen.decision.due if one.record is None]
    yield from (viewer.pending(at) for at in due if at >= since)
    records = takewhile(
        lambda record: (record.until_at or record.scheduled_at) >= since, islice(history, MOST)
    )
    yield from map(viewer.view, records)


def _instants(view: IntervalView, seen: Look, since: datetime) -> Sequence[datetime]:
    record = view.record
    if record.until_at is None or seen.schedule is None:
        return [record.scheduled_at]
    after = max(record.scheduled_at, since) - TICK
    return list(islice(seen.schedule.between(after, record.until_at), MOST))


def _start(at: datetime, row: str) -> datetime:
    """Where the row of an instant begins."""
    hour = at.replace(minute=0, second=0, microsecond=0)
    if row == "hour":
        return hour
    day = hour.replace(hour=0)
    return day if row == "day" else day.replace(day=1)


def _starts(scale: _Scale, now: datetime, since: timedelta | None) -> Iterator[datetime]:
    """Where the rows begin, newest first."""
    at = _start(now, scale.row)
    for number in range(1, MOST_ROWS + 1):
        yield at
        if number >= scale.rows and (since is None or at <= now - since):
            return
        at = _start(at - TICK, scale.row)


def _cell(at: datetime, scale: _Scale) -> datetime:
    start = _start(at, scale.row)
    return start + (at - start) // scale.cell * scale.cell


def _cells(start: datetime, scale: _Scale) -> Iterator[datetime]:
    at = start
    while _start(at, scale.row) == start:
        yield at
        at += scale.cell
