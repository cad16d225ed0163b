"""What a configuration means in the end: every key with its value, said or by default.

Only what is shown: addresses are masked, a file that holds a secret is named and not read
out, durations and shares are spelled as `reconcile.toml` spells them. Which keys there are
is said by `toml_defaults` alone, so that a key which is new there is shown here.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from . import planning
from .calendars import split_zone
from .calendars.zones import zone
from .config import TTL_NETWORK, TTL_ONE_HOST, CommandConfig, EntitlementsConfig
from .masking import beyond_host, mask_address, whose
from .model import Rate
from .rates import show_rate
from .schedule import TICK, YEARS, Schedule
from .toml_defaults import WITHOUT, defaults, of_job
from .toml_values import secret_file, show_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from .config import Config, Job, SourceConfig
    from .model import Json

NEXT = 5
"""So many coming instants of a job are shown."""
ADDRESSES = ("store.url", "target.url")
_SHARES = ("guards.max_revoke", "guards.max_update")
_OF_BOTH_SIDES = ("source.account", "source.columns", "target.account", "target.columns")
_MASKED = "****"
LAST = datetime(YEARS.stop, 1, 1, tzinfo=UTC)


class Setting(NamedTuple):
    """One key. `value` None: it holds nothing, and `told` says what that means. `given`: a
    file or the command line says it; else `told` says what the default is."""

    key: str
    value: Json
    given: bool
    told: str = ""


class EffectiveJob(NamedTuple):
    """One job. `coming` are its next scheduled instants in UTC, empty on demand; `local` the
    same in the job's time zone. `notes` are of settings that can be kept only by chance."""

    name: str
    origin: str
    settings: Sequence[Setting]
    coming: Sequence[datetime]
    local: Sequence[datetime]
    notes: Sequence[str] = ()


class Effective(NamedTuple):
    """A whole configuration. `files`: the main file, then the drop-ins."""

    files: Sequence[str]
    store: Sequence[Setting]
    alerts: Sequence[Setting]
    jobs: Sequence[EffectiveJob]


def effective(
    config: Config,
    files: Sequence[tuple[Path, str]],
    now: datetime,
    *,
    only: Job | None = None,
    store_given: bool = False,
) -> Effective:
    """What `config`, read from these files, means; of one job only where asked for.

    `now` is where the coming instants begin. `store_given`: the command line named the store.
    """
    tables = {file: tomllib.loads(text) for file, text in files}
    store = _table(tables[config.path].get("store"))
    if store_given:
        store = {"url": config.store.url}
    jobs = config.jobs.values() if only is None else [only]
    one_host = config.store.url.startswith(("sqlite:", "memory:"))
    ttl = TTL_ONE_HOST if one_host else TTL_NETWORK
    coming = {job.name: _coming(job, now) for job in jobs}
    return Effective(
        files=[str(file) for file, _ in files],
        store=[
            _address("store.url", config.store.url, store, defaults()["store.url"]),
            _keep(config, _table(tables[config.path].get("store"))),
        ],
        alerts=list(_alerts(config, _table(tables[config.path].get("alerts")))),
        jobs=[
            EffectiveJob(
                job.name,
                str(job.origin),
                list(_settings(job, _table(tables[job.origin]["jobs"][job.name]), ttl)),
                coming[job.name],
                [instant.astimezone(zone(job.timezone)) for instant in coming[job.name]],
                list(_notes(job)),
            )
            for job in jobs
        ],
    )


def _keep(config: Config, written: Mapping[str, object]) -> Setting:
    given = "keep" in written
    told = "" if given else defaults()["store.keep"]
    return Setting("store.keep", show_duration(config.store.keep), given, told)


def _notes(job: Job) -> Iterator[str]:
    """What is shorter than the time between two calls of cron: it is over before anybody comes."""
    if job.schedule is None:
        return
    knock = planning.knock(Schedule(job.schedule, job.timezone, job.dst))
    for key, given in (("deadline", job.deadline), ("catch_up.window", job.catch_up.window)):
        if given is not None and given < knock:
            yield (
                f"jobs.{job.name}.{key}: {show_duration(given)} is shorter than the"
                f" {show_duration(knock)} between two calls of cron that this schedule needs: an"
                " interval whose call is late, or that is taken up again, is over it already"
            )


def _settings(job: Job, written: Mapping[str, object], usual_ttl: timedelta) -> Iterator[Setting]:
    """All keys of a job, those of one table together."""
    ttl = job.lease.ttl or usual_ttl
    kind = job.work.kind
    is_function = isinstance(job.work, CommandConfig) and job.work.python is not None
    told, without = of_job(kind), WITHOUT["python" if is_function else kind]
    source = job.work.source if isinstance(job.work, EntitlementsConfig) else None
    for key in _ordered(told, without):
        if source is not None and source.on_network and key.startswith("source."):
            if key == without[0]:
                yield from _on_network(source, written)
            continue
        table, _, name = key.rpartition(".")
        inner = written if not table else _table(written.get(table))
        short = isinstance(written.get(table), str) and key in without
        given = name in inner or short or (key in _OF_BOTH_SIDES and name in written)
        if key == "timezone" and job.schedule is not None:
            given = given or split_zone(job.schedule)[1] is not None
        if key == "heartbeat" and job.heartbeat is not None:
            yield _secret(key, beyond_host(job.heartbeat), inner)
            continue
        if key in ADDRESSES and isinstance(job.work, EntitlementsConfig):
            yield _address(key, job.work.target.url, inner, given=given)
            continue
        value = _shown(key, _value(job, key, ttl))
        yield Setting(key, value, given, "" if given else told.get(key, ""))


