"""`reconcile run --all`: which jobs have something to do.

Each of those is given to a process of its own, by whoever calls this: a night of one job that
takes hours, or hangs, keeps no other waiting.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from ..model import Trigger
from .visit import Visit

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ..events import RunReport
    from .application import Application


def knock(app: Application, *, dry_run: bool = False) -> Iterator[tuple[str, RunReport | None]]:
    """Each job by name, with what a trigger of it reports where it finds nothing to do, or None.

    Writes nothing. Raises errors of the store, before the first is given.
    """
    with closing(app.open_store()) as store:
        found = []
        for name, job in sorted(app.config.jobs.items()):
            visit = Visit(
                app=app,
                job=job,
                store=store,
                facts=store.facts(),
                trigger=Trigger.SCHEDULE,
                dry_run=dry_run,
            )
            found.append((name, visit.idle()))
    yield from found


def tell(app: Application, idle: Collection[str]) -> None:
    """Judge the jobs that had nothing to do, once those that had are over: each of these has
    told of itself."""
    if app.notifier is None:
        return
    from .alerting import after_none

    with closing(app.open_store()) as store:
        after_none(app, store, [app.job(name) for name in idle])
