"""What a SQLite table may be, and what its rows are as canonical lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.target import EVERYTHING, Bed, commit, grant, revoke, update

from reconcile.core.canonical import canonical
from reconcile.core.checksum import checksum, decode, encode
from reconcile.core.errors import ChangedMeanwhile, TargetUnusable
from reconcile.core.rows import Column, ColumnKind, KeySpan, Row
from reconcile.core.targets.sqlite_lines import lines_of
from reconcile.core.targets.sqlite_table import kind_of

TEXT, INTEGER, FLOAT = ColumnKind.TEXT, ColumnKind.INTEGER, ColumnKind.FLOAT
DECIMAL, BOOLEAN = ColumnKind.DECIMAL, ColumnKind.BOOLEAN

MakeBed = Callable[[str], Bed]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MakeBed]:
    beds: list[Bed] = []

    def bed(ddl: str) -> Bed:
        beds.append(Bed(tmp_path, ddl))
        return beds[-1]

    yield bed
    for made in beds:
        made.close()


# --- the table


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ("TEXT", TEXT),
        ("varchar(20)", TEXT),
        ("CLOB", TEXT),
        ("", TEXT),
        ("BLOB", TEXT),
        ("DATE", TEXT),
        ("timestamp with time zone", TEXT),
        ("UUID", TEXT),
        ("INTEGER", INTEGER),
        ("bigint unsigned", INTEGER),
        ("CHARINT", INTEGER),
        ("BOOLEAN", BOOLEAN),
        ("bool", BOOLEAN),
        ("REAL", FLOAT),
        ("double precision", FLOAT),
        ("NUMERIC(10,2)", DECIMAL),
        ("DECIMAL", DECIMAL),
    ],
)
def test_the_kind_follows_the_declared_type(declared: str, kind: ColumnKind) -> None:
    assert kind_of(declared) is kind


def test_key_and_columns_come_from_the_table(make: MakeBed) -> None:
    bed = make(
        "CREATE TABLE entitlements (note TEXT, seats INT, ent TEXT NOT NULL, acct TEXT NOT NULL,"
        " twice INT AS (seats * 2), PRIMARY KEY (acct, ent)) WITHOUT ROWID"
    )
    schema = bed.target().schema()
    assert schema.columns == (
        Column("acct", TEXT, nullable=False),
        Column("note", TEXT),
        Column("seats", INTEGER),
        Column("ent", TEXT, nullable=False),
    )
    assert schema.key == (0, 3)


def test_the_configuration_picks_account_columns_and_key(make: MakeBed) -> None:
    bed = make(
        "CREATE TABLE entitlements (id INTEGER PRIMARY KEY, who TEXT, what TEXT, level TEXT);"
        "CREATE UNIQUE INDEX k ON entitlements (what, who)"
    )
    target = bed.target(key=("what", "WHO"), account="who", columns=("what", "level"))
    assert [column.name for column in target.schema().columns] == ["who", "what", "level"]
    assert target.schema().key == (1, 0)


def test_one_row_for_each_account_is_a_key_too(make: MakeBed) -> None:
    bed = make("CREATE TABLE entitlements (acct INTEGER PRIMARY KEY, plan TEXT)")
    target = bed.fenced()
    assert target.schema().key == (0,)
    commit(target, [grant("7", "pro")], [("7", "pro")])
    commit(target, [update(("7", "pro"), ("7", "free"))], [("7", "free")], number=2)
    assert bed.rows() == [(7, "free")]


def test_odd_names_work(make: MakeBed) -> None:
    table = '"select ""all"" from"'
    bed = make(
        f'CREATE TABLE {table} ("group by" TEXT, "é ""x""" TEXT, [a\'b] TEXT,'
        ' PRIMARY KEY ("group by", "é ""x"""))'
    )
    target = bed.fenced(table='select "all" from', scope="[a'b] <> 'theirs' -- not ours")
    commit(target, [grant("a", "x", "1")], [("a", "x", "1")])
    commit(target, [update(("a", "x", "1"), ("a", "x", "2"))], [("a", "x", "2")], number=2)
    assert bed.rows(table) == [("a", "x", "2")]
    commit(target, [revoke("a", "x", "2")], [], number=3)
    assert bed.rows(table) == []


