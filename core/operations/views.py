"""How intervals are shown: what follows from a record, the lease and the clock."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from .. import planning
from ..errors import UsageError
from ..model import LeaseKey, State, instant_key
from ..records import IntervalRecord
from ..status import IntervalView
from ..trail import given_up_by
from .look import interval_at, live_lease, open_records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime, timedelta

    from ..config import Job
    from ..model import Lease
    from ..ports import Store
    from .application import Application
    from .history import History
    from .look import Look

FINAL = (State.COMPLETED, State.SKIPPED, State.FAILED)
SHOWN = (
    *(state.value for state in State),
    "running",
    "fencing",
    "stalled",
    "retrying",
    "delayed",
    "paused",
    "needs approval",
    "overdue",
)
"""What an interval can be shown as, and asked for by."""
BY_HAND = ("operator", "cancelled", "paused")
"""Why an interval is given up by `skip`, before or after something was applied, or by `pause`."""
OLDER = 100
"""So many intervals beyond those shown are counted."""


class Choice(NamedTuple):
    """Which of a job's intervals are asked for: the newest `limit` (None: all) of those of the
    last `since` and in that state. `older`: count those that are left out."""

    limit: int | None = 8
    since: timedelta | None = None
    state: str | None = None
    older: bool = True


def check_state(state: str | None) -> None:
    """`UsageError` for what no interval is shown as."""
    if state is not None and state not in SHOWN:
        raise UsageError(
            f"{state!r} is no state of an interval", hint=f"known are: {', '.join(SHOWN)}"
        )


def newest_grant(app: Application, store: Store, job: Job) -> Lease | None:
    """The newest grant; one whose holder is provably dead is not live, whatever it says."""
    lease = store.lease(LeaseKey(job.name))
    if lease is None:
        return None
    return replace(lease, live=live_lease(app, store, job) is not None)


class Viewer:
    """Looks at the intervals of one job, as it stands."""

    def __init__(self, store: Store, job: Job, seen: Look, lease: Lease | None) -> None:
        self._store = store
        self._job = job
        self._seen = seen
        self._lease = lease
        self._paused = seen.decision.pause is not None

    def chosen(self, history: History, choice: Choice) -> tuple[list[IntervalView], int]:
        """The newest intervals first, those due without a record too; how many more there are,
        counted up to `OLDER`."""
        views = (view for view in self._asked(history, choice) if _is_in(view, choice.state))
        shown: list[IntervalView] = []
        more = 0
        for view in views:
            if choice.limit is None or len(shown) < choice.limit:
                shown.append(self.signed(view))
                continue
            more += choice.older
            if more in (0, OLDER):
                break
        return shown, more

    def _asked(self, history: Iterable[IntervalRecord], choice: Choice) -> Iterator[IntervalView]:
        """All that may be in the state asked for: the open ones are found by their tag."""
        edge = self._seen.now - choice.since if choice.since is not None else None
        records = history
        if choice.state is not None and choice.state not in FINAL:
            opened = [record for record, _ in open_records(self._store, self._job.name)]
            records = [one for one in reversed(opened) if one.scheduled_at <= self._seen.now]
        new = [due.interval.scheduled_at for due in self._seen.decision.owed if due.record is None]
        begun = iter(records)
        following = next(begun, None)
        for instant in chain(reversed(new), [None]):
            while following is not None and (instant is None or following.scheduled_at > instant):
                if edge is not None and (following.until_at or following.scheduled_at) <= edge:
                    break
                yield self.view(following)
                following = next(begun, None)
            if instant is not None and (edge is None or instant > edge):
                yield self.pending(instant)

    def signed(self, view: IntervalView) -> IntervalView:
        """With the name and the reason of whoever gave the interval up."""
        if view.record.reason not in BY_HAND:
            return view
        key = instant_key(view.record.scheduled_at)
        return replace(view, signed=given_up_by(self._store, self._job.name, key))

    def waiting(self) -> Sequence[IntervalView]:
        """All that is due or unfinished, oldest first; of those that nobody has begun not more
        than a decision names."""
        gone = {skip.interval.scheduled_at for skip in self._seen.decision.overtaken}
        found = [
            self.view(record)
            for record, _ in open_records(self._store, self._job.name)
            if record.scheduled_at <= self._seen.now and record.scheduled_at not in gone
        ]
        due = self._seen.decision.owed
        found += [self.pending(d.interval.scheduled_at) for d in due if d.record is None]
        return sorted(found, key=lambda view: view.record.scheduled_at)

    def pending(self, instant: datetime) -> IntervalView:
        """An interval that has no record yet."""
        interval = interval_at(self._seen, self._job.name, instant)
        return self.view(IntervalRecord.of(interval))

    def view(self, record: IntervalRecord) -> IntervalView:
        """An interval by its record."""
        deadline = planning.deadline_of(self._job, self._seen.schedule, record)
        if record.state.is_final:
            return IntervalView(record, record.state, deadline)
        retry = planning.retry_at(self._job, record)
        shows = self._shows(record, deadline, retry)
        waits = retry is not None and retry > self._seen.now and shows in ("retrying", "overdue")
        return IntervalView(record, shows, deadline, retry if waits else None)

    def _shows(self, record: IntervalRecord, deadline: datetime, retry: datetime | None) -> str:
        """What an interval that is not final is shown as: the first of these that holds."""
        now, lease = self._seen.now, self._lease
        if lease is not None and not lease.released:
            if lease.interval == instant_key(record.scheduled_at):
                run_is_open = record.runs > 0 and record.last_run_id == lease.fence.run
                return ("running" if run_is_open else "fencing") if lease.live else "stalled"
        else:
            lease = None
        ranked = (
            ("needs approval", record.waiting is not None and record.approval is None),
            ("overdue", now > deadline),
            ("retrying", retry is not None and retry > now),
            ("paused", self._paused),
            # By the interval that is worked.
            ("delayed", record.state is State.PENDING and lease is not None and lease.live),
        )
        return next((name for name, holds in ranked if holds), record.state)


def _is_in(view: IntervalView, state: str | None) -> bool:
    return state is None or state in (view.shows, view.record.state)
