"""The checksum tells apart what differs and adds up, whatever the order."""

from __future__ import annotations

from hashlib import sha256
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.core.checksum import Checksum, checksum, decode, encode, encode_rows

# What a file or a database may hold: any text, and bytes that are none (surrogateescape).
TEXT = st.text() | st.binary(max_size=8).map(lambda b: b.decode("utf-8", "surrogateescape"))
ODD = st.sampled_from(["", "\0", "-", "NULL", "\U0001f4a9", "\udc80", "é", "x" * 300, "1:a,", ","])
VALUE = st.none() | TEXT | ODD
WIDTH = st.integers(1, 6)


@st.composite
def tables(draw: st.DrawFn) -> list[tuple[str | None, ...]]:
    width = draw(WIDTH)
    return draw(st.lists(st.tuples(*[VALUE] * width), max_size=40))


def by_hand(*lines: bytes) -> str:
    total = sum(int(sha256(line).hexdigest()[:32], 16) for line in lines) % 2**128
    return f"sha256-sum:{len(lines)}:{total:032x}"


def test_nothing_sums_up_to_nothing() -> None:
    assert str(checksum([])) == "sha256-sum:0:00000000000000000000000000000000"


@pytest.mark.parametrize(
    ("row", "line"),
    [
        (("a", "x", ""), b"1:a,1:x,0:,"),
        (("a", "x", None), b"1:a,1:x,-"),
        (("a", "x", "NULL"), b"1:a,1:x,4:NULL,"),
        (("é", "\U0001f600"), b"2:\xc3\xa9,4:\xf0\x9f\x98\x80,"),
        (("a\0b",), b"3:a\0b,"),
        (("\udcff",), b"1:\xff,"),
    ],
)
def test_a_line_is_written_as_documented(row: tuple[str | None, ...], line: bytes) -> None:
    assert encode(row) == line
    assert encode_rows([row]) == [line]
    assert decode(line) == row
    assert str(checksum([line])) == by_hand(line)


def test_golden_digits_stay_what_they_are() -> None:
    line = b"1:a,1:x,0:,"
    assert str(checksum([line])) == GOLDEN
    assert by_hand(line) == GOLDEN


GOLDEN = "sha256-sum:1:22fe2fd8177578edbafe8b47996d68bb"


def test_a_boundary_shift_is_a_difference() -> None:
    assert checksum([encode(("x0", "y"))]) != checksum([encode(("x", "0y"))])
    assert checksum([encode(("a", "", "b"))]) != checksum([encode(("a", "b", ""))])


def test_null_and_empty_and_the_text_null_differ() -> None:
    values: list[str | None] = [None, "", "NULL", "-", "0:,"]
    assert len({checksum([encode(("a", value))]) for value in values}) == len(values)


def test_a_row_that_is_there_twice_counts_twice() -> None:
    line = encode(("a", "x"))
    assert checksum([line, line]) != checksum([line])
    assert checksum([line, line]) != checksum([])
    assert checksum([line, line]).count == 2


@given(st.lists(st.binary(max_size=12)), st.randoms(), st.integers(0, 50))
def test_neither_order_nor_cuts_matter(lines: list[bytes], random: Random, cut: int) -> None:
    whole = checksum(lines)
    shuffled = lines.copy()
    random.shuffle(shuffled)
    parts = checksum(shuffled[:cut]) + checksum(shuffled[cut:])
    assert parts == whole
    assert str(whole) == by_hand(*lines)
    assert whole - checksum(shuffled[:cut]) == checksum(shuffled[cut:])


@given(st.integers(0, 10**12), st.integers(0, 2**128 - 1))
def test_a_checksum_reads_back(count: int, total: int) -> None:
    found = Checksum(count, total)
    assert Checksum.parse(str(found)) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sha256-sum:1:ff",
        "sha256-sum:01:" + "0" * 32,
        "sha256-sum:-1:" + "0" * 32,
        "sha256-sum:1:" + "F" * 32,
        "sha256-sum:1:" + "0" * 32 + "\n",
        "md5-sum:1:" + "0" * 32,
    ],
)
def test_what_is_no_checksum_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a reconciliation checksum"):
        Checksum.parse(text)


@given(tables())
def test_many_rows_are_encoded_as_one_by_one(rows: list[tuple[str | None, ...]]) -> None:
    assert encode_rows(rows) == [encode(row) for row in rows]


@given(tables())
def test_a_line_reads_back(rows: list[tuple[str | None, ...]]) -> None:
    assert [decode(encode(row)) for row in rows] == rows