UNUSABLE = {
    "has no table entitlements": "CREATE TABLE other (a TEXT)",
    "is a view": "CREATE TABLE t (a TEXT); CREATE VIEW entitlements AS SELECT * FROM t",
    "has no primary key": "CREATE TABLE entitlements (acct TEXT, ent TEXT)",
}


@pytest.mark.parametrize("why", UNUSABLE)
def test_a_table_that_cannot_serve_is_refused(make: MakeBed, why: str) -> None:
    with pytest.raises(TargetUnusable, match=why) as refused:
        make(UNUSABLE[why]).target().schema()
    assert refused.value.hint


@pytest.mark.parametrize(
    "index",
    [
        "",
        "CREATE INDEX k ON entitlements (acct, ent)",
        "CREATE UNIQUE INDEX k ON entitlements (acct, ent, note)",
        "CREATE UNIQUE INDEX k ON entitlements (acct)",
        "CREATE UNIQUE INDEX k ON entitlements (acct, ent) WHERE note = '1'",
        "CREATE UNIQUE INDEX k ON entitlements (acct, lower(ent))",
    ],
)
def test_a_key_without_its_own_unique_index_is_refused(make: MakeBed, index: str) -> None:
    bed = make(f"CREATE TABLE entitlements (acct TEXT, ent TEXT, note TEXT); {index}")
    with pytest.raises(TargetUnusable, match="no unique index") as refused:
        bed.target(key=("acct", "ent")).schema()
    bed.other.execute(refused.value.hint.replace("_key", "_new"))
    bed.target(key=("acct", "ent")).schema()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"columns": ("ent", "nope")}, "no column nope"),
        ({"columns": ("twice", "ent")}, "is generated"),
        ({"columns": ("note",)}, "ent is part of the key"),
        ({"account": "note"}, "note is no part of the key"),
        ({"scope": "nope = 1"}, "no such column"),
        ({"scope": "note = ?"}, "scope"),
        ({"scope": "1); DELETE FROM entitlements; --"}, "scope"),
    ],
)
def test_an_impossible_setting_is_refused(make: MakeBed, options: dict[str, Any], why: str) -> None:
    bed = make(
        "CREATE TABLE entitlements (acct TEXT, ent TEXT, note TEXT, twice INT AS (note * 2),"
        " PRIMARY KEY (acct, ent))"
    )
    with pytest.raises(TargetUnusable, match=why) as refused:
        bed.target(**options).schema()
    assert refused.value.hint


def test_a_database_that_is_not_utf8_is_refused(make: MakeBed) -> None:
    bed = make("PRAGMA encoding = 'UTF-16'; CREATE TABLE entitlements (a TEXT PRIMARY KEY)")
    with pytest.raises(TargetUnusable, match="UTF-16"):
        bed.target().schema()


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE entitlements RENAME COLUMN level TO grade",
        "ALTER TABLE entitlements ADD extra TEXT",
        "DROP TABLE entitlements",
    ],
)
def test_a_table_altered_meanwhile_is_refused(make: MakeBed, change: str) -> None:
    bed = make(
        "CREATE TABLE entitlements (acct TEXT, ent TEXT, level TEXT, PRIMARY KEY (acct, ent))"
    )
    target = bed.fenced()
    bed.other.execute(change)
    with pytest.raises(TargetUnusable):
        commit(target, [grant("a", "x", "1")], [("a", "x", "1")])
    with pytest.raises(TargetUnusable):
        target.lines(EVERYTHING)


def test_a_change_of_the_schema_elsewhere_does_no_harm(make: MakeBed) -> None:
    bed = make("CREATE TABLE entitlements (acct TEXT PRIMARY KEY, plan TEXT)")
    target = bed.fenced()
    bed.other.execute("CREATE TABLE elsewhere (x)")
    commit(target, [grant("a", "x")], [("a", "x")])


