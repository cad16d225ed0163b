"""What is to be called, how often, as whom, and what it needs."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from ...core import planning
from ...core.config import default_ttl
from ...core.effective import spelled
from ...core.errors import UsageError
from ...core.masking import mask_address
from ...core.needs import needs
from ...core.schedule import Schedule
from ...core.toml_values import show_duration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ...core.config import Config, Job
    from ...core.needs import Needs

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)


class Plan(NamedTuple):
    """`argv` begins with the program and ends with the job, all that a call needs. `every` is
    the time between two knocks, `enough` whether they hit every scheduled minute. `ttl` is that
    of the job's lease, `kill_after` that of its command. `variables` are those that the
    configuration reads. `shift` is how far the host's clock on the wall is ahead of UTC.
    `installation` is the program, and the folders that it needs."""

    job: str
    argv: Sequence[str]
    due: str
    origin: Path
    every: timedelta
    enough: bool
    shift: timedelta
    user: str
    needs: Needs
    installation: Sequence[Path]
    ttl: timedelta
    kill_after: timedelta
    channels: int
    variables: Sequence[str]
    offset: timedelta = timedelta()

    @property
    def unit(self) -> str:
        """The name of the units, and of the file for a folder of crontabs."""
        return f"reconcile-{self.job}"


def plan(
    config: Config,
    job: Job,
    variables: Sequence[str],
    *,
    installation: Sequence[Path],
    store: str | None,
    user: str,
    every: timedelta | None,
    shift: timedelta,
    local: bool,
    spread: bool = False,
) -> Plan:
    """What calls that job. `variables` are those that reading it took. `store` is the address that
    the command line gave. `local`: knocks are told by the host's clock on the wall, which is
    `shift` ahead of UTC, and not by UTC. `spread`: see `offset_of`.

    Raises `UsageError` for a job on demand, and for an address that holds a secret.
    """
    if not installation:
        raise UsageError(
            "there is no reconcile program that cron or systemd could call",
            hint="install it with pip, and call it by its path",
        )
    if job.schedule is None:
        raise UsageError(
            f"{job.name} has no schedule, and is worked anew each time that it is called",
            hint=f"give it one, schedule in [jobs.{job.name}], or call reconcile run {job.name}"
            " from your own crontab",
        )
    argv = [str(installation[0]), "-c", str(config.path)]
    if store is not None:
        if mask_address(store) != store:
            raise UsageError(
                "--store holds a secret, which everybody could read in what is printed",
                hint="write the address into [store], as url or url_file",
            )
        argv += ["--store", spelled(config.store.url)]
    schedule = Schedule(job.schedule, job.timezone, job.dst)
    ahead = shift if local else timedelta()
    knocks = planning.knock(schedule, ahead) if every is None else every
    channels = len(config.alerts.notify) + bool(config.alerts.command)
    return Plan(
        job=job.name,
        argv=[*argv, "run", job.name],
        due=_due(job.schedule, job.timezone),
        origin=job.origin,
        every=knocks,
        enough=planning.hits(schedule, knocks, ahead),
        shift=shift,
        user=user,
        needs=needs(config, job),
        installation=installation,
        ttl=job.lease.ttl or default_ttl(config.store.url),
        kill_after=getattr(job.work, "kill_after", timedelta()),
        channels=channels,
        variables=variables,
        offset=offset_of(job.name, knocks) if spread else timedelta(),
    )


def offset_of(job: str, every: timedelta) -> timedelta:
    """How much later than others a job knocks, so that not all of a machine do at one minute: less
    than one time between knocks, and always the same. Raises `UsageError` for knocks between
    which no whole minute fits."""
    if every <= MINUTE:
        raise UsageError(
            f"knocks {often(every)} cannot be spread", hint="leave --spread out, or say --every 10m"
        )
    return crc32(job.encode()) % (every // MINUTE) * MINUTE


def _due(schedule: str, timezone: str) -> str:
    """When it is due, as short as it can be said."""
    fields = schedule.split()
    if len(fields) == 5 and fields[2:] == ["*"] * 3 and all(f.isdecimal() for f in fields[:2]):
        return f"at {int(fields[1]):02}:{int(fields[0]):02} {timezone}"
    zone = "" if timezone in schedule else f" {timezone}"
    return f'"{schedule}"{zone}'


def often(every: timedelta) -> str:
    """A time between knocks, as people say it."""
    if every == MINUTE:
        return "every minute"
    return f"every {show_duration(every)}"


def divides(every: timedelta, least: timedelta) -> bool:
    """Whether knocks can be that far apart on a clock: seconds divide a minute, minutes an hour,
    hours a day; and no closer than `least`."""
    if every < least or every.microseconds:
        return False
    whole = next(unit for unit in (MINUTE, HOUR, DAY) if every <= unit or unit == DAY)
    part = {MINUTE: SECOND, HOUR: MINUTE, DAY: HOUR}[whole]
    return every % part == timedelta() and whole % every == timedelta()
