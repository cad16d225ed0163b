"""What a trigger does under its lease before it believes in any record: see whether store, target
or clock went back, and write down what follows (`recovery`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ReconcileError, TargetLocked
from ..fencing import read_floor
from .recovery import disagreement, taken_back

if TYPE_CHECKING:
    from datetime import datetime

    from ..config import Job
    from ..leasing import LeaseKeeper
    from ..ports import Store
    from .application import Application
    from .look import Look


def compare(
    app: Application, store: Store, job: Job, keeper: LeaseKeeper, seen: Look, *, has_due: bool
) -> datetime | None:
    """The newest interval that the target has completed, None where it does not say.

    Raises `TargetLocked`, with the lease given back, where something is due: somebody else's
    lock says nothing of who is newer, and may be gone in a moment. Any other fault of the target
    is met again, and reported, by working the interval.
    """
    back = list(taken_back(job, seen))
    if back:
        keeper.commit(back)
    work = app.build_work(job)
    try:
        if not work.fenced:
            return None
        row = read_floor(keeper, work, store, app.runtime)
    except TargetLocked:
        if not has_due:
            return None
        keeper.release(None)
        raise
    except ReconcileError:
        return None
    finally:
        work.close()
    newest = row.newest if row is not None else None
    before = keeper.previous
    same = row is not None and before is not None and row.generation <= before.fence.generation
    writes = disagreement(store, job, seen, newest, knows_all=same)
    if writes:
        keeper.commit(writes)
        app.runtime.reached("recovered")
    if newest is None or newest.scheduled_at > seen.now:
        return None
    return newest.scheduled_at
