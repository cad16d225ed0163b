"""A SQLite table in which each interval has rows of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.target import EVERYTHING, Bed, commit, fence, grant, proof, revoke, update

from reconcile.core.errors import ChangedMeanwhile, TargetUnusable
from reconcile.core.keys import KeyPolicy
from reconcile.core.model import LeaseKey, PlanId
from reconcile.core.targets.sqlite import SqliteTarget

FIRST = """CREATE TABLE entitlements (
  as_of TEXT NOT NULL, account_id TEXT NOT NULL, entitlement TEXT NOT NULL, level TEXT,
  PRIMARY KEY (as_of, account_id, entitlement))"""
LAST = """CREATE TABLE entitlements (
  account_id TEXT NOT NULL, entitlement TEXT NOT NULL, level TEXT, "as of" DATE,
  UNIQUE (account_id, entitlement, "as of"))"""
KEY = ("account_id", "entitlement")
OLD, NEW = "2026-11-29", "2026-11-30"


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    made = Bed(tmp_path, FIRST)
    made.insert((OLD, "a", "x", "1"), (OLD, "b", "x", "1"), (NEW, "a", "x", "7"))
    yield made
    made.close()


def working(bed: Bed, day: int, generation: int = 1, **options: object) -> SqliteTarget:
    options = {"interval_column": "as_of", **options}
    target = bed.fenced(generation, **options)
    target.work_on(proof(day).interval)
    return target


def test_the_column_is_neither_compared_nor_part_of_the_key(bed: Bed) -> None:
    schema = working(bed, 30).schema()
    assert [column.name for column in schema.columns] == ["account_id", "entitlement", "level"]
    assert list(schema.key) == [0, 1]


def test_only_the_rows_of_the_interval_are_seen(bed: Bed) -> None:
    assert working(bed, 30).lines(EVERYTHING) == [b"1:a,1:x,1:7,"]
    assert len(working(bed, 29, 2).lines(EVERYTHING)) == 2
    assert working(bed, 28, 3).lines(EVERYTHING) == []


def test_before_an_interval_is_named_no_rows_are(bed: Bed) -> None:
    assert bed.fenced(1, interval_column="as_of").lines(EVERYTHING) == []


def test_only_the_rows_of_the_interval_are_changed(bed: Bed) -> None:
    target = working(bed, 29)
    changes = [
        update(("a", "x", "1"), ("a", "x", "2")),
        revoke("b", "x", "1"),
        grant("c", "x", None),
    ]
    commit(target, changes, [("a", "x", "2"), ("c", "x", None)])
    assert bed.rows() == [(OLD, "a", "x", "2"), (OLD, "c", "x", None), (NEW, "a", "x", "7")]
    assert [row[0] for row in bed.log()] == ["update", "revoke", "grant"]


def test_a_row_of_another_interval_is_no_before_image(bed: Bed) -> None:
    with pytest.raises(ChangedMeanwhile):
        commit(working(bed, 30), [revoke("b", "x", "1")], [("a", "x", "7")])
    assert bed.count("entitlements") == 3


def test_a_row_that_is_there_already_was_granted_meanwhile_and_not_out_of_scope(bed: Bed) -> None:
    with pytest.raises(ChangedMeanwhile):
        commit(working(bed, 30), [grant("a", "x", "1")], [("a", "x", "1")])


def test_the_same_key_is_granted_in_each_interval(bed: Bed) -> None:
    commit(working(bed, 28), [grant("a", "x", "1")], [("a", "x", "1")])
    assert bed.rows()[0] == ("2026-11-28", "a", "x", "1")


def test_a_scope_counts_beside_the_interval(bed: Bed) -> None:
    target = working(bed, 29, scope="account_id = 'b' -- ours")
    assert target.lines(EVERYTHING) == [b"1:b,1:x,1:1,"]
    commit(target, [revoke("b", "x", "1")], [])
    assert bed.count("entitlements") == 2


def test_the_key_may_end_with_the_column_and_need_not_be_the_primary_one(tmp_path: Path) -> None:
    bed = Bed(tmp_path, LAST)
    target = working(bed, 30, interval_column="as of", key=KEY)
    commit(target, [grant("a", "x", "1")], [("a", "x", "1")])
    assert bed.rows() == [("a", "x", "1", NEW)]
    bed.close()


def test_a_key_policy_knows_the_accounts_of_the_interval_alone(bed: Bed) -> None:
    bed.insert((NEW, "A", "y", "1"))
    policy = KeyPolicy.CASEFOLD
    assert working(bed, 30, key_policy=policy).collisions(EVERYTHING).keys() == {"a"}
    assert working(bed, 29, 2, key_policy=policy).collisions(EVERYTHING) == {}


@pytest.mark.parametrize(
    ("ddl", "options", "says"),
    [
        (LAST, {"interval_column": "no", "key": KEY}, "has no column no"),
        (LAST, {"interval_column": "level", "key": KEY}, "no unique index on exactly its key"),
        (FIRST, {"key": ("as_of", *KEY), "account": "account_id"}, "compared too"),
        (FIRST, {"columns": ("as_of", "entitlement")}, "compared too"),
    ],
)
def test_a_table_that_cannot_serve_is_refused(
    tmp_path: Path, ddl: str, options: dict[str, object], says: str
) -> None:
    bed = Bed(tmp_path, ddl)
    target = bed.target(**{"interval_column": "as_of", **options})
    with pytest.raises(TargetUnusable, match=says):
        target.schema()
    bed.close()


def test_an_older_interval_completes_and_the_newest_stays_the_newest(bed: Bed) -> None:
    working(bed, 30).complete(fence(1), proof(30))
    target = working(bed, 29, 2)
    target.complete(fence(2), proof(29, 1))
    row = target.floor(LeaseKey("job"))
    assert row is not None
    assert row.newest is not None
    assert (row.newest.interval, row.newest.rerun) == (NEW, 0)
    working(bed, 30, 3).complete(fence(3), proof(30, 1))
    row = target.floor(LeaseKey("job"))
    assert row is not None
    assert row.newest is not None
    assert (row.newest.interval, row.newest.rerun) == (NEW, 1)


def test_markers_of_an_interval_that_is_still_worked_outlive_anothers_completion(bed: Bed) -> None:
    target = working(bed, 29)
    commit(target, [revoke("b", "x", "1")], [("a", "x", "1")], plan="p29", interval=OLD)
    working(bed, 30, 2).complete(fence(2), proof(30))
    assert target.marker(PlanId("p29"), 1) is not None
    bed.do("UPDATE reconcile_ranges SET time = '2026-01-01T00:00:00.000000Z'")
    working(bed, 30, 3).complete(fence(3), proof(30))
    assert target.marker(PlanId("p29"), 1) is None
