"""The one place where the parts are put together: configuration, store, work, outside.

Nothing but this module knows stores by name, so that the core can be tested, and used,
with any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ..core.config import CommandConfig, Config, EntitlementsConfig, Job
    from ..core.events import Report
    from ..core.findings import Finding, StoreLook
    from ..core.model import Holder
    from ..core.operations.application import Application
    from ..core.operations.doctor.standing import Awaited
    from ..core.ports import Host, Notifier, Store, Work
    from .environment import Environment
    from .options import Call


def application(
    call: Call,
    report: Callable[[Report], None],
    reached: Callable[[str], None],
    *,
    makes_store: bool = False,
    only_looks: bool = False,
) -> Application:
    """Everything an operation needs. Raises what reading the configuration raises.

    A store that the command line names must be there, or a mistyped path would look like a
    job that was never run; unless `makes_store`. With `only_looks` no process is ended, whatever
    it keeps locked.
    """
    from ..core.operations.application import Application
    from ..core.ports import Runtime
    from .configuration import load

    env, options = call.env, call.options
    config = load(options.config, environ=env.environ, cwd=env.cwd, store=options.store)
    if options.store is not None and not makes_store:
        _refuse_missing(config.store.url)
    if any(job.heartbeat for job in config.jobs.values()):
        from .delivery.heartbeat import Heartbeat, addresses

        report = Heartbeat(addresses(config.jobs.values()), report).report
    host = _Onlooker(env.host) if only_looks else env.host
    runtime = Runtime(env.clock, host, env.entropy, env.stop, reached, report)
    if env.manager is not None:
        runtime = runtime._replace(alive=env.manager.alive)
    return Application(
        config=config,
        runtime=runtime,
        open_store=_opener(config, env, host),
        build_work=_builder(config, env),
        notifier=_notifier(call, config),
    )


def _notifier(call: Call, config: Config) -> Notifier | None:
    if not config.alerts.wanted:
        return None
    from .delivery.desk import Desk
    from .render.words import Style

    style = Style(program=call.options.program(call.env.program))
    return Desk(config.alerts, config.path.parent, style.commands)


def check_store(config: Config, env: Environment) -> None:
    """Raise `ConfigError` where the store's address names no kind of store that there is, or
    has options that it does not know. Connects to nothing."""
    _opener(config, env, env.host)


def check_address(url: str, env: Environment) -> None:
    """The same of an address, whoever is to use it."""
    from ..stores.registry import opener

    opener(url, clock=env.clock, host=env.host, entropy=env.entropy)


class _Onlooker:
    """The host as those know it who end nobody. Implements `core.ports.Host`."""

    def __init__(self, host: Host) -> None:
        self.holder = host.holder
        self.is_dead = host.is_dead
        self.abort = host.abort

    def kill(self, holder: Holder) -> bool:
        """Whoever it is, it is not ended."""
        return False

    def end_leftovers(self, holder: Holder, run: str) -> tuple[Sequence[str], Sequence[str]]:
        """Nor is what it left."""
        return (), ()


def _refuse_missing(url: str) -> None:
    from ..core.config import sqlite_path
    from ..core.errors import StoreUnreachable

    if not url.startswith("sqlite:"):
        return
    path = sqlite_path(url)
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise StoreUnreachable(
            f"there is no store {path}",
            hint="name the one that run uses, or leave --store out; only run makes a new one",
        ) from None
    except OSError:
        pass  # it is there; opening it says what is wrong with it


def _opener(config: Config, env: Environment, host: Host) -> Callable[[], Store]:
    from ..core.config import default_ttl
    from ..core.trust import MOST_PATIENCE, Terms
    from ..stores.registry import opener

    def patience(job: Job) -> float:
        return Terms(
            job.lease.ttl or default_ttl(config.store.url), job.lease.progress_deadline
        ).patience

    connect = opener(
        config.store.url,
        clock=env.clock,
        host=host,
        entropy=env.entropy,
        patience=min((patience(job) for job in config.jobs.values()), default=MOST_PATIENCE),
    )
    alerts = bool(config.alerts.command or config.alerts.notify)

    def counting() -> Store:
        from ..core.tallying import Tallying

        return Tallying(connect(), alerts=alerts)

    return counting


def _builder(config: Config, env: Environment) -> Callable[[Job], Work]:
    def build(job: Job) -> Work:
        from ..core.config import CommandConfig

        if isinstance(job.work, CommandConfig):
            return _command(config, env, job.work)
        return _entitlements(config, env, job, job.work)

    return build


def _command(config: Config, env: Environment, work: CommandConfig) -> Work:
    from ..core.needs import logs
    from ..core.work.commands.logs import Logs
    from ..core.work.commands.supervision import Supervised
    from ..core.work.commands.work import CommandWork
    from .delivery.manager import without_manager

    if work.python is not None:
        from ..core.work.commands.functions import call_of

        work = work._replace(command=tuple(call_of(work.python)))
    kept = Logs(logs(config))
    holder = env.host.holder().token
    # What systemd is told of this process is not for its children to say.
    environ = env.environ if env.manager is None else without_manager(env.environ)
    return CommandWork(work, Supervised, environ, kept, env.clock, holder)


def _entitlements(config: Config, env: Environment, job: Job, work: EntitlementsConfig) -> Work:
    from ..core.config import default_ttl
    from ..core.needs import spools
    from ..core.sources import open_source
    from ..core.sources.spool import Spools
    from ..core.targets import open_target
    from ..core.work.entitlements.work import EntitlementsWork

    sorted_files = Spools(spools(config), job.name)
    source = open_source(work.source, sorted_files, max_age=work.plan_age, max_wait=job.max_wait)
    fence_wait = work.fence_wait or job.lease.ttl or default_ttl(config.store.url)
    target = open_target(
        work.target,
        job.name,
        env.clock,
        work.source.columns,
        fence_wait=fence_wait,
    )
    return EntitlementsWork(job, source, target, fence_wait, sorted_files)


# --- for doctor


def store_looker(config: Config, env: Environment) -> Callable[[], StoreLook]:
    """What looks at the store and makes none."""

    def look() -> StoreLook:
        from ..stores.registry import look as look_at

        return look_at(config.store.url, clock=env.clock)

    return look


def store_is_made(call: Call, seconds: float) -> bool:
    """Whether the configured store is there, asked for so long and without making it."""
    from ..stores.registry import is_made
    from .configuration import load

    env, options = call.env, call.options
    config = load(options.config, environ=env.environ, cwd=env.cwd, store=options.store)
    return is_made(config.store.url, seconds=seconds, clock=env.clock)


def store_owner(config: Config) -> str | None:
    """Whose file the store is, where it is one."""
    from ..stores.registry import owner

    return owner(config.store.url)


def examiner(
    config: Config, env: Environment
) -> Callable[[Job, Awaited | None], Iterable[Finding]]:
    """What looks at the work of a job and changes nothing of it."""

    def look(job: Job, waits: Awaited | None) -> Iterator[Finding]:
        from ..core.config import CommandConfig
        from ..core.needs import logs, spools
        from ..core.work.entitlements.examine import examine

        if isinstance(job.work, CommandConfig):
            from ..core.work.commands.examine import examine_command

            yield from examine_command(job.name, job.work, env.environ, logs(config))
            return
        yield from examine(
            job,
            job.work,
            None if waits is None else waits.interval,
            owed=waits is not None and waits.owed,
            now=env.clock.now(),
            clock=env.clock,
            spools=spools(config),
        )

    return look


def statements(config: Config, jobs: Iterable[Job], env: Environment) -> Iterator[str]:
    """What an administrator runs: a script for each database, under a comment that names it."""
    from ..core.config import CommandConfig
    from ..core.targets import ddl_of
    from ..stores.registry import ddl

    script = ddl(config.store.url)
    shown = _where(config.store.url)
    if script:
        yield f"-- the store, in {shown}: once, by who may create a schema there\n\n{script}"
    else:
        yield f"-- the store, {shown}, needs no statement: the first run makes it\n"
    done: set[str] = set()
    for job in jobs:
        if isinstance(job.work, CommandConfig):
            continue  # what it needs where is its own
        target = job.work.target
        text = ddl_of(target, env.clock)
        where = _where(target.url)
        if f"{target.url} {text}" in done:
            yield f"-- the target of {job.name} is in the same schema as one above\n"
            continue
        done.add(f"{target.url} {text}")
        yield f"-- the target of {job.name}, in {where}\n\n{text}"


def _where(url: str) -> str:
    """A database for people, without its secret."""
    from ..core.config import sqlite_path
    from ..core.masking import server_shown

    return str(sqlite_path(url)) if url.startswith("sqlite:") else server_shown(url)
