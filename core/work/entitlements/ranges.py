"""Cut a source's pages into account ranges that tile the key space.

A range is ``(lower, upper]`` over accounts: `range_size` source accounts, the first from
minus infinity, the last to plus infinity, so that accounts which only the target has fall
into one too. An account is never split, whatever the pages are. The cut needs one account
of look-ahead, to know whether a range is the last.

A bad account is an account like any other, though it has no rows: it counts, and it may open
a range or end one. So a range begins in the page in which its first account stands, good or
bad, and who reads again from there misses no reason to leave an account alone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from heapq import merge
from itertools import count, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ...errors import SourceUnusable
from ...rows import KeySpan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...model import Json
    from ...rows import Page, Row, Schema


@dataclass(slots=True)
class SourceRange:
    """One range as the source has it. `resume` is where its successor may be read from."""

    number: int
    span: KeySpan
    rows: list[Row]
    accounts: int
    resume: Json
    bad: dict[str, str] = field(default_factory=dict)


def cut(
    pages: Iterator[Page],
    size: int,
    schema: Schema,
    *,
    after: str | None = None,
    number: int = 1,
) -> Iterator[SourceRange]:
    """Yield ranges from the first account above `after` on; the first one gets `number`.

    Raises `SourceUnusable` when accounts go backwards.
    """
    lower = after
    skipping = after
    rows: list[Row] = []
    bad: dict[str, str] = {}
    last: str | None = None
    accounts = 0
    for page in pages:
        bad.update(page.bad)
        start = 0
        for at, own, account in _accounts(page, schema):
            if account == last:
                continue
            assert account is not None, "sources refuse accounts that are NULL"
            if skipping is not None and schema.sort_value(account) <= schema.sort_value(skipping):
                start = at + own
                continue
            skipping = None
            if last is not None and schema.sort_value(account) < schema.sort_value(last):
                raise _out_of_order(last, account)
            if accounts == size:
                rows += page.rows[start:at]
                span = KeySpan(lower, last)
                yield SourceRange(
                    number, span, rows, accounts, page.resume, _part(bad, span, schema)
                )
                lower, number, rows, accounts, start = last, number + 1, [], 0, at
            accounts += 1
            last = account
        if skipping is None:
            rows += page.rows[start:]
    span = KeySpan(lower, None)
    yield SourceRange(number, span, rows, accounts, None, _part(bad, span, schema))


def split(part: SourceRange, upper: str, resume: Json, schema: Schema) -> Iterator[SourceRange]:
    """One range as two, the first one up to `upper`. Who goes on after it reads the source
    again from `resume`, where the whole range begins."""
    value = schema.sort_value(upper)
    at = bisect_right(part.rows, value, key=lambda row: schema.sort_value(row[0] or ""))
    low = {a: why for a, why in part.bad.items() if schema.sort_value(a) <= value}
    high = {a: why for a, why in part.bad.items() if a not in low}
    spans = KeySpan(part.span.lower, upper), KeySpan(upper, part.span.upper)
    sides = (part.rows[:at], low, resume), (part.rows[at:], high, part.resume)
    for span, (rows, bad, again) in zip(spans, sides, strict=True):
        accounts = len({row[0] for row in rows} | bad.keys())
        yield SourceRange(part.number, span, rows, accounts, again, bad)


def _accounts(page: Page, schema: Schema) -> Iterable[tuple[int, int, str | None]]:
    """The accounts of a page in order: where among its rows, how many rows of its own (one
    at a time, none for one that is only bad), and which."""
    rows = zip(count(), repeat(1), map(itemgetter(0), page.rows))
    there = {row[0] for row in page.rows} if page.bad else set()
    without = sorted((schema.sort_value(a), a) for a in page.bad if a not in there)
    if not without:
        return rows

    def order(row: Row) -> Any:
        return schema.sort_value(row[0] or "")

    placed = [(bisect_left(page.rows, value, key=order), 0, a) for value, a in without]
    return merge(placed, rows, key=lambda mark: schema.sort_value(mark[2] or ""))


def _part(bad: dict[str, str], span: KeySpan, schema: Schema) -> dict[str, str]:
    """Take those accounts out of `bad` that lie in a span which has just ended."""
    part: dict[str, str] = {}
    for account in list(bad):
        value = schema.sort_value(account)
        if span.upper is not None and value > schema.sort_value(span.upper):
            continue
        reason = bad.pop(account)
        if span.lower is None or value > schema.sort_value(span.lower):
            part[account] = reason
    return part


def _out_of_order(last: str, account: str) -> SourceUnusable:
    return SourceUnusable(
        f"the source is not in order of accounts: {account!r} comes after {last!r}",
        hint="sort it by account in code point order (numbers by value)",
    )
