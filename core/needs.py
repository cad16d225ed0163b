"""What a job touches outside: what a unit or a person must leave it.

Only what the configuration says is known. What a program of the user's touches is not, so a job
that starts one (`programs`) can be promised nothing by taking things away from it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .config import CommandConfig, sqlite_path
from .toml import SYSTEM_FOLDER, SYSTEM_LOGS, default_store
from .toml_endpoints import scheme

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .config import Config, EntitlementsConfig, Job

_LOCAL = ("sqlite", "memory")


class Needs(NamedTuple):
    """`reads` are files and folders, `writes` folders in which files are made, changed and
    removed; all absolute, sorted, none twice. `store` is the store's file, where it is one.
    `network`: it talks to other hosts. `programs`: those of the user's that it starts."""

    reads: tuple[Path, ...]
    writes: tuple[Path, ...]
    store: Path | None
    network: bool
    programs: tuple[str, ...]


def needs(config: Config, job: Job) -> Needs:
    """What calls of `run` for that job need."""
    reads, writes = {config.path.parent, job.origin.parent}, {spools(config).parent}
    store = sqlite_path(config.store.url) if scheme(config.store.url) == "sqlite" else None
    if store is not None:
        writes.add(store.parent)
    if config.alerts.metrics_file is not None:
        writes.add(Path(config.alerts.metrics_file).parent)
    work, programs = job.work, config.alerts.command[:1]
    urls, asks_api = [config.store.url], False
    if isinstance(work, CommandConfig):
        programs = (work.program, *programs)
        reads.add(Path(work.cwd))
        writes.add(logs(config))
    else:
        urls.append(work.target.url)
        asks_api = work.source.http is not None
        if work.source.sql is not None:
            urls.append(work.source.path)
            # A reader of a database with a write-ahead log has to make the log's index beside it.
            writes.update(_database(work))
        reads.update(_sources(work))
        if scheme(work.target.url) == "sqlite":
            writes.add(sqlite_path(work.target.url).parent)
    remote = {scheme(url) for url in urls} - {*_LOCAL}
    # Everything that this job sees of the others is their records: alerts of all are its to send.
    heartbeats = any(one.heartbeat for one in config.jobs.values())
    return Needs(
        tuple(sorted(reads)),
        tuple(sorted(writes)),
        store,
        network=bool(remote or asks_api or heartbeats or config.alerts.notify or programs),
        programs=programs,
    )


def spools(config: Config) -> Path:
    """The folder in which files are sorted: beside the store, or where that would be if it were
    a file."""
    url = config.store.url
    store = sqlite_path(url if scheme(url) == "sqlite" else default_store(config.path))
    return store.with_name(f"{store.name}-spool")


def logs(config: Config) -> Path:
    """The folder in which the output of commands is kept: beside an SQLite store, else beside the
    configuration, and in /var/log for one of the system's."""
    url = config.store.url
    if scheme(url) == "sqlite":
        return sqlite_path(url).parent / "logs"
    if config.path.is_relative_to(SYSTEM_FOLDER):
        return SYSTEM_LOGS
    return config.path.parent / "logs"


def _database(work: EntitlementsConfig) -> Iterator[Path]:
    """The folder of an SQLite source, as far as its name is fixed."""
    if work.source.sql is not None and scheme(work.source.path) == "sqlite":
        yield Path(f"{sqlite_path(work.source.path)}".partition("{")[0] + "x").parent


def _sources(work: EntitlementsConfig) -> Iterator[Path]:
    """The folders of what is read, as far as their names are fixed."""
    yield from _database(work)
    if work.source.on_network:
        return
    for path in (work.source.path, work.source.manifest):
        if path is not None:
            yield Path(path.partition("{")[0] + "x").parent
