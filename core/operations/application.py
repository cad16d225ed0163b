"""What the use cases are given: a configuration, a runtime, and how to open things."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..errors import UnknownJob

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from ..config import Config, Job
    from ..ports import Notifier, Runtime, Store, Work


class Application(NamedTuple):
    """One loaded configuration with everything that enters from outside. `notifier` None: nobody
    wants to be told."""

    config: Config
    runtime: Runtime
    open_store: Callable[[], Store]
    build_work: Callable[[Job], Work]
    notifier: Notifier | None = None

    def job(self, name: str) -> Job:
        """The job of that name; `UnknownJob` names the nearest one."""
        return job_named(self.config, name)


def job_named(config: Config, name: str) -> Job:
    """The job of that name; `UnknownJob` names the nearest one."""
    job = config.jobs.get(name)
    if job is not None:
        return job
    from difflib import get_close_matches

    near = get_close_matches(name, config.jobs, n=1)
    known = ", ".join(sorted(config.jobs)) or "none"
    raise UnknownJob(
        f"{config.path} has no job {name!r}",
        hint=f"did you mean {near[0]}?" if near else f"jobs: {known}",
    )


class RunRequest(NamedTuple):
    """`reconcile run`. `interval` is an id, `latest` or `oldest`; `now`: one of this instant,
    beside those that are due. `wait`: how long to stay for a busy lease; it counts against
    `max_runtime`. Where a `reason` is given, who asked is put on record."""

    job: str
    interval: str | None = None
    dry_run: bool = False
    max_runtime: timedelta | None = None
    wait: timedelta | None = None
    actor: str = ""
    now: bool = False
    reason: str = ""


class ActRequest(NamedTuple):
    """`rerun`, `skip` or `stop`: an act by hand, signed. `interval` is not for `stop`.

    `force` fences the holder out; `wait`: stay until the holder has stopped. `patience`: so long
    does a rerun of an interval that is being worked wait for its turn.
    """

    job: str
    interval: str = ""
    actor: str = ""
    reason: str = ""
    force: bool = False
    wait: bool = True
    patience: timedelta | None = None


class BackfillRequest(NamedTuple):
    """`reconcile backfill`. `first` and `last` are ids, or latest; without them the one that runs
    is meant. `rate` is spelled as in the configuration, or `0`: begin nothing until told."""

    job: str
    first: str | None = None
    last: str | None = None
    rate: str | None = None
    rerun_completed: bool = False
    actor: str = ""
    reason: str = ""


class ResumeRequest(NamedTuple):
    """`reconcile resume`. No job: all that have something unfinished."""

    job: str | None = None
    interval: str | None = None
    approve: str | None = None
    actor: str = ""
    reason: str = ""