def _on_network(source: SourceConfig, written: Mapping[str, object]) -> Iterator[Setting]:
    if source.sql is not None:
        from .effective_sql import settings
    else:
        from .effective_http import settings
    yield from settings(source, written.get("source"), written)


def _alerts(config: Config, written: Mapping[str, object]) -> Iterator[Setting]:
    """What `[alerts]` means; of an address no more is shown than whom it is for."""
    found, told = config.alerts, defaults()
    for key, value in (
        ("alerts.command", [mask_address(word) for word in found.command]),
        ("alerts.notify", [whose(address) for address in found.notify]),
        ("alerts.metrics_file", found.metrics_file),
    ):
        if value:
            yield _secret(key, value, written)
        else:
            yield Setting(key, None, False, told[key])


def _secret(key: str, shown: Json, table: Mapping[str, object]) -> Setting:
    """A key, or the file that holds what it would say."""
    path = table.get(secret_file(key.rpartition(".")[2]))
    return Setting(key, shown, True) if path is None else Setting(secret_file(key), str(path), True)


def _ordered(told: Mapping[str, str], without: Sequence[str]) -> Sequence[str]:
    """The keys of a job: in each table first those without a default, then as in `told`."""
    tables = list(dict.fromkeys(key.rpartition(".")[0] for key in told))
    keys = [*without, *told]
    return sorted(keys, key=lambda key: (tables.index(key.rpartition(".")[0]), keys.index(key)))


def _address(
    key: str, url: str, table: Mapping[str, object], told: str = "", *, given: bool | None = None
) -> Setting:
    name = key.rpartition(".")[2]
    path = table.get(secret_file(name))
    if path is not None:
        return Setting(secret_file(key), str(path), True)
    given = name in table if given is None else given
    return Setting(key, spelled(url), given, "" if given else told)


def spelled(url: str) -> str:
    """A normalised address as a file says it, where `sqlite:///` begins a relative path; its
    secrets masked."""
    if url.startswith("sqlite:///"):
        url = f"sqlite:///{url.removeprefix('sqlite://')}"
    return mask_address(url)


def _value(job: Job, key: str, ttl: timedelta) -> object:
    """What holds, whether it was said or follows from something else; None where nothing."""
    if key == "lease.ttl":
        return ttl
    if key == "fence_wait" and isinstance(job.work, EntitlementsConfig):
        return job.work.fence_wait or ttl
    schedule = Schedule(job.schedule, job.timezone, job.dst) if job.schedule else None
    if key == "deadline":
        return planning.deadline(job, schedule)
    table, _, name = key.rpartition(".")
    if table == "catch_up":
        if schedule is None:
            return None
        return _catch_up(job, name, schedule)
    tables = {"lease": (job.lease,), **job.work.tables()}
    if not table:
        tables[""] = (job, *tables[""])
    return next(getattr(one, name) for one in tables[table] if hasattr(one, name))


def _catch_up(job: Job, name: str, schedule: Schedule) -> object:
    if name == "policy":
        return job.catch_up_policy
    if name == "rate":
        return job.catch_up.rate
    return planning.window(job, schedule)


def _shown(key: str, value: object) -> Json:
    """A value as the file spells it, in JSON's types; None for what is empty."""
    shown: Json = None
    if isinstance(value, timedelta):
        shown = show_duration(value)
    elif isinstance(value, Rate):
        shown = show_rate(value)
    elif isinstance(value, datetime):
        shown = value.isoformat().replace("+00:00", "Z")
    elif key in _SHARES and isinstance(value, float):
        shown = f"{value * 100:g}%"
    elif isinstance(value, str):
        shown = mask_address(value)
    elif isinstance(value, (bool, int, float)):
        shown = value
    elif key == "env" and isinstance(value, Mapping):
        shown = dict.fromkeys(value, _MASKED) or None  # which may be secret
    elif isinstance(value, Mapping):
        shown = {str(k): str(v) for k, v in value.items()} or None
    elif isinstance(value, tuple):
        shown = [str(item) for item in value] or None
    return shown


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _coming(job: Job, now: datetime) -> list[datetime]:
    if job.schedule is None:
        return []
    after = now if job.start is None else max(now, job.start - TICK)
    schedule = Schedule(job.schedule, job.timezone, job.dst)
    return list(islice(schedule.between(after, LAST), NEXT))
