"""Rows, schedules and configurations of scratch jobs, as plain values."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from .area import scratch
from .stage import Script

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    from .stage import ScratchRow

DAY = timedelta(days=1)
ACCOUNTS = 20
"""Of each range; each has one row, but for those that differ."""
PATIENT = timedelta(seconds=60)
HASTY = timedelta(seconds=3)
"""TTL of a lease that is to run out while the drill looks on."""
STILL = timedelta(seconds=2)
"""Its progress deadline."""
CHANGES_PER_RANGE = 3
SEATS = "seats"
"""What every account has."""

SOURCE, TARGET, TABLE = "source.csv", "target.db", "entitlements"
COLUMNS = ("account_id", "entitlement", "level")


def rows(ranges: int) -> tuple[list[ScratchRow], list[ScratchRow]]:
    """Source and target of so many ranges, each with one grant, one revoke and one update."""
    source: list[ScratchRow] = []
    target: list[ScratchRow] = []
    for number in range(ranges * ACCOUNTS):
        account, place = f"acct-{number:05d}", number % ACCOUNTS
        target.append((account, SEATS, "10"))
        source.append((account, SEATS, "25" if place == 1 else "10"))
        if place == 2:
            source.append((account, "sso", ""))
        if place == 3:
            target.append((account, "legacy", "1"))
    return source, target


def script(
    part: str,
    now: datetime,
    ranges: int,
    *,
    nights: int = 1,
    ttl: timedelta = PATIENT,
    progress_deadline: timedelta = PATIENT,
) -> Script:
    """A scratch job with so many nights due."""
    source, target = rows(ranges)
    start = newest_night(now) - (nights - 1) * DAY
    return Script(scratch(part), start, source, target, ACCOUNTS, ttl, progress_deadline)


def newest_night(now: datetime) -> datetime:
    """The newest instant of the daily schedule of every scratch job. It lies half a day back,
    so that none passes, and no deadline does, while the drill goes on."""
    return now.replace(second=0, microsecond=0) - DAY / 2


def configuration(script: Script, store_file: Path) -> str:
    """The configuration of a scratch job. `store_file` holds the address of the store, which
    may have a password in it."""
    first, *others = COLUMNS
    return f"""\
[store]
url_file = "{store_file}"

[jobs.{script.job}]
schedule = "{script.start.minute} {script.start.hour} * * *"
start = {script.start:%Y-%m-%dT%H:%M:%SZ}
source = "{SOURCE}"
account = "{first}"
columns = [{_listed(others)}]
range_size = {script.range_size}

[jobs.{script.job}.target]
url = "sqlite:///{TARGET}"
table = "{TABLE}"

[jobs.{script.job}.lease]
ttl = "{script.ttl.total_seconds():.0f}s"
progress_deadline = "{script.progress_deadline.total_seconds():.0f}s"
"""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
