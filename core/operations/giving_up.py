"""Giving an interval up by hand: what becomes of its record, of its runs, and of what it applied.

It ends `skipped` where nothing was applied, `failed` (cancelled) where something was, and a rerun
of what was completed leaves it completed as it was.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..model import Kind, Put, State
from ..records import OPEN, RunRecord, closed, given_up, run_key
from ..rows import Action

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from ..config import Job
    from ..model import Actor, Ending, JsonObject
    from ..ports import Store, Work
    from ..records import IntervalRecord


def signed(type_: str, by: Actor, **facts: object) -> JsonObject:
    """An event of a trail: who, why, and what is known beside."""
    value = {"type": type_, "actor": by.name, "reason": by.reason, **facts}
    return {k: v for k, v in value.items() if v is not None}  # type: ignore[misc]


def cancelled(
    job: Job, work: Work, record: IntervalRecord, by: Actor
) -> tuple[IntervalRecord, JsonObject, int]:
    """The record of an interval that is given up by hand, what its trail says of that, and how
    many revokes without approval no run has lived to tell."""
    if record.state.is_final:
        raise UsageError(
            f"{job.name} {record.id} is {record.state}: there is nothing to skip",
            hint=f"see how it stands: reconcile status {job.name} {record.id}",
        )
    before = record
    if record.runs:
        record = with_all_applied(work, record)
    if record.earlier or record.grant or record.revoke or record.update:
        after = given_up(replace(record, waiting=None, approval=None), "cancelled")
    else:
        after = replace(record, state=State.SKIPPED, reason="operator", waiting=None, approval=None)
    after = replace(after, repair_owner=by.name)
    event = signed("skipped", by, state=after.state.value, why=after.reason)
    return after, event, record.spent_revoke - before.spent_revoke


def with_all_applied(work: Work, record: IntervalRecord) -> IntervalRecord:
    """The record with all that the target has logged for this pass over the interval: a run
    that was killed may have applied more than it lived to tell."""
    logged = Counter(
        change.action for facts, change in work.changes(record.id, None)
        if facts["rerun"] == record.rerun
    )  # fmt: skip
    revoke, update = (
        max(0, logged[Action.REVOKE] - record.revoke),
        max(0, logged[Action.UPDATE] - record.update),
    )
    spends = record.approval is None
    return replace(
        record,
        grant=max(record.grant, logged[Action.GRANT]),
        revoke=record.revoke + revoke,
        update=record.update + update,
        spent_revoke=record.spent_revoke + (revoke if spends else 0),
        spent_update=record.spent_update + (update if spends else 0),
    )


def told(
    store: Store, job: Job, record: IntervalRecord, revoked: int, now: datetime, runs: list[Put]
) -> list[Put]:
    """Runs to write, the interval's last one with so many more revokes: they count against
    the day's allowance of other intervals."""
    if not revoked:
        return runs
    key = run_key(record.interval(job.name).key, record.runs)
    ours = next((put for put in runs if put.key == key), None)
    if ours is None:
        found = store.get(Kind.RUN, job.name, key)
        if found is None:
            return runs
        ours = Put(Kind.RUN, job.name, key, found.value, expect=found.version)
    run = RunRecord.from_json(ours.value).having_revoked(revoked, now)
    others = [put for put in runs if put.key != key]
    return [*others, ours._replace(value=run.to_json(), tag=run.tag)]


def closed_runs(
    store: Store, job: Job, ending: Ending, now: datetime, detail: str | None = None
) -> Iterator[Put]:
    """All that is open, of whoever was just fenced out."""
    for found in store.scan(Kind.RUN, job.name, tag=OPEN):
        run = closed(RunRecord.from_json(found.value), ending, now, detail)
        yield Put(Kind.RUN, job.name, found.key, run.to_json(), tag=run.tag)
