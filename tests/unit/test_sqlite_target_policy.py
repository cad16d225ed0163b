"""A SQLite table under a key policy: which rows are whose, and in which spelling they change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from support.target import EVERYTHING, TABLE, Bed, commit, grant, revoke, update

from reconcile.core.checksum import checksum, decode
from reconcile.core.errors import ChangedMeanwhile, TargetUnreachable, TargetUnusable
from reconcile.core.keys import KeyPolicy, listed
from reconcile.core.rows import KeySpan, Row
from reconcile.core.targets.sqlite import SqliteTarget
from reconcile.core.targets.sqlite_accounts import SpelledAccounts
from reconcile.core.targets.sqlite_database import Database

MakeBed = Callable[..., Bed]

CASEFOLD, TRIM = KeyPolicy.CASEFOLD, KeyPolicy.TRIM
NOCASE = TABLE.replace("account_id TEXT NOT NULL", "account_id TEXT COLLATE NOCASE NOT NULL")
BEHIND = TABLE.replace("(account_id, entitlement)", "(entitlement, account_id)")


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MakeBed]:
    beds: list[Bed] = []

    def bed(ddl: str = TABLE, *, wal: bool = False) -> Bed:
        beds.append(Bed(tmp_path, ddl, wal=wal))
        return beds[-1]

    yield bed
    for made in beds:
        made.close()


def fenced(bed: Bed, policy: KeyPolicy = CASEFOLD, **options: Any) -> SqliteTarget:
    return bed.fenced(key_policy=policy, account="account_id", **options)


def reading(bed: Bed, **options: Any) -> SqliteTarget:
    return bed.target(key_policy=CASEFOLD, account="account_id", **options)


def rows_of(target: SqliteTarget, span: KeySpan = EVERYTHING) -> list[Row]:
    return [decode(line) for line in target.lines(span)]


def collided(target: SqliteTarget, span: KeySpan = EVERYTHING) -> dict[str, str]:
    return dict(target.collisions(span))


# --- what is read


@pytest.mark.parametrize("ddl", [TABLE, NOCASE, BEHIND, TABLE.replace("TEXT NOT", "UUID NOT", 1)])
def test_rows_come_with_the_normalised_account_in_its_order(make: MakeBed, ddl: str) -> None:
    bed = make(ddl)
    bed.insert(
        ("B", "x", "1"), ("a", "x", "1"), ("C", "y", None), ("B", "y", "2"), ("\u00c9", "x", "")
    )
    target = reading(bed)
    assert rows_of(target) == [
        ("a", "x", "1"),
        ("b", "x", "1"),
        ("b", "y", "2"),
        ("c", "y", None),
        ("\u00e9", "x", ""),
    ]
    assert {row[0] for row in rows_of(target, KeySpan("a", "b"))} == {"b"}
    assert {row[0] for row in rows_of(target, KeySpan("b", None))} == {"c", "\u00e9"}
    assert rows_of(target, KeySpan(None, "A")) == []


@pytest.mark.parametrize("ddl", [TABLE, NOCASE, BEHIND])
def test_two_spellings_of_one_account_are_named_and_no_others(make: MakeBed, ddl: str) -> None:
    bed = make(ddl)
    bed.insert(("Ann", "x", "1"), ("ann", "y", "1"), ("BOB", "x", "1"), ("eve", "x", "1"))
    target = reading(bed)
    assert collided(target) == {"ann": "the target spells it 'Ann' and 'ann'"}
    assert [row[:2] for row in rows_of(target, KeySpan(None, "ann"))] == [
        ("ann", "x"),
        ("ann", "y"),
    ]
    assert collided(target, KeySpan("ann", None)) == {}
    bed.other.execute("DELETE FROM entitlements WHERE entitlement = 'x'")
    assert collided(target) == {}


def test_a_spelling_outside_the_scope_is_not_ours(make: MakeBed) -> None:
    bed = make()
    bed.insert(("Ann", "x", "theirs"), ("ann", "y", "1"))
    target = reading(bed, scope="level <> 'theirs'")
    assert rows_of(target) == [("ann", "y", "1")]
    assert collided(target) == {}


@pytest.mark.parametrize(
    "scope",
    [
        "level <> '9' -- and nothing else",
        "rowid > 0",
        "entitlements.level <> '9'",
        "account_id IN (SELECT account_id FROM entitlements WHERE level <> '9')",
    ],
)
def test_a_scope_sees_the_table_and_nothing_of_ours(make: MakeBed, scope: str) -> None:
    bed = make()
    bed.insert(("ANN", "x", "1"), ("ann", "y", "1"))
    target = reading(bed, scope=scope)
    assert rows_of(target) == [("ann", "x", "1"), ("ann", "y", "1")]
    assert set(collided(target)) == {"ann"}


def test_an_account_that_is_no_utf_8_or_has_a_nul_keeps_its_bytes(make: MakeBed) -> None:
    bed = make()
    bed.other.execute("INSERT INTO entitlements VALUES (CAST(x'41ff' AS TEXT), 'x', '1')")
    bed.other.execute("INSERT INTO entitlements VALUES (CAST(x'41004200' AS TEXT), 'x', '1')")
    target = fenced(bed)
    wanted: list[Row] = [("a\x00b\x00", "x", "1"), ("a\udcff", "x", "1")]
    assert rows_of(target) == wanted
    commit(
        target, [update(row, (*row[:2], "2")) for row in wanted], [(*r[:2], "2") for r in wanted]
    )
    kept = bed.other.execute(
        "SELECT hex(account_id), level FROM entitlements ORDER BY 1"
    ).fetchall()
    assert kept == [("41004200", "2"), ("41FF", "2")]


@pytest.mark.parametrize("value", ["NULL", "x'616e6e'"])
def test_an_account_that_is_no_text_is_refused(make: MakeBed, value: str) -> None:
    bed = make(TABLE.replace("account_id TEXT NOT NULL", "account_id TEXT"))
    bed.other.execute(f"INSERT INTO entitlements VALUES ({value}, 'x', '1')")
    target = reading(bed)
    with pytest.raises(TargetUnusable, match=f"whose account account_id is (?i:{value})"):
        target.lines(EVERYTHING)


# --- what is written


def test_rows_change_under_their_own_spelling(make: MakeBed) -> None:
    bed = make()
    bed.insert(("Ann", "x", "1"), ("Ann", "y", "1"), ("bob", "x", "1"), ("EVE", "x", "1"))
    target = fenced(bed)
    changes = [
        update(("ann", "x", "1"), ("ann", "x", "2")),
        revoke("ann", "y", "1"),
        grant("ann", "z", None),
        grant("bob", "y", "1"),
        revoke("eve", "x", "1"),
        grant("eve", "new", "1"),
        grant("zoe", "x", "1"),
    ]
    holds: list[Row] = [
        ("ann", "x", "2"),
        ("ann", "z", None),
        ("bob", "x", "1"),
        ("bob", "y", "1"),
        ("eve", "new", "1"),
        ("zoe", "x", "1"),
    ]
    done = commit(target, changes, holds)
    assert done.checksum == checksum(target.lines(EVERYTHING))
    assert bed.rows() == [
        ("Ann", "x", "2"),
        ("Ann", "z", None),
        ("EVE", "new", "1"),
        ("bob", "x", "1"),
        ("bob", "y", "1"),
        ("zoe", "x", "1"),
    ]


def test_the_log_has_the_spelling_and_is_found_by_any(make: MakeBed) -> None:
    bed = make()
    bed.insert(("Ann", "x", "1"))
    target = fenced(bed)
    commit(target, [revoke("ann", "x", "1")], [])
    assert bed.log() == [
        (
            "revoke",
            "ann",
            '["Ann","x"]',
            '{"account_id":"Ann","entitlement":"x","level":"1"}',
            None,
        )
    ]
    for asked in ("ann", "Ann", "ANN"):
        assert [change for _, change in target.changes(account=asked)] == [revoke("Ann", "x", "1")]
    assert list(target.changes(account="bob")) == []


def test_what_was_logged_before_the_policy_is_found_by_its_spelling(make: MakeBed) -> None:
    bed = make()
    exact = bed.fenced()
    commit(exact, [grant("Ann", "x", "1")], [("Ann", "x", "1")])
    found = [change for _, change in fenced(bed, generation=2).changes(account="Ann")]
    assert found == [grant("Ann", "x", "1")]


def test_the_spelling_granted_in_one_range_is_that_of_the_next(make: MakeBed) -> None:
    bed = make()
    target = fenced(bed)
    commit(target, [grant("ann", "x", "1")], [("ann", "x", "1")])
    assert rows_of(target) == [("ann", "x", "1")]
    commit(target, [grant("ann", "y", "1")], [("ann", "x", "1"), ("ann", "y", "1")], number=2)
    assert bed.rows() == [("ann", "x", "1"), ("ann", "y", "1")]


def test_a_failed_commit_takes_back_what_it_learned(make: MakeBed) -> None:
    bed = make(TABLE.replace("level TEXT", "level TEXT CHECK (level <> 'no')"))
    target = fenced(bed)
    with pytest.raises(TargetUnusable):
        commit(target, [grant("ann", "x", "1"), grant("bob", "x", "no")], [])
    with pytest.raises(ChangedMeanwhile):
        commit(target, [grant("ann", "x", "1")], [])
    assert rows_of(target) == []
    bed.insert(("ANN", "x", "1"))
    assert rows_of(target) == [("ann", "x", "1")]
    assert collided(target) == {}


IN_THE_CHANGES, IN_THE_TABLE = False, True


@pytest.mark.parametrize(
    ("index", "one", "other", "policy", "where"),
    [
        ("lower(account_id), entitlement", "Google", "google", "casefold", IN_THE_CHANGES),
        ("lower(account_id), entitlement", "Google", "google", "casefold", IN_THE_TABLE),
        ("account_id COLLATE NOCASE, level", "Google", "google", "casefold", IN_THE_TABLE),
        ("trim(account_id), entitlement", " google", "google ", "trim", IN_THE_CHANGES),
        ("account_id COLLATE RTRIM) WHERE (level = '1'", "g", "g ", "trim", IN_THE_TABLE),
        ("instr(account_id, 'caf')", "caf\u00e9", "cafe\u0301", "nfc", IN_THE_CHANGES),
    ],
)
def test_two_accounts_that_some_index_takes_for_one_are_both_named(
    make: MakeBed, index: str, one: str, other: str, policy: str, where: bool
) -> None:
    bed = make(f"{TABLE}; CREATE UNIQUE INDEX loose ON entitlements ({index})")
    target = bed.fenced()
    rows: list[Row] = [(one, "x", "1"), (other, "x", "1")]
    if where == IN_THE_TABLE:
        bed.insert(rows[0])
    before = bed.rows()
    new = rows[1:] if where == IN_THE_TABLE else rows
    with pytest.raises(TargetUnusable, match="UNIQUE constraint failed") as caught:
        commit(target, [grant(*row) for row in new], rows)
    assert f"takes accounts {listed([other, one])} for one" in str(caught.value)
    assert f'key_policy = "{policy}"' in caught.value.hint
    assert bed.rows() == before


def test_a_conflict_of_accounts_that_are_nothing_alike_is_told_as_sqlite_does(
    make: MakeBed,
) -> None:
    target = make(f"{TABLE}; CREATE UNIQUE INDEX loose ON entitlements (level)").fenced()
    with pytest.raises(TargetUnusable, match="UNIQUE constraint failed") as caught:
        commit(target, [grant("ann", "x", "1"), grant("bob", "x", "1")], [])
    assert "for one" not in str(caught.value)


# --- others who write meanwhile


@pytest.fixture(params=["seen", "unseen"])
def spelling(request: pytest.FixtureRequest) -> str:
    """Of `ann`, as somebody else writes it: one that we have met, or have not."""
    return "ANN" if request.param == "seen" else "aNN"


@pytest.fixture(params=[False, True], ids=["journal", "wal"])
def shared(make: MakeBed, request: pytest.FixtureRequest) -> tuple[Bed, SqliteTarget]:
    """A target that has read a table with `Ann` in it, and has met `ANN` there."""
    bed = make(wal=request.param)
    bed.insert(("Ann", "x", "1"), ("ANN", "gone", "1"))
    target = fenced(bed)
    assert set(collided(target)) == {"ann"}
    bed.other.execute("DELETE FROM entitlements WHERE account_id = 'ANN'")
    assert collided(target) == {}
    return bed, target


def test_an_account_that_fell_apart_since_is_not_changed(
    shared: tuple[Bed, SqliteTarget], spelling: str
) -> None:
    bed, target = shared
    bed.insert((spelling, "y", "1"))
    before = bed.rows()
    with pytest.raises(ChangedMeanwhile) as caught:
        commit(target, [update(("ann", "x", "1"), ("ann", "x", "2"))], [("ann", "x", "2")])
    assert list(caught.value.accounts) == ["ann"]
    assert bed.rows() == before
    assert set(collided(target)) == {"ann"}


def test_a_row_that_came_under_another_spelling_is_read_again(
    shared: tuple[Bed, SqliteTarget], spelling: str
) -> None:
    """The commit changes another account, and sums up this one too."""
    bed, target = shared
    bed.insert((spelling, "y", "1"))
    with pytest.raises(ChangedMeanwhile) as caught:
        commit(target, [grant("bob", "x", "1")], [("ann", "x", "1"), ("bob", "x", "1")])
    assert list(caught.value.accounts) == []
    holds: list[Row] = [("ann", "x", "1"), ("ann", "y", "1"), ("bob", "x", "1")]
    commit(target, [grant("bob", "x", "1")], holds)


def test_who_writes_last_before_the_lock_is_read_too(
    shared: tuple[Bed, SqliteTarget], spelling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed, target = shared
    writing = Database.writing

    def late(self: Database, wait: float) -> AbstractContextManager[None]:
        bed.insert((spelling, "y", "1"))
        return writing(self, wait)

    monkeypatch.setattr(Database, "writing", late)
    with pytest.raises(ChangedMeanwhile) as caught:
        commit(target, [update(("ann", "x", "1"), ("ann", "x", "2"))], [("ann", "x", "2")])
    assert list(caught.value.accounts) == ["ann"]


def test_a_row_that_reads_alike_under_another_spelling_counts_twice(
    shared: tuple[Bed, SqliteTarget],
) -> None:
    bed, target = shared
    bed.insert(("aNN", "x", "1"))
    holds: list[Row] = [("ann", "x", "1"), ("ann", "x", "1"), ("bob", "x", "1")]
    with pytest.raises(ChangedMeanwhile):
        commit(target, [grant("bob", "x", "1")], holds[1:])
    commit(target, [grant("bob", "x", "1")], holds)


def test_a_renamed_account_is_changed_under_its_new_spelling(
    shared: tuple[Bed, SqliteTarget], spelling: str
) -> None:
    bed, target = shared
    bed.other.execute("UPDATE entitlements SET account_id = ?", (spelling,))
    commit(target, [update(("ann", "x", "1"), ("ann", "x", "2"))], [("ann", "x", "2")])
    assert bed.rows() == [(spelling, "x", "2")]


def test_a_row_changed_meanwhile_names_the_normalised_account(
    shared: tuple[Bed, SqliteTarget],
) -> None:
    bed, target = shared
    bed.other.execute("UPDATE entitlements SET level = '9'")
    with pytest.raises(ChangedMeanwhile) as caught:
        commit(target, [revoke("ann", "x", "1")], [])
    assert list(caught.value.accounts) == ["ann"]
    assert bed.rows() == [("Ann", "x", "9")]


def test_what_a_trigger_writes_under_a_new_spelling_is_seen(make: MakeBed) -> None:
    bed = make(
        TABLE + "; CREATE TRIGGER twice AFTER INSERT ON entitlements WHEN new.entitlement = 'x'"
        " BEGIN INSERT INTO entitlements VALUES ('ALIAS-' || new.account_id, 'y', '1'); END"
    )
    target = fenced(bed)
    with pytest.raises(TargetUnusable, match="'alias-ann'"):
        commit(target, [grant("ann", "x", "1")], [("ann", "x", "1")])
    assert bed.rows() == []


@pytest.mark.parametrize("wal", [False, True])
def test_accounts_are_read_again_only_where_somebody_else_wrote(
    make: MakeBed, wal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    read = SpelledAccounts._read

    def counted(self: SpelledAccounts, table: Any) -> None:
        reads.append(table.name)
        bed.other.execute("BEGIN IMMEDIATE")  # nobody is locked out meanwhile
        bed.other.execute("ROLLBACK")
        read(self, table)

    monkeypatch.setattr(SpelledAccounts, "_read", counted)
    bed = make(wal=wal)
    bed.insert(("Ann", "x", "1"))
    target = fenced(bed)
    for number in range(1, 4):
        target.lines(EVERYTHING)
        target.collisions(KeySpan("a", "b"))
        before, after = str(number), str(number + 1)
        commit(
            target,
            [update(("ann", "x", before), ("ann", "x", after))],
            [("ann", "x", after)],
            number=number,
        )
    assert len(reads) == 1
    bed.insert(("bob", "x", "1"))
    target.lines(EVERYTHING)
    target.lines(EVERYTHING)
    assert len(reads) == 2
    bed.insert(("eve", "x", "1"))
    commit(target, [revoke("bob", "x", "1")], [("ann", "x", "4"), ("eve", "x", "1")], number=4)
    assert len(reads) == 3


@pytest.mark.parametrize("ddl", [TABLE, NOCASE, BEHIND])
def test_a_range_never_reads_the_whole_table_where_an_index_is(make: MakeBed, ddl: str) -> None:
    bed = make(ddl)
    target = reading(bed)
    target.lines(EVERYTHING)
    sql, bounds = target._accounts.select(target._current_table(), KeySpan("a", "b"))
    with target._database.reading(1.0):
        target._accounts.look(target._current_table())
        plan = [
            row[3].decode() for row in target._database.rows(f"EXPLAIN QUERY PLAN {sql}", bounds)
        ]
    assert [line.split()[0] for line in plan] == ["SEARCH", "SEARCH"]
    assert "reconcile_account>? AND reconcile_account<?" in plan[0]
    assert ("AUTOMATIC" in plan[1]) == (ddl == BEHIND)


def test_a_full_disk_of_temporary_files_is_named(make: MakeBed) -> None:
    bed = make()
    bed.other.execute(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)"
        " INSERT INTO entitlements SELECT 'Account-' || i, 'x', '1' FROM n"
    )
    target = reading(bed)
    with target._database.reading(1.0):
        target._database.execute("PRAGMA temp.max_page_count = 8")
    with pytest.raises(TargetUnreachable, match="full") as caught:
        target.lines(EVERYTHING)
    assert "temporary files: SQLITE_TMPDIR" in caught.value.hint


# --- what is refused


@pytest.mark.parametrize(
    ("ddl", "policy"), [(NOCASE, CASEFOLD), (NOCASE.replace("NOCASE", "RTRIM"), TRIM)]
)
def test_a_key_that_takes_no_more_for_one_than_the_policy_will_do(
    make: MakeBed, ddl: str, policy: KeyPolicy
) -> None:
    bed = make(ddl)
    bed.insert(("Ann ", "x", "1"))
    account = "ann " if policy is CASEFOLD else "Ann"
    commit(fenced(bed, policy), [grant(account, "y", "1")], [(account, e, "1") for e in "xy"])
    assert bed.rows() == [("Ann ", "x", "1"), ("Ann ", "y", "1")]


@pytest.mark.parametrize("policy", ["exact", "nfc", "trim"])
def test_a_key_that_ignores_case_is_refused_under_other_policies(
    make: MakeBed, policy: str
) -> None:
    with pytest.raises(TargetUnusable, match="compares account_id as NOCASE") as caught:
        make(NOCASE).target(key_policy=KeyPolicy(policy)).schema()
    assert 'key_policy = "casefold"' in caught.value.hint


@pytest.mark.parametrize(
    "ddl",
    [
        NOCASE.replace("entitlement TEXT", "entitlement TEXT COLLATE NOCASE"),
        TABLE + "; CREATE UNIQUE INDEX loose ON entitlements"
        " (account_id, entitlement COLLATE NOCASE)",
        TABLE
        + "; CREATE UNIQUE INDEX loose ON entitlements (account_id COLLATE RTRIM, entitlement)",
    ],
)
def test_every_unique_index_on_the_key_must_compare_as_we_do(make: MakeBed, ddl: str) -> None:
    with pytest.raises(TargetUnusable, match=r"compares .* as (NOCASE|RTRIM)"):
        make(ddl).target(key_policy=CASEFOLD).schema()


@pytest.mark.parametrize("kind", ["INTEGER", "REAL", "BOOLEAN", "DECIMAL(9,2)"])
def test_an_account_of_a_type_that_is_no_text_has_no_spellings(make: MakeBed, kind: str) -> None:
    ddl = TABLE.replace("account_id TEXT", f"account_id {kind}")
    assert make(ddl).target().schema().policy is KeyPolicy.EXACT
    with pytest.raises(
        TargetUnusable, match=r"account_id .* is .*, no text, and .*casefold"
    ) as caught:
        make(ddl.replace("TABLE ", "TABLE IF NOT EXISTS ")).target(key_policy=CASEFOLD).schema()
    assert "take key_policy out" in caught.value.hint


def test_under_exact_nothing_is_listed_and_both_forms_are_accounts(make: MakeBed) -> None:
    bed = make()
    bed.insert(
        ("caf\u00e9", "x", "1"), ("cafe\u0301", "x", "1"), ("Ann", "x", "1"), ("ann", "x", "1")
    )
    target = bed.fenced()
    assert sorted(str(row[0]) for row in rows_of(target)) == sorted(row[0] for row in bed.rows())
    assert collided(target) == {}
    assert target._database.rows("SELECT name FROM sqlite_temp_master") == []
