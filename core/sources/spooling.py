"""From items in any order to a spool: sorted, each account settled, in pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .sorting import Sorter, grouped
from .spool import PAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..rows import Row, Schema
    from .rows import Rows
    from .spool import Draft


def sorter_for(draft: Draft, schema: Schema) -> Sorter:
    """What sorts a draft's items by account, in the schema's order."""
    return Sorter(draft.scratch, lambda item: schema.sort_value(item[0] or ""))


def fill(draft: Draft, sorter: Sorter, rows: Rows, schema: Schema) -> Iterator[None]:
    """Put all items of the sorter into the draft; comes back every now and then. Errors of the
    disk are `OSError`."""
    yield from sorter.reduce()
    page: list[Row] = []
    bad: dict[str, str] = {}
    size, first = 0, ""
    for account, items in grouped(sorter.sorted()):
        settled, why = rows.settled(account, items)
        if not page and not bad:
            first = account
        if why is not None:
            bad[account] = why
        page += settled
        size += sum(len(value) for row in settled for value in row if value) + len(why or "")
        if size >= PAGE:
            draft.add(page, bad, schema.sort_value(first))
            page, bad, size = [], {}, 0
            yield
    if page or bad:
        draft.add(page, bad, schema.sort_value(first))