# --- lines


CELL = st.none() | st.text(max_size=5) | st.binary(max_size=5) | st.just("x" * 300)
NUMBER = st.none() | st.integers(-(2**63), 2**63 - 1)
REAL = st.none() | st.floats(allow_nan=False, allow_infinity=False)


def _text(value: str | bytes | None) -> str | None:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


@settings(max_examples=40)
@given(
    st.dictionaries(
        st.text(max_size=4), st.tuples(CELL, NUMBER, REAL, st.none() | st.booleans()), max_size=20
    )
)
def test_lines_are_what_the_checksum_says(
    tmp_path_factory: pytest.TempPathFactory, rows: dict[str, tuple[Any, ...]]
) -> None:
    bed = Bed(
        tmp_path_factory.mktemp("lines"),
        "CREATE TABLE entitlements (acct TEXT PRIMARY KEY, t TEXT, n INTEGER, r REAL, b BOOLEAN)",
    )
    bed.other.executemany(
        "INSERT INTO entitlements VALUES (?, CAST(? AS TEXT), ?, ?, ?)",
        [(account, *values) for account, values in rows.items()],
    )
    expected = {
        encode(
            (
                account,
                _text(t),
                None if n is None else str(n),
                None if r is None else canonical(repr(r), FLOAT),
                None if b is None else str(b).lower(),
            )
        )
        for account, (t, n, r, b) in rows.items()
    }
    found = bed.target().lines(EVERYTHING)
    assert len(found) == len(rows)
    assert set(found) == expected
    bed.close()


@given(st.integers(1, 6).flatmap(lambda n: st.lists(st.tuples(*[CELL] * n), max_size=30)))
def test_many_rows_become_the_lines_of_each(rows: list[tuple[Any, ...]]) -> None:
    raw = [tuple(v.encode() if isinstance(v, str) else v for v in row) for row in rows]
    assert lines_of(raw) == [encode(tuple(_text(v) for v in row)) for row in raw]


def test_what_sqlite_stores_in_odd_types_has_lines_too(make: MakeBed) -> None:
    bed = make("CREATE TABLE entitlements (a TEXT PRIMARY KEY, n INTEGER, d DECIMAL, b BOOL, x)")
    bed.insert(
        ("1", "no number", "no number", "t", 5),
        ("2", 1.5, 0.1 + 0.2, 2, b"\0\xff"),
        ("3", "7", "1.50", "1", 1e23),
    )
    rows = [decode(line) for line in bed.target().lines(EVERYTHING)]
    assert rows == [
        ("1", "no number", "no number", "t", "5"),
        ("2", "1.5", "0.30000000000000004", "2", "\0\udcff"),
        ("3", "7", "1.5", "true", "1.0e+23"),
    ]


@settings(max_examples=40)
@example(["A", "B", "_", "a", "b"], "a")
@example(["A", "B", "_", "a", "b"], "B")
@given(st.lists(st.text(max_size=3), unique=True, max_size=12), st.text(max_size=2))
def test_bounds_are_by_code_point_whatever_the_collation(
    tmp_path_factory: pytest.TempPathFactory, accounts: list[str], bound: str
) -> None:
    bed = Bed(
        tmp_path_factory.mktemp("bounds"),
        "CREATE TABLE entitlements (a TEXT NOT NULL COLLATE NOCASE, e TEXT);"
        "CREATE UNIQUE INDEX k ON entitlements (a COLLATE BINARY)",
    )
    if accounts:
        bed.insert(*[(account, "x") for account in accounts])
    target = bed.target(key=("a",))
    below = {decode(line)[0] for line in target.lines(KeySpan(None, bound))}
    above = {decode(line)[0] for line in target.lines(KeySpan(bound, None))}
    assert below == {a for a in accounts if a <= bound}
    assert above == {a for a in accounts if a > bound}
    bed.close()


