"""`doctor` on a reconciliation: whether its source and its target can serve, changing neither.

The source is read as a run reads it, up to `READ_SECONDS`; what is not in order of accounts is
said, and not sorted. Of an API the first page is asked for, of a database the first rows.
"""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import TYPE_CHECKING

from ...endpoints import Unordered
from ...errors import ReconcileError, SourceUnreachable
from ...findings import fail, ok, refused, warn
from ...model import Interval
from ...sources import open_source
from ...sources.spool import Spools
from ...targets import examine_target

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    from ...config import EntitlementsConfig, Job, SourceConfig
    from ...endpoints import Reading, Source
    from ...findings import Finding
    from ...ports import Clock
    from ...rows import Schema

READ_SECONDS = 5.0
"""So long is a source read at most."""
_UNKNOWN = "of the first "


class _NoSpools(Spools):
    """Neither makes nor removes a file."""

    def has(self, fingerprint: str) -> bool:
        """There is none."""
        return False

    def sweep(self, keep: str = "", *beside: Path) -> None:
        """Leave all as it is: a run may need it."""


def examine(
    job: Job,
    work: EntitlementsConfig,
    interval: Interval | None,
    *,
    owed: bool,
    now: datetime,
    clock: Clock,
    spools: Path,
) -> Iterator[Finding]:
    """Target and source. `interval` is the one that a dated source is awaited for; `owed`: it is
    due. `spools` is where a file out of order would be sorted."""
    schema: Schema | None = None
    try:
        looked = examine_target(work.target, job.name, clock, work.source.columns)
        schema = looked.schema
        yield from looked.findings
    except ReconcileError as error:
        yield refused(job.name, error)
    source = open_source(work.source, _NoSpools(spools, job.name))
    meant = interval or Interval(job.name, now, "", job.timezone)
    if work.source.http is not None:
        if schema is not None:
            yield from _api(job, work.source, meant, schema)
        return
    if work.source.sql is not None:
        if schema is not None:
            yield from _database(job, source, work.source, meant, schema, clock)
        return
    if source.dated and interval is None:
        yield ok(job.name, f"{source.describe(None)}: which file is next depends on the call")
        return
    if source.dated and not owed:
        yield from _expected(job, source, meant)
        return
    yield from _source(job, source, meant, schema, clock, needed=owed)


def _api(job: Job, config: SourceConfig, interval: Interval, schema: Schema) -> Iterator[Finding]:
    """One page of an API, asked for once and at no rate, as a person would."""
    from ...http_config import AccountsConfig
    from ...placeholders import fill

    if config.http is not None and config.http.accounts == AccountsConfig(None):
        yield ok(job.name, "its API is asked for each account of the target, which is not tried")
        return
    from ...sources.http.looking import look

    try:
        found = look(config, lambda url: fill(url, interval), schema)
    except ReconcileError as error:
        yield refused(job.name, error)
        return
    more = "there is more" if found.more else "that is all"
    yield ok(job.name, f"{found.name}: {found.rows:,} rows on the first page, {more}")


def _database(
    job: Job,
    source: Source,
    config: SourceConfig,
    interval: Interval,
    schema: Schema,
    clock: Clock,
) -> Iterator[Finding]:
    """The first rows of a database, as a person would look at them."""
    from ...sources.sql.looking import look
    from ...sources.sql.reading import SqlSource

    assert isinstance(source, SqlSource), "that is how it was opened"
    try:
        found = look(source, config, interval, schema, clock)
    except ReconcileError as error:
        yield refused(job.name, error)
        return
    least = "at least " if found.more else ""
    yield ok(
        job.name,
        f"{found.name}: {least}{found.rows:,} rows; they are read once a night and sorted here, so"
        " it needs no index",
    )
    for note in found.notes:
        yield warn(
            job.name, note, "REINDEX DATABASE, then ALTER DATABASE … REFRESH COLLATION VERSION"
        )
    if found.bad is not None:
        account, why = found.bad
        yield _set_apart(job, found.name, 1, account, why)


def _expected(job: Job, source: Source, interval: Interval) -> Iterator[Finding]:
    """The file of an interval that is still to come: its folder, at least."""
    name = source.describe(interval)
    path = PurePath(name.partition(" ")[2])
    if not os.access(path.parent, os.X_OK, effective_ids=True):
        yield warn(
            job.name,
            f"{name} is expected from {interval.scheduled_at:%Y-%m-%d %H:%MZ} on, and its folder"
            " is not there, or not this user's to look into",
            f"ls -ld {path.parent}",
        )
        return
    state = "is there already" if os.access(path, os.F_OK) else "is expected"
    yield ok(job.name, f"{name}: {state}, for {interval.scheduled_at:%Y-%m-%d %H:%MZ}")


def _source(
    job: Job,
    source: Source,
    interval: Interval,
    schema: Schema | None,
    clock: Clock,
    *,
    needed: bool,
) -> Iterator[Finding]:
    name = source.describe(interval)
    if schema is None:
        path = name.partition(" ")[2]
        if os.access(path, os.R_OK, effective_ids=True):
            yield ok(
                job.name, f"{name}: may be read; its columns not looked at, for want of a table"
            )
        else:
            yield fail(job.name, f"{name} may not be read, or is not there", f"ls -l {path}")
        return
    try:
        reading = source.open(interval, schema)
    except SourceUnreachable as error:
        waits = f", and interval {interval.id} waits for it" if needed and interval.id else ""
        yield fail(job.name, f"{error}{waits}", error.hint)
        return
    try:
        yield from _read(job, name, reading, clock)
    finally:
        reading.close()


def _read(job: Job, name: str, reading: Reading, clock: Clock) -> Iterator[Finding]:
    rows, odd, order = 0, {}, "in order of accounts"
    until = clock.boot() + READ_SECONDS
    part = ""
    try:
        for page in reading.pages():
            rows += len(page.rows)
            odd.update(page.bad)
            if clock.boot() >= until:
                part = _UNKNOWN
                break
    except Unordered:
        order = "not in order of accounts, so that each run sorts it on disk first"
        part = _UNKNOWN
    yield ok(job.name, f"{name}: {'at least ' if part else ''}{rows:,} rows, {order}")
    if odd:
        account, why = next(iter(odd.items()))
        yield _set_apart(job, name, len(odd), account, why)


def _set_apart(job: Job, name: str, count: int, account: str, why: str) -> Finding:
    return warn(
        job.name,
        f"{name}: {count:,} account{'s' if count > 1 else ''} would be set apart, the"
        f" first {account!r}: {why}",
        "mend those rows in the source; other accounts are worked all the same",
    )
