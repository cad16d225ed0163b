"""Every refusal and every outcome has its exit status, and a command's is that of the oldest
interval that did not complete."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module

import pytest

import reconcile
from reconcile.cli.exit_codes import (
    ERROR_CODES,
    OUTCOME_CODES,
    ExitCode,
    exit_code_of,
    exit_code_of_all,
    exit_code_of_error,
)
from reconcile.core import errors
from reconcile.core.events import IntervalReport, RunReport
from reconcile.core.model import Outcome, Trigger

NIGHT = datetime(2026, 11, 28, 2, 30, tzinfo=UTC)

PUBLISHED = {
    "OK": 0,
    "FAILED": 1,
    "USAGE": 2,
    "INCOMPLETE": 3,
    "NEEDS_APPROVAL": 4,
    "UNUSABLE": 65,
    "UNREACHABLE": 69,
    "BUG": 70,
    "BUSY": 75,
    "ACCESS_DENIED": 77,
    "CONFIGURATION": 78,
    "FENCED_OUT": 80,
    "OUT_OF_TIME": 124,
    "SIGINT": 130,
    "SIGTERM": 143,
}
"""Scripts rely on these: a number is never changed and never used again."""

FATAL = {
    errors.SourceUnusable: 65,
    errors.TargetUnusable: 65,
    errors.TwoStores: 65,
    errors.SourceUnreachable: 69,
    errors.TargetUnreachable: 69,
    errors.StoreUnreachable: 69,
    errors.AccessDenied: 77,
    errors.ConfigError: 78,
}
"""Faults that an interval's exit status tells apart; all others are 1."""


def all_classes() -> Iterator[type[errors.ReconcileError]]:
    """Every refusal of the package, wherever it is defined."""
    for found in pkgutil.walk_packages(reconcile.__path__, "reconcile."):
        if found.name.startswith(("reconcile.cli", "reconcile.core", "reconcile.stores")):
            import_module(found.name)
    below = [errors.ReconcileError]
    while below:
        cls = below.pop()
        subclasses = cls.__subclasses__()
        below += subclasses
        if not subclasses and cls.__module__.startswith("reconcile."):
            yield cls


def bare(cls: type[errors.ReconcileError]) -> errors.ReconcileError:
    """An error of the class, whatever its constructor wants."""
    error = cls.__new__(cls)
    Exception.__init__(error, "x")
    error.hint = ""
    return error


def fared(
    outcome: Outcome, night: int, error: errors.ReconcileError | None = None
) -> IntervalReport:
    at = NIGHT + timedelta(days=night)
    return IntervalReport(
        job="entitlements",
        interval=at.date().isoformat(),
        scheduled_at=at,
        outcome=outcome,
        trigger=Trigger.SCHEDULE,
        generation=7,
        at=at,
        error=error,
        signal="SIGINT" if outcome is Outcome.INTERRUPTED else None,
    )


def reported(*intervals: IntervalReport, outcome: Outcome = Outcome.COMPLETED) -> RunReport:
    return RunReport("entitlements", outcome, NIGHT, intervals)


def test_the_published_numbers_stand() -> None:
    assert {code.name: code.value for code in ExitCode} == PUBLISHED


@pytest.mark.parametrize("cls", sorted(all_classes(), key=str), ids=lambda cls: cls.__name__)
def test_every_refusal_has_a_code_of_its_own(cls: type[errors.ReconcileError]) -> None:
    if cls.__name__ == "Bug":
        assert exit_code_of_error(bare(cls)) is ExitCode.BUG
    else:
        assert exit_code_of_error(bare(cls)) is not ExitCode.BUG


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_has_a_code(outcome: Outcome) -> None:
    assert outcome in OUTCOME_CODES


def test_no_refusal_looks_like_success() -> None:
    assert ExitCode.OK not in ERROR_CODES.values()


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (Outcome.COMPLETED, 0),
        (Outcome.NOTHING_DUE, 0),
        (Outcome.WAITING, 0),
        (Outcome.PAUSED, 0),
        (Outcome.FAILED, 1),
        (Outcome.INCOMPLETE, 3),
        (Outcome.NEEDS_APPROVAL, 4),
        (Outcome.BUSY, 75),
        (Outcome.FENCED_OUT, 80),
        (Outcome.OUT_OF_TIME, 124),
    ],
)
def test_an_outcome_alone_decides(outcome: Outcome, code: int) -> None:
    assert exit_code_of(reported(outcome=outcome)) == code
    assert exit_code_of(reported(fared(outcome, 0), outcome=outcome)) == code


@pytest.mark.parametrize("cls", sorted(all_classes(), key=str), ids=lambda cls: cls.__name__)
def test_a_failed_interval_tells_what_kept_it_from_its_data(
    cls: type[errors.ReconcileError],
) -> None:
    nearest = next((FATAL[base] for base in cls.__mro__ if base in FATAL), None)
    code = exit_code_of(reported(fared(Outcome.FAILED, 0, bare(cls)), outcome=Outcome.FAILED))
    if nearest is not None:
        assert code == nearest
    else:
        assert code in {1, 65, 69, 77, 78}


def test_the_oldest_interval_that_did_not_complete_decides() -> None:
    done, waits, failed = (
        fared(Outcome.COMPLETED, 0),
        fared(Outcome.NEEDS_APPROVAL, 1),
        fared(Outcome.FAILED, 2),
    )
    assert exit_code_of(reported(done, failed, waits, outcome=Outcome.FAILED)) == 4
    assert exit_code_of(reported(failed, done, outcome=Outcome.COMPLETED)) == 1


def test_a_failure_that_was_known_before_still_counts() -> None:
    known = fared(Outcome.FAILED, 0, errors.SourceUnreachable("no file"))
    assert exit_code_of(reported(known, fared(Outcome.COMPLETED, 1))) == 69


@pytest.mark.parametrize(("signal", "code"), [("SIGINT", 130), ("SIGTERM", 143), (None, 143)])
def test_an_interruption_between_two_intervals_knows_its_signal(
    signal: str | None, code: int
) -> None:
    done = fared(Outcome.COMPLETED, 0)
    assert exit_code_of(reported(done, outcome=Outcome.INTERRUPTED), signal=signal) == code


def test_an_interrupted_interval_knows_its_signal() -> None:
    assert exit_code_of(reported(fared(Outcome.INTERRUPTED, 0), outcome=Outcome.INTERRUPTED)) == 130


def test_busy_is_what_the_caller_made_it() -> None:
    assert exit_code_of(reported(outcome=Outcome.BUSY), busy=0) == 0
    assert exit_code_of(reported(outcome=Outcome.BUSY), busy=17) == 17
    assert exit_code_of(reported(outcome=Outcome.FENCED_OUT), busy=17) == 80


def test_of_several_jobs_the_oldest_interval_that_did_not_complete_decides() -> None:
    first = reported(fared(Outcome.FAILED, 5), outcome=Outcome.FAILED)
    second = reported(fared(Outcome.NEEDS_APPROVAL, 2), outcome=Outcome.NEEDS_APPROVAL)
    assert exit_code_of_all([first, second]) == 4
    assert exit_code_of_all([reported(), reported(outcome=Outcome.BUSY)]) == 75
    assert exit_code_of_all([reported(), reported()]) == 0
