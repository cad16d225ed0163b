"""Exit statuses: the only place that knows numbers.

Codes are added, never reused. An unknown code must be taken for a failure.

`exit_code_of` decides for a whole command: of several intervals, the oldest that did not
complete has the say, because it is what a person has to look at first. An interval that
waits for a retry (1) or an approval (4) counts as not completed, at every knock.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

from ..core import errors
from ..core.model import Outcome
from .environment import OutputFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..core.events import IntervalReport, RunReport


class ExitCode(IntEnum):
    """What a command's end tells its caller."""

    OK = 0
    """Completed, nothing due, paused, or waiting for a rate."""
    FAILED = 1
    """The work failed or made no progress; it will be retried."""
    USAGE = 2
    """The command line makes no sense."""
    INCOMPLETE = 3
    """Intervals or accounts failed for good."""
    NEEDS_APPROVAL = 4
    """A guard waits for a person."""
    UNUSABLE = 65
    """Source, target or store answered, and cannot be used as it is."""
    UNREACHABLE = 69
    """Store, source or target did not answer; a missing file too."""
    BUG = 70
    """A defect of this program; the traceback is in a file."""
    BUSY = 75
    """Another holder works; nothing was done."""
    ACCESS_DENIED = 77
    """A file, table or server refuses this user."""
    CONFIGURATION = 78
    """The configuration is wrong, or the job is unknown."""
    FENCED_OUT = 80
    """Another run has taken over."""
    OUT_OF_TIME = 124
    """The time given is over; the checkpoint is saved."""
    SIGINT = 130
    """Interrupted by Ctrl-C; the checkpoint is saved."""
    SIGTERM = 143
    """Interrupted by SIGTERM; the checkpoint is saved."""


OUTCOME_CODES = {
    Outcome.COMPLETED: ExitCode.OK,
    Outcome.NOTHING_DUE: ExitCode.OK,
    Outcome.WAITING: ExitCode.OK,
    Outcome.PAUSED: ExitCode.OK,
    Outcome.BUSY: ExitCode.BUSY,
    Outcome.FAILED: ExitCode.FAILED,
    Outcome.INCOMPLETE: ExitCode.INCOMPLETE,
    Outcome.NEEDS_APPROVAL: ExitCode.NEEDS_APPROVAL,
    Outcome.FENCED_OUT: ExitCode.FENCED_OUT,
    Outcome.INTERRUPTED: ExitCode.SIGTERM,
    Outcome.OUT_OF_TIME: ExitCode.OUT_OF_TIME,
}
"""Every outcome's code; that of an interruption depends on the signal as well."""

ERROR_CODES: dict[type[errors.ReconcileError], ExitCode] = {
    errors.UsageError: ExitCode.USAGE,
    errors.ConfigError: ExitCode.CONFIGURATION,
    errors.UnknownJob: ExitCode.CONFIGURATION,
    errors.UnsupportedPlatform: ExitCode.CONFIGURATION,
    errors.AccessDenied: ExitCode.ACCESS_DENIED,
    errors.SourceUnusable: ExitCode.UNUSABLE,
    errors.SourceUnreachable: ExitCode.UNREACHABLE,
    errors.SourcePaused: ExitCode.FAILED,  # never the end of a run, which is waiting then
    errors.TargetUnusable: ExitCode.UNUSABLE,
    errors.AccountRefused: ExitCode.UNUSABLE,
    errors.TargetUnreachable: ExitCode.UNREACHABLE,
    errors.TwoStores: ExitCode.UNUSABLE,
    errors.OldOverNew: ExitCode.INCOMPLETE,
    errors.FenceIsHigher: ExitCode.FENCED_OUT,
    errors.NotProved: ExitCode.FAILED,
    errors.FailedBefore: ExitCode.FAILED,
    errors.ChangedMeanwhile: ExitCode.FAILED,
    errors.CommandFailed: ExitCode.FAILED,
    errors.CommandNotStarted: ExitCode.UNREACHABLE,
    errors.CommandDenied: ExitCode.ACCESS_DENIED,
    errors.CommandUnusable: ExitCode.CONFIGURATION,
    errors.ProgressUnusable: ExitCode.UNUSABLE,
    errors.StoreUnusable: ExitCode.UNUSABLE,
    errors.StoreUnreachable: ExitCode.UNREACHABLE,
    errors.StoreBusy: ExitCode.BUSY,
    errors.StoreBlocked: ExitCode.UNREACHABLE,
    errors.LeaseBusy: ExitCode.BUSY,
    errors.DrillBusy: ExitCode.BUSY,
    errors.FencedOut: ExitCode.FENCED_OUT,
    errors.LeaseLapsed: ExitCode.FAILED,
    errors.OverlapIsNewer: ExitCode.BUSY,
    errors.WriteConflict: ExitCode.BUSY,
    errors.NotDelivered: ExitCode.UNREACHABLE,
    OutputFailed: ExitCode.FAILED,
}
"""Every refusal's code. A subclass has its parent's unless it is named itself."""

