"""A comparison says exactly what makes the target equal to the source, and no more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconcile.core.checksum import checksum, encode
from reconcile.core.keys import KeyPolicy
from reconcile.core.rows import Action, Change, Column, ColumnKind, KeySpan, Row, Schema
from reconcile.core.work.entitlements.compare import compare, pack, set_apart, unpack

SCHEMA = Schema(
    (
        Column("account", ColumnKind.TEXT),
        Column("entitlement", ColumnKind.TEXT),
        Column("level", ColumnKind.TEXT),
    ),
    key=(0, 1),
)

values = st.one_of(st.none(), st.sampled_from(["", "NULL", "1", "\u00e9", "\x00"]))
keys = st.tuples(st.sampled_from("abcd"), st.sampled_from(["x", "y", "z"]))
tables = st.dictionaries(keys, values, max_size=12)


def rows_of(table: dict[tuple[str, str], str | None]) -> list[Row]:
    return [(account, name, level) for (account, name), level in sorted(table.items())]


def lines_of(rows: list[Row]) -> list[bytes]:
    return [encode(row) for row in rows]


def applied(rows: list[Row], changes: list[Change]) -> set[Row]:
    result = set(rows)
    for change in changes:
        if change.before is not None:
            result.remove(change.before)
        if change.after is not None:
            assert change.after not in result
            result.add(change.after)
    return result


@given(tables, tables)
def test_applying_the_changes_makes_both_sides_equal(
    source: dict[tuple[str, str], str | None], target: dict[tuple[str, str], str | None]
) -> None:
    wanted, found = rows_of(source), rows_of(target)
    difference = compare(wanted, lines_of(found), SCHEMA, {})
    assert applied(found, difference.changes) == set(wanted)
    assert difference.desired == checksum(lines_of(wanted))
    assert difference.observed == checksum(lines_of(found))
    grown = {key for key in source if key not in target}
    gone = {key for key in target if key not in source}
    moved = {key for key in source if key in target and source[key] != target[key]}
    assert difference.count(Action.GRANT) == len(grown)
    assert difference.count(Action.REVOKE) == len(gone)
    assert difference.count(Action.UPDATE) == len(moved)
    left = {account for account, _ in target} - {account for account, _ in source}
    assert difference.losing == left


@given(tables, tables)
def test_packed_changes_come_back_unchanged(
    source: dict[tuple[str, str], str | None], target: dict[tuple[str, str], str | None]
) -> None:
    changes = compare(rows_of(source), lines_of(rows_of(target)), SCHEMA, {}).changes
    assert unpack(pack(changes)) == changes


def test_the_order_of_rows_does_not_matter() -> None:
    rows: list[Row] = [("a", "x", "1"), ("a", "y", "2"), ("b", "x", None)]
    assert compare(rows[::-1], lines_of(rows), SCHEMA, {}).changes == []


def test_null_and_empty_and_the_text_null_differ() -> None:
    for before, after in ((None, ""), ("", "NULL"), ("NULL", None)):
        found = compare([("a", "x", after)], [encode(("a", "x", before))], SCHEMA, {})
        assert found.changes == [Change(("a", "x", before), ("a", "x", after))]


def test_an_equal_duplicate_is_one_row() -> None:
    rows: list[Row] = [("a", "x", "1"), ("a", "x", "1")]
    found = compare(rows, [], SCHEMA, {})
    assert found.changes == [Change(None, ("a", "x", "1"))]
    assert found.desired.count == 1


def test_contradicting_duplicates_quarantine_the_account_and_touch_nothing_of_it() -> None:
    rows: list[Row] = [("a", "x", "1"), ("a", "x", "2"), ("b", "x", "1")]
    target: list[Row] = [("a", "y", "9"), ("b", "y", "9")]
    found = compare(rows, lines_of(target), SCHEMA, {})
    assert set(found.quarantined) == {"a"}
    assert {change.row[0] for change in found.changes} == {"b"}
    assert found.left == checksum(lines_of([("a", "y", "9")]))
    assert found.losing == set()


def test_a_contradiction_is_seen_although_the_target_has_one_of_the_rows() -> None:
    rows: list[Row] = [("a", "x", "1"), ("a", "x", "2")]
    found = compare(rows, lines_of([("a", "x", "1")]), SCHEMA, {})
    assert set(found.quarantined) == {"a"}
    assert found.changes == []


def test_an_account_that_did_not_convert_is_left_as_it_is() -> None:
    target: list[Row] = [("a", "x", "1"), ("b", "x", "1")]
    found = compare([("b", "x", "2")], lines_of(target), SCHEMA, {"a": "no number"})
    assert [change.action for change in found.changes] == [Action.UPDATE]
    assert found.quarantined == {"a": "no number"}
    assert found.desired + found.left == checksum(lines_of([("a", "x", "1"), ("b", "x", "2")]))


def test_what_is_approved_does_not_depend_on_grants_nor_on_where_ranges_are_cut() -> None:
    target: list[Row] = [("a", "x", "1"), ("b", "x", "1"), ("c", "x", "1")]
    source: list[Row] = [("b", "x", "2"), ("c", "x", "1"), ("d", "x", "1")]
    whole = compare(source, lines_of(target), SCHEMA, {}).approvable()
    first = compare([], lines_of(target[:1]), SCHEMA, {}).approvable()
    rest = compare(source[:2], lines_of(target[1:]), SCHEMA, {}).approvable()
    assert whole == first + rest
    other = compare([], lines_of(target[:2]), SCHEMA, {}).approvable()
    assert whole != other


def test_rows_of_an_account_set_apart_count_as_often_as_they_are_there() -> None:
    """Under a key policy two spellings in the target may read alike."""
    rows: list[Row] = [("b", "x", "1")]
    observed = lines_of([("a", "x", "1"), ("a", "x", "1"), ("b", "x", "1")])
    difference = compare(rows, observed, SCHEMA, {"a": "spelled twice"})
    assert difference.changes == []
    assert difference.left == checksum(observed[:2])
    assert difference.desired + difference.left == difference.observed == checksum(observed)


def test_rows_that_read_alike_are_not_what_is_desired() -> None:
    """Somebody settled it after the rows were read: the range must not pass for equal."""
    observed = lines_of([("a", "x", "1"), ("a", "x", "1")])
    difference = compare([("a", "x", "1")], observed, SCHEMA, {})
    assert difference.desired == checksum(observed[:1])
    assert difference.observed == checksum(observed)


class Spelling:
    """A target that has one account under two spellings."""

    def __init__(self) -> None:
        self.asked: list[KeySpan] = []

    def collisions(self, span: KeySpan) -> dict[str, str]:
        self.asked.append(span)
        return {"ann": "the target spells it 'Ann' and 'ann'"}


def test_accounts_that_one_side_or_both_spell_in_two_ways_are_set_apart() -> None:
    target: Any = Spelling()
    schema = replace(SCHEMA, policy=KeyPolicy.CASEFOLD)
    span = KeySpan("a", "b")
    assert set_apart({"bob": "bad"}, target, span, schema) == {
        "bob": "bad",
        "ann": "the target spells it 'Ann' and 'ann'",
    }
    assert set_apart({"ann": "bad"}, target, span, schema) == {
        "ann": "bad; the target spells it 'Ann' and 'ann'"
    }
    assert target.asked == [span, span]


def test_under_exact_the_target_is_not_asked_for_spellings() -> None:
    target: Any = Spelling()
    bad = {"bob": "bad"}
    assert set_apart(bad, target, KeySpan(), SCHEMA) is bad
    assert target.asked == []
