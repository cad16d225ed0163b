"""The words of the domain, as plain values.

Glossary. One word for one thing, in code, tables, messages and documents:

job         a named unit of work in reconcile.toml; on demand when it has no schedule
interval    one intended occurrence of a job; its identity is (job, scheduled instant in UTC)
run         one attempt at one interval under one generation; closed once, never reopened
trigger     why a run exists: schedule, resume, rerun, backfill, manual
knock       a call by cron or a timer; it may find nothing to do
holder      one process start
lease       the right to work on a lease key until the store's clock says it expired
generation  counter of grants of a lease key; it only grows
fence       lease key, generation and run id, shown with every write
range       ``(lower, upper]`` of the key space, compared and committed as one
plan        what one pass over all ranges found
checkpoint  durable proof that the work up to a cursor is done
cursor      lossless JSON value: where to go on
completion  count and checksum of an interval, desired and observed, and that they agree
change      one grant, revoke or update of one entitlement of one account

All instants are timezone-aware datetimes in UTC. Durations are timedeltas; bare seconds
are only used for `CLOCK_BOOTTIME` readings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, NewType, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .checksum import Checksum

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
JsonObject: TypeAlias = "Mapping[str, Json]"
RunId = NewType("RunId", str)
PlanId = NewType("PlanId", str)


# --- leases


class LeaseKey(NamedTuple):
    """What may have only one holder. `shard` is 0 until one interval is worked by several."""

    job: str
    shard: int = 0


class Fence(NamedTuple):
    """Which grant a write belongs to. Stores and targets refuse any but the newest."""

    key: LeaseKey
    generation: int
    run: RunId


class Holder(NamedTuple):
    """One process start, so that no other process is ever taken for it.

    `started` is the start time in clock ticks since the host's boot (field 22 of
    /proc/PID/stat, less the time namespace's offset); `token` is random.
    """

    host: str
    machine_id: str
    boot_id: str
    pid_namespace: str
    pid: int
    started: int
    token: str
    user: str = ""

    def __str__(self) -> str:
        return f"{self.host} pid {self.pid}"


class Grant(NamedTuple):
    """An earlier grant of a lease key, as a takeover finds it."""

    fence: Fence
    holder: Holder
    interval: str
    progress_at: datetime
    expires_at: datetime
    released: bool


@dataclass(frozen=True, slots=True)
class Lease:
    """A grant as the store has it. Instants are the store's.

    `interval` is the key (`Interval.key`) of what is being worked. `overlaps` counts the
    triggers that were turned away for another interval than that. `stop` is what
    `reconcile stop` asked for (actor, reason, at), None when nobody did. `previous` is the
    grant before this one, given by `acquire` only.
    """

    fence: Fence
    holder: Holder
    interval: str
    ttl: timedelta
    granted_at: datetime
    expires_at: datetime
    progress: int
    progress_at: datetime
    live: bool
    released: bool = False
    overlaps: int = 0
    stop: JsonObject | None = None
    previous: Grant | None = None


# --- records of the store


class Kind(StrEnum):
    """What a record is about. Keys sort by code point within (kind, job)."""

    JOB = "job"  # key "": horizon, schedule versions, pause; others: starts, see core/rates.py
    INTERVAL = "interval"  # key: Interval.key
    RUN = "run"  # key: <interval key>/<number, 6 digits>
    EVENT = "event"  # key: <interval key, or job>/<sequence, 20 digits>, appended only
    PLAN = "plan"  # key: plan id
    RANGE = "range"  # key: <plan id>/<number, 8 digits>
    CHANGES = "changes"  # as RANGE; the planned changes, compressed
    BACKFILL = "backfill"  # key: its number, 6 digits
    ALERT = "alert"  # key: <interval key>/<kind of alert>
    TALLY = "tally"  # two per job, see core/tally.py


class Record(NamedTuple):
    """One stored value. `version` grows by one with each write; `at` is the store's clock."""

    kind: Kind
    job: str
    key: str
    value: JsonObject
    version: int
    at: datetime
    tag: str = ""
    blob: bytes | None = None


ANY = -1
"""Expect nothing: write whatever stands."""
ABSENT = 0
"""Expect that there is no such record."""


class Put(NamedTuple):
    """Write one record whole. `tag` is an indexed label that `scan` can ask for."""

    kind: Kind
    job: str
    key: str
    value: JsonObject
    expect: int = ANY
    tag: str = ""
    blob: bytes | None = None


class Delete(NamedTuple):
    """Remove one record; no error where there is none."""

    kind: Kind
    job: str
    key: str


