"""`status`: all jobs, and one job with its newest intervals.

The table is data and goes to standard output; what explains it goes to standard error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.model import State
from ...core.rates import show_rate
from ...core.records import figures
from ...core.status import Problem
from ...core.toml_values import show_duration
from . import words
from .events import event_at, event_text
from .reasons import reason_text
from .tables import Column, Row, aligned, tabbed
from .told import wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ...core.records import IntervalRecord
    from ...core.status import Audit, IntervalView, JobStatus, StatusReport
    from .words import Style

SIGNS_SHOWN = 14
MOST_COUNTED = 100
"""What `core.operations.views` counts beyond what is shown."""
LEAST_SIGNS = len("LAST 14")
LONG_NAME = 24
"""A longer name of a job stands above its line."""
_LATE_SECONDS = 3600
_LOOKING = ("reconcile status ", "reconcile logs ")
ACTS = 3
"""So many acts by hand about the whole job are named."""
LOOKS = 5
"""Of so many intervals of one job, the oldest, it is told what keeps them from being completed."""

# --- all jobs


def overview(report: StatusReport, style: Style) -> str:
    """One line a job, for a terminal. Where the newest signs do not fit beside all else, the age
    of what was completed last is left out for them."""
    columns, rows = _overview_rows(report, ages=True)
    signs = _room(columns, rows, style)
    if signs < LEAST_SIGNS:
        without = _overview_rows(report, ages=False)
        if _room(*without, style) >= LEAST_SIGNS:
            columns, rows = without
            signs = _room(columns, rows, style)
    if signs >= LEAST_SIGNS:
        columns.append(Column(f"LAST {signs}"))
        for cells, job in zip(rows, report.jobs, strict=True):
            cells.append(_signs(job, signs, style))
    state = 1
    return aligned(
        columns,
        [Row(cells, state=state, colour=words.COLOURS.get(cells[state], "")) for cells in rows],
        style,
    )


def _overview_rows(report: StatusReport, *, ages: bool) -> tuple[list[Column], list[list[str]]]:
    now = report.now
    ids = [job.last_completed.id if job.last_completed else "-" for job in report.jobs]
    wide = max(map(len, ids), default=0)
    rows = []
    for job, last in zip(report.jobs, ids, strict=True):
        done = job.last_completed.completed_at if job.last_completed and ages else None
        ago = "" if done is None else words.age(words.seconds_between(done, now))
        cells = [
            job.job.name,
            job.state,
            f"{last:{wide}} {ago:>4}".rstrip(),
            "-" if job.state == "paused" else _until(job.next_due, now),
            str(job.backlog or "-"),
        ]
        rows.append(cells)
    heads = ("STATE", "LAST COMPLETED", "NEXT", "BEHIND")
    return [Column("JOB", most=LONG_NAME), *map(Column, heads)], rows


def _room(columns: Sequence[Column], rows: Sequence[Sequence[str]], style: Style) -> int:
    """How many signs fit at the end of each line."""
    names, *others = zip([column.heading for column in columns], *rows, strict=True)
    longest = max(len(name) for name in names if len(name) <= LONG_NAME)
    used = longest + 2 + sum(max(map(len, column)) + 2 for column in others)
    return max(0, min(SIGNS_SHOWN, style.width - used))


def overview_tabbed(report: StatusReport, style: Style) -> str:
    """One line a job, for programs: instants instead of ages, and never a colour."""
    style = style._replace(colour=False)
    rows = [
        (
            job.job.name,
            job.state,
            job.last_completed.id if job.last_completed else "-",
            _stamp(job.last_completed.completed_at if job.last_completed else None),
            _stamp(job.next_due),
            str(job.backlog),
            _signs(job, SIGNS_SHOWN, style).strip() or "-",
        )
        for job in report.jobs
    ]
    heads = ("JOB", "STATE", "LAST COMPLETED", "COMPLETED AT", "NEXT", "BEHIND", "LAST 14")
    return tabbed(heads, rows)


def overview_remarks(report: StatusReport, style: Style) -> str:
    """What a person should see to, and where all this comes from."""
    lines = [line for job in report.jobs for line in _problems(job, style)]
    lines += [line for note in report.notes for line in wrapped(note, style.width, "", "  ")]
    if not report.jobs:
        lines.append(f"no job is configured; an example: {style.program} init")
    if lines:
        lines.append("")
    lines.append(f"{report.config}, store {report.store}")
    return "\n".join(["", *lines]) + "\n"


def _problems(job: JobStatus, style: Style) -> list[str]:
    """What wants an act is named each. What can only be looked at, as every interval of a day
    whose export is missing, would bury it: only the oldest are named, and how many more."""
    lines: list[str] = []
    looks = 0
    for one in job.problems:
        only_look = len(one.commands) == 1 and one.commands[0].startswith(_LOOKING)
        looks += only_look
        if not only_look or looks <= LOOKS:
            lines += _problem(one, style)
    if looks > LOOKS:
        more = words.count(looks - LOOKS, "newer interval")
        listed = f"reconcile status {job.job.name} -n {max(job.backlog, looks)}"
        waits = "waits" if looks - LOOKS == 1 else "wait"
        lines += _problem(Problem("!", f"{job.job.name}: {more} {waits} too", (listed,)), style)
    return lines


def _problem(problem: Problem, style: Style) -> list[str]:
    lines = wrapped(f"{problem.sign} {problem.text}", style.width, "", "  ")
    return [*lines, *(f"    {style.commands(one)}" for one in problem.commands)]


def _signs(job: JobStatus, most: int, style: Style) -> str:
    newest = list(job.recent)[:most]
    # Padded before it is coloured: escape codes have no width.
    return " " * (most - len(newest)) + "".join(
        style.sign(_shows(view)) for view in reversed(newest)
    )


def _shows(view: IntervalView) -> str:
    return view.record.state.value if view.record.state.is_final else view.shows


def _until(instant: datetime | None, now: datetime) -> str:
    if instant is None:
        return "-"
    seconds = (instant - now).total_seconds()
    return f"in {words.age(seconds)}" if seconds > 0 else "now"


def _stamp(instant: datetime | None) -> str:
    return "-" if instant is None else words.stamp(instant)


# --- one job


def job_facts(report: StatusReport, style: Style) -> str:
    """What a job is, in a few lines."""
    job = report.jobs[0]
    rows = [("due", _due(job, report.now))]
    if job.source or job.target:
        rows.append(("work", " -> ".join(filter(None, (job.source, job.target)))))
    if job.job.schedule is not None:
        rows.append(("catch-up", _catch_up(job)))
    if job.usual_seconds is not None and job.slowest_seconds is not None:
        usual = f"{words.about(job.usual_seconds)}, slowest {words.about(job.slowest_seconds)}"
        rows.append(("usually", f"{usual} (last {job.timed})"))
    if job.audit is not None and job.audit.intended:
        rows.append(("recorded", _recorded(job.audit)))
    if job.lease is not None:
        rows += [("lease", _lease(job, report.now)), *_under_way(job)]
    if job.backfill is not None:
        from .backfills import summary

        rows.append(("backfill", summary(job.backfill, report.now)))
    acts = [
        f"{words.moment(event_at(act), report.now)} {event_text(act)}" for act in job.acts[-ACTS:]
    ]
    rows += [("by hand" if number == 0 else "", text) for number, text in enumerate(acts)]
    lines = [f"{job.job.name}   {style.state(job.state)}"]
    wide = max(len(label) for label, _ in rows)
    for label, text in rows:
        first = f"  {label:{wide}}  "
        lines += wrapped(text, style.width, first, " " * len(first))
    lines += _problems(job, style)
    return "\n".join(lines) + "\n\n"


def _recorded(found: Audit) -> str:
    """`29 of 30 intervals since 2026-11-01 02:30Z`: intended against recorded."""
    of = f"{found.recorded:,} of {words.count(found.intended, 'interval')}"
    missing = f"; {found.missing:,} have no record and are not due" if found.missing else ""
    return f"{of} since {words.minute(found.since)}{missing}"


def _due(job: JobStatus, now: datetime) -> str:
    schedule = job.job.schedule
    if schedule is None:
        return "on demand"
    zone = job.job.timezone
    parts = [schedule if schedule.endswith(f" {zone}") else f"{schedule} {zone}"]
    if job.next_due is not None:
        until = words.span(words.seconds_between(now, job.next_due))
        parts.append(f"next {words.minute(job.next_due)} (in {until})")
    if job.deadline is not None:
        parts.append(f"deadline {show_duration(job.deadline)}")
    return ", ".join(parts)


def _catch_up(job: JobStatus) -> str:
    policy, window = job.job.catch_up_policy, job.window
    within = "" if window is None else f" of the last {show_duration(window)}"
    rate = job.job.catch_up.rate
    at_most = "" if rate is None else f", at most {show_rate(rate)}"
    return {
        "all": f"every missed interval{within}, oldest first{at_most}",
        "latest": f"the newest missed interval{within}; older ones are skipped",
        "none": "none: a missed interval is skipped once its deadline is over",
    }.get(policy, policy)


def _under_way(job: JobStatus) -> list[tuple[str, str]]:
    """Where the interval that is worked stands."""
    if job.worked is None:
        return []
    return [("stands", f"{job.worked.id}{_stands(job.worked)}")]


def _stands(record: IntervalRecord) -> str:
    changed = bool(record.grant or record.revoke or record.update)
    return words.standing(record.ranges_done, record.ranges_total, record.phase, changed=changed)


def _lease(job: JobStatus, now: datetime) -> str:
    lease = job.lease
    assert lease is not None
    ago = words.age(words.seconds_between(lease.progress_at, now))
    return (
        f"{words.holder_of(lease)}, generation {lease.fence.generation},"
        f" since {words.moment(lease.granted_at)}, last progress {ago} ago"
    )


_COLUMNS = (
    Column("INTERVAL"),
    Column("STATE"),
    Column("STARTED"),
    Column("TOOK", right=True),
    Column("RUNS", right=True),
)
_INTERVAL_COLUMNS = (
    *_COLUMNS,
    Column("GRANT", right=True),
    Column("REVOKE", right=True),
    Column("UPDATE", right=True),
)
_COMMAND_COLUMNS = (*_COLUMNS, Column("RANGES", right=True), Column("COUNT", right=True))


def intervals(views: Sequence[IntervalView], style: Style, *, kind: str = "entitlements") -> str:
    """The newest intervals of a job, for a terminal. Of a command it is told what that reports."""
    rows = []
    columns = _INTERVAL_COLUMNS if kind == "entitlements" else _COMMAND_COLUMNS
    for view in views:
        record = view.record
        cells = [record.id, _state(view), _started(record), _took(record), f"{record.runs:,}"]
        counts = [f"{n:,}" for n in (record.grant, record.revoke, record.update)]
        if kind != "entitlements":
            counts = _reported(record)
        cells += counts if record.runs else ["-"] * len(counts)
        why = _why(view)
        below = wrapped(why, style.width, " " * 14, " " * 14) if why else []
        rows.append(Row(cells, below, state=1, colour=words.COLOURS.get(_shows(view), "")))
    return aligned(columns, rows, style)


def _reported(record: IntervalRecord) -> list[str]:
    """Ranges and count, where there are any."""
    ranges = "-"
    if record.ranges_total is not None:
        ranges = words.of_total(record.ranges_done, record.ranges_total, exact=True)
    count, _ = figures(record)
    return [ranges, "-" if count is None else f"{count:,}"]


def intervals_tabbed(views: Sequence[IntervalView], *, kind: str = "entitlements") -> str:
    """The newest intervals of a job, for programs."""
    rows = []
    for view in views:
        record = view.record
        counts = [str(n) for n in (record.grant, record.revoke, record.update)]
        if kind != "entitlements":
            counts = _reported(record)
        rows.append(
            (
                record.id,
                _shows(view),
                _stamp(record.started_at),
                _stamp(record.completed_at),
                str(record.runs),
                str(record.rerun),
                *counts,
                _why(view) or "-",
            )
        )
    heads = ("INTERVAL", "STATE", "STARTED", "COMPLETED", "RUNS", "RERUN")
    own = ("GRANT", "REVOKE", "UPDATE") if kind == "entitlements" else ("RANGES", "COUNT")
    return tabbed((*heads, *own, "WHY"), rows)


def intervals_remarks(job: JobStatus, style: Style, shown: int) -> str:
    """How to see more."""
    if not job.older:
        return ""
    more = f"{style.program} status {job.job.name} -n {shown + job.older}"
    number = f"{job.older} or more" if job.older == MOST_COUNTED else str(job.older)
    line = f"  {number} older: {more}"
    also = " (also --since 90d, --state S)"
    return f"{line}{also if len(line + also) <= style.width else ''}\n"


def _state(view: IntervalView) -> str:
    record = view.record
    text = _shows(view)
    if record.rerun:
        text += f" r{record.rerun}"
    if record.started_at is not None:
        late = words.seconds_between(record.scheduled_at, record.started_at)
        if late >= _LATE_SECONDS:
            text += f" +{words.age(late)}"
    return text


def _started(record: IntervalRecord) -> str:
    started = record.started_at
    if started is None:
        return "-"
    same_day = started.date() == record.scheduled_at.date()
    return started.strftime("%H:%MZ" if same_day else "%m-%d %H:%MZ")


def _took(record: IntervalRecord) -> str:
    """The time it was worked, without that it waited between its runs."""
    return words.about(record.seconds) if record.seconds else "-"


def _reason(view: IntervalView, reason: str) -> str:
    """`operator alice: "wrong export, OPS-71"` where somebody signed for it."""
    if view.signed is None:
        return reason_text(reason)
    actor, why = (words.shown(text) for text in view.signed)
    if reason == "paused":
        return f'paused by {actor}: "{why}"'
    signed = f'operator {actor}: "{why}"'
    return signed if reason == "operator" else f"{reason_text(reason)}; {signed}"


def _why(view: IntervalView) -> str:
    """What became of an interval that was not completed, and when it is tried again."""
    record = view.record
    parts = []
    if record.span > 1:
        until = "" if record.until_at is None else f" up to {words.minute(record.until_at)}"
        parts.append(f"{record.span:,} intervals{until}")
    if record.reason:
        parts.append(_reason(view, record.reason))
    if record.failure and record.state is not State.COMPLETED:
        parts.append(str(record.failure.get("text", "")))
        if record.failure.get("last"):
            parts.append(str(record.failure["last"]))
    text = ": ".join(parts)
    if view.retry_at is None:
        return text
    again = f"tried again from {words.moment(view.retry_at)} on"
    return f"{text}; {again}" if text else again
