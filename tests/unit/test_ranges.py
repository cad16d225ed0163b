"""Ranges tile the key space, whatever the pages are, and a resumed cut goes on alike."""

from __future__ import annotations

from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.core.errors import SourceUnusable
from reconcile.core.rows import Column, ColumnKind, Page, Schema
from reconcile.core.work.entitlements.ranges import SourceRange, cut, split

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


def pages_with_bad(rows: list[tuple[str, bool]], size: int, begin: int = 0) -> list[Page]:
    """Blocks of rows as a source reads them from row `begin` on; True is a row that is bad,
    by which its account is from there on."""
    pages, last = [], ("", False)
    for at in range(begin, len(rows), size):
        block = rows[at : at + size]
        bad = {name: "it is bad" for name, is_bad in block if is_bad}
        if last[1] and block[0][0] == last[0]:
            bad[last[0]] = "it is bad"
        good = [(name, f"e{n}") for n, (name, _) in enumerate(block, at) if name not in bad]
        pages.append(Page(good, at, bad))
        last = (block[-1][0], block[-1][0] in bad)
    return pages


@given(
    st.lists(st.tuples(st.text("abc", min_size=1, max_size=3), st.booleans()), max_size=12),
    st.integers(1, 5),
    st.integers(1, 3),
)
def test_bad_accounts_are_in_one_range_each_and_found_again_from_where_it_begins(
    drawn: list[tuple[str, bool]], page_size: int, size: int
) -> None:
    rows = sorted(drawn, key=lambda row: row[0])
    whole = list(cut(iter(pages_with_bad(rows, page_size)), size, TEXT))
    names = list(dict.fromkeys(name for name, _ in rows))
    assert [part.accounts for part in whole[:-1]] == [size] * (len(whole) - 1)
    assert sum(part.accounts for part in whole) == len(names)
    told = [(account, part.number) for part in whole for account in part.bad]
    assert [account for account, _ in told] == [n for n in names if (n, True) in rows]
    for begins, part in pairwise(whole):
        assert isinstance(begins.resume, int)
        rest = iter(pages_with_bad(rows, page_size, begins.resume))
        first = next(cut(rest, size, TEXT, after=begins.span.upper, number=part.number))
        assert (first.span, first.bad, first.accounts) == (part.span, part.bad, part.accounts)
        kept = [row for row in first.rows if row[0] not in first.bad]
        assert kept == [row for row in part.rows if row[0] not in part.bad]


@given(
    st.lists(st.tuples(st.text("abc", min_size=1, max_size=3), st.booleans()), max_size=12),
    st.text("abc", min_size=1, max_size=3),
)
def test_a_range_cut_in_two_keeps_each_account_on_its_side(
    drawn: list[tuple[str, bool]], upper: str
) -> None:
    (whole,) = cut(iter(pages_with_bad(sorted(drawn, key=lambda row: row[0]), 5)), 99, TEXT)
    low, high = split(whole, upper, "begins", TEXT)
    assert (low.span.lower, low.span.upper) == (None, upper) == (None, high.span.lower)
    assert (low.resume, high.resume, high.span.upper) == ("begins", whole.resume, None)
    assert low.rows + high.rows == whole.rows
    assert low.bad | high.bad == whole.bad
    assert all((row[0] or "") <= upper for row in low.rows)
    assert all((row[0] or "") > upper for row in high.rows)
    assert all(account <= upper for account in low.bad)
    assert all(account > upper for account in high.bad)
    assert low.accounts + high.accounts == whole.accounts


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
    assert [sorted(part.bad) for part in parts] == [["aa"], ["c"], ["e"]]
