"""The two ends of a reconciliation, as Protocols: where the truth is, and where it is mended.

The engine knows neither; entitlements work does. Rows cross this border as canonical text
(`core/rows.py`). A target keeps its own fence, so that a holder which the store has given
up cannot write there either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime, timedelta

    from .checksum import Checksum
    from .model import Fence, FenceRow, Interval, Json, JsonObject, LeaseKey, PlanId, Proof, Rate
    from .rows import Action, Change, KeySpan, Page, RangeChanges, Schema


class Unordered(Exception):
    """A source turned out not to be in order of accounts, and nothing that was read of it
    may be used. Asked for its pages from the beginning, it gives them in order."""


class BrokenOff(Exception):
    """A source that was asked to stop, in the middle of what has no checkpoint of its own."""


class Calls(Protocol):
    """What a source on a network needs of the run that it is read for."""

    def now(self) -> datetime:
        """The store's clock."""
        ...

    def take(self, bucket: str, rate: Rate) -> float:
        """Have one call granted by the store, see `ports.Store.take`: 0, or seconds to wait."""
        ...

    def wait(self, seconds: float) -> None:
        """Sleep, and keep the lease. Raises `BrokenOff`, `LeaseLapsed`, `FencedOut`."""
        ...

    def go_on(self) -> None:
        """Raises `BrokenOff` where the run is to end. Else it is a sign of progress."""
        ...

    def stand_by(self) -> None:
        """An answer is waited for, which is no progress. Raises as `wait`."""
        ...

    def new_id(self) -> str:
        """A fresh unguessable name."""
        ...

    def accounts(self) -> Iterator[str]:
        """The accounts that the target has, in order: some sources have to be asked for each."""
        ...


class Source(Protocol):
    """Where the truth about entitlements comes from."""

    dated: bool
    """Whether it tells the truth of an interval rather than that of now."""

    def describe(self, interval: Interval | None) -> str:
        """For people: type and path or address, secrets masked."""
        ...

    def open(self, interval: Interval, schema: Schema, calls: Calls | None = None) -> Reading:
        """Begin to read; with `calls` None only the fingerprint is wanted. Rows have the account
        as the schema's key policy normalises it, and an account that the source spells in several
        ways is bad, with its spellings named. Raises `SourceUnreachable`, `SourceUnusable`,
        `AccessDenied`."""
        ...


class Reading(Protocol):
    """A source opened for one interval."""

    fingerprint: str
    """Says whether the same truth is read again; a plan holds for one fingerprint. Empty where
    a source cannot say."""

    def pages(self, after: str | None = None, resume: Json = None) -> Iterator[Page]:
        """Pages in account order, from the first account above `after` on. `resume` is what
        an earlier page of the same fingerprint said; rows at or below `after` may still come.

        Raises `SourceUnusable` or `SourceUnreachable` where it is cut short, so that the end
        of the iteration means that the source is complete, and `Unordered`. An empty page
        says that reading goes on.
        """
        ...

    def close(self) -> None:
        """Free what reading holds."""
        ...


@runtime_checkable
class AsksEach(Protocol):
    """A reading of a source that knows of no account but those that it was asked for."""

    def unasked(self, accounts: Iterable[str]) -> Mapping[str, str]:
        """Those of these that it was not asked for, with a reason to leave them alone."""
        ...


@dataclass(frozen=True, slots=True)
class Committed:
    """A range as its transaction left it: its checksum re-read, and changes by kind."""

    checksum: Checksum
    changes: Mapping[Action, int]


class Target(Protocol):
    """Where entitlements are. It checks the fence itself where `fenced` is true."""

    fenced: bool

    def describe(self) -> str:
        """For people: type, address and table, secrets masked."""
        ...

    def work_on(self, interval: Interval) -> None:
        """Where each interval has rows of its own (`interval_column`), those of this one are meant
        from now on, and no other's are read or changed. Before that there are none."""
        ...

    def schema(self) -> Schema:
        """The compared columns. Raises `TargetUnusable` where the table cannot serve."""
        ...

    def floor(self, key: LeaseKey) -> FenceRow | None:
        """The fence row as it stands; None where no run was ever fenced here."""
        ...

    def raise_fence(self, fence: Fence, store_id: str, wait: timedelta) -> FenceRow:
        """Refuse all older generations from now on; the row as it was before, or is now when it
        was this very run's. `FenceIsHigher` when it is not lower. Waits at most `wait` for
        an old holder's open transaction (`TargetUnreachable`)."""
        ...

    def lines(self, span: KeySpan) -> list[bytes]:
        """The rows in scope of a span as canonical lines, in any order."""
        ...

    def bound(self, span: KeySpan, rows: int) -> str | None:
        """Where to cut a span so that its first part has hardly more than so many rows: the
        account, below the span's upper bound, of the row after them. None where it has no
        more, or where finding out would take a look at all rows."""
        ...

    def collisions(self, span: KeySpan) -> Mapping[str, str]:
        """Accounts of a span that the target has under more than one spelling, with a reason
        that names them. Not asked where the schema's key policy is `exact`."""
        ...

    def commit(self, fence: Fence, part: RangeChanges, by: float) -> Committed:
        """One transaction: fence, changes by before-image, change log, re-read, marker.

        Where the marker stands already, nothing is applied and what it says is returned. `by`
        is a `CLOCK_BOOTTIME` reading after which nothing may be committed (`LeaseLapsed`).
        An account of the changes is the normalised one: a row that is there is changed under
        its own spelling, a granted one gets the spelling that its account has already.
        Raises `FencedOut`, `ChangedMeanwhile`.
        """
        ...

    def marker(self, plan: PlanId, number: int) -> Committed | None:
        """What `commit` returned for that range of that plan, if it was committed."""
        ...

    def complete(self, fence: Fence, proof: Proof) -> None:
        """Record the interval as the newest completed and drop its markers' predecessors.
        `OldOverNew` when a newer one stands that is not later than now (a clock was ahead),
        `FencedOut`; harmless when repeated."""
        ...

    def changes(
        self, *, interval: str | None = None, account: str | None = None
    ) -> Iterator[tuple[JsonObject, Change]]:
        """The change log: who and when (interval, rerun, run, generation, at), and what.
        Accounts of the rows are spelled as the target had or got them; `account` is any
        spelling."""
        ...

    def interrupt(self) -> None:
        """Break off what another thread is doing in the target now; nothing of it stays."""
        ...

    def close(self) -> None:
        """Give the connection back."""
        ...
