"""`reconcile.run()`: what the command `run` does, for callers in Python.

The same operation under the same wiring; only the outside is another one: no streams, no
signals, and a stop that the caller asks for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from ..core.errors import StoreBlocked, StoreBusy
from ..core.events import RunReport
from ..core.model import Outcome
from .environment import end_process, silent_environment
from .exit_codes import ExitCode, exit_code_of
from .options import Call, GlobalOptions, duration_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from os import PathLike

    from ..core.errors import ReconcileError
    from ..core.events import IntervalReport


@dataclass(frozen=True, slots=True)
class IntervalOutcome:
    """How one interval fared. Instants are in UTC, `seconds` is the time of this run.

    `ranges_total` None: not known yet. `count` and `checksum` are the proof of a completed
    interval. `approve` is the hash that `reconcile resume JOB INTERVAL --approve HASH` wants
    where a guard waits for a person. `quarantined`: accounts left as they are, with reasons.
    """

    interval: str
    scheduled_at: datetime
    outcome: Outcome
    trigger: str
    generation: int
    runs: int
    rerun: int
    ranges_done: int
    ranges_total: int | None
    accounts: int
    granted: int
    revoked: int
    updated: int
    count: int | None
    checksum: str | None
    seconds: float
    error: ReconcileError | None = None
    approve: str | None = None
    quarantined: Mapping[str, str] = field(default_factory=dict)
    retry_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What a call of `reconcile.run` achieved.

    `outcome` and `exit` are those of the command: the oldest interval that did not complete
    decides. `text` is what the command leaves in a log, a line each, without dates. `holder`
    is who works while this call was busy; `error` what the interval that decides failed with.
    """

    job: str
    outcome: Outcome
    exit: int
    intervals: tuple[IntervalOutcome, ...]
    text: str
    next_due: datetime | None = None
    holder: str | None = None
    error: ReconcileError | None = None


class _Caller:
    """A stop that the caller asks for. Implements `core.ports.StopSignal`."""

    def __init__(self, stop: Event | None) -> None:
        self._stop = stop

    @property
    def reason(self) -> str | None:
        return "its caller" if self._stop is not None and self._stop.is_set() else None


def run(
    job: str,
    *,
    config: str | PathLike[str] | None = None,
    store: str | None = None,
    interval: str | None = None,
    max_runtime: timedelta | str | None = None,
    wait: timedelta | str | None = None,
    stop: Event | None = None,
) -> RunOutcome:
    """See `reconcile.run`."""
    from ..core.operations.application import RunRequest
    from ..core.operations.trigger import run as operation
    from .wiring import application

    options = GlobalOptions(config=None if config is None else Path(config), store=store)
    returned = Event()

    def end(error: Exception) -> None:
        # What goes on here then is the caller's, and has nothing to do with a lease.
        if not returned.is_set():
            end_process(error)

    call = Call(silent_environment(_Caller(stop), end), options, ExitCode.BUSY)
    request = RunRequest(
        job=job,
        interval=interval,
        max_runtime=_duration(max_runtime, "max_runtime"),
        wait=_duration(wait, "wait"),
    )
    app = application(call, lambda report: None, lambda step: None, makes_store=True)
    try:
        report = operation(app, request)
    except StoreBlocked:
        raise
    except StoreBusy as error:  # somebody writes to the store: busy as well, and nothing was done
        now = call.env.clock.now()
        report = RunReport(job, Outcome.BUSY, now, error=error)
    finally:
        returned.set()
    return _outcome(call, report)


def _duration(given: timedelta | str | None, name: str) -> timedelta | None:
    if given is not None and not isinstance(given, timedelta | str):
        given = repr(given)  # a bare number would leave its unit to be guessed
    return given if isinstance(given, timedelta) else duration_of(given, name)


def _outcome(call: Call, report: RunReport) -> RunOutcome:
    from .render import lines
    from .render.words import Style

    style = Style(program=call.options.program(call.env.program))
    told = [lines.interval(one, style) for one in report.intervals]
    failed = [one for one in report.intervals if one.outcome is report.outcome and one.error]
    oldest = min(failed, key=lambda one: one.scheduled_at, default=None)
    return RunOutcome(
        job=report.job,
        outcome=report.outcome,
        exit=exit_code_of(report),
        intervals=tuple(map(_interval, report.intervals)),
        text="\n".join(told or [lines.run(report, style)]),
        next_due=report.next_due,
        holder=str(report.lease.holder) if report.lease is not None else None,
        error=oldest.error if oldest is not None else report.error,
    )


def _interval(report: IntervalReport) -> IntervalOutcome:
    changes = report.changes
    return IntervalOutcome(
        interval=report.interval,
        scheduled_at=report.scheduled_at,
        outcome=report.outcome,
        trigger=report.trigger.value,
        generation=report.generation,
        runs=report.runs,
        rerun=report.rerun,
        ranges_done=report.ranges_done,
        ranges_total=report.ranges_total,
        accounts=report.accounts,
        granted=changes.get("grant", 0),
        revoked=changes.get("revoke", 0),
        updated=changes.get("update", 0),
        count=report.count,
        checksum=report.checksum,
        seconds=report.seconds,
        error=report.error,
        approve=report.guard.hash if report.guard is not None else None,
        quarantined=dict(report.quarantined),
        retry_at=report.retry_at,
    )
