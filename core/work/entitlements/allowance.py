"""What counts against the guards besides the plan that is judged.

**The interval.** All that it applied without approval counts, by whatever run, under whatever
plan, in whatever rerun: `IntervalRecord.spent_revoke` and `spent_update`. What an approved
plan did is in neither, so that it never makes a later judgement trip. A plan keeps what was
spent before it (`PlanRecord.applied_revoke`), for what it applies itself is in its own totals.

**The job's last 24 hours.** Revokes that other intervals applied without approval count too,
so that several nights caught up within an hour have one allowance, and a job that runs each
hour has one for the day. Runs remember how many they revoked and when the last time, by the
store's clock (`RunRecord.revoked`), and are found by day; so a rerun or a backfill of an old
interval is found like any other, and nothing else is read.

A night that runs at its time must not have last night's revokes counted, though they were
applied a little less than 24 hours before it: last night may have taken longer, or have been
begun later, and where the schedule is in local time the night in which summer time begins
comes an hour early. So the window is `SLACK` shorter than a day: an hour for the one and an
hour for the other. What was applied later than now was so by a clock that was ahead, and
stands for nothing. What a lost store knew is unknown, and counts for nothing either.

A range lands in the target before the store knows. Where a run was killed in between, what
its marker says is counted when another interval is judged.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from ...model import Kind, Put
from ...records import OPEN, IntervalRecord, RunRecord, revoked_tag, run_key
from .standing import counted, is_void

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from ...endpoints import Target
    from ...model import Record, Write
    from ...ports import Reader

SLACK = timedelta(hours=2)
WINDOW = timedelta(hours=24) - SLACK
PAGE = 200


def spent_by_others(records: Reader, target: Target, job: str, interval: str, now: datetime) -> int:
    """How much intervals other than that (its key) revoked without approval in the window."""
    since = now - WINDOW
    revoked = 0
    for tag in sorted({OPEN, revoked_tag(since), revoked_tag(now)}):
        for found in _all(records, Kind.RUN, job, tag):
            of_interval, _, _ = found.key.rpartition("/")
            run = RunRecord.from_json(found.value)
            if of_interval == interval or run.revoked_at is None:
                continue
            if since < run.revoked_at <= now:
                revoked += run.revoked
    return revoked + sum(
        after.spent_revoke - before.spent_revoke
        for _, before, after in _untold(records, target, job, interval)
    )


def settle_others(
    records: Reader, target: Target, job: str, interval: str, now: datetime, *, void: bool
) -> list[Write]:
    """Count what killed runs of other open intervals did not live to tell, which makes their
    plans void; with `void` all of them are, because the interval (its key) is about to change
    the target.
    """
    writes: list[Write] = []
    for found, before, after in _untold(records, target, job, interval):
        revoked = after.spent_revoke - before.spent_revoke
        key = run_key(found.key, before.runs)
        run = records.get(Kind.RUN, job, key) if revoked else None
        if run is not None:
            closed = RunRecord.from_json(run.value).having_revoked(revoked, now)
            writes.append(Put(Kind.RUN, job, key, closed.to_json(), run.version, closed.tag))
        if void or after is not before:
            # What was counted has no checksum on record, so it can be proved by a new plan only.
            cursor = {**(after.cursor or {}), "void": True}
            value = replace(after, cursor=cursor).to_json()
            writes.append(Put(Kind.INTERVAL, job, found.key, value, found.version, found.tag))
    return writes


def _untold(
    records: Reader, target: Target, job: str, interval: str
) -> Iterator[tuple[Record, IntervalRecord, IntervalRecord]]:
    """The other open intervals whose plans stand: each before and after it is `counted`."""
    for found in _all(records, Kind.INTERVAL, job, OPEN):
        record = IntervalRecord.from_json(found.value)
        if found.key != interval and record.cursor is not None and not is_void(record.cursor):
            yield found, record, counted(record, records, target, job)


def _all(records: Reader, kind: Kind, job: str, tag: str) -> Iterator[Record]:
    after = ""
    while True:
        page = records.scan(kind, job, after=after, tag=tag, limit=PAGE)
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1].key
