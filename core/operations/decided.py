"""What a trigger writes of intervals that it decides not to work, and says of them.

One that is skipped had nothing applied. One that is *overtaken* may have: its source tells the
truth of one night, the target has completed a newer one, and so it ends as failed, without
being tried, and a rerun of something completed as it was before. It is told once, all of them
as one, and has no say in the exit status: nothing is left to be done about it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import OldOverNew
from ..model import ABSENT, Append, Kind, Outcome, Put, State, Trigger
from ..records import IntervalRecord, given_up, to_text
from .look import interval_at
from .reports import report_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..config import Job
    from ..events import IntervalReport
    from ..model import JsonObject, Write
    from ..planning import Skip
    from .look import Look

OVERTAKEN = "overtaken"
UNSETTLED = 100
"""So many records are read at each knock before it is written down that they are settled."""


def batch(
    job: Job, seen: Look, *, by_hand: bool, looked: bool
) -> tuple[list[Write], IntervalReport | None]:
    """What a trigger writes before it works: the job's record where it has changed, and all that
    is decided besides the work, with what is to be told of that. What is asked for by hand is
    not subject to the policy, which is left to the next knock. `looked`: at the target."""
    writes: list[Write] = []
    told = None
    if not by_hand and (seen.decision.skips or seen.decision.overtaken):
        writes += writes_of(job, seen)
        told = overtaken_report(job, seen) if seen.decision.overtaken else None
    unsettled = seen.unsettled > UNSETTLED and not by_hand
    if seen.changed or writes or unsettled or looked:
        settled = seen.job.settled_at if by_hand else seen.decision.settled
        record = replace(seen.job, settled_at=settled)
        if looked:
            record = replace(record, looked_at=seen.now)
        expect = seen.version or ABSENT
        writes.append(Put(Kind.JOB, job.name, "", record.to_json(), expect))
    return writes, told


def writes_of(job: Job, seen: Look) -> Iterator[Write]:
    """The records of all that is skipped or overtaken, each with its event."""
    for skip in seen.decision.skips:
        record = replace(_base(skip), state=State.SKIPPED, reason=skip.reason)
        yield from _writes(job, skip, record, _event(skip))
    error = _error(job, seen) if seen.decision.overtaken else None
    for skip in seen.decision.overtaken:
        before = _base(skip)
        text = str(error)
        if before.failure is not None:
            text = f"{text}; it had failed before: {before.failure.get('text')}"
        failure: JsonObject = {"text": text, "exit": OldOverNew.name, "at": to_text(seen.now)}
        record = given_up(replace(before, waiting=None, approval=None, failure=failure), OVERTAKEN)
        event: JsonObject = {"type": "failed", "reason": OVERTAKEN, "text": str(error)}
        yield from _writes(job, skip, record, event)


def _event(skip: Skip) -> JsonObject:
    """What the trail says of a skip; of one that fell into a pause, by whom and why."""
    if skip.reason != "paused" or skip.pause is None:
        return {"type": "skipped", "reason": skip.reason}
    pause = skip.pause
    return {"type": "skipped", "why": "paused", "actor": pause.actor, "reason": pause.reason}


def overtaken_report(job: Job, seen: Look) -> IntervalReport:
    """All that are overtaken, as one: the oldest, and how many it stands for."""
    first, *_ = seen.decision.overtaken
    record = replace(_base(first), state=State.FAILED, reason=OVERTAKEN, rerun=0)
    return report_of(job, record, seen.now)._replace(
        outcome=Outcome.FAILED,
        trigger=Trigger.SCHEDULE,
        error=_error(job, seen),
        span=sum(skip.span for skip in seen.decision.overtaken),
        failed_at=None,
        known_before=False,
    )


def _base(skip: Skip) -> IntervalRecord:
    return skip.record or replace(
        IntervalRecord.of(skip.interval),
        span=skip.span,
        until_at=skip.until.scheduled_at if skip.until else None,
    )


def _error(job: Job, seen: Look) -> OldOverNew:
    assert seen.completed is not None, "that is what they are overtaken by"
    newest = interval_at(seen, job.name, seen.completed).id
    return OldOverNew(f"the target has completed {newest}, whose truth an older one would undo")


def _writes(job: Job, skip: Skip, record: IntervalRecord, event: JsonObject) -> Iterator[Write]:
    key = skip.interval.key
    expect = skip.version or ABSENT
    yield Put(Kind.INTERVAL, job.name, key, record.to_json(), expect, record.tag)
    yield Append(Kind.EVENT, job.name, key, {**event, "span": skip.span})
