"""What a run tells those who watch, and what a command reports when it ends.

`Report`s are given to `Runtime.report` while work goes on; `RunReport` is what
`operations.run` returns. Both are values: `cli/render` turns them into text or JSON.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from .backfills import BackfillView
    from .errors import ReconcileError
    from .model import Holder, Lease, Outcome, Rate, Trigger
    from .planning import Pause
    from .records import GuardReport
    from .rows import Change


class Started(NamedTuple):
    """A run was opened. `at_range` is the first range it works on when it resumes.

    `killed` is the holder whose death (`dead`) or silence made this a takeover; `silent` how
    many seconds it had shown no progress; `killed_generation` its generation; `after_range`
    the last range it left a checkpoint of. `work` is the kind.
    """

    job: str
    interval: str
    trigger: Trigger
    generation: int
    at: datetime
    at_range: int | None = None
    total: int | None = None
    phase: str = "planning"
    killed: Holder | None = None
    killed_generation: int | None = None
    silent: float | None = None
    dead: bool = False
    after_range: int | None = None
    run_id: str = ""
    work: str = "entitlements"


class Progress(NamedTuple):
    """A range was planned or committed. `total` is exact only where `exact`."""

    job: str
    interval: str
    phase: str
    range: int
    total: int | None
    exact: bool
    accounts: int
    grant: int
    revoke: int
    update: int


class Stopping(NamedTuple):
    """A signal asks to stop; it does after the range under way, of that phase."""

    job: str
    interval: str
    range: int
    phase: str = "planning"


class PlannedAnew(NamedTuple):
    """The plan that a run meant to go on with does not hold any more; `why` says the reason."""

    job: str
    interval: str
    at: datetime
    why: str


class Waits(NamedTuple):
    """Another holder works, and this trigger stays until it is done, at most until `until`."""

    job: str
    lease: Lease
    at: datetime
    until: datetime


class BackfillWaits(NamedTuple):
    """A backfill begins nothing before `until`, for its rate; None: while somebody else works."""

    job: str
    view: BackfillView
    at: datetime
    until: datetime | None


class NotTold(NamedTuple):
    """Somebody who should have been told of something could not be. `known_before`: an earlier
    call has said so already."""

    job: str
    text: str
    at: datetime
    known_before: bool = False


class Printed(NamedTuple):
    """Something that a command wrote to its standard output or standard error, as it came."""

    job: str
    interval: str
    data: bytes


class Warned(NamedTuple):
    """Work goes on, but people should know this of the store, of this host's clock or of what a
    command left. `urgent`: also who wants to hear of failures alone."""

    job: str
    text: str
    at: datetime
    urgent: bool = False


class IntervalReport(NamedTuple):
    """How one interval fared in this command. `seconds` is this run's time.

    `due_seconds` is from the scheduled instant to the end; `error` why it failed.
    `phase` is what `ranges_done` counts: `planning` or `applying`. `quarantined` names accounts
    left as they were, with the reason. `reason` is that of a final state; `failed_at` when
    an earlier run failed. `known_before`: this condition was reported for the interval by an
    earlier command. `span`: so many intervals are final as one.
    `refused_hash`: somebody approved that plan, and it is not the one that stands;
    `refused_guard` is what a guard had said of it. `run_id` is empty where there was no run.
    `blocks`: so many newer ones wait until a person acts on it. `backfill` is the number of the
    one it belongs to, the how-manieth of it this is, and of how many. `work` is the kind.
    """

    job: str
    interval: str
    scheduled_at: datetime
    outcome: Outcome
    trigger: Trigger
    generation: int
    at: datetime
    runs: int = 1
    rerun: int = 0
    ranges_done: int = 0
    ranges_total: int | None = None
    accounts: int = 0
    changes: Mapping[str, int] = MappingProxyType({})
    count: int | None = None  # type: ignore[assignment]  # hides tuple.count, of no use here
    checksum: str | None = None
    seconds: float = 0.0
    due_seconds: float = 0.0
    guard: GuardReport | None = None
    error: ReconcileError | None = None
    attempt: int = 0
    max_attempts: int = 0
    retry_at: datetime | None = None
    signal: str | None = None
    newer: Lease | None = None
    phase: str = "planning"
    quarantined: Mapping[str, str] = MappingProxyType({})
    reason: str | None = None
    failed_at: datetime | None = None
    span: int = 1
    known_before: bool = False
    refused_hash: str | None = None
    refused_guard: GuardReport | None = None
    run_id: str = ""
    blocks: int = 0
    backfill: tuple[int, int, int] | None = None
    work: str = "entitlements"


class DryRun(NamedTuple):
    """What a dry run found; `sample` holds the first changes, all are in the store under `plan`.
    `quarantined` names accounts that a run would leave as they are, with the reason."""

    interval: str
    changes: Mapping[str, int]
    sample: Sequence[Change]
    key: Sequence[int]
    plan: str = ""
    quarantined: Mapping[str, str] = MappingProxyType({})


class RunReport(NamedTuple):
    """What `run` or `resume` achieved. `outcome` and `error` decide the exit status.

    `lease` is the other holder's when busy, `waiting` the interval that waits for it;
    `lease_phase` is what `lease_ranges` counts.
    `pause` is in force where the outcome says so; `rate` is what `waiting`, with `left` in all,
    waits for until `retry_at`; `backfill` is the number of the one whose rate it is. Where time
    or a signal has cut a trigger short, `waiting`, with `left` in all, is what it did not begin.
    `next_due`, `last` and `new` explain that nothing was due.
    """

    job: str
    outcome: Outcome
    at: datetime
    intervals: Sequence[IntervalReport] = ()
    error: ReconcileError | None = None
    lease: Lease | None = None
    lease_interval: str | None = None
    lease_ranges: tuple[int, int | None] | None = None
    lease_phase: str = "applying"
    waiting: str | None = None
    waiting_seconds: float = 0.0
    next_due: datetime | None = None
    next_interval: str | None = None
    last_interval: str | None = None
    last_completed_at: datetime | None = None
    retry_at: datetime | None = None
    new: bool = False
    dry_run: DryRun | None = None
    guard: GuardReport | None = None
    usual_seconds: float | None = None
    slowest_seconds: float | None = None
    pause: Pause | None = None
    rate: Rate | None = None
    left: int = 0
    backfill: int | None = None


class ActReport(NamedTuple):
    """What `skip` or `stop` achieved. `done` False: the holder did not answer in time.

    `state` and `reason` are the interval's now; `lease` the holder's that was asked. `phase`
    is what `ranges_done` counts.
    """

    job: str
    interval: str | None
    at: datetime
    done: bool
    state: str | None = None
    reason: str | None = None
    lease: Lease | None = None
    ranges_done: int = 0
    ranges_total: int | None = None
    phase: str = "planning"
    forced: bool = False
    generation: int | None = None


class PauseReport(NamedTuple):
    """What `pause` or `unpause` achieved. `pause` is in force now, None after it was ended;
    `was_paused` False: there was none to end.

    `stopped` is what asking the holder achieved. Of the intervals that fell into the pause
    that was ended, `due` is the one to be worked, `skipped` names single ones and the first
    of each span, `skipped_count` counts all; `left_to_policy` those that are misses like any
    other.
    """

    job: str
    at: datetime
    pause: Pause | None
    was_paused: bool = True
    next_due: datetime | None = None
    stopped: ActReport | None = None
    due: str | None = None
    skipped: Sequence[str] = ()
    skipped_count: int = 0
    left_to_policy: int = 0
    ended: Pause | None = None


Report: TypeAlias = (
    "Started | PlannedAnew | Progress | Stopping | Waits | BackfillWaits | Warned | NotTold"
    " | Printed | IntervalReport"
)
