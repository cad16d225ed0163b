"""Everything that can be refused, as one tree.

An error says what happened and to what (`str(error)`) and what to do about it
(`error.hint`). Expected endings of a run are values (`model.Outcome`), not errors.
`cli/exit_codes.py` gives each leaf its exit status; nothing else knows numbers.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from .model import FenceRow, Json, Lease


class ReconcileError(Exception):
    """Base of all refusals.

    `name` is the error's stable name in `--json`; `hint` is the next thing to do. Neither
    ever has the secret of an address in it, see `masking`.
    """

    name: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        from .masking import mask  # not before something is refused

        super().__init__(mask(message))
        self.hint = mask(hint)


class UsageError(ReconcileError):
    """The command line asks for something that makes no sense."""

    name = "usage"


class ConfigError(ReconcileError):
    """The configuration is wrong; the message names file, line and key. `problems`: each message
    with its own hint, where there are several."""

    name = "configuration"
    problems: Sequence[tuple[str, str]] = ()


class UnknownJob(ReconcileError):
    """No job of that name is configured."""

    name = "unknown_job"


class UnsupportedPlatform(ReconcileError):
    """This operating system cannot keep what the tool promises."""

    name = "unsupported_platform"


class AccessDenied(ReconcileError):
    """A file, table or server refuses this user, or is open to too many."""

    name = "access_denied"


class NotDelivered(ReconcileError):
    """Somebody could not be told of something. Never the end of a run."""

    name = "not_delivered"


# --- the source of truth


class SourceUnusable(ReconcileError):
    """The source answered, and what it said cannot be taken for the truth."""

    name = "source_unusable"


class SourceUnreachable(ReconcileError):
    """The source did not answer: a missing file too."""

    name = "source_unreachable"


class SourcePaused(ReconcileError):
    """The source may not be asked again before `until`, by its own word, a rate or a budget. No
    fault: the run ends, and the next one goes on."""

    name = "source_paused"

    def __init__(self, message: str, *, until: datetime, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.until = until


# --- the target


class TargetUnusable(ReconcileError):
    """The target lacks what the work needs: a table, a column, a unique key."""

    name = "target_unusable"


class AccountRefused(TargetUnusable):
    """The table refuses a row of one account, by a constraint, a trigger or its scope."""

    name = "account_refused"

    def __init__(self, message: str, *, account: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.account = account


class TargetUnreachable(ReconcileError):
    """The target did not answer in time, or its disk refuses writes."""

    name = "target_unreachable"


class TargetLocked(TargetUnreachable):
    """Another program held the target's lock for the whole bounded wait. `stopped`: the pids of
    those who have a lock on it and are stopped."""

    name = "target_locked"
    stopped: Sequence[int] = ()


class TwoStores(ReconcileError):
    """Two stores keep raising the fence of one target against each other."""

    name = "two_stores"


class OldOverNew(ReconcileError):
    """The interval is older than the newest one the target has completed."""

    name = "old_over_new"


class FenceIsHigher(ReconcileError):
    """The target's fence row is not lower than the one shown to it.

    The engine answers it with a regrant above `row.generation`, or gives up.
    """

    name = "fence_is_higher"

    def __init__(self, row: FenceRow) -> None:
        super().__init__(
            f"the target is fenced at generation {row.generation} by store {row.store_id}",
        )
        self.row = row


class NotProved(ReconcileError):
    """All ranges are done, and the interval may still not be called completed."""

    name = "not_proved"


class FailedBefore(ReconcileError):
    """What an earlier run failed with, told again while the interval waits for its retry."""

    name = "failed_before"


class ChangedMeanwhile(ReconcileError):
    """Rows were changed by somebody else since they were compared; nothing was written."""

    name = "changed_meanwhile"

    def __init__(self, accounts: Sequence[str]) -> None:
        count = len(accounts)
        what = "1 account was" if count == 1 else f"{count} accounts were"
        super().__init__(f"{what} changed since compared")
        self.accounts = tuple(accounts)


# --- commands


class CommandFailed(ReconcileError):
    """A command ended, and not with exit status 0. `tail` are its last lines; `facts` say how it
    ended: `exit_status` or `signal`."""

    name = "command_failed"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        tail: Sequence[str] = (),
        facts: Mapping[str, Json] = MappingProxyType({}),
    ) -> None:
        super().__init__(message, hint=hint)
        self.tail = tuple(tail)
        self.facts = facts


class CommandNotStarted(ReconcileError):
    """There is no such program, or the system has no room for it now."""

    name = "command_not_started"


class CommandDenied(AccessDenied):
    """The program, or its folder, may not be used by this user."""

    name = "command_denied"


class CommandUnusable(ReconcileError):
    """What was found is no program that this system can run."""

    name = "command_unusable"


class ProgressUnusable(ReconcileError):
    """A command wrote something to its progress pipe that says nothing we know."""

    name = "progress_unusable"


# --- the store and its leases


class StoreUnusable(ReconcileError):
    """The store is not one of ours, is damaged, or is newer than this program."""

    name = "store_unusable"


class StoreUnreachable(ReconcileError):
    """The store did not answer in time, or its disk refuses writes."""

    name = "store_unreachable"


class StoreBusy(ReconcileError):
    """Somebody else held the store's write lock for the whole bounded wait."""

    name = "store_busy"


class StoreBlocked(StoreBusy):
    """A stopped process keeps the store locked, of which nothing shows that it may be ended, or
    which may not be ended from here. It stays so until a person does something."""

    name = "store_blocked"


class LeaseBusy(ReconcileError):
    """Another holder has the lease, and it has not expired."""

    name = "busy"

    def __init__(self, lease: Lease) -> None:
        job = lease.fence.key.job
        super().__init__(
            f"{job} is worked by {lease.holder} since {lease.granted_at:%Y-%m-%d %H:%M:%SZ}",
            hint=f'watch it: reconcile status {job}\nstop it: reconcile stop {job} -m "why"',
        )
        self.lease = lease


class DrillBusy(ReconcileError):
    """Another drill is under way in the store."""

    name = "drill_busy"


class FencedOut(ReconcileError):
    """A write was refused because a newer generation exists. Final: stop working."""

    name = "fenced_out"

    def __init__(self, message: str, *, newer: Lease | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.newer = newer


class LeaseLapsed(ReconcileError):
    """This process may no longer trust its lease: its window is over, or no progress was made."""

    name = "lease_lapsed"


class OverlapIsNewer(ReconcileError):
    """A trigger was turned away since this holder last decided: decide again, then release."""

    name = "overlap_is_newer"


class WriteConflict(ReconcileError):
    """A conditional write found another version than expected; the whole batch was refused."""

    name = "write_conflict"
