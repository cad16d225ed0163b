"""What people are told of without asking: judged from records, told once, taken back once.

An alert is about one interval of one job and has a kind:

``overdue``         the oldest unfinished interval is past its deadline, which counts from the
                    scheduled time
``failed``          an interval has failed for good: its attempts are used up, or it was overtaken
``needs_approval``  a guard waits for a person
``stalled``         every run of it was killed, `max_attempts` times, without a checkpoint between

An interval is *stalled* while its holder is silent or gone and nobody has taken it over, which is
what `status` shows. People are told of one that is so again and again, and never gets further; and
of a backfill of which nothing was begun for longer than its job's deadline and its rate allow, by
the interval that is next: live ones, or a rate that others use up, must not starve it unseen.

About the *oldest unfinished* interval, because a success of today says nothing of the night
that hangs: neither a later success nor an old night that is replayed clears its alert, only
its own end does. And about that one alone, because when 600 minutes are missing one page is
enough; as each ends, the next oldest is judged. What was begun by hand (a rerun, a backfill, an
on-demand interval of long ago) is owed from its beginning, not from an instant that was over
before anybody asked: it hides no scheduled night. In a paused job nothing new is overdue.

Told once. An alert is a record of the store, keyed by interval and kind. Whoever judges first
*claims* it (a conditional write, so that of many knocks one sends), sends it, and marks it
sent. Killed between, the claim ages (`CLAIM`), and a later knock sends it again under the same
id, by which a receiver knows it. A channel that fails is tried again by the next judgement, and
those that were reached are not. `number` counts how often it was raised anew, as when a guard
trips a second time after an approval.

Taken back once, when the condition is over: the interval has ended (for `failed`: as completed
or skipped, or somebody has signed for it with `skip`), was approved, or got a checkpoint.

`failed` is not found by looking: whoever writes that an interval failed writes the alert in the
same batch (`owed`, see `tally.py`). The others follow from what a knock has read anyway, so that
one with nothing to tell reads one index entry more and writes nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from . import planning
from .model import Trigger
from .records import GuardReport, IntervalRecord, from_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .backfills import Backfill
    from .config import Job
    from .model import Interval
    from .planning import Decision
    from .records import JobRecord
    from .schedule import Schedule

OVERDUE, FAILED, APPROVAL, STALLED = KINDS = ("overdue", "failed", "needs_approval", "stalled")
CLAIM = timedelta(minutes=2)
"""A claim that is older is nobody's any more; longer than sending may take."""
_ASKED_FOR = (Trigger.RERUN, Trigger.BACKFILL, Trigger.MANUAL)


class Found(NamedTuple):
    """Something that people should know of."""

    kind: str
    interval: Interval
    since: datetime
    text: str
    next: str

    @property
    def key(self) -> str:
        return alert_key(self.interval.key, self.kind)


def alert_key(interval: str, kind: str) -> str:
    """Key of an alert's record."""
    return f"{interval}/{kind}"


def judge(
    job: Job, record: JobRecord, schedule: Schedule | None, decision: Decision, now: datetime
) -> Iterator[Found]:
    """What is wrong with a job, from what a trigger has read. `decision` is one in which nothing
    was tried yet, so that it names every interval that is unfinished."""
    unfinished = list(_unfinished(decision))
    paused = decision.pause is not None
    overdue = None if paused else _overdue(job, record, schedule, unfinished, now)
    if overdue is not None:
        yield overdue
    for interval, found in unfinished:
        if found is None:
            continue
        if waits_for_approval(found):
            yield _approval(job, interval, found, now)
        if is_stalled(job, found):
            yield _stalled(job, interval, found, now)


def _unfinished(decision: Decision) -> Iterator[tuple[Interval, IntervalRecord | None]]:
    yield from ((due.interval, due.record) for due in decision.owed)
    yield from ((waits.interval, waits.record) for waits in decision.waiting)


def owed_since(
    seen: JobRecord, interval: Interval | IntervalRecord, record: IntervalRecord | None
) -> datetime | None:
    """When its deadline began to count; None for what was asked for and is not begun yet."""
    scheduled = interval.scheduled_at
    asked_for = record is not None and (record.rerun or record.trigger in _ASKED_FOR)
    if record is not None and record.trigger is Trigger.MANUAL and not record.rerun:
        # It was due anyway, and somebody would not wait for the knock.
        asked_for = scheduled < seen.horizon_at
    if record is not None and asked_for:
        begun = record.started_at
        return None if begun is None else max(begun, scheduled)
    if seen.pauses or seen.pause:
        for pause in planning.pauses_of(seen):
            over = pause.over_at
            if over is not None and pause.at < scheduled <= over:
                return over  # as if it had been scheduled for the end of the pause
    return scheduled


