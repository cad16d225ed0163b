"""Collects the figures of all jobs, with reads that are bounded by what is unfinished."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ..alert_records import AlertRecord
from ..alerts import KINDS, owed_since
from ..metrics import JobFigures
from ..model import Kind, State
from ..records import OPEN
from ..tally import totals
from .look import look, open_records

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ..config import Job
    from ..ports import Store
    from .application import Application
    from .look import Look

CHANGES = ("grant", "revoke", "update")
LOST = ("killed", "silent", "forced")


def figures(app: Application, store: Store, only: str | None = None) -> list[JobFigures]:
    """How all jobs of the configuration stand, or one of them. Raises errors of the store."""
    now = store.facts().now
    jobs = [app.job(only)] if only is not None else app.config.jobs.values()
    return [_job(store, job, now) for job in jobs]


def _job(store: Store, job: Job, now: datetime) -> JobFigures:
    seen = look(store, job, now)
    counted = totals(store, job.name)
    opened = [record for record, _ in open_records(store, job.name) if record.scheduled_at <= now]
    intervals: Counter[tuple[str, str]] = Counter()
    for name, number in counted.items():
        if name.startswith("intervals:"):
            _, state, reason = f"{name}:".split(":")[:3]
            intervals[state, reason] += number
    unfinished = sum(record.state is State.UNFINISHED for record in opened)
    intervals[State.UNFINISHED.value, ""] = unfinished
    intervals[State.PENDING.value, ""] = max(0, seen.decision.backlog - unfinished)
    found = store.scan(Kind.ALERT, job.name, tag=OPEN)
    alerts = [AlertRecord.from_json(one.value) for one in found]
    standing = Counter(alert.kind for alert in alerts if not alert.cleared)
    return JobFigures(
        job=job.name,
        backlog=seen.decision.backlog,
        backfill=_backfill(store, job, seen),
        backlog_age=_backlog_age(seen),
        run_delay=counted.get("run_delay"),
        consistent=counted.get("consistent"),
        intervals=dict(intervals),
        changes={
            kind: counted.get(f"changes:{kind}", 0) + sum(getattr(r, kind) for r in opened)
            for kind in CHANGES
        },
        attempts=counted.get("attempts", 0),
        duplicates={
            "turned_away": counted.get("turned_away", 0),
            "again": counted.get("repeated", 0),
        },
        lost={how: counted.get(f"lost:{how}", 0) for how in LOST},
        ranges_saved=counted.get("ranges_saved", 0),
        ranges_repeated=counted.get("ranges_repeated", 0),
        alerts={kind: standing[kind] for kind in KINDS},
        undelivered=sum(alert.tries > 0 for alert in alerts),
    )


def _backfill(store: Store, job: Job, seen: Look) -> int:
    if seen.job.backfill is None:
        return 0
    from .backfill.views import left_of

    return left_of(store, job, seen)


def _backlog_age(seen: Look) -> float:
    """Seconds since the oldest unfinished interval was owed; 0 where nothing is."""
    entries = [(one.interval, one.record) for one in seen.decision.owed]
    entries += [(one.interval, one.record) for one in seen.decision.waiting]
    since = [owed_since(seen.job, interval, record) for interval, record in entries]
    known: Sequence[datetime] = [instant for instant in since if instant is not None]
    return max(0.0, (seen.now - min(known)).total_seconds()) if known else 0.0
