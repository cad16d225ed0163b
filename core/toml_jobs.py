"""Reading one `[jobs.NAME]` table."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from .calendars import GAPS, OVERLAPS, USUAL_DST, UTC_NAME, Dst, split_zone
from .config import (
    DAY,
    MIN_TTL,
    TTL_ONE_HOST,
    CatchUpConfig,
    EntitlementsConfig,
    GuardsConfig,
    Job,
    LeaseConfig,
)
from .errors import ConfigError
from .rates import parse_rate
from .schedule import Schedule
from .toml_endpoints import check_fields, read_shared, read_source, read_target
from .toml_values import show_duration
from .trust import RENEWALS_PER_TTL

if TYPE_CHECKING:
    from pathlib import Path

    from .config import WorkConfig
    from .model import Rate
    from .toml_values import Section

T = TypeVar("T")

A_YEAR = datetime(2024, 1, 1, tzinfo=UTC)
"""Where a year begins that has all days."""

CATCH_UP_POLICIES = ("all", "latest", "none")
ON_FAILED = ("continue", "block")

RANGE_SIZE_NETWORK = 1000
"""Accounts of a range where the source is on a network."""

_LATER_KEYS = ("notify",)
_OF_COMMANDS = ("env", "env_file", "cwd", "kill_after", "ranges")


def read_job(section: Section, name: str, folder: Path) -> Job | None:
    """The job of a table; None where something it cannot do without is wrong.

    Relative paths are those of `folder`.
    """
    section.later(*_LATER_KEYS)
    schedule, timezone, dst = _schedule(section)
    work = _work(section, name, folder)
    start = section.instant("start", timezone)
    deadline, max_runtime = section.duration("deadline"), section.duration("max_runtime")
    max_attempts, max_intervals = (
        section.whole("max_attempts", 1),
        section.whole("max_intervals", 1),
    )
    heartbeat = _heartbeat(section)
    retry_delay, max_wait = section.duration("retry_delay"), section.duration("max_wait")
    on_failed = section.choice("on_failed", ON_FAILED)
    lease = _lease(section.section("lease"))
    catch_up = _catch_up(section.section("catch_up"), schedule)
    if "schedule" not in section:
        for key in ("start", "catch_up"):
            if key in section:
                section.wrong(key, "means nothing without a schedule", "take it out")
    section.finish()
    if work is None:
        return None
    plain = Job(name=name, origin=section.file, schedule=None, work=work)
    return Job(
        name=name,
        origin=section.file,
        schedule=section.text("schedule"),
        work=work,
        timezone=timezone,
        dst_gap=dst.gap,
        dst_overlap=dst.overlap,
        start=start,
        deadline=deadline,
        max_attempts=_or(max_attempts, plain.max_attempts),
        retry_delay=_or(retry_delay, plain.retry_delay),
        max_runtime=max_runtime,
        max_intervals=max_intervals,
        heartbeat=heartbeat,
        max_wait=_or(max_wait, plain.max_wait),
        on_failed=_or(on_failed, plain.on_failed),
        lease=lease,
        catch_up=catch_up,
    )


def _heartbeat(section: Section) -> str | None:
    if section.raw("heartbeat") is None and section.raw("heartbeat_file") is None:
        return None
    from .toml_alerts import read_heartbeat

    return read_heartbeat(section)


def _or(value: T | None, default: T) -> T:
    return default if value is None else value


def _schedule(section: Section) -> tuple[Schedule | None, str, Dst]:
    """The schedule, None on demand, its time zone, and what becomes of times at clock
    changes. A zone that the expression names stands for `timezone` where that is left out."""
    timezone = section.text("timezone")
    dst = Dst(
        _or(section.choice("dst_gap", GAPS), USUAL_DST.gap),
        _or(section.choice("dst_overlap", OVERLAPS), USUAL_DST.overlap),
    )
    expression = section.text("schedule")
    key = "timezone"
    if timezone is None and expression is not None:
        key, timezone = "schedule", split_zone(expression)[1]
    timezone = _or(timezone, UTC_NAME)
    if not _is_zone(section, key, timezone):
        expression, timezone = expression and split_zone(expression)[0], UTC_NAME
    if expression is None:
        return None, timezone, dst
    try:
        return Schedule(expression, timezone, dst), timezone, dst
    except ConfigError as error:
        section.wrong("schedule", str(error), error.hint)
        return None, timezone, dst


def _is_zone(section: Section, key: str, timezone: str) -> bool:
    if timezone == UTC_NAME:
        return True
    # Deferred: a job in UTC needs no time zones.
    from .calendars.zones import zone

    try:
        zone(timezone)
    except ConfigError as error:
        section.wrong(key, str(error), error.hint)
        return False
    return True


def _lease(section: Section) -> LeaseConfig:
    plain = LeaseConfig()
    ttl = section.duration("ttl", MIN_TTL)
    progress_deadline = section.duration("progress_deadline")
    detect_dead = section.flag("detect_dead")
    section.finish()
    renewal = (ttl or TTL_ONE_HOST) / RENEWALS_PER_TTL
    if _or(progress_deadline, plain.progress_deadline) < renewal:
        section.wrong(
            "progress_deadline" if progress_deadline else "ttl",
            f"renewal, every {renewal.total_seconds():g}s, would be slower than progress_deadline",
            "make progress_deadline longer, or ttl shorter",
        )
    return LeaseConfig(
        ttl=ttl,
        progress_deadline=_or(progress_deadline, plain.progress_deadline),
        detect_dead=_or(detect_dead, plain.detect_dead),
    )


def _catch_up(section: Section, schedule: Schedule | None) -> CatchUpConfig:
    rate = _rate(section, schedule)
    policy = section.choice("policy", CATCH_UP_POLICIES)
    window = section.duration("window")
    section.finish()
    period = schedule.period if schedule and window else None
    if window is not None and period is not None and window < period:
        section.wrong(
            "window",
            f"is shorter than a period of the schedule, {show_duration(period)}",
            "make it longer, or leave it out: 7 days, and at least two periods",
        )
    return CatchUpConfig(policy=policy, window=window, rate=rate)


def _rate(section: Section, schedule: Schedule | None) -> Rate | None:
    """How many intervals may be begun late per time; one that is no faster than the
    schedule itself is refused, for what was missed once would never be caught up."""
    text = section.text("rate")
    if text is None:
        return None
    try:
        rate = parse_rate(text)
    except ConfigError as error:
        section.wrong("rate", f"is {text!r}, not a rate", error.hint)
        return None
    if schedule is not None:
        come = schedule.count(A_YEAR, A_YEAR + 366 * DAY)
        if come * rate.per >= 366 * DAY * rate.amount:
            text = f"is no faster than the schedule, which has {come:,} intervals a year"
            section.wrong("rate", f"{text}: what was missed would never be caught up", "raise it")
    return rate


def _work(section: Section, name: str, folder: Path) -> WorkConfig | None:
    if section.raw("command") is not None or section.raw("python") is not None:
        from .toml_commands import read_command

        return read_command(section, folder)
    for key in _OF_COMMANDS:
        if section.raw(key) is not None:
            section.wrong(key, "is for a job with a command or a function", "take it out")
    return _entitlements(section, name, folder)


def _entitlements(section: Section, name: str, folder: Path) -> EntitlementsConfig | None:
    shared = read_shared(section)
    guards = _guards(section.section("guards"))
    range_size = section.whole("range_size", 1)
    plan_age, fence_wait = section.duration("plan_age"), section.duration("fence_wait")
    source = read_source(section, shared, name, folder)
    target = read_target(section, shared, source, name, folder)
    if source is None or target is None:
        return None
    check_fields(section, source, target)
    plain = EntitlementsConfig(source, target)
    return EntitlementsConfig(
        source=source,
        target=target,
        guards=guards,
        range_size=_or(range_size, RANGE_SIZE_NETWORK if source.on_network else plain.range_size),
        plan_age=_or(plan_age, plain.plan_age),
        fence_wait=fence_wait,
    )


def _guards(section: Section) -> GuardsConfig:
    plain = GuardsConfig()
    guards = GuardsConfig(
        max_revoke=_or(section.share("max_revoke"), plain.max_revoke),
        max_revoke_min=_or(section.whole("max_revoke_min", 0), plain.max_revoke_min),
        max_update=_or(section.share("max_update"), plain.max_update),
        min_rows=_or(section.whole("min_rows", 0), plain.min_rows),
        must_contain=_or(section.texts("must_contain"), plain.must_contain),
    )
    section.finish()
    return guards
