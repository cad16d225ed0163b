"""A backfill: a span of past intervals that somebody asked for, to be worked once each.

It is a record of the store, so it outlives whoever asked: a foreground call, any trigger, on any
host, goes on with it. A job has one at a time. What people change while it runs (`rate`, a stop,
the end) stands in the job's record, which is written under its version; how far it is stands in
its own, which only the holder of the job's lease writes. So neither loses what the other wrote.

*How far* is one instant: `next_at`, the oldest that nobody has looked at. It moves past an
interval in the very batch that opens its run, so that a kill leaves it either not begun or
begun and unfinished, and an unfinished interval is taken on like any other. Nothing is ever
listed: of 250,000 intervals the next one is looked up beside the schedule.

*Share.* Live intervals go first, and a backfill still gets at least every fourth place, so that
neither starves: `live` counts the others begun since its last, in the batch that begins them, over
all triggers and processes. After one of its own, at least the next place is a live one's.

*Rate.* The starts of its runs are counted as those of replays are (see `rates`), all backfills of
a job together: a kill, another process or a new backfill lets no window hold more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from .model import Actor, Kind, Put
from .rates import parse_rate
from .record_fields import Fields, from_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from .events import RunReport
    from .model import Rate
    from .ports import Reader
    from .records import JobRecord

STARTS = "backfill"
"""Key of the record, beside the job's own, that has the newest starts of backfilled runs."""
SHARE = 3
"""After so many others the next place is the backfill's."""
MOST = 10_000
"""No rate is counted that lets more begin in its span: each start is on record."""


@dataclass(frozen=True, slots=True)
class BackfillRecord(Fields):
    """One backfill. Its bounds are inclusive and scheduled. When it was asked for, its span had
    `total` intervals: `to_run` were to be begun, `standing` were completed and `opened` unfinished
    already. `begun` of them are; `next_at` is None once none is left to be looked at.

    `live`: others begun since its last one. `ended_at`: no trigger has to do with it any more.
    """

    number: int
    first_at: datetime
    last_at: datetime
    first_id: str
    last_id: str
    actor: str
    reason: str
    asked_at: datetime
    total: int
    to_run: int
    standing: int
    opened: int
    rerun_completed: bool = False
    next_at: datetime | None = None
    begun: int = 0
    live: int = 0
    ended_at: datetime | None = None
    cancelled: bool = False

    def put(self, job: str) -> Put:
        """The record to be written; only who has the lease does."""
        return Put(Kind.BACKFILL, job, key_of(self.number), self.to_json())


class Backfill(NamedTuple):
    """One that runs, as it stands: its record, and what was said of it since. `rate` None: any
    number may begin. `cancelled` is who gives up the rest."""

    record: BackfillRecord
    rate: Rate | None = None
    paused: bool = False
    cancelled: Actor | None = None

    @property
    def is_its_turn(self) -> bool:
        """Whether the next place is its own, whatever else is due."""
        return self.record.live >= SHARE

    def after_live(self) -> BackfillRecord:
        """Its record when another interval is begun."""
        return replace(self.record, live=min(self.record.live + 1, SHARE))

    def after_own(self, next_at: datetime | None, *, new: bool) -> BackfillRecord:
        """Its record when one of its own is begun, or gone on with; `next_at` is what follows."""
        begun = self.record.begun + new
        return replace(self.record, live=0, begun=begun, next_at=next_at)


def key_of(number: int) -> str:
    """Key of the record of a backfill."""
    return f"{number:06d}"


def running(records: Reader, job: str, of_job: JobRecord) -> Backfill | None:
    """The job's backfill that has not ended; a read only where there is one."""
    said = of_job.backfill
    if said is None:
        return None
    number = said.get("number")
    found = records.get(Kind.BACKFILL, job, key_of(number)) if isinstance(number, int) else None
    if found is None:
        return None
    rate, gives_up = said.get("rate"), said.get("cancelled")
    cancelled = None
    if isinstance(gives_up, dict):
        at = from_text(str(gives_up["at"]))
        cancelled = Actor(str(gives_up["actor"]), str(gives_up["reason"]), at)
    return Backfill(
        BackfillRecord.from_json(found.value),
        parse_rate(rate) if isinstance(rate, str) else None,
        said.get("paused") is True,
        cancelled,
    )


def takes(number: int, rate: Rate | None, usual: float | None) -> timedelta | None:
    """How long so many intervals take, one after the other, each the usual time in seconds, and
    begun as the rate lets them; None where neither is known."""
    if number == 0:
        return timedelta(0)
    if rate is None and usual is None:
        return None
    each = timedelta(seconds=usual or 0.0)
    paced = (number - 1) // rate.amount * rate.per + each if rate is not None else timedelta(0)
    return max(number * each, paced)


class BackfillView(NamedTuple):
    """How one stands: what is left, and how many of its own have ended by state. `next_id` begins
    next, not before `starts_at` (None: at once); at its pace it is over at `until`."""

    backfill: Backfill
    left: int
    done: Mapping[str, int]
    next_id: str | None = None
    starts_at: datetime | None = None
    until: datetime | None = None


class BackfillReport(NamedTuple):
    """What `backfill` achieved. `did`: `planned`, `goes_on`, `changed`, `cancelled`, `finished`,
    `finished_before` by a call in the same words, `nothing` where nothing was to be done, `none`
    where none runs.

    `outcome` is that of the intervals worked in the foreground, with the oldest `report` that
    did not go well; `overtaken` of those asked for would fail, being older than `newest`. `usual`
    is the time in seconds of one.
    """

    job: str
    at: datetime
    did: str
    view: BackfillView | None = None
    report: RunReport | None = None
    overtaken: int = 0
    newest: str | None = None
    usual: float | None = None
