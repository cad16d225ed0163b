"""What a command has left behind: told of, and after a takeover looked for.

A supervisor ends all of its command. Where it was killed together with its holder, as by somebody
who kills a whole process group by hand, nobody was left to do so, and what the command had started
goes on until its lease has run out and beyond. Who takes the lease over on the same host finds it
by what it has inherited, and ends it before anything of its own begins. On another host it cannot
be seen; there a command's own care is needed (`RECONCILE_GENERATION`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...events import Warned
from .supervision.orphans import end_orphans, orphans

if TYPE_CHECKING:
    from ...ports import WorkOrder
    from .supervision import Ended, Process


def end_what_was_left(order: WorkOrder) -> None:
    """End and name what lives of the run that this one takes over from, if it was here."""
    earlier = order.taken_over
    if earlier is None or earlier.released:
        return
    found = orphans(earlier.holder.token, earlier.fence.run)
    survivors = end_orphans(earlier.holder.token, earlier.fence.run)
    alive = {one.pid for one in survivors}
    _tell_survivors(order, survivors)
    ended = [one for one in found if one.pid not in alive]
    if ended:
        text = f"left behind by the run on {earlier.holder}, and ended: {_names(ended)}"
        # It may have written while nobody had the lease.
        order.report(Warned(order.interval.job, text, order.now(), urgent=True))


def tell_of_leftovers(order: WorkOrder, ended: Ended, log_fault: str | None) -> None:
    """What the end of a call has to be told of: processes, and where it was not as configured."""
    _tell_survivors(order, ended.survivors)
    texts = []
    if ended.leftovers:
        texts.append(f"left behind by the command, and ended: {_names(ended.leftovers)}")
    if ended.shortened is not None:
        texts.append(
            f"kill_after did not fit into the lease: SIGKILL came {ended.shortened:.1f}s after"
            " SIGTERM"
        )
    if log_fault is not None:
        texts.append(log_fault)
    for text in texts:
        order.report(Warned(order.interval.job, text, order.now()))


def _tell_survivors(order: WorkOrder, survivors: tuple[Process, ...]) -> None:
    if survivors:
        left = f"could not be ended, and may go on: {_names(survivors)}"
        order.report(Warned(order.interval.job, left, order.now(), urgent=True))


def _names(processes: list[Process] | tuple[Process, ...]) -> str:
    return ", ".join(map(str, processes))
