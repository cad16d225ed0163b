"""`status JOB INTERVAL`: one interval with its runs and its audit trail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.model import State
from ...core.records import from_text
from . import words
from .outcomes import wrapped
from .reasons import reason_text
from .tables import Column, Row, aligned, tabbed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ...core.model import JsonObject
    from ...core.records import IntervalRecord, RangeRecord, RunRecord
    from ...core.status import EventView, IntervalStatus
    from .words import Style

_QUARANTINED_SHOWN = 10


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
    if status.lease is not None and status.lease.live:
        ago = words.age(words.seconds_between(status.lease.progress_at, now))
        rows.append(("lease", f"{words.holder_of(status.lease)}, last progress {ago} ago"))
    if record.repair_owner:
        rows.append(("by hand", record.repair_owner))
    if record.failure and record.state is not State.COMPLETED:
        rows.append(("failure", str(record.failure.get("text", ""))))
    if view.retry_at is not None:
        rows.append(("retry", f"not before {words.moment(view.retry_at)}"))
    if record.runs:
        total = record.ranges_total
        done = words.of_total(record.ranges_done, total, exact=True)
        rows.append(("ranges", f"{done}, {words.count(record.accounts, 'account')}"))
        counts = {"grant": record.grant, "revoke": record.revoke, "update": record.update}
        rows.append(("changes", words.long_changes(counts)))
    if status.desired and status.observed:
        rows.append(_proof(status.desired, status.observed, style))
    return rows


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
            "-" if run.seconds is None else words.about(run.seconds),
            _ranges(run),
            ending,
        ]
        rows.append(Row(cells, state=7, colour=words.COLOURS.get(ending, "")))
    return aligned(_RUN_COLUMNS, rows, style)


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
    found = [pair for one in ranges for pair in (one.quarantined or {}).items()]
    if not found:
        return []
    left = "1 account was left as it is:"
    if len(found) > 1:
        left = f"{len(found):,} accounts were left as they are:"
    lines = ["", left]
    for account, why in found[:_QUARANTINED_SHOWN]:
        lines += wrapped(f"{account}: {why}", style.width)
    if len(found) > _QUARANTINED_SHOWN:
        lines.append(f"  {style.dots} {len(found) - _QUARANTINED_SHOWN:,} more (--json has all)")
    return lines


def event_at(event: EventView) -> datetime:
    """When it happened: an event that was written down later says so itself."""
    at = event.value.get("at")
    return from_text(at) if isinstance(at, str) else event.at


def event_text(event: EventView) -> str:
    """One line of the trail in words; one of an unknown type shows its fields."""
    says = _EVENTS.get(str(event.value.get("type")))
    if says is not None:
        return says(event.value)
    fields = [f"{k}={v}" for k, v in event.value.items() if k != "type"]
    return " ".join([str(event.value.get("type", "event")), *fields])


def _run_started(value: JsonObject) -> str:
    by = value.get("by") or value.get("trigger")
    at = f" at range {value['at_range']}" if value.get("at_range") else ""
    return (
        f"run {value.get('run')} started by {by} on {value.get('host')}{at},"
        f" generation {value.get('generation')}"
    )


def _taken_over(value: JsonObject) -> str:
    gone, for_ = "was killed", ""
    silent = value.get("silent")
    if not value.get("dead"):
        gone = "silent"
        for_ = f" for {words.age(silent)}" if isinstance(silent, (int, float)) else ""
    after = f" after range {value['after_range']}" if value.get("after_range") else ""
    return (
        f"run {value.get('run')} {gone}{for_}{after}; target fenced at"
        f" {value.get('generation')}, run {value.get('run')} closed"
    )


def _guard(value: JsonObject) -> str:
    revoke, base = value.get("revoke"), value.get("base")
    share = ""
    if isinstance(revoke, int) and isinstance(base, int) and base:
        share = f": {revoke:,} of {base:,} rows ({words.percent(revoke, base)})"
    return f"guard {value.get('guard')}{share}; plan {value.get('hash')}; nothing changed"


def _approved(value: JsonObject) -> str:
    return f"{value.get('actor')} approved {value.get('hash')}{_quoted(value)}"


def _reopened(value: JsonObject) -> str:
    return f"{value.get('actor')} reopened it, failed before ({value.get('was')}){_quoted(value)}"


def _completed(value: JsonObject) -> str:
    ranges, count = value.get("ranges"), value.get("count")
    rows = f"{count:,}" if isinstance(count, int) else str(count)
    return f"{ranges} ranges committed, {rows} rows proved equal: completed"


def _run_ended(value: JsonObject) -> str:
    text = f": {value['text']}" if value.get("text") else ""
    return f"run {value.get('run')} {value.get('ending')}{text}"


def _failed(value: JsonObject) -> str:
    return f"failed ({reason_text(str(value.get('reason')))}): {value.get('text')}"


def _skipped(value: JsonObject) -> str:
    if not value.get("actor"):
        return f"skipped: {reason_text(str(value.get('reason')))}"
    gave_up = f"{value['actor']} gave it up, {value.get('state')}"
    return f"{gave_up} ({value.get('why')}){_quoted(value)}"


def _rerun(value: JsonObject) -> str:
    return (
        f"{value.get('actor')} reran it as r{value.get('rerun')}, it was {value.get('was')}"
        f"{_quoted(value)}"
    )


def _stop_asked(value: JsonObject) -> str:
    asked = "fenced the holder out" if value.get("force") else "asked the holder to stop"
    return f"{value.get('actor')} {asked}{_quoted(value)}"


def _recovered(value: JsonObject) -> str:
    return (
        f"its record was lost with a store; the target has completed {value.get('newest')},"
        f" so {value.get('span')} intervals up to it count as completed"
    )


def _target_rewound(value: JsonObject) -> str:
    has = value.get("target_has")
    has = f"it has {has} as its newest" if has else "it has completed nothing"
    return (
        f"the target went back behind the store: {has}; to be done again as r{value.get('rerun')}"
    )


def _quoted(value: JsonObject) -> str:
    return f': "{value["reason"]}"' if value.get("reason") else ""


_EVENTS = {
    "due": lambda _: "due",
    "run_started": _run_started,
    "taken_over": _taken_over,
    "guard": _guard,
    "approved": _approved,
    "reopened": _reopened,
    "completed": _completed,
    "run_ended": _run_ended,
    "failed": _failed,
    "skipped": _skipped,
    "rerun": _rerun,
    "stop_asked": _stop_asked,
    "recovered": _recovered,
    "target_rewound": _target_rewound,
}


def remarks(status: IntervalStatus, style: Style) -> str:
    """The commands that go on from here."""
    record = status.view.record
    name = f"{status.job.name} {record.id}"
    if record.waiting and not record.state.is_final:
        plan_hash = record.waiting.get("hash")
        command = f'reconcile resume {name} --approve {plan_hash} -m "why"'
        return f"\n  Approve: {style.commands(command)}\n"
    if record.state in {State.UNFINISHED, State.FAILED}:
        return f"\n  Go on now: {style.commands(f'reconcile resume {name}')}\n"
    return ""