_CODES_OF_FAILURES = frozenset(
    {
        ExitCode.UNUSABLE,
        ExitCode.UNREACHABLE,
        ExitCode.ACCESS_DENIED,
        ExitCode.CONFIGURATION,
    }
)
_DONE = frozenset({Outcome.COMPLETED, Outcome.NOTHING_DUE})


def exit_code_of_error(error: errors.ReconcileError) -> ExitCode:
    """The code of a refusal; `BUG` for one that the table forgot."""
    for cls in type(error).__mro__:
        code = ERROR_CODES.get(cls)
        if code is not None:
            return code
    return ExitCode.BUG


def exit_code_of(report: RunReport, *, busy: int = ExitCode.BUSY, signal: str | None = None) -> int:
    """What `run` of one job exits with.

    `busy` is what `-E` asked for instead of 75. `signal` is the one that came, for an
    interruption between two intervals.
    """
    unfinished = [one for one in report.intervals if one.outcome not in _DONE]
    if unfinished:
        oldest = min(unfinished, key=lambda one: one.scheduled_at)
        code: int = _code(oldest.outcome, oldest.error, oldest.signal or signal)
    else:
        code = _code(report.outcome, report.error, signal)
    return busy if code == ExitCode.BUSY else code


def exit_code_of_all(reports: Sequence[RunReport], *, signal: str | None = None) -> int:
    """What a command about several jobs exits with: as for one, over all their intervals.

    Where no interval has the say, the first job that did not do well has.
    """
    intervals = [(one, report) for report in reports for one in report.intervals]
    unfinished = [(one, report) for one, report in intervals if one.outcome not in _DONE]
    if unfinished:
        return exit_code_of(min(unfinished, key=_age)[1], signal=signal)
    return _first_bad(exit_code_of(report, signal=signal) for report in reports)


def exit_code_of_told(told: Sequence[tuple[Mapping[str, Any] | None, int]]) -> int:
    """As `exit_code_of_all`, of runs in other processes: what `run --json` says of each, None
    where it was refused, and its exit status."""
    unfinished = [
        (str(one["scheduled_at"]), code)
        for run, code in told
        for one in (run or {}).get("intervals", ())
        if one["outcome"] not in _DONE and code != ExitCode.OK
    ]
    return min(unfinished)[1] if unfinished else _first_bad(code for _, code in told)


def _code(outcome: Outcome, error: errors.ReconcileError | None, signal: str | None) -> ExitCode:
    if outcome is Outcome.INTERRUPTED:
        return ExitCode.SIGINT if signal == "SIGINT" else ExitCode.SIGTERM
    if outcome is Outcome.FAILED and error is not None:
        code = exit_code_of_error(error)
        return code if code in _CODES_OF_FAILURES else ExitCode.FAILED
    return OUTCOME_CODES[outcome]


def _age(pair: tuple[IntervalReport, RunReport]) -> float:
    return pair[0].scheduled_at.timestamp()


def _first_bad(codes: Iterable[int]) -> int:
    return next((code for code in codes if code != ExitCode.OK), ExitCode.OK)
