"""Rehearsals of nights: some that were missed, and one whose source is half of itself."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

from ...model import State
from ...records import GuardReport
from .findings import CUT_OFF, Broke, Finding, NotRehearsed, Verdict
from .scratch import DAY, newest_night

if TYPE_CHECKING:
    from datetime import datetime

    from ...model import Json
    from ...records import IntervalRecord
    from .rehearsal import Proved, Rehearsal

MISSED = 3
WHOLE = 1000
NEEDS_APPROVAL = 4


def missed(at: Rehearsal) -> tuple[Finding, list[Proved]]:
    """The job should have run for three nights, and nobody knocked: its start lies so far back,
    and no clock is touched. One knock has to leave a record of each."""
    expected = [newest_night(at.now) - n * DAY for n in reversed(range(MISSED))]
    at.completes()
    records = at.intervals()
    lost = [night for night in expected if not any(_covers(one, night) for one in records)]
    ran = sum(one.state is State.COMPLETED for one in records)
    skipped: Counter[str] = Counter()
    for one in records:
        if one.state is State.SKIPPED:
            skipped[one.reason or "no reason"] += one.span
    why = ", ".join(f"{n} skipped ({reason})" for reason, n in skipped.items())
    on_record = MISSED - len(lost)
    all_of = "all" if not lost else "only"
    evidence = f"{ran} run, {why or '0 skipped'}, {all_of} {on_record} on record"
    figures = {
        "nights": MISSED,
        "runs": ran,
        "skipped": sum(skipped.values()),
        "on_record": on_record,
    }
    if lost:
        raise Broke(5, f"{evidence}: {lost[0]:%Y-%m-%d %H:%MZ} is missing")
    if any(not one.state.is_final for one in records) or ran + sum(skipped.values()) != MISSED:
        raise Broke(5, evidence)
    finding = Finding("three nights down", 5, Verdict.HOLDS, evidence, figures)
    return finding, [at.proved(one) for one in records if one.state is State.COMPLETED]


def _covers(record: IntervalRecord, night: datetime) -> bool:
    first, last = record.scheduled_at, record.until_at or record.scheduled_at
    return first - timedelta(seconds=1) < night < last + timedelta(seconds=1)


def half_a_source(at: Rehearsal) -> tuple[Finding, list[Proved]]:
    """The export ends in the middle: a guard has to stop the night before its first change."""
    before = at.table()
    actor = at.scene.start()
    code = at.end(actor)
    changed = len(set(before) ^ set(at.table()))
    logged = at.scene.ask("SELECT count(*) FROM reconcile_changes")
    changed += logged[0][0] if logged else 0
    records = at.intervals()
    waiting = records[0].waiting if records else None
    if changed:
        raise Broke(CUT_OFF, f"{changed} rows were changed though half of the source was missing")
    if waiting is None and code:
        raise NotRehearsed(f"the run ended with {code}: {actor.last_words()}")
    if code != NEEDS_APPROVAL or waiting is None:
        raise Broke(CUT_OFF, f"no guard stopped it; it ended with {code}: {actor.last_words()}")
    guard = GuardReport.from_json(waiting)
    evidence = (
        f"guard {guard.guard}: {guard.source_rows:,} of {guard.base:,} rows; {changed} changed"
    )
    figures: dict[str, Json] = {
        "guard": guard.guard,
        "source_rows": guard.source_rows,
        "target_rows": guard.base,
        "planned_revokes": guard.revoke,
        "changed": changed,
        "exit": code,
    }
    return Finding("half a source", CUT_OFF, Verdict.HOLDS, evidence, figures), []
