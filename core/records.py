"""What the store's records say of jobs, intervals, runs, plans and ranges.

Each class is one `Kind` of record: a frozen value with `to_json` and `from_json`. Unknown
fields are ignored when read, so that an older program may read what a newer one wrote as
long as the schema version is the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from .calendars import UTC_NAME
from .checksum import Checksum
from .model import Delete, Ending, Interval, Kind, Reported, State, Trigger
from .record_fields import Fields, event_value, from_text, to_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .model import Json, JsonObject

__all__ = [
    "OPEN",
    "GuardReport",
    "IntervalRecord",
    "JobRecord",
    "PlanRecord",
    "RangeRecord",
    "RunRecord",
    "closed",
    "event_value",
    "figures",
    "from_text",
    "given_up",
    "range_key",
    "revoked_tag",
    "run_key",
    "to_text",
    "without_plan",
]

OPEN = "open"
"""Tag of an interval record that is not final, and of a run record that is not closed."""


def revoked_tag(at: datetime) -> str:
    """Tag of a closed run record that revoked without approval, the last time at that instant:
    those of a day are found without reading others."""
    return f"revoked {at.astimezone(UTC):%Y-%m-%d}"


@dataclass(frozen=True, slots=True)
class JobRecord(Fields):
    """One per job. `horizon_at`: intervals before it are not decided about. `settled_at`:
    every scheduled instant from the horizon up to it has a record, so none is missing there.
    `looked_at`: when the target's fence row was last compared with the records. `pruned_at`:
    when all old intervals were last dropped; they lie before `pruned_until_at`, and
    `pruning_after` is the key up to which that goes on (see `operations/pruning.py`).
    `backfill` is the one that runs: {number}, and where it has them {rate, paused, cancelled:
    {actor, reason, at}} (see `backfills`).

    `schedules` are the schedule versions as [effective-from, expression, zone] and, where it
    is not the usual one, their `Dst`, oldest first; `pause` is the newest one, {at, until,
    actor, reason}, and `pauses` those that were over before it, oldest first, each with
    `ended` and `catch_up` where somebody ended it (see `planning.pauses`).
    """

    horizon_at: datetime
    schedules: list[Any]
    pause: JsonObject | None = None
    pauses: list[Any] | None = None
    settled_at: datetime | None = None
    looked_at: datetime | None = None
    pruned_at: datetime | None = None
    pruned_until_at: datetime | None = None
    pruning_after: str | None = None
    backfill: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class IntervalRecord(Fields):
    """One intended interval and all that became of it.

    `plan` is the newest plan's id, `seconds` the time of all closed runs; `base` the target's
    rows in scope at the first plan; `waiting` what a guard waits for (a `GuardReport`);
    `approval` {hash, actor, reason, at}; `signed_off` {actor, reason, at} of a failed
    interval that somebody knows of; `failure` {text, exit, at, outcome}; `attempts`
    counts failed runs, `kills` killed ones, since the last checkpoint. `runs` counts run
    records, `runs_before` those of earlier passes. `spent_revoke` and `spent_update` count what
    was applied without approval, by all reruns, as the guards do. A record with a `span` above 1
    stands for that many scheduled instants, from `scheduled_at` up to and including `until_at`,
    whose id is `last_id`. While it is rerun, `earlier` is the completed record that stands again
    if the rerun fails; `reruns` is the highest rerun number ever given, so that no two are one.
    `work` is the kind of work, None for entitlements; `reported` what a command said of
    itself (a `model.Reported`).
    `timezone` is that of the interval, None for UTC; `backfill` the number of the one that this
    pass over it belongs to.
    """

    id: str
    scheduled_at: datetime
    state: State = State.PENDING
    reason: str | None = None
    trigger: Trigger | None = None
    rerun: int = 0
    reruns: int = 0
    runs: int = 0
    runs_before: int = 0
    seconds: float = 0.0
    plan: str | None = None
    last_run_id: str | None = None
    earlier: JsonObject | None = None
    last_id: str | None = None
    span: int = 1
    until_at: datetime | None = None
    started_at: datetime | None = None
    last_checkpoint_at: datetime | None = None
    completed_at: datetime | None = None
    repair_owner: str | None = None
    cursor: JsonObject | None = None
    ranges_done: int = 0
    ranges_total: int | None = None
    accounts: int = 0
    grant: int = 0
    revoke: int = 0
    update: int = 0
    checksum: Checksum | None = None
    base: int | None = None
    spent_revoke: int = 0
    spent_update: int = 0
    source_rows: int | None = None
    attempts: int = 0
    kills: int = 0
    failure: JsonObject | None = None
    waiting: JsonObject | None = None
    approval: JsonObject | None = None
    signed_off: JsonObject | None = None
    timezone: str | None = None
    backfill: int | None = None
    reported: JsonObject | None = None
    work: str | None = None

    @classmethod
    def of(cls, interval: Interval) -> IntervalRecord:
        """The record that an interval begins with."""
        timezone = None if interval.timezone == UTC_NAME else interval.timezone
        return cls(id=interval.id, scheduled_at=interval.scheduled_at, timezone=timezone)

    @property
    def phase(self) -> str:
        """What `ranges_done` counts: ranges of the `planning` pass, or of `applying`; of other
        work than entitlements, its kind."""
        if self.work is not None:
            return self.work
        found = (self.cursor or {}).get("phase")
        return found if isinstance(found, str) else "planning"

    @property
    def under_way(self) -> str:
        """` in range 18`, the one that is worked; empty for work that has none."""
        has_ranges = self.work is None or self.ranges_total is not None
        return f" in range {self.ranges_done + 1}" if has_ranges else ""

    def interval(self, job: str) -> Interval:
        """The identity of this record."""
        return Interval(job, self.scheduled_at, self.id, self.timezone or UTC_NAME)

    @property
    def is_signed(self) -> bool:
        """Whether a person knows that it has failed, and has said so."""
        return self.reason == "cancelled" or self.signed_off is not None

    @property
    def tag(self) -> str:
        """Open records are found without reading the final ones."""
        return "" if self.state.is_final else OPEN


@dataclass(frozen=True, slots=True)
class RunRecord(Fields):
    """One attempt. `first_range` and `last_range` are those it committed to the target;
    `revoked` counts what it revoked without approval, until `revoked_at`."""

    number: int
    run_id: str
    trigger: Trigger
    generation: int
    holder: JsonObject
    started_at: datetime
    rerun: int = 0
    ended_at: datetime | None = None
    ending: Ending | None = None
    detail: str | None = None
    first_range: int | None = None
    last_range: int | None = None
    seconds: float | None = None
    revoked: int = 0
    revoked_at: datetime | None = None

    @property
    def tag(self) -> str:
        """Open runs, and those of a day that revoked, are found without reading the others."""
        if self.ending is None:
            return OPEN
        return "" if self.revoked_at is None else revoked_tag(self.revoked_at)

    def having_revoked(self, more: int, at: datetime) -> RunRecord:
        """The same run, which has revoked so many more without approval."""
        return self if more <= 0 else replace(self, revoked=self.revoked + more, revoked_at=at)


@dataclass(frozen=True, slots=True)
class PlanRecord(Fields):
    """One pass over all ranges. Totals are those of the ranges planned so far.

    `losing` counts the accounts that would lose every row they have. `approvable` is the
    checksum of all planned revokes and updates, and `hash` its short form for people.
    `missing` are the accounts of `must_contain` not seen yet. `applied_revoke` and
    `applied_update` are what the interval had applied without approval before this plan was
    begun.
    """

    id: str
    interval: str
    rerun: int
    fingerprint: str
    range_size: int
    begun_at: datetime
    ranges: int = 0
    accounts: int = 0
    complete: bool = False
    desired: Checksum = Checksum()
    observed: Checksum = Checksum()
    grant: int = 0
    revoke: int = 0
    update: int = 0
    losing: int = 0
    differing: int = 0
    quarantined: int = 0
    approvable: Checksum = Checksum()
    missing: Sequence[str] = ()
    applied_revoke: int = 0
    applied_update: int = 0

    @property
    def hash(self) -> str:
        """Twelve hex digits that stand for the planned revokes and updates."""
        from hashlib import sha256

        return sha256(str(self.approvable).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class RangeRecord(Fields):
    """One range of a plan. `lower` and `upper` are None at the ends of the key space.

    `observed` is what was read while planning; `applied` what the target held once the
    changes were committed, None while they are not. `left` is the checksum of the rows of
    quarantined accounts (by name, with the reason), which stay as they are. `resume` is
    where the source may be read from to get this range.
    """

    number: int
    desired: Checksum
    observed: Checksum
    lower: str | None = None
    upper: str | None = None
    accounts: int = 0
    grant: int = 0
    revoke: int = 0
    update: int = 0
    losing: int = 0
    quarantined: Mapping[str, str] | None = None
    left: Checksum = Checksum()
    resume: Json = None
    applied: Checksum | None = None
    run_id: str | None = None

    @property
    def differs(self) -> bool:
        """Whether there is something to apply."""
        return bool(self.grant or self.revoke or self.update)

    @property
    def proved(self) -> Checksum:
        """What the target holds in this range, as last seen."""
        return self.observed if self.applied is None else self.applied

    @property
    def expected(self) -> Checksum:
        """What the target must hold in this range for it to be done."""
        return self.desired + self.left


@dataclass(frozen=True, slots=True)
class GuardReport(Fields):
    """Why a plan waits for somebody; kept as `IntervalRecord.waiting`.

    Shares are fractions of `base`, the target's rows. `fingerprint` and `guards` (a digest
    of the guards' settings) say when it is worth judging again. `minimum` is what a share
    allows at least. What counts with the plan: `spent` by the interval before, and `others`
    by other intervals in the window (see `entitlements/allowance.py`), both without
    approval. `missing` are the accounts that the source must have and lacks.
    """

    guard: str
    limit: float
    base: int
    grant: int
    revoke: int
    update: int
    hash: str
    losing_accounts: int
    losing_names: Sequence[str]
    revokes_elsewhere: int
    most_revoked: Sequence[Sequence[Any]]
    source: str
    source_rows: int
    last_rows: int | None = None
    fingerprint: str = ""
    guards: str = ""
    minimum: int | None = None
    spent: int = 0
    others: int = 0
    missing: Sequence[str] = ()


def closed(run: RunRecord, ending: Ending, at: datetime, detail: str | None = None) -> RunRecord:
    """The run record with its one ending."""
    seconds = max(0.0, (at - run.started_at).total_seconds())
    return replace(run, ending=ending, ended_at=at, detail=detail, seconds=seconds)


def given_up(record: IntervalRecord, reason: str) -> IntervalRecord:
    """A record nobody will work on any more: failed, or, when it was a rerun of something
    completed, completed as it was before. What the rerun applied counts for the guards."""
    if record.earlier is None:
        return replace(record, state=State.FAILED, reason=reason)
    earlier = IntervalRecord.from_json(record.earlier)
    return replace(
        earlier,
        runs=record.runs,
        last_run_id=record.last_run_id,
        reruns=record.reruns,
        spent_revoke=record.spent_revoke,
        spent_update=record.spent_update,
        backfill=record.backfill,
    )


def figures(record: IntervalRecord) -> tuple[int | None, str | None]:
    """Count and checksum of a completed interval: proved, or as its command reported them."""
    if record.checksum is not None:
        return record.checksum.count, str(record.checksum)
    reported = Reported.from_json(record.reported or {})
    return reported.total, reported.checksum


def run_key(interval_key: str, number: int) -> str:
    """Key of a run record."""
    return f"{interval_key}/{number:06d}"


def range_key(plan: str, number: int) -> str:
    """Key of a range record and of its planned changes."""
    return f"{plan}/{number:08d}"


def without_plan(job: str, plan: str, ranges: int) -> Iterator[Delete]:
    """What drops a plan of so many ranges, with these and the changes planned for them."""
    for number in range(1, ranges + 1):
        key = range_key(plan, number)
        yield Delete(Kind.RANGE, job, key)
        yield Delete(Kind.CHANGES, job, key)
    yield Delete(Kind.PLAN, job, plan)
