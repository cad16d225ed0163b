"""What `reconcile.toml` says, as frozen values, with every default in one place.

`core/toml.py` reads the file into these and refuses what cannot work. A field of None
means "depends": on the store (`ttl`), the schedule (`deadline`), or the work. The methods
of `Job` resolve those.

The values are NamedTuples: every trigger imports them, and a frozen dataclass takes five
times as long to make.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from .calendars import USUAL_DST, Dst
from .keys import KeyPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import PurePath

    from .http_config import HttpConfig
    from .model import Rate
    from .sql_config import SqlConfig

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

TTL_ONE_HOST = timedelta(seconds=60)
TTL_NETWORK = timedelta(minutes=3)
MIN_TTL = timedelta(seconds=2)
"""Shorter leases cost more renewals than they save waiting."""

RESERVED = "reconcile-drill"
"""What the names of scratch jobs begin with, and no other's; see `operations/drill`."""

_SINGLE_HOST = {"": False, "single_host=no": False, "single_host=yes": True}


class StoreConfig(NamedTuple):
    """`[store]`. `url` is normalised, see `sqlite_url`; its query is kept. What is final for
    longer than `keep` is dropped, see `operations/pruning.py`."""

    url: str
    keep: timedelta = 400 * DAY


class AlertsConfig(NamedTuple):
    """`[alerts]`. `command` is an argv, called in the configuration's folder; `notify` are Apprise
    URLs, which are secrets; `metrics_file` is absolute."""

    command: tuple[str, ...] = ()
    notify: tuple[str, ...] = ()
    metrics_file: str | None = None

    @property
    def wanted(self) -> bool:
        """Whether anybody is told of alerts or figures."""
        return bool(self.command or self.notify or self.metrics_file)


class LeaseConfig(NamedTuple):
    """`[jobs.NAME.lease]`. `ttl` None: 60 s, on network stores 3 min."""

    ttl: timedelta | None = None
    progress_deadline: timedelta = 10 * MINUTE
    detect_dead: bool = True


class CatchUpConfig(NamedTuple):
    """`[jobs.NAME.catch_up]`. `policy` None: `all` for dated work, else `latest`.

    `window` None: 7 days, and at least two periods. `rate`: so many intervals may be begun
    late per time; None: any number.
    """

    policy: str | None = None
    window: timedelta | None = None
    rate: Rate | None = None


class SourceConfig(NamedTuple):
    """`[jobs.NAME.source]`. `path` is absolute, its placeholders not yet filled in.

    `rename` leads from the file's names of columns to the target's. `fields` names the
    columns of a CSV file that has no header; `manifest` is absolute, as `path` is. Of an API
    `path` is the address, and `http` says how it is asked; of a database likewise, with `sql`.
    """

    type: str
    path: str
    account: str | None = None
    columns: tuple[str, ...] | None = None
    null: tuple[str, ...] = ()
    rename: Mapping[str, str] = MappingProxyType({})
    delimiter: str = ","
    encoding: str = "utf-8"
    fields: tuple[str, ...] | None = None
    manifest: str | None = None
    http: HttpConfig | None = None
    sql: SqlConfig | None = None

    @property
    def on_network(self) -> bool:
        """Whether it is asked once, whole, and what it said kept beside the store."""
        return self.http is not None or self.sql is not None

    def name_in_file(self, ours: str) -> str:
        """How a file that lacks one of our columns would call it, and by which rename."""
        theirs = [name for name, to in self.rename.items() if to == ours and name != ours]
        if theirs:
            return f"{' or '.join(theirs)} (which rename makes {ours})"
        other = self.rename.get(ours, ours)
        if other != ours:
            return f"for {ours} (rename makes the file's {ours} {other})"
        return ours


class TargetConfig(NamedTuple):
    """`[jobs.NAME.target]`. `type` is `sql` for SQLite and `postgres` for PostgreSQL. `url` is
    normalised, see `sqlite_url`; its query is kept. `columns` are those beside the account.
    `key_policy` is the job's: the target's schema tells it the source. `schema` is where the
    `reconcile_` tables are kept, None where the table is. With `interval_column` each interval
    has rows of its own, those whose value there is its id."""

    type: str
    url: str
    table: str
    key: tuple[str, ...] | None = None
    account: str | None = None
    columns: tuple[str, ...] | None = None
    scope: str | None = None
    key_policy: KeyPolicy = KeyPolicy.EXACT
    schema: str | None = None
    interval_column: str | None = None


class GuardsConfig(NamedTuple):
    """`[jobs.NAME.guards]`. Shares are fractions of one: 0.1 is 10 %."""

    max_revoke: float = 0.10
    max_revoke_min: int = 10
    max_update: float = 0.50
    min_rows: int = 0
    must_contain: tuple[str, ...] = ()


class EntitlementsConfig(NamedTuple):
    """The built-in work of a job: a source, a target, and what guards them.

    What every kind of work answers: its `kind`; whether it is `dated`, about one interval rather
    than about now; whether a newer interval `overtakes` an older one; whether it `has_past`, so
    that old intervals can be filled in; and the tables of its keys, by name (`tables`).
    """

    source: SourceConfig
    target: TargetConfig
    guards: GuardsConfig = GuardsConfig()
    range_size: int = 5000
    plan_age: timedelta = HOUR
    fence_wait: timedelta | None = None

    @property
    def kind(self) -> str:
        """The word by which kinds of work are told apart."""
        return "entitlements"

    @property
    def key_policy(self) -> KeyPolicy:
        """Which spellings of an account are one, on both sides."""
        return self.target.key_policy

    @property
    def dated(self) -> bool:
        """Whether the source's path, or its query, names the interval."""
        source = self.source
        if source.sql is not None and source.sql.dated:
            return True
        return any(mark in source.path for mark in ("{interval", "{date", "{yesterday"))

    @property
    def overtakes(self) -> bool:
        """Whether a newer interval, once it is completed, has the last word: what is known of
        an older one would undo it."""
        return self.dated and self.target.interval_column is None

    @property
    def has_past(self) -> bool:
        """A live source tells the truth of now and of no night before."""
        return self.dated

    def tables(self) -> Mapping[str, tuple[object, ...]]:
        """What holds the keys of each table of the job, "" for the job's own."""
        return {
            "": (self,),
            "source": (self.source,),
            "target": (self.target,),
            "guards": (self.guards,),
        }


