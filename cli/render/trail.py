"""`status JOB INTERVAL`: one interval with its runs and its audit trail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.model import Ending, State
from ...core.records import GuardReport, figures
from . import words
from .events import event_at, event_text
from .faults import left_out
from .guards import approve_command, guard_facts, refuse_command
from .reasons import reason_text
from .tables import Column, Row, aligned, tabbed
from .told import Told, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ...core.model import JsonObject
    from ...core.records import IntervalRecord, RangeRecord, RunRecord
    from ...core.status import IntervalStatus
    from .words import Style


_CURSOR = 60
"""Letters of a cursor that are shown."""


def head(status: IntervalStatus, now: datetime, style: Style) -> str:
    """What became of the interval, in a few lines."""
    record = status.view.record
    shows = record.state.value if record.state.is_final else status.view.shows
    line = f"{status.job.name} {record.id}   {style.state(shows)}"
    if record.rerun:
        line += f", rerun {record.rerun}"
    if record.completed_at is not None:
        late = words.span(words.seconds_between(record.scheduled_at, record.completed_at))
        line += f", {late} after it was due"
    if record.reason:
        line += f": {reason_text(record.reason)}"
    rows = _facts(status, now, style)
    wide = max(len(label) for label, _ in rows)
    lines = [line]
    for label, text in rows:
        first = f"  {label:{wide}}  "
        lines += wrapped(text, style.width, first, " " * len(first))
    return "\n".join(lines) + "\n\n"


def _facts(status: IntervalStatus, now: datetime, style: Style) -> list[tuple[str, str]]:
    record, view = status.view.record, status.view
    rows = [("due", words.moment(record.scheduled_at))]
    if record.span > 1 and record.until_at is not None:
        rows.append(("span", f"{record.span:,} intervals up to {words.moment(record.until_at)}"))
    if record.started_at is not None:
        rows.append(("started", words.moment(record.started_at)))
    if record.completed_at is not None:
        rows.append(("completed", words.moment(record.completed_at)))
    if view.deadline_at is not None:
        rows.append(("deadline", _deadline(view.deadline_at, record, now)))
    if status.lease is not None and (status.lease.live or view.shows == "stalled"):
        ago = words.age(words.seconds_between(status.lease.progress_at, now))
        gone = "" if status.lease.live else "; it is silent or gone, the next trigger takes over"
        rows.append(("lease", f"{words.holder_of(status.lease)}, last progress {ago} ago{gone}"))
    if record.repair_owner:
        rows.append(("by hand", record.repair_owner))
    if record.failure and record.state is not State.COMPLETED:
        text = str(record.failure.get("text", ""))
        # Which accounts, and why, has a list of its own below.
        rows.append(("failure", text.partition(": ")[0] if quarantined(status.ranges) else text))
    if view.retry_at is not None:
        rows.append(("retry", f"not before {words.moment(view.retry_at)}"))
    if record.runs and record.work is not None:
        rows += _of_command(record, style)
    elif record.runs:
        rows.append(("ranges", _stands(record)))
        counts = {"grant": record.grant, "revoke": record.revoke, "update": record.update}
        rows.append(("changes", words.long_changes(counts)))
    if view.shows == "needs approval" and record.waiting is not None:
        rows += guard_facts(GuardReport.from_json(record.waiting), style)
    if status.desired and status.observed and record.state is State.COMPLETED:
        rows.append(_proof(status.desired, status.observed, style))
    return rows


def _of_command(record: IntervalRecord, style: Style) -> list[tuple[str, str]]:
    """What a command has said of itself, and its last words where it failed."""
    rows = []
    if record.ranges_total:
        rows.append(("ranges", words.of_total(record.ranges_done, record.ranges_total, exact=True)))
    cursor = (record.cursor or {}).get("cursor")
    if record.state is not State.COMPLETED and isinstance(cursor, str) and cursor:
        shown = cursor if len(cursor) <= _CURSOR else f"{cursor[:_CURSOR]}{style.dots}"
        rows.append(("cursor", shown))
    count, checksum = figures(record)
    if count is not None:
        rows.append(("count", f"{count:,}"))
    if checksum is not None:
        rows.append(("checksum", checksum))
    last = (record.failure or {}).get("last")
    if last and record.state is not State.COMPLETED:
        rows.append(("last line", str(last)))
    return rows


def _stands(record: IntervalRecord) -> str:
    """`18/69, 18,000 accounts`; before anything is applied, how many are planned."""
    if not (record.ranges_done or record.ranges_total):
        return "none yet"
    accounts = words.count(record.accounts, "account")
    if record.state is State.COMPLETED or (record.ranges_done and record.phase != "planning"):
        done = words.of_total(record.ranges_done, record.ranges_total, exact=True)
        return f"{done}, {accounts}"
    if record.cursor is None and record.ranges_total:
        # All were gone through, and something is wrong that the next run begins anew for.
        return f"{record.ranges_total:,} compared, {accounts}"
    changed = bool(record.grant or record.revoke or record.update)
    stands = words.standing(record.ranges_done, record.ranges_total, record.phase, changed=changed)
    return f"{stands.lstrip(': ')}, {accounts}"


def _deadline(at: datetime, record: IntervalRecord, now: datetime) -> str:
    if record.completed_at is not None:
        return f"{words.moment(at)}, {'kept' if record.completed_at <= at else 'missed'}"
    if record.state.is_final:
        return words.moment(at)
    left = (at - now).total_seconds()
    to_go = f"in {words.span(left)}" if left > 0 else f"over {words.age(-left)} ago"
    return f"{words.moment(at)}, {to_go}"


def _proof(desired: str, observed: str, style: Style) -> tuple[str, str]:
    """That both sides agree, or how far apart they were when they were last compared."""
    wanted, found = (int(text.split(":")[1]) for text in (desired, observed))
    if desired != observed:
        return "compared", f"{wanted:,} rows wanted, {found:,} found"
    sums = f"{words.cut_sum(desired, style)} = {words.cut_sum(observed, style)}"
    return "proof", f"{wanted:,} rows = {found:,} rows, checksum {sums}"


_RUN_COLUMNS = (
    Column("RUN"),
    Column("TRIGGER"),
    Column("GENERATION", right=True),
    Column("WHERE"),
    Column("STARTED"),
    Column("TOOK", right=True),
    Column("RANGES"),
    Column("END"),
)


def runs(status: IntervalStatus, style: Style) -> str:
    """The runs, oldest first, for a terminal."""
    day = status.view.record.scheduled_at
    if not status.runs:
        return ""
    rows = []
    for run in status.runs:
        ending = run.ending.value if run.ending else "open"
        cells = [
            str(run.number),
            run.trigger.value,
            str(run.generation),
            _where(run.holder),
            words.moment(run.started_at, day),
            _run_took(run),
            _ranges(run),
            ending,
        ]
        rows.append(Row(cells, state=7, colour=words.COLOURS.get(ending, "")))
    return aligned(_RUN_COLUMNS, rows, style)


def _run_took(run: RunRecord) -> str:
    """Of one that was abandoned nobody knows when it ended, only when that was found."""
    if run.seconds is None or run.ending is Ending.ABANDONED:
        return "-"
    return words.about(run.seconds)


def runs_tabbed(status: IntervalStatus) -> str:
    """The runs, oldest first, for programs."""
    rows = [
        (
            str(run.number),
            run.trigger.value,
            str(run.generation),
            _where(run.holder),
            words.stamp(run.started_at),
            words.stamp(run.ended_at) if run.ended_at else "-",
            _ranges(run),
            run.ending.value if run.ending else "open",
        )
        for run in status.runs
    ]
    heads = ("RUN", "TRIGGER", "GENERATION", "WHERE", "STARTED", "ENDED", "RANGES", "END")
    return tabbed(heads, rows)


def _where(holder: JsonObject) -> str:
    return f"{holder.get('host', '?')} pid {holder.get('pid', '?')}"


def _ranges(run: RunRecord) -> str:
    if run.first_range is None or run.last_range is None:
        return "-"
    if run.first_range == run.last_range:
        return str(run.first_range)
    return f"{run.first_range}-{run.last_range}"


def trail(status: IntervalStatus, style: Style) -> str:
    """What happened, oldest first; then accounts that are left out, with the reason."""
    day = status.view.record.scheduled_at
    lines = ["", "TIME       WHAT"] if status.events else []
    for event in status.events:
        first = f"{words.moment(event_at(event), day):9}  "
        rest = " " * 11
        lines += wrapped(event_text(event), style.width, first, rest)
    lines += _quarantined(status.ranges, style)
    return "\n".join([*lines, ""]) if lines else ""


def _quarantined(ranges: Sequence[RangeRecord], style: Style) -> list[str]:
    found = quarantined(ranges)
    if not found:
        return []
    left = "1 account was left as it is:"
    if len(found) > 1:
        left = f"{len(found):,} accounts were left as they are:"
    return ["", left, *left_out(found, style, indent=2)]


def quarantined(ranges: Sequence[RangeRecord]) -> dict[str, str]:
    """The accounts that were left as they are, each with the reason."""
    return {name: why for one in ranges for name, why in (one.quarantined or {}).items()}


def remarks(status: IntervalStatus, style: Style) -> str:
    """The commands that go on from here."""
    commands = _commands(status, style)
    if not commands:
        return ""
    told = Told("", "")
    for label, command in commands:
        told.command(label, command, style.width)
    return "\n".join(["", *told.details, ""])


def _commands(status: IntervalStatus, style: Style) -> list[tuple[str, str]]:
    record, shows, job = status.view.record, status.view.shows, status.job.name
    name = f"{job} {record.id}"
    if shows == "needs approval":
        approve = approve_command(job, record.id, str((record.waiting or {}).get("hash")), style)
        look = f"{style.program} changes {name} --planned"
        refuse = refuse_command(job, record.id, style)
        return [("Look", look), ("Approve", approve), ("Refuse", refuse)]
    if shows in {"running", "fencing"}:
        follow = [("Watch its output", f"{style.program} logs {name} --follow")]
        stop = ("Stop it", f'{style.program} stop {job} -m "why"')
        return [*(follow if record.work else []), stop]
    output = [("Its output", f"{style.program} logs {name}")]
    return [*_to_go_on(record, name, style), *(output if record.work and record.runs else [])]


def _to_go_on(record: IntervalRecord, name: str, style: Style) -> list[tuple[str, str]]:
    if record.state is State.SKIPPED and record.span == 1:
        return [("Work it all the same", f'{style.program} rerun {name} -m "why"')]
    # What was overtaken would undo newer truth, however often it is tried.
    overtaken = record.state is State.FAILED and record.reason == "overtaken"
    if record.state in {State.UNFINISHED, State.FAILED} and not overtaken:
        return [("Go on now", f"{style.program} resume {name}")]
    if record.state is State.COMPLETED and (record.grant or record.revoke or record.update):
        return [("What changed", f"{style.program} changes {name}")]
    return []
