"""What `status` shows: values that follow from records, lease and clock.

`core/operations/overview.py` and `views.py` build them; nothing in here is stored. A job has
one state, the most urgent of: `overdue`, `needs approval`, `failed`, `stalled`, `running`,
`paused`, `waiting`, `new`, `ok`, `on demand`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from .backfills import BackfillView
    from .config import Job
    from .model import JsonObject, Lease
    from .planning import Pause
    from .records import IntervalRecord, RangeRecord, RunRecord


@dataclass(frozen=True, slots=True)
class IntervalView:
    """One interval. `shows` is the displayed state: the stored one, or running, fencing,
    stalled, needs approval, overdue, retrying, paused, delayed. `signed`: who gave it up by
    hand, and with what reason."""

    record: IntervalRecord
    shows: str
    deadline_at: datetime | None
    retry_at: datetime | None = None
    signed: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """Something a person should see to, with the command to type."""

    sign: str
    text: str
    commands: Sequence[str] = ()


class Audit(NamedTuple):
    """From `since` on: how many intervals were intended, how many have a record, and how many
    have none though nothing is left that would give them one."""

    since: datetime
    intended: int
    recorded: int
    missing: int


class StripRow(NamedTuple):
    """A month, day or hour, beginning at `at`: in each cell the most urgent state of the
    intervals scheduled there, None where there is none."""

    at: datetime
    cells: Sequence[str | None]


class Strip(NamedTuple):
    """A job's intervals as a calendar, oldest row first. `cell` is how long one lasts."""

    row: str
    cell: timedelta
    rows: Sequence[StripRow]


@dataclass(frozen=True, slots=True)
class JobStatus:
    """One job. `recent` are its newest intervals, newest first; `lease` is None when nobody
    works; `backlog` counts due or unfinished intervals, `older` those beyond `recent`, or of
    many some; `strip` has those that `recent` has not, too; `worked` is worked now, and has about
    `expected_ranges`, as the last completed one had; `pause` is in force now; `acts` are the
    newest of those by hand that were about the whole job, oldest first. `audit` is
    made where one job was asked for; `backfill` is the one that runs; `window` is that of the
    catch-up policy."""

    job: Job
    state: str
    next_due: datetime | None
    lease: Lease | None
    backlog: int
    oldest_unfinished: IntervalView | None
    oldest_overdue: bool
    last_completed: IntervalRecord | None
    recent: Sequence[IntervalView]
    problems: Sequence[Problem] = ()
    usual_seconds: float | None = None
    slowest_seconds: float | None = None
    timed: int = 0
    older: int = 0
    dated: bool = False
    source: str = ""
    target: str = ""
    deadline: timedelta | None = None
    pause: Pause | None = None
    acts: Sequence[EventView] = ()
    audit: Audit | None = None
    backfill: BackfillView | None = None
    strip: Strip | None = None
    expected_ranges: int | None = None
    worked: IntervalRecord | None = None
    window: timedelta | None = None


@dataclass(frozen=True, slots=True)
class EventView:
    """One line of the audit trail: when, what (`type` and its fields)."""

    at: datetime
    value: JsonObject


@dataclass(frozen=True, slots=True)
class IntervalStatus:
    """One interval with its runs, ranges and trail, each oldest first."""

    job: Job
    view: IntervalView
    runs: Sequence[RunRecord]
    ranges: Sequence[RangeRecord]
    events: Sequence[EventView]
    lease: Lease | None = None
    desired: str | None = None
    observed: str | None = None


@dataclass(frozen=True, slots=True)
class StatusReport:
    """All jobs, with where the configuration and the store are."""

    now: datetime
    jobs: Sequence[JobStatus]
    config: str
    store: str
    interval: IntervalStatus | None = None
    notes: Sequence[str] = field(default_factory=tuple)