def test_integer_accounts_are_bounded_by_value(make: MakeBed) -> None:
    bed = make("CREATE TABLE entitlements (a INTEGER, e TEXT, PRIMARY KEY (a, e))")
    bed.insert((9, "x"), (10, "x"), (-3, "x"))
    target = bed.target()
    assert [decode(line)[0] for line in target.lines(KeySpan("-3", "9"))] == ["9"]
    assert [decode(line)[0] for line in target.lines(KeySpan("9", None))] == ["10"]


@pytest.mark.parametrize(
    ("ddl", "row"),
    [
        ("a TEXT, e TEXT, PRIMARY KEY (a, e)", (None, "x")),
        ("a INTEGER, e TEXT, PRIMARY KEY (a, e)", (None, "x")),
        ("a INTEGER, e TEXT, PRIMARY KEY (a, e)", ("abc", "x")),
        ("a INTEGER, e TEXT, PRIMARY KEY (a, e)", (1.5, "x")),
    ],
)
def test_a_row_that_belongs_to_no_account_is_refused(
    make: MakeBed, ddl: str, row: tuple[Any, ...]
) -> None:
    bed = make(f"CREATE TABLE entitlements ({ddl})")
    bed.insert(row)
    with pytest.raises(TargetUnusable, match="has a row whose account a is"):
        bed.target().lines(KeySpan(None, "1"))


@pytest.mark.parametrize(
    ("ddl", "span"),
    [
        ("a TEXT NOT NULL, e TEXT, PRIMARY KEY (a, e)", KeySpan("a", "b")),
        ("a TEXT, e TEXT, PRIMARY KEY (a, e)", KeySpan("é", "ü")),
        ("a INTEGER NOT NULL, e TEXT, PRIMARY KEY (a, e)", KeySpan("1", "2")),
    ],
)
def test_spans_and_keys_are_found_by_index(make: MakeBed, ddl: str, span: KeySpan) -> None:
    bed = make(f"CREATE TABLE entitlements ({ddl})")
    target = bed.target()
    target.schema()
    table = target._table
    assert table is not None
    key = table.bind_key((span.upper, "x"))
    for sql, bound in (table.select(span), (table.count_of_key(), key)):
        plan = bed.other.execute(f"EXPLAIN QUERY PLAN {sql}", bound).fetchall()
        assert all("SEARCH entitlements USING" in step[3] for step in plan), plan


# --- values


def test_keys_of_a_column_that_ignores_case_stay_apart(make: MakeBed) -> None:
    bed = make(
        "CREATE TABLE entitlements (a TEXT COLLATE NOCASE, e TEXT COLLATE NOCASE, l TEXT);"
        "CREATE UNIQUE INDEX k ON entitlements (a COLLATE BINARY, e COLLATE BINARY)"
    )
    rows: list[Row] = [(a, "x", "1") for a in ("A", "a", "a-b", "a_b")]
    target = bed.fenced(key=("a", "e"))
    commit(target, [grant(*row) for row in rows], rows)
    changed = [update(("a", "x", "1"), ("a", "x", "2")), revoke("A", "x", "1")]
    left: list[Row] = [("a", "x", "2"), ("a-b", "x", "1"), ("a_b", "x", "1")]
    done = commit(target, changed, left, number=2)
    assert done.checksum == checksum(encode(row) for row in left)
    assert sorted(bed.rows()) == left


@pytest.mark.parametrize(
    "ddl",
    [
        "CREATE TABLE entitlements (a TEXT COLLATE NOCASE PRIMARY KEY, l TEXT)",
        "CREATE TABLE entitlements (a TEXT, l TEXT, PRIMARY KEY (a COLLATE RTRIM))",
        "CREATE TABLE entitlements (a TEXT COLLATE NOCASE PRIMARY KEY, l TEXT) WITHOUT ROWID",
    ],
)
def test_a_key_that_takes_two_accounts_for_one_is_refused(make: MakeBed, ddl: str) -> None:
    bed = make(ddl)
    with pytest.raises(TargetUnusable, match="so that keys which differ would be one row"):
        bed.target().schema()


