"""Ranges tile the key space, whatever the pages are, and a resumed cut goes on alike."""

from __future__ import annotations

from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.core.errors import SourceUnusable
from reconcile.core.rows import Column, ColumnKind, Page, Schema
from reconcile.core.work.entitlements.ranges import SourceRange, cut

TEXT = Schema((Column("account", ColumnKind.TEXT), Column("e", ColumnKind.TEXT)), key=(0, 1))
NUMBERS = Schema((Column("account", ColumnKind.INTEGER), Column("e", ColumnKind.TEXT)), key=(0, 1))


def pages_of(rows: list[tuple[str, str]], size: int) -> list[Page]:
    return [Page(list(rows[at : at + size]), resume=at) for at in range(0, len(rows), size)]


def rows_of(accounts: list[str], each: int) -> list[tuple[str, str]]:
    return [(account, f"e{n}") for account in accounts for n in range(each)]


accounts = st.lists(st.text("ab\u00e9\U0001f600", min_size=1), unique=True).map(sorted)


@given(accounts, st.integers(1, 3), st.integers(1, 7), st.integers(1, 4))
def test_ranges_tile_the_key_space_and_lose_no_row(
    names: list[str], each: int, page_size: int, size: int
) -> None:
    rows = rows_of(names, each)
    parts = list(cut(iter(pages_of(rows, page_size)), size, TEXT))
    assert [part.number for part in parts] == list(range(1, len(parts) + 1))
    assert parts[0].span.lower is None
    assert parts[-1].span.upper is None
    assert all(a.span.upper == b.span.lower for a, b in pairwise(parts))
    assert [row for part in parts for row in part.rows] == rows
    for part in parts:
        assert len({row[0] for row in part.rows}) == part.accounts <= size
        for row in part.rows:
            assert part.span.lower is None or row[0] > part.span.lower
            assert part.span.upper is None or row[0] <= part.span.upper


@given(accounts, st.integers(1, 3), st.integers(1, 7), st.integers(1, 4), st.data())
def test_a_cut_resumed_after_any_range_goes_on_as_if_never_interrupted(
    names: list[str], each: int, page_size: int, size: int, data: st.DataObject
) -> None:
    rows = rows_of(names, each)
    whole = list(cut(iter(pages_of(rows, page_size)), size, TEXT))
    stop = data.draw(st.integers(1, len(whole)))
    done = list(islice(cut(iter(pages_of(rows, page_size)), size, TEXT), stop))
    last = done[-1]
    if last.span.upper is None:
        return
    assert isinstance(last.resume, int)
    rest = [Page(list(rows[last.resume :]), resume=last.resume)]
    again = list(cut(iter(rest), size, TEXT, after=last.span.upper, number=last.number + 1))
    assert [(p.number, p.span, p.rows) for p in again] == [
        (p.number, p.span, p.rows) for p in whole[stop:]
    ]


def test_an_exact_multiple_makes_no_empty_last_range() -> None:
    parts = list(cut(iter(pages_of(rows_of(["a", "b", "c", "d"], 1), 10)), 2, TEXT))
    assert [(p.span.lower, p.span.upper) for p in parts] == [(None, "b"), ("b", None)]


def test_an_empty_source_is_one_range_over_everything() -> None:
    (only,) = cut(iter(()), 5, TEXT)
    assert (only.span.lower, only.span.upper, only.rows) == (None, None, [])


def test_integer_accounts_are_in_order_of_value() -> None:
    rows = rows_of(["2", "10", "11"], 1)
    parts: list[SourceRange] = list(cut(iter(pages_of(rows, 2)), 2, NUMBERS))
    assert [part.span.upper for part in parts] == ["10", None]
    with pytest.raises(SourceUnusable, match="'10' comes after '2'"):
        list(cut(iter(pages_of(rows_of(["2", "10"], 1), 5)), 2, TEXT))


def test_accounts_that_did_not_convert_go_with_the_range_they_lie_in() -> None:
    pages = [
        Page([("a", "x"), ("b", "x")], resume=0, bad={"aa": "no number"}),
        Page([("d", "x")], resume=1, bad={"c": "no number", "e": "no number"}),
    ]
    parts = list(cut(iter(pages), 2, TEXT))
    assert [sorted(part.bad) for part in parts] == [["aa"], ["c", "e"]]
