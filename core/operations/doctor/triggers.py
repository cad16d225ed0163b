"""Whether somebody calls each job, and often enough to take up what was killed in time.

Half of the deadline is the limit: a night that is killed half way is then taken up with as much
time left as it has had. Calls by other hosts, by scripts or by a scheduler that is no file on
this host are seen only by what the store knows: an interval that was begun of late.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import PurePath
from typing import TYPE_CHECKING

from ... import planning
from ...findings import fail, ok, warn
from ...schedule import Schedule
from ...toml_values import show_duration
from . import crontabs, timers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from ...config import Config, Job
    from ...findings import Finding
    from .premises import Call, Called, Callers, Premises

SUBJECT = "triggers"
_PERIODS = 2


def triggers(
    config: Config,
    jobs: Sequence[Job],
    premises: Premises,
    now: datetime,
    begun: Mapping[str, datetime | None],
) -> Iterator[Finding]:
    """Who calls each scheduled job. `begun`: when the newest run of each began, as far as the
    store could say; a job that is missing there was not asked about."""
    found = premises.callers()
    calls = [call for call in _calls(found, premises, now) if _is_ours(call.called, config)]
    for path in found.unread:
        yield warn(
            SUBJECT,
            f"{path} may not be read by {premises.user}, and may hold what calls a job",
            "sudo reconcile doctor",
        )
    for job in jobs:
        if job.schedule is not None:
            yield from _job(job, calls, now, begun.get(job.name))


def _calls(found: Callers, premises: Premises, now: datetime) -> Iterator[Call]:
    for table in found.crontabs:
        yield from crontabs.calls_of(table, premises.called, now)
    for timer in found.timers:
        yield from timers.calls_of(timer, premises.called, now)


def _is_ours(called: Called, config: Config) -> bool:
    """Whether it may be this configuration that is meant; a relative name's folder is not known."""
    if called.config is None:
        return True
    named = PurePath(called.config)
    ours = PurePath(config.path)
    return named == ours if named.is_absolute() else named.name == ours.name


def _job(
    job: Job, calls: Sequence[Call], now: datetime, begun: datetime | None
) -> Iterator[Finding]:
    assert job.schedule is not None, "else nobody has to call it by the clock"
    schedule = Schedule(job.schedule, job.timezone, job.dst)
    mend = f"reconcile units {job.name} --crontab"
    ours = [call for call in calls if call.called.job in (None, job.name)]
    live = [call for call in ours if not call.off]
    if not live and ours:
        yield fail(SUBJECT, f"{job.name}: {ours[0].where} is there, and off", ours[0].off)
        return
    if not live:
        period = schedule.period or timedelta(days=1)
        if begun is not None and now - begun <= _PERIODS * period:
            yield ok(SUBJECT, f"{job.name}: called from elsewhere, last begun {_ago(now - begun)}")
        else:
            yield warn(SUBJECT, f"{job.name}: no crontab line or timer on this host calls it", mend)
        return
    gap, where = min(
        ((call.gap, call.where) for call in live if call.gap is not None),
        default=(None, live[0].where),
    )
    if gap is None:
        yield ok(SUBJECT, f"{job.name}: {where}")
        return
    half = planning.deadline(job, schedule) / 2
    text = f"{job.name}: {where}, at least every {show_duration(gap)}"
    if gap > half:
        yield warn(
            SUBJECT,
            f"{text}; half its deadline is {show_duration(half)}, and what was killed is taken"
            " up no sooner",
            mend,
        )
    else:
        yield ok(SUBJECT, text)


def _ago(span: timedelta) -> str:
    minutes = max(0, span // timedelta(minutes=1))
    if minutes < 120:
        return f"{minutes} min ago"
    return f"{minutes // 60} h ago"
