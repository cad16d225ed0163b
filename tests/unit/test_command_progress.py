from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.core.errors import ProgressUnusable
from reconcile.core.work.commands.progress import LONGEST_CURSOR, Standing, read_line

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)  # fmt: skip


@given(values)
def test_a_cursor_comes_back_as_the_value_it_was(value: Any) -> None:
    said = read_line(json.dumps({"cursor": value}).encode())
    text = said.given["cursor"]
    assert said.is_checkpoint
    assert text.isascii()
    assert json.loads(text or "null") == value


@pytest.mark.parametrize(
    "number", ["1.10", "1e400", "-0.0", "12345678901234567890.000000000000001"]
)
def test_a_number_of_a_cursor_is_written_again_as_it_was(number: str) -> None:
    line = f'{{"cursor": {{"at": [{number}]}}}}'
    assert read_line(line.encode()).given["cursor"] == f'{{"at":[{number}]}}'


@given(st.binary(max_size=60))
def test_any_bytes_are_understood_or_refused(line: bytes) -> None:
    with suppress(ProgressUnusable):
        assert read_line(line).given.keys() <= set(Standing._fields)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"cursor": }', "is no JSON"),
        ('{"cursor": NaN}', "is no JSON"),
        ("[1]", "is no JSON object"),
        ("17", "is no JSON object"),
        ('{"curser": 1}', "has a key 'curser'"),
        ('{"count": -1}', "has no whole number as count"),
        ('{"count": true}', "has no whole number as count"),
        ('{"count": "5"}', "has no whole number as count"),
        ('{"checksum": 5}', "has no text of 1 to 1000 letters as checksum"),
        ('{"checksum": ""}', "has no text of 1 to 1000 letters as checksum"),
        (
            '{"expected_checksum": "a\\u0000"}',
            "has no text of 1 to 1000 letters as expected_checksum",
        ),
        (f'{{"cursor": "{"x" * LONGEST_CURSOR}"}}', "has a cursor of more than 64 KiB"),
        ("[" * 100_000, "is no JSON"),
        (f'{{"cursor": {"[" * 900}{"]" * 900}}}', "has a cursor that is nested too deeply"),
    ],
)
def test_what_says_nothing_is_refused_and_its_beginning_quoted(line: str, says: str) -> None:
    with pytest.raises(ProgressUnusable) as refused:
        read_line(line.encode())
    assert says in str(refused.value)
    assert line[:10] in str(refused.value)
    assert len(str(refused.value)) < 300


def test_what_a_line_does_not_name_stays() -> None:
    stands = Standing(cursor="1", count=5, expected_count=9)
    stands = stands.after(read_line(b'{"count": 6, "progress": "half"}'))
    assert stands == Standing(cursor="1", count=6, expected_count=9)
    assert stands.after(read_line(b'{"cursor": null}')).cursor == ""


@given(
    st.builds(
        Standing,
        done=st.integers(0, 9),
        ranges=st.none() | st.integers(1, 9),
        cursor=st.text(max_size=3),
        count=st.none() | st.integers(0, 9),
        checksum=st.none() | st.text(max_size=3),
        total=st.none() | st.integers(0, 9),
    )
)
def test_how_far_it_is_survives_the_store(stands: Standing) -> None:
    assert Standing.from_json(json.loads(json.dumps(stands.to_json()))) == stands


@pytest.mark.parametrize(
    ("stands", "says"),
    [
        (Standing(), None),
        (Standing(count=3), None),
        (Standing(count=3, expected_count=3, checksum="a", expected_checksum="a"), None),
        (Standing(count=2, expected_count=3), "a count of 3 was expected, and 2 reported"),
        (Standing(expected_count=3), "a count of 3 was expected, and none was reported"),
        (Standing(expected_checksum="b", checksum="a"), "a checksum of b was expected, and a"),
    ],
)
def test_what_was_expected_must_be_so(stands: Standing, says: str | None) -> None:
    told = stands.disagreement()
    assert told is None if says is None else says in str(told)


def test_counts_of_ranges_are_added_up() -> None:
    stands = Standing(ranges=3, count=5, cursor="4").next_range()
    assert stands == Standing(done=1, ranges=3, total=5)
    assert stands._replace(count=2).next_range().total == 7