class CommandConfig(NamedTuple):
    """Work that is a program of the user's. Answers what `EntitlementsConfig` does.

    `command` are its words, their placeholders not yet filled in; no shell reads them. `env` is
    added to the caller's environment, and may be secret; so is what `env_file`, which is absolute
    and read when the command is called, holds. `cwd` is absolute. `kill_after` lies between
    SIGTERM and SIGKILL. With `ranges` it is called once for each of so many; None: once. A job
    with `python`, "module:function", has no `command`: what calls it is made at wiring.
    """

    command: tuple[str, ...]
    cwd: str
    env: Mapping[str, str] = MappingProxyType({})
    env_file: str | None = None
    kill_after: timedelta = timedelta(seconds=10)
    ranges: int | None = None
    python: str | None = None

    @property
    def kind(self) -> str:
        """See `EntitlementsConfig`."""
        return "command"

    @property
    def program(self) -> str:
        """What is called, without its arguments."""
        return self.python or self.command[0]

    @property
    def dated(self) -> bool:
        """Whether one of its words names the interval."""
        from .placeholders import names_interval

        return any(map(names_interval, self.command))

    @property
    def overtakes(self) -> bool:
        """Never: what a command does for one night is its own affair."""
        return False

    @property
    def has_past(self) -> bool:
        """It is told which interval it is called for."""
        return True

    def tables(self) -> Mapping[str, tuple[object, ...]]:
        """See `EntitlementsConfig`."""
        return {"": (self,)}


WorkConfig: TypeAlias = EntitlementsConfig | CommandConfig


class Job(NamedTuple):
    """`[jobs.NAME]`. `schedule` None: on demand. `start` is an instant in UTC. `timezone` is
    also that of an OnCalendar expression which names one.

    `max_wait`: so long may one call sleep in all, for a rate. `on_failed`: whether newer
    intervals `continue`, or `block` until a person acts. `origin` is the file that says so.
    `max_intervals` None: no limit; `max_runtime` None: no limit. `heartbeat` is the
    address of a dead-man's switch, which is a secret.
    """

    name: str
    origin: Path
    schedule: str | None
    work: WorkConfig
    timezone: str = "UTC"
    dst_gap: str = USUAL_DST.gap
    dst_overlap: str = USUAL_DST.overlap
    start: datetime | None = None
    deadline: timedelta | None = None
    max_attempts: int = 5
    retry_delay: timedelta = 5 * MINUTE
    max_runtime: timedelta | None = None
    max_intervals: int | None = None
    heartbeat: str | None = None
    max_wait: timedelta = MINUTE
    on_failed: str = "continue"
    lease: LeaseConfig = LeaseConfig()
    catch_up: CatchUpConfig = CatchUpConfig()

    @property
    def dst(self) -> Dst:
        """What becomes of times of day when the clocks of `timezone` are changed."""
        return Dst(self.dst_gap, self.dst_overlap)

    @property
    def catch_up_policy(self) -> str:
        """The policy in force: what tells the truth of now has no past to replay."""
        return self.catch_up.policy or ("all" if self.work.dated else "latest")


class Config(NamedTuple):
    """A whole configuration. `path` is the main file."""

    path: Path
    store: StoreConfig
    jobs: Mapping[str, Job]
    alerts: AlertsConfig = AlertsConfig()


def default_ttl(url: str) -> timedelta:
    """The TTL of leases in the store at a URL, where a job names none: a store on a network
    may be away for longer than one on this host."""
    return TTL_ONE_HOST if url.startswith(("sqlite:", "memory:")) else TTL_NETWORK


def is_postgres(url: str) -> bool:
    """Whether an address is that of a PostgreSQL database."""
    return url.partition(":")[0].lower() in ("postgresql", "postgres")


def sqlite_url(path: PurePath, query: str = "") -> str:
    """The one spelling of an SQLite database: `sqlite://`, its absolute path, the query.

    `%`, `?` and `#` of the path are percent-encoded, so that the query begins at the `?`.
    """
    text = str(path)
    for mark in "%?#":
        text = text.replace(mark, f"%{ord(mark):02X}")
    return f"sqlite://{text}" + (f"?{query}" if query else "")


def as_written(url: str) -> str:
    """An address as a configuration has to spell it to mean the very same database: there three
    slashes begin a path that is relative, and four an absolute one."""
    mark = "sqlite://"
    return f"{mark}/{url.removeprefix(mark)}" if url.startswith(f"{mark}/") else url


def single_host(url: str) -> bool | None:
    """Whether a URL of `sqlite_url` vouches that no other host uses the file; None where it has
    options that are not known."""
    return _SINGLE_HOST.get(url.partition("?")[2])


def sqlite_path(url: str) -> Path:
    """The file that a URL of `sqlite_url` names."""
    text = url.removeprefix("sqlite://").partition("?")[0]
    for mark in "#?%":
        text = text.replace(f"%{ord(mark):02X}", mark)
    return Path(text)