def test_every_kind_is_written_and_taken_back(make: MakeBed) -> None:
    bed = make(
        "CREATE TABLE entitlements (a INTEGER, k BOOLEAN, t TEXT, n INTEGER, r REAL, d DECIMAL,"
        " b BOOLEAN, x, PRIMARY KEY (a, k))"
    )
    first: Row = ("-7", "true", "\udcff\0é", "9223372036854775807", "0.1", "1.5", "false", "5")
    second: Row = ("-7", "false", None, None, None, None, None, None)
    third: Row = ("-7", "false", "", "0", "10", "10", "true", "")
    target = bed.fenced()
    commit(target, [grant(*first), grant(*second)], [first, second])
    commit(target, [update(second, third)], [first, third], number=2)
    kinds = ", ".join(f"typeof({column})" for column in "aktnrdbx")
    found = bed.other.execute(f"SELECT {kinds} FROM entitlements ORDER BY k").fetchall()
    typed = ("integer", "integer", "text", "integer", "real")
    assert found == [
        (*typed, "integer", "integer", "text"),
        (*typed, "real", "integer", "text"),
    ]
    commit(target, [revoke(*first), revoke(*third)], [], number=3)
    assert bed.rows() == []


def test_a_before_image_is_known_in_whatever_type_it_is_stored(make: MakeBed) -> None:
    bed = make("CREATE TABLE entitlements (a TEXT PRIMARY KEY, b BOOLEAN, n INTEGER)")
    bed.insert(("1", "t", "x"), ("2", "true", 1.5), ("3", 1, None))
    target = bed.fenced()
    rows = [decode(line) for line in target.lines(EVERYTHING)]
    after: list[Row] = [(row[0], "true", "1") for row in rows]
    changes = [update(row, now) for row, now in zip(rows, after, strict=True)]
    commit(target, changes, after)
    assert bed.rows(order="1") == [("1", 1, 1), ("2", 1, 1), ("3", 1, 1)]


# --- scope


SCOPED = """CREATE TABLE entitlements (
  a TEXT, e TEXT, l TEXT, origin TEXT DEFAULT 'billing', PRIMARY KEY (a, e))"""


def _scoped(bed: Bed, origin: str = "billing") -> Any:
    return bed.fenced(scope=f"origin = '{origin}' OR 0", columns=("e", "l"))


def test_rows_out_of_scope_are_neither_read_nor_changed(make: MakeBed) -> None:
    bed = make(SCOPED)
    bed.insert(("a", "x", "1", "billing"), ("b", "y", "1", "crm"), ("c", "y", "1", None))
    target = _scoped(bed)
    assert target.lines(EVERYTHING) == [encode(("a", "x", "1"))]
    with pytest.raises(ChangedMeanwhile) as stopped:
        commit(target, [revoke("b", "y", "1")], [("a", "x", "1")])
    assert stopped.value.accounts == ("b",)
    commit(target, [revoke("a", "x", "1"), grant("d", "x", "2")], [("d", "x", "2")])
    assert [row[0] for row in bed.rows()] == ["b", "c", "d"]


def test_a_grant_that_would_be_out_of_scope_is_refused(make: MakeBed) -> None:
    bed = make(SCOPED)
    target = _scoped(bed, "crm")
    with pytest.raises(TargetUnusable, match="account 'a': the table does not hold") as refused:
        commit(target, [grant("a", "x", "1")], [("a", "x", "1")])
    assert "DEFAULT" in refused.value.hint
    assert bed.rows() == []


def test_a_grant_whose_key_is_taken_out_of_scope_is_refused(make: MakeBed) -> None:
    bed = make(SCOPED)
    bed.insert(("a", "x", "1", "crm"))
    with pytest.raises(TargetUnusable, match="account 'a': a row of that key is outside"):
        commit(_scoped(bed), [grant("a", "x", "1")], [("a", "x", "1")])
    assert len(bed.rows()) == 1


# --- constraints and triggers


