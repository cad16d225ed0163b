"""Raising a target's fence under a grant: before a run is opened, and to stop one by force.

A fence row that is not lower than the grant means either that this holder was fenced out,
which the store knows, or that the store went back behind the target: then one atomic
regrant gets above the target's floor. A floor that keeps growing is another store at work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import FenceIsHigher, TargetLocked, TwoStores

if TYPE_CHECKING:
    from .leasing import LeaseKeeper
    from .model import FenceRow
    from .ports import Runtime, Work

FENCE_ROUNDS = 3
"""So often a grant is raised above a target's floor before two stores are suspected."""


def raise_fence(
    keeper: LeaseKeeper, work: Work, store_id: str, interval: str, runtime: Runtime
) -> FenceRow | None:
    """Make the target refuse every grant older than the keeper's; None: nothing to fence.

    Raises `FencedOut`, `TwoStores`, and what the target raises.
    """
    floors: list[FenceRow] = []
    while len(floors) < FENCE_ROUNDS:
        keeper.progressed()
        try:
            return work.raise_fence(keeper.fence, store_id)
        except FenceIsHigher as higher:
            floors.append(higher.row)
            keeper.regrant(interval, above=higher.row.generation)
        except TargetLocked:
            if not end_blocker(keeper, runtime):
                raise
    other = floors[-1]
    raise TwoStores(
        f"two stores write to the target of {keeper.fence.key.job}: this one is {store_id},"
        f" the other {other.store_id}, at generation {other.generation}",
        hint="let only one of them run this job; find the host that uses the other store",
    )


def end_blocker(keeper: LeaseKeeper, runtime: Runtime) -> bool:
    """End the expired holder that was stopped inside a transaction of the target; False
    where the lock is somebody else's, or the holder cannot be verified from here."""
    before = keeper.previous
    if before is None or before.released or not runtime.host.kill(before.holder):
        return False
    runtime.reached("blocker_ended")
    return True
