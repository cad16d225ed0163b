"""Calls a job's dead-man's switch when a run starts, succeeds and fails.

The address is called as it is when an interval is completed, with `/start` when a run was
opened, and with `/fail` when it failed, is incomplete or waits for an approval: the protocol of
Healthchecks and others like it. `rid` is the run's id, so that the switch can tell two runs
apart. A run that was stopped or ran out of time is neither, and will be resumed; should nobody
do so, the switch notices that nothing came.

urllib is enough: one GET, no session, nothing to be kept, and no dependency for those who do not
use it. The call when a run starts is not waited for; the later ones are, a few seconds at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.events import IntervalReport, NotTold, Started
from ...core.masking import beyond_host
from ...core.model import Outcome
from .bounded import begun, within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime
    from threading import Thread

    from ...core.config import Job
    from ...core.events import Report

SECONDS = 5.0
"""So long is one call waited for."""
_FAILED = frozenset({Outcome.FAILED, Outcome.INCOMPLETE, Outcome.NEEDS_APPROVAL})


class Heartbeat:
    """Listens to what runs report, and passes it on.

    `addresses` by job; `report` is who else listens.
    """

    def __init__(
        self,
        addresses: dict[str, str],
        report: Callable[[Report], None],
        seconds: float = SECONDS,
    ) -> None:
        self._addresses = addresses
        self._report = report
        self._seconds = seconds
        self._start: Thread | None = None

    def report(self, report: Report) -> None:
        """Call the switch where that is due."""
        self._report(report)
        if not isinstance(report, (Started, IntervalReport)) or not report.run_id:
            return
        address = self._addresses.get(report.job)
        if address is None:
            return
        if isinstance(report, Started):
            url = switch(address, "/start", report.run_id)
            self._start = begun(lambda: _answered(url))
            return
        if report.outcome is Outcome.COMPLETED or report.outcome in _FAILED:
            suffix = "" if report.outcome is Outcome.COMPLETED else "/fail"
            self._call(report.job, address, suffix, report.run_id, report.at)

    def _call(self, job: str, address: str, suffix: str, run: str, at: datetime) -> None:
        if self._start is not None:
            self._start.join(self._seconds)  # the switch must hear of the start first
            self._start = None
        if not within(self._seconds, lambda: _answered(switch(address, suffix, run))):
            text = f"heartbeat {beyond_host(address)} did not take its call"
            self._report(NotTold(job, text, at))


def addresses(jobs: Iterable[Job]) -> dict[str, str]:
    """The jobs that have a switch."""
    return {job.name: job.heartbeat for job in jobs if job.heartbeat is not None}


def switch(address: str, suffix: str, run: str) -> str:
    """The address to call: the suffix ends its path, the run's id joins its query."""
    from urllib.parse import urlsplit, urlunsplit

    parts = urlsplit(address)
    rid = "-".join((run[:8], run[8:12], run[12:16], run[16:20], run[20:]))
    query = "&".join(filter(None, (parts.query, f"rid={rid}")))
    path = parts.path.rstrip("/") + suffix if suffix else parts.path
    return urlunsplit((parts.scheme, parts.netloc, path, query, ""))


def called_once(address: str, run: str) -> str:
    """Call a switch as a success does, and say what it answers. Raises `NotDelivered`."""
    from ...core.errors import NotDelivered

    told: list[str] = []

    def ask() -> bool:
        from urllib.error import HTTPError, URLError
        from urllib.request import Request, urlopen

        request = Request(switch(address, "", run), headers={"User-Agent": "reconcile"})
        try:
            with urlopen(request, timeout=SECONDS) as answer:
                told.append(str(answer.status))
                return bool(200 <= answer.status < 300)
        except HTTPError as error:
            told.append(f"it answers {error.code}")
        except URLError as error:
            # A reason may quote the address; that of the system does not.
            cause = error.reason
            told.append(getattr(cause, "strerror", None) or type(cause).__name__)
        return False

    if within(SECONDS, ask):
        return told[-1]
    raise NotDelivered(told[-1] if told else f"no answer within {SECONDS:g} s")


def _answered(address: str) -> bool:
    """Whether a server takes the call; redirections are followed."""
    from urllib.error import URLError
    from urllib.request import Request, urlopen

    request = Request(address, headers={"User-Agent": "reconcile"})
    try:
        with urlopen(request, timeout=SECONDS) as answer:
            return bool(200 <= answer.status < 300)
    except (URLError, OSError, ValueError):
        return False