REFUSED = {
    "NOT NULL constraint failed: entitlements.must": ("must TEXT NOT NULL, ", "", "ann"),
    "CHECK constraint failed": ("", ", CHECK (l <> 'bad')", "bob"),
    "UNIQUE constraint failed: entitlements.l": ("", ", UNIQUE (l)", "cy"),
    "FOREIGN KEY constraint failed": ("", ", FOREIGN KEY (a) REFERENCES people (a)", "bob"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_constraint_that_refuses_is_named_with_the_account(make: MakeBed, why: str) -> None:
    column, constraint, account = REFUSED[why]
    bed = make(
        "CREATE TABLE people (a TEXT PRIMARY KEY); INSERT INTO people VALUES ('ann');"
        f"CREATE TABLE entitlements (a TEXT, e TEXT, {column} l TEXT,"
        f" PRIMARY KEY (a, e) {constraint})"
    )
    target = bed.fenced(columns=("e", "l"))
    rows: list[Row] = [("ann", "x", "good"), ("bob", "x", "bad"), ("cy", "x", "bad")]
    with pytest.raises(TargetUnusable, match=why) as refused:
        commit(target, [grant(*row) for row in rows], rows)
    assert f"account '{account}'" in str(refused.value)
    assert bed.rows() == []


def test_what_the_table_says_of_conflicts_does_not_replace_rows(make: MakeBed) -> None:
    bed = make(
        "CREATE TABLE entitlements (a TEXT, e TEXT, l TEXT, PRIMARY KEY (a, e) ON CONFLICT REPLACE)"
    )
    bed.insert(("a", "x", "theirs"))
    with pytest.raises(ChangedMeanwhile):
        commit(bed.fenced(), [grant("a", "x", "ours")], [("a", "x", "ours")])
    assert bed.rows() == [("a", "x", "theirs")]


PLAIN = "CREATE TABLE entitlements (a TEXT, e TEXT, l TEXT, PRIMARY KEY (a, e));"
TRIGGERS = {
    "no such luck": "BEFORE INSERT ON entitlements BEGIN SELECT RAISE(ABORT, 'no such luck'); END",
    "the table ignores the change": "BEFORE INSERT ON entitlements WHEN new.a = 'a'"
    " BEGIN SELECT RAISE(IGNORE); END",
    "the table does not hold": "AFTER INSERT ON entitlements BEGIN"
    " UPDATE entitlements SET l = 'changed'; END",
    "it has ": "AFTER INSERT ON entitlements WHEN new.a = 'a' BEGIN"
    " INSERT INTO entitlements VALUES ('more', 'x', 'y'); END",
}


@pytest.mark.parametrize("why", TRIGGERS)
def test_a_trigger_in_the_way_is_no_change_by_somebody_else(make: MakeBed, why: str) -> None:
    bed = make(f"{PLAIN} CREATE TRIGGER t {TRIGGERS[why]}")
    with pytest.raises(TargetUnusable, match=why) as refused:
        commit(bed.fenced(), [grant("a", "x", "1")], [("a", "x", "1")])
    assert refused.value.hint
    assert "account " in str(refused.value)
    assert bed.rows() == []


def test_a_trigger_that_writes_elsewhere_may_do_so(make: MakeBed) -> None:
    bed = make(
        f"{PLAIN} CREATE TABLE audit (a TEXT); CREATE TRIGGER t AFTER INSERT ON entitlements"
        " BEGIN INSERT INTO audit VALUES (new.a); END"
    )
    commit(bed.fenced(), [grant("a", "x", "1")], [("a", "x", "1")])
    assert bed.count("audit") == 1


def test_a_strict_table_takes_every_kind(make: MakeBed) -> None:
    bed = make(
        "CREATE TABLE entitlements (a TEXT, n INTEGER, r REAL, x ANY, PRIMARY KEY (a)) STRICT"
    )
    commit(bed.fenced(), [grant("a", "7", "1.5", "z")], [("a", "7", "1.5", "z")])
    assert bed.rows("entitlements", "1") == [("a", 7, 1.5, "z")]
