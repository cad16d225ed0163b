"""What holds where a configuration says nothing, by key, as the manual's tables word it.

Which keys there are is said here alone: those beside the jobs, those of every job, and those
that one kind of work has.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .config import (
    MINUTE,
    TTL_NETWORK,
    TTL_ONE_HOST,
    CommandConfig,
    EntitlementsConfig,
    Job,
    SourceConfig,
    StoreConfig,
    TargetConfig,
)
from .toml import STORE_NAME, SYSTEM_FOLDER, SYSTEM_STORE
from .toml_values import show_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

_ENTITLEMENTS = EntitlementsConfig(SourceConfig("csv", ""), TargetConfig("sql", "", ""))
_COMMAND = CommandConfig((), "")
WITHOUT = {
    "entitlements": ("source.path", "target.url"),
    "command": ("command",),
    "python": ("python",),
}
"""Keys that have no default, by kind of work; a function is a command by another key."""


def defaults(kind: str = "entitlements") -> Mapping[str, str]:
    """What holds where the file says nothing, beside the jobs and for one that does such work."""
    return {**_of_the_file(), **of_job(kind)}


def of_job(kind: str) -> Mapping[str, str]:
    """The same of a job alone, in the order in which keys are shown: its own, then those of its
    tables."""
    own = _of_entitlements() if kind == "entitlements" else _of_commands()
    every = {**_of_jobs(), **own}
    return dict(sorted(every.items(), key=lambda item: "." in item[0]))


def _of_the_file() -> Mapping[str, str]:
    return {
        "store.url": f"{STORE_NAME} beside the file; {SYSTEM_STORE} under {SYSTEM_FOLDER}",
        "store.keep": show_duration(StoreConfig("").keep),
        "alerts.command": "none",
        "alerts.notify": "none",
        "alerts.metrics_file": "none",
    }


def _of_jobs() -> Mapping[str, str]:
    job = Job("", Path(), None, _ENTITLEMENTS)
    return {
        "schedule": "none: on demand",
        "timezone": job.timezone,
        "dst_gap": job.dst_gap,
        "dst_overlap": job.dst_overlap,
        "start": "the first run",
        "deadline": f"one period, between {show_duration(15 * MINUTE)} and 24h",
        "max_attempts": str(job.max_attempts),
        "retry_delay": show_duration(job.retry_delay),
        "max_runtime": "none",
        "max_intervals": "none",
        "heartbeat": "none",
        "max_wait": show_duration(job.max_wait),
        "on_failed": job.on_failed,
        "lease.ttl": f"{show_duration(TTL_ONE_HOST)}, network stores {show_duration(TTL_NETWORK)}",
        "lease.progress_deadline": show_duration(job.lease.progress_deadline),
        "lease.detect_dead": str(job.lease.detect_dead).lower(),
        "catch_up.policy": "all for a dated source, else latest",
        "catch_up.window": "7d, at least two periods",
        "catch_up.rate": "none",
    }


def _of_entitlements() -> Mapping[str, str]:
    work, guards = _ENTITLEMENTS, _ENTITLEMENTS.guards
    return {
        "key_policy": work.target.key_policy.value,
        "range_size": str(work.range_size),
        "plan_age": show_duration(work.plan_age),
        "fence_wait": "lease.ttl",
        "source.type": "from the suffix",
        "source.account": "the target's account",
        "source.columns": "the target's columns",
        "source.null": "none",
        "source.rename": "none",
        "source.delimiter": work.source.delimiter,
        "source.encoding": work.source.encoding,
        "source.fields": "the file's header",
        "source.manifest": "none",
        "target.type": "from the url",
        "target.table": "the job's name",
        "target.key": "the table's primary key",
        "target.account": "the key's first column",
        "target.columns": "the source's columns",
        "target.scope": "all rows",
        "target.interval_column": "none: the table holds the newest interval's truth",
        "target.schema": "where the table is",
        "guards.max_revoke": f"{guards.max_revoke:.0%}",
        "guards.max_revoke_min": str(guards.max_revoke_min),
        "guards.max_update": f"{guards.max_update:.0%}",
        "guards.min_rows": str(guards.min_rows),
        "guards.must_contain": "none",
    }


def _of_commands() -> Mapping[str, str]:
    return {
        "cwd": "the configuration's folder",
        "env": "none beside the caller's",
        "env_file": "none",
        "kill_after": show_duration(_COMMAND.kill_after),
        "ranges": "none: it is called once",
    }
