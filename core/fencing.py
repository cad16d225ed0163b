"""Raising a target's fence under a grant: before a run is opened, and to stop one by force.

A fence row that is not lower than the grant means either that this holder was fenced out,
which the store knows, or that the store went back behind the target: then one atomic
regrant gets above the target's floor. A floor that keeps growing is another store at work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import FenceIsHigher, TargetLocked, TwoStores
from .events import Warned
from .model import Holder, Kind
from .records import OPEN, RunRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .leasing import LeaseKeeper
    from .model import FenceRow
    from .ports import Runtime, Store, Work

FENCE_ROUNDS = 3
"""So often a grant is raised above a target's floor before two stores are suspected."""


def raise_fence(
    keeper: LeaseKeeper,
    work: Work,
    store: Store,
    store_id: str,
    interval: str,
    runtime: Runtime,
) -> FenceRow | None:
    """Make the target refuse every grant older than the keeper's; None: nothing to fence.

    Raises `FencedOut`, `TwoStores`, and what the target raises.
    """
    if not work.fenced:
        _end_leftovers(keeper, store, runtime)
    floors: list[FenceRow] = []
    while len(floors) < FENCE_ROUNDS:
        keeper.progressed()
        try:
            return work.raise_fence(keeper.fence, store_id)
        except FenceIsHigher as higher:
            floors.append(higher.row)
            keeper.regrant(interval, above=higher.row.generation)
        except TargetLocked as locked:
            if not end_blocker(keeper, store, runtime, locked):
                raise
    other = floors[-1]
    raise TwoStores(
        f"two stores write to the target of {keeper.fence.key.job}: this one is {store_id},"
        f" the other {other.store_id}, at generation {other.generation}",
        hint="let only one of them run this job; find the host that uses the other store",
    )


def end_blocker(keeper: LeaseKeeper, store: Store, runtime: Runtime, locked: TargetLocked) -> bool:
    """End an earlier holder that was stopped inside a transaction of the target; False where
    the lock is somebody else's, or none of them can be verified from here.

    Mostly it is the one before; if that one had released its lease, only where it is seen to
    have the lock, as when it was stopped while it closed the target. But it may have been
    killed while it waited for the same lock; whoever still has an open run then is another.
    """
    before = keeper.previous
    suspects = []
    if before is not None and (not before.released or before.holder.pid in locked.stopped):
        suspects.append(before.holder)
    suspects += _open_holders(store, keeper)
    for holder in suspects:
        if runtime.host.kill(holder):
            runtime.reached("blocker_ended")
            return True
    return False


def _end_leftovers(keeper: LeaseKeeper, store: Store, runtime: Runtime) -> None:
    """End and name what earlier holders have left of a command on this host.

    A supervisor ends all of its command. Where it was killed together with its holder, as by
    somebody who kills all that is called reconcile, nobody was left to do so, and what the command
    had started goes on until the lease has run out and beyond. Nothing refuses what that writes,
    so it must be gone before anything is begun. It is looked for by every run that is not closed
    and not by the grant before this one alone: whoever had that may have been killed before he came
    to this, or may only have taken the lease for an act by hand. On another host it cannot be seen;
    there a command's own care is needed (`RECONCILE_GENERATION`).
    """
    for holder, run in _open_runs(store, keeper):
        ended, survivors = runtime.host.end_leftovers(holder, run)
        for names, what in ((ended, "ended"), (survivors, "not to be ended, so it may go on")):
            if names:
                text = f"left behind by the run on {holder}, and {what}: {', '.join(names)}"
                # Urgent in any case: it may have written while nobody had the lease.
                runtime.report(Warned(keeper.fence.key.job, text, keeper.now(), urgent=True))


def _open_holders(store: Store, keeper: LeaseKeeper) -> Iterator[Holder]:
    return (holder for holder, _ in _open_runs(store, keeper))


def _open_runs(store: Store, keeper: LeaseKeeper) -> Iterator[tuple[Holder, str]]:
    """Whose run is not closed, under an older grant: their leases are all over."""
    for found in store.scan(Kind.RUN, keeper.fence.key.job, tag=OPEN):
        run = RunRecord.from_json(found.value)
        if run.generation < keeper.fence.generation and "boot_id" in run.holder:
            facts: dict[str, Any] = {name: run.holder.get(name) for name in Holder._fields}
            yield Holder(**facts), run.run_id


def read_floor(keeper: LeaseKeeper, work: Work, store: Store, runtime: Runtime) -> FenceRow | None:
    """The target's fence row, even where an expired holder was stopped in a commit, which keeps
    readers away."""
    try:
        return work.floor(keeper.fence.key)
    except TargetLocked as locked:
        if not end_blocker(keeper, store, runtime, locked):
            raise
    return work.floor(keeper.fence.key)
