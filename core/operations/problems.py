"""What a person should see to, each with the command to type; and what merely needs saying."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ..errors import CommandFailed
from ..model import Outcome, State
from ..records import GuardReport
from ..status import Problem
from .look import interval_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from ..config import Job
    from ..records import IntervalRecord
    from ..status import IntervalView
    from .history import History
    from .look import Look

LONG_AGO = 48
"""From so many hours on days are said."""
LOOKED_BACK = 14
"""Overtaken intervals are told of while they are among so many newest ones."""


def problems(job: Job, waiting: Sequence[IntervalView], now: datetime) -> Iterator[Problem]:
    """What a person should see to, oldest first, each with the commands to type."""
    for view in waiting:
        record = view.record
        name = f"{job.name} {record.id}"
        if view.shows == "needs approval":
            guard = GuardReport.from_json(record.waiting or {})
            yield Problem(
                "!",
                f"{name}: {_waiting(guard)} for somebody's approval",
                (
                    f"reconcile changes {name} --planned",
                    f'reconcile resume {name} --approve {guard.hash} -m "why"',
                ),
            )
        elif view.shows in ("running", "fencing"):
            continue  # whatever was wrong is being tried again
        elif view.shows in ("overdue", "stalled") or record.kills > 1 or record.failure:
            told = f"{name}: {_trouble(job, view, now)}"
            sign = "-" if _is_waiting(record) and view.shows == "retrying" else "!"
            yield Problem(sign, told, (f"reconcile {_shows_why(job, record)} {name}",))


def _shows_why(job: Job, record: IntervalRecord) -> str:
    """The command that says most of what went wrong."""
    failed = record.failure is not None and record.failure.get("exit") == CommandFailed.name
    return "logs" if failed and job.work.kind == "command" else "status"


_GIVEN_UP = {
    "attempts": "failed, and no trigger tries it again",
    "cancelled": "refused by hand, after something was applied",
    "overtaken": "failed, for the target has completed a newer interval",
}


def failed_for_good(job: Job, gone: Sequence[IntervalRecord], more: int) -> Iterator[Problem]:
    """What failed for good since the last completion: nothing newer has made up for it."""
    for record in reversed(gone):
        name = f"{job.name} {record.id}"
        why = _GIVEN_UP.get(str(record.reason), f"failed ({record.reason})")
        if record.failure is not None:
            why = f"{why}: {record.failure.get('text')}"
        commands = [f"reconcile {_shows_why(job, record)} {name}"]
        if record.reason != "overtaken":  # that would undo newer truth, however often it is tried
            commands.append(f'reconcile resume {name} -m "why"')
        yield Problem("!", f"{name}: {why}", commands)
    if more:
        older = f"{more} older {'one' if more == 1 else 'ones'} failed for good too"
        yield Problem("!", f"{job.name}: {older}", (f"reconcile status {job.name} --state failed",))


def _waiting(guard: GuardReport) -> str:
    number, noun = guard.revoke, "revoke"
    if guard.guard == "max_update":
        number, noun = guard.update, "update"
    share = number / guard.base if guard.base else 0.0
    if number == 1:
        return f"1 {noun} ({share:.1%}) waits"
    return f"{number:,} {noun}s ({share:.1%}) wait"


def _trouble(job: Job, view: IntervalView, now: datetime) -> str:
    record = view.record
    parts = []
    if view.deadline_at is not None and now > view.deadline_at:
        late = _late((now - record.scheduled_at).total_seconds())
        parts.append(f"due {late} ago, past its deadline")
    if view.shows == "stalled":
        parts.append("its holder is silent or gone; the next trigger takes it over")
    if record.kills > 1:
        parts.append(f"killed {record.kills} times{record.under_way} without progress")
    elif record.failure is not None:
        parts += [_how_often(job, record), str(record.failure.get("text"))]
    text = ", ".join(parts).replace(":, ", ": ") or view.shows
    if view.retry_at is not None:
        text += f"; tried again from {view.retry_at:%Y-%m-%d %H:%M:%SZ} on"
    elif record.failure is not None and view.shows != "stalled":
        text += "; tried again by the next trigger"
    return f"{text}, never given up" if _is_incomplete(record) and record.kills <= 1 else text


def _late(seconds: float) -> str:
    hours = seconds / 3600
    if hours < 1:
        return f"{seconds / 60:.0f}m"
    return f"{hours:.0f}h" if hours < LONG_AGO else f"{hours / 24:.0f}d"


def _how_often(job: Job, record: IntervalRecord) -> str:
    if _is_incomplete(record):
        return (
            f"incomplete after {_attempts(record.attempts)}:" if record.attempts else "incomplete:"
        )
    if _is_waiting(record):
        return "waits:"
    of = f" {record.attempts} of {job.max_attempts} attempts" if record.attempts else ""
    return f"failed{of}:"


def _attempts(number: int) -> str:
    return "1 attempt" if number == 1 else f"{number} attempts"


def _is_incomplete(record: IntervalRecord) -> bool:
    """Whether all was done but for quarantined accounts."""
    return record.failure is not None and record.failure.get("outcome") == Outcome.INCOMPLETE


def _is_waiting(record: IntervalRecord) -> bool:
    """Whether its source may not be asked yet, which is nobody's fault."""
    return record.failure is not None and record.failure.get("outcome") == Outcome.WAITING


def overtaken(history: History, job: Job, seen: Look) -> Iterator[Problem]:
    """Why the newest intervals that are older than a completed one failed; nobody can do
    anything about them, so no command but one to look is named."""
    found = [
        (record.id, record.span)
        for record in islice(history, LOOKED_BACK)
        if record.state is State.FAILED and record.reason == "overtaken"
    ]
    found += [(skip.interval.id, skip.span) for skip in reversed(seen.decision.overtaken)]
    if not found or seen.completed is None:
        return
    count = sum(span for _, span in found)
    ids = sorted(name for name, _ in found)
    which = f"{ids[0]} is" if count == 1 else f"{count:,} from {ids[0]} to {ids[-1]} are"
    by = interval_at(seen, job.name, seen.completed).id
    text = f"{job.name}: {which} overtaken: the target has completed {by}, which they would undo"
    if count == 1:
        text = text.replace("which they", "which it")
    yield Problem("-", text, (f"reconcile status {job.name}",))


def blocked(job: Job, seen: Look) -> Iterator[Problem]:
    """That newer intervals wait for a person to act on one that has failed for good."""
    found = seen.decision.blocked
    if found is None or not found.failed:
        return
    name = f"{job.name} {found.record.id}"
    number = len(found.held)
    wait = "1 newer interval waits" if number == 1 else f"{number:,} newer ones wait"
    commands = (f'reconcile resume {name} -m "why"', f'reconcile skip {name} -m "why"')
    yield Problem("!", f'{name}: {wait} for it (on_failed = "block")', commands)


def paused(job: Job, seen: Look) -> Iterator[Problem]:
    """Who paused the job, until when, and why: nothing is wrong, but nothing happens either."""
    pause = seen.decision.pause
    if pause is None:
        return
    until = "until unpaused"
    if pause.until is not None:
        until = f"until {pause.until:%Y-%m-%d %H:%MZ}"
    text = f"{job.name}: paused by {pause.actor} on {pause.at:%Y-%m-%d %H:%MZ} {until}"
    text += f': "{pause.reason}"'
    if seen.decision.paused:
        number = seen.decision.paused
        text += f"; {number:,} {'interval has' if number == 1 else 'intervals have'} come due"
    yield Problem("-", text, (f'reconcile unpause {job.name} -m "why"',))
