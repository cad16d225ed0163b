"""Clocks and time zones: whether instants mean here what they mean elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...calendars import UTC_NAME
from ...calendars.zones import zone
from ...errors import ConfigError
from ...findings import fail, ok, warn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from ...config import Job
    from ...findings import Finding
    from ...model import Holder
    from .premises import ZoneData

SUBJECT = "clock"
_TOLERATED = 1.0
_FAR = 5.0
"""Seconds from which on every run warns (`operations/doubts.py`)."""


class Asked:
    """How far the host's clock is from the store's, asked once: half of the time that the answer
    took cannot be told from a difference."""

    def __init__(self, before: datetime, store: datetime, after: datetime) -> None:
        self.seconds = (store - before - (after - before) / 2).total_seconds()
        self.doubt = (after - before).total_seconds() / 2


def clock(asked: Asked, *, shared: bool, holder: Holder) -> Iterator[Finding]:
    """The host's clock beside the store's. `shared`: other hosts use the store too."""
    if not shared:
        yield ok(SUBJECT, "the store goes by this host's clock; leases by its boot time")
    else:
        apart = abs(asked.seconds)
        text = f"{apart:.3f} s {'behind' if asked.seconds > 0 else 'ahead of'} the store's"
        if apart - asked.doubt > _TOLERATED:
            found = fail if apart > _FAR else warn
            yield found(SUBJECT, f"this host is {text}", "set it by NTP: timedatectl set-ntp true")
        else:
            yield ok(SUBJECT, f"{apart:.3f} s from the store's (±{asked.doubt:.3f})")
    if not holder.boot_id:
        yield fail(
            SUBJECT,
            "this host has no boot id, so that nobody can tell whether a holder is dead",
            "mount /proc: mount -t proc proc /proc",
        )
    elif not holder.machine_id:
        yield warn(
            SUBJECT,
            "this host has no machine id: a dead holder is waited for until its lease expires",
            "systemd-machine-id-setup",
        )


def zones(data: ZoneData, jobs: Iterable[Job]) -> Iterator[Finding]:
    """The time zone data, and the zone of each job."""
    listed = sorted(jobs, key=lambda job: job.name)
    local = [job for job in listed if job.timezone != UTC_NAME]
    if data.system is None and data.package is None:
        found = fail if local else warn
        yield found(SUBJECT, "there is no time zone data", "apt-get install tzdata")
    elif data.system and data.package and data.system < data.package:
        yield warn(
            SUBJECT,
            f"time zone data {data.system} in {data.folder} goes before {data.package} of the"
            " package tzdata, which is newer",
            "apt-get install --only-upgrade tzdata",
        )
    else:
        yield ok(SUBJECT, f"time zone data {_used(data)}")
    yield from _unknown(local)


def _used(data: ZoneData) -> str:
    """Which data is looked into; the system's does not always say its release."""
    if data.system is None:
        return f"{data.package}, of the package tzdata"
    return data.system or f"in {data.folder}, of an unknown release"


def _unknown(local: Iterable[Job]) -> Iterator[Finding]:
    for job in local:
        try:
            zone(job.timezone)
        except ConfigError as error:
            yield fail(job.name, str(error), error.hint)
