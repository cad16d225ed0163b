"""The one place where the parts are put together: configuration, store, work, outside.

Nothing but this module knows stores by name, so that the core can be tested, and used,
with any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..core.config import Config, Job
    from ..core.events import Report
    from ..core.operations.application import Application
    from ..core.ports import Store, Work
    from .environment import Environment
    from .options import Call


def application(
    call: Call, report: Callable[[Report], None], reached: Callable[[str], None]
) -> Application:
    """Everything an operation needs. Raises what reading the configuration raises."""
    from ..core.operations.application import Application
    from ..core.ports import Runtime
    from .configuration import load

    env, options = call.env, call.options
    config = load(options.config, environ=env.environ, cwd=env.cwd, store=options.store)
    runtime = Runtime(env.clock, env.host, env.entropy, env.stop, reached, report)
    return Application(
        config=config,
        runtime=runtime,
        open_store=_opener(config, env),
        build_work=_builder(env),
    )


def _opener(config: Config, env: Environment) -> Callable[[], Store]:
    from ..core.config import TTL_ONE_HOST
    from ..core.trust import MOST_PATIENCE, Terms
    from ..stores.registry import opener

    def patience(job: Job) -> float:
        return Terms(job.lease.ttl or TTL_ONE_HOST, job.lease.progress_deadline).patience

    return opener(
        config.store.url,
        clock=env.clock,
        host=env.host,
        entropy=env.entropy,
        patience=min((patience(job) for job in config.jobs.values()), default=MOST_PATIENCE),
    )


def _builder(env: Environment) -> Callable[[Job], Work]:
    def build(job: Job) -> Work:
        from ..core.config import TTL_ONE_HOST
        from ..core.sources import open_source
        from ..core.targets import open_target
        from ..core.work.entitlements.work import EntitlementsWork

        source = open_source(job.work.source)
        fence_wait = job.work.fence_wait or job.lease.ttl or TTL_ONE_HOST
        target = open_target(
            job.work.target,
            job.name,
            env.clock,
            job.work.source.columns,
            fence_wait=fence_wait,
        )
        return EntitlementsWork(job, source, target, fence_wait)

    return build
