"""What is told of what a command has left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...events import Warned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...ports import WorkOrder
    from .supervision import Ended, Process


def tell_of_leftovers(order: WorkOrder, ended: Ended, log_fault: str | None) -> None:
    """What the end of a call has to be told of: processes, and where it was not as configured."""
    if ended.survivors:
        left = f"could not be ended, and may go on: {_names(ended.survivors)}"
        order.report(Warned(order.interval.job, left, order.now(), urgent=True))
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


def _names(processes: Sequence[Process]) -> str:
    return ", ".join(map(str, processes))