def is_overdue(
    job: Job, record: JobRecord, schedule: Schedule | None, found: IntervalRecord, now: datetime
) -> bool:
    """Whether an interval that is not final is past its deadline, be it the oldest or not."""
    since = owed_since(record, found, found)
    return since is not None and now > since + planning.deadline(job, schedule)


def _overdue(
    job: Job,
    record: JobRecord,
    schedule: Schedule | None,
    unfinished: Sequence[tuple[Interval, IntervalRecord | None]],
    now: datetime,
) -> Found | None:
    limit = planning.deadline(job, schedule)
    oldest: tuple[datetime, Interval, IntervalRecord | None] | None = None
    for interval, found in unfinished:
        since = owed_since(record, interval, found)
        if since is not None and (oldest is None or since < oldest[0]):
            oldest = since, interval, found
    if oldest is None or now <= oldest[0] + limit:
        return None
    since, interval, found = oldest
    name = f"{job.name} {interval.id}"
    late = _age(now - since - limit)
    text = f"{name} is {late} past its deadline ({_age(limit)}){_how_it_stands(job, found)}"
    return Found(OVERDUE, interval, since + limit, text, f"reconcile status {name}")


def _how_it_stands(job: Job, record: IntervalRecord | None) -> str:
    if record is None or not (record.runs or record.failure):
        return ": no run of it has begun"
    if waits_for_approval(record):
        return ": it waits for an approval"
    if record.failure is not None:
        tried = f"failed {record.attempts} of {job.max_attempts} attempts, last: "
        if not record.attempts:
            tried = ""
        last = record.failure.get("last")
        text = f": {tried}{record.failure.get('text')}"
        return f'{text}: "{last}"' if last else text
    if record.work is not None and record.ranges_total is None:
        return f", in run {record.runs}"
    total = "" if record.ranges_total is None else f" of {record.ranges_total}"
    return f": after {record.phase} range {record.ranges_done}{total}, in run {record.runs}"


def waits_for_approval(record: IntervalRecord) -> bool:
    """Whether a guard has stopped it and nobody has approved that very plan."""
    if record.waiting is None or record.state.is_final:
        return False
    return (record.approval or {}).get("hash") != record.waiting.get("hash")


def is_stalled(job: Job, record: IntervalRecord) -> bool:
    """Whether it was killed so often without a checkpoint that it has to wait like a failed one."""
    return record.kills >= job.max_attempts and not record.state.is_final


def _approval(job: Job, interval: Interval, record: IntervalRecord, now: datetime) -> Found:
    guard = GuardReport.from_json(record.waiting or {})
    name = f"{job.name} {interval.id}"
    share = f" ({guard.revoke / guard.base:.1%})" if guard.base else ""
    text = (
        f"{name} waits for an approval: guard {guard.guard}; planned {guard.grant} grants,"
        f" {guard.revoke} revokes{share}, {guard.update} updates; nothing was changed"
    )
    since = record.last_checkpoint_at or record.started_at or now
    return Found(APPROVAL, interval, since, text, f"reconcile changes {name} --planned")


def _stalled(job: Job, interval: Interval, record: IntervalRecord, now: datetime) -> Found:
    name = f"{job.name} {interval.id}"
    where = record.under_way
    if record.work is None:
        where = f" in {record.phase} range {record.ranges_done + 1}"
    text = f"{name} was killed {record.kills} times{where}, without progress"
    at = (record.failure or {}).get("at")
    since = from_text(at) if isinstance(at, str) else now
    return Found(STALLED, interval, since, text, f"reconcile status {name}")


def judge_backfill(
    job: Job,
    schedule: Schedule | None,
    backfill: Backfill,
    interval: Interval,
    moved: datetime,
    now: datetime,
) -> Found | None:
    """Whether the backfill that runs stands still. `interval` is its next, `moved` when it was
    written last, which is no later than a few live ones after its own newest. One that is held
    up by `--rate 0`, or given up, does so by somebody's word."""
    if backfill.paused or backfill.cancelled is not None:
        return None
    patience = planning.deadline(job, schedule)
    if backfill.rate is not None:
        patience += backfill.rate.per
    if now - moved <= patience:
        return None
    left = backfill.record.to_run - backfill.record.begun
    text = (
        f"{job.name} backfill #{backfill.record.number} has begun nothing for {_age(now - moved)}:"
        f" {left:,} left, the next is {interval.id}"
    )
    return Found(STALLED, interval, moved + patience, text, f"reconcile backfill {job.name}")


def _age(duration: timedelta) -> str:
    seconds = int(max(duration, timedelta(0)).total_seconds())
    for unit, letter in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= (2 * unit if letter == "d" and seconds % unit else unit):
            return f"{seconds // unit}{letter}"
    return f"{seconds}s"
