"""Where rows and values are in a JSON answer; what is not there is an error."""

from __future__ import annotations

from typing import Any

import pytest

from reconcile.core.json_paths import (
    Missing,
    PathError,
    parse_rows,
    parse_value,
    rows_of,
    value_at,
)

USERS = {"users": [{"id": "u1", "has": [{"n": "a"}, {"n": "b"}]}, {"id": "u2", "has": []}]}


@pytest.mark.parametrize(
    ("path", "answer", "count", "items"),
    [
        ("", [1, 2], 2, 2),
        ("data", {"data": [1]}, 1, 1),
        ("data[]", {"data": [1]}, 1, 1),
        ("d.e", {"d": {"e": []}}, 0, 0),
        ('"d.e"', {"d.e": [1]}, 1, 1),
        ("users[].has", USERS, 2, 2),
        ("[].has", USERS["users"], 2, 2),
        ("[][]", [[1, 2], [3]], 3, 2),
    ],
)
def test_rows_are_those_of_the_innermost_array_and_items_those_of_the_outermost(
    path: str, answer: Any, count: int, items: int
) -> None:
    rows, outer = rows_of(answer, parse_rows(path))
    assert (len(rows), len(outer)) == (count, items)


@pytest.mark.parametrize(
    ("path", "value"),
    [("n", "a"), ("^id", "u1"), (".", {"n": "a"}), ("^has", [{"n": "a"}, {"n": "b"}])],
)
def test_a_value_is_had_from_the_row_or_from_what_it_is_part_of(path: str, value: Any) -> None:
    rows, _ = rows_of(USERS, parse_rows("users[].has"))
    assert value_at(rows[0], parse_value(path)) == value


@pytest.mark.parametrize("path", ["m", "n.m", "^^id", "^ID"])
def test_what_is_not_there_is_missing_and_not_nothing(path: str) -> None:
    rows, _ = rows_of(USERS, parse_rows("users[].has"))
    with pytest.raises(Missing):
        value_at(rows[0], parse_value(path))


@pytest.mark.parametrize("answer", [{}, {"data": None}, {"data": {}}, {"data": "x"}, [], None])
def test_an_answer_without_the_array_is_no_empty_listing(answer: Any) -> None:
    with pytest.raises(Missing):
        rows_of(answer, parse_rows("data"))


@pytest.mark.parametrize("text", ["a..b", ".a", "a.", "a b.", '"a', "a[0]", "a[", "^", "a^b"])
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(PathError):
        parse_value(text)
