"""What work gives to the engine, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .events import Report
    from .model import JsonObject, Write
    from .records import GuardReport


class Step(NamedTuple):
    """A checkpoint: make `cursor`, `writes` and what is shown of them durable as one.

    `show` holds fields of `IntervalRecord`: ranges done and total, changes by kind; its
    `committed` is the number of a range that this step put into the target. `report` is
    what a user sees. With `needs_approval` the run ends here. After one that `goes_on` the
    engine comes back in any case: something was begun that the work has to stop itself.
    """

    cursor: JsonObject
    writes: Sequence[Write]
    show: JsonObject
    report: Report | None = None
    needs_approval: GuardReport | None = None
    event: JsonObject | None = None
    goes_on: bool = False