class Append(NamedTuple):
    """Add a record under ``<prefix>/<next number of the store, 20 digits>``."""

    kind: Kind
    job: str
    prefix: str
    value: JsonObject


Write: TypeAlias = "Put | Delete | Append"


class StoreFacts(NamedTuple):
    """What a store says of itself. `now` is its clock, the only one that decides expiry.

    `warnings` say in whole sentences what the store cannot promise as it is set up.
    """

    id: str
    now: datetime
    single_host: bool
    durable: bool
    default_ttl: timedelta
    location: str
    warnings: Sequence[str] = ()


class Rate(NamedTuple):
    """`amount` calls per `per`; also how many may be taken at once."""

    amount: int
    per: timedelta


# --- intervals and runs


@dataclass(frozen=True, slots=True)
class Interval:
    """One intended occurrence of a job.

    `id` is how users spell it; stored with the record and never changed, as is `timezone`, in
    which the date is meant that paths have. Neither is part of the identity.
    """

    job: str
    scheduled_at: datetime
    id: str
    timezone: str = field(default="UTC", compare=False)

    @property
    def key(self) -> str:
        """The instant as text of fixed width, which sorts in order of time."""
        return instant_key(self.scheduled_at)


def instant_key(instant: datetime) -> str:
    """An instant in UTC as `2026-11-29T02:30:00Z`; sorts in order of time."""
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


class State(StrEnum):
    """The stored state of an interval; anything else that is shown follows from the lease."""

    PENDING = "pending"
    UNFINISHED = "unfinished"
    COMPLETED = "completed"
    SKIPPED = "skipped"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        """Only a signed act leaves a final state."""
        return self in (State.COMPLETED, State.SKIPPED, State.FAILED)


class Trigger(StrEnum):
    """Why a run exists."""

    SCHEDULE = "schedule"
    RESUME = "resume"
    RERUN = "rerun"
    BACKFILL = "backfill"
    MANUAL = "manual"


class Ending(StrEnum):
    """How a run ended. `ABANDONED` is written by the next holder, all others by the run."""

    COMPLETED = "completed"
    FAILED = "failed"
    INCOMPLETE = "incomplete"
    NEEDS_APPROVAL = "needs approval"
    INTERRUPTED = "interrupted"
    OUT_OF_TIME = "out of time"
    WAITING = "waiting"
    FENCED_OUT = "fenced out"
    ABANDONED = "abandoned"


class Outcome(StrEnum):
    """What a command achieved. `cli/exit_codes.py` gives each its exit status."""

    COMPLETED = "completed"
    NOTHING_DUE = "nothing_due"
    BUSY = "busy"
    FAILED = "failed"
    INCOMPLETE = "incomplete"
    NEEDS_APPROVAL = "needs_approval"
    FENCED_OUT = "fenced_out"
    INTERRUPTED = "interrupted"
    OUT_OF_TIME = "out_of_time"
    WAITING = "waiting"
    PAUSED = "paused"


class Actor(NamedTuple):
    """Who did something by hand, when and why."""

    name: str
    reason: str
    at: datetime


# --- what a target keeps


class Newest(NamedTuple):
    """The newest interval that a target has seen completed."""

    scheduled_at: datetime
    interval: str
    rerun: int
    checksum: Checksum


class FenceRow(NamedTuple):
    """The target's own record of who may write to it."""

    store_id: str
    generation: int
    run: RunId
    newest: Newest | None = None


class Proof(NamedTuple):
    """Count and checksum of both sides of a whole interval."""

    interval: Interval
    rerun: int
    desired: Checksum
    observed: Checksum


class Reported(NamedTuple):
    """What work whose target nobody else can read says of itself: how many, and a checksum of
    its own making; None where it does not say."""

    total: int | None = None
    checksum: str | None = None

    @classmethod
    def from_json(cls, value: JsonObject) -> Reported:
        """What `to_json` gave; what is not of its kind is left out."""
        total, checksum = value.get("count"), value.get("checksum")
        return cls(
            total if isinstance(total, int) else None,
            checksum if isinstance(checksum, str) else None,
        )

    def to_json(self) -> JsonObject:
        """For a record."""
        found: JsonObject = {"count": self.total, "checksum": self.checksum}
        return {name: value for name, value in found.items() if value is not None}


class Unproved(NamedTuple):
    """Why an interval may not be called completed. `accounts` are those in quarantine, each
    with its reason; empty where ranges or sums are what is wrong."""

    reason: str
    accounts: Mapping[str, str] = MappingProxyType({})
