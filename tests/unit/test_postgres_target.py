"""A PostgreSQL target: column types, order whatever the collation, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import chain, pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.postgres_bed import PostgresBed
from support.target import EVERYTHING, commit, fence, grant, revoke, update

from reconcile.core.canonical import reader
from reconcile.core.checksum import decode, encode
from reconcile.core.config import TargetConfig
from reconcile.core.errors import (
    AccountRefused,
    ChangedMeanwhile,
    ConfigError,
    TargetUnusable,
)
from reconcile.core.keys import KeyPolicy
from reconcile.core.rows import ColumnKind, KeySpan, Row
from reconcile.core.targets import open_target, postgres_stream
from reconcile.core.targets.postgres_ddl import ddl

NOW = timedelta(0)
Make = Callable[..., PostgresBed]


@pytest.fixture
def make() -> Iterator[Make]:
    beds: list[PostgresBed] = []

    def made(*args: Any) -> PostgresBed:
        beds.append(PostgresBed(*args))
        return beds[-1]

    yield made
    for bed in beds:
        bed.close()


@pytest.fixture
def bed(make: Make) -> PostgresBed:
    return make()


# --- types

TYPES = {
    "text": (
        "text",
        [
            "",
            " a ",
            "{,}",
            '"q"',
            "é",
            "e\u0301",
            "\U0001f600",
            "a\nb",
            "\\",
            '\\"',
            "NULL",
            "%s",
            "日本",
        ],
    ),
    "character varying(9)": ("text", ["", "it's", "é" * 9]),
    "smallint": ("integer", ["-32768", "0", "32767"]),
    "integer": ("integer", ["-2147483648", "7"]),
    "bigint": ("integer", ["9007199254740993", "-9223372036854775808"]),
    "numeric": ("decimal", ["0", "-1.5", "1" + "0" * 30, "0." + "0" * 20 + "1", "100"]),
    "numeric(10,2)": ("decimal", ["1.5", "-0.25", "10"]),
    "double precision": (
        "float",
        ["0.1", "1e300", "-2.5e-7", "5e-324", "9007199254740993", "1.5", "5.684341886080802e-14"],
    ),
    "real": ("float", ["0.1", "-3.25", "16777216"]),
    "boolean": ("boolean", ["true", "f"]),
    "date": ("date", ["0001-01-01", "2026-11-30", "9999-12-31"]),
    "timestamp": ("timestamp", ["2026-11-30 02:30:00", "0001-01-01T00:00:00.000001"]),
    "timestamp(3) with time zone": (
        "instant",
        ["2026-11-30T02:30:00.125Z", "2026-03-29 03:30:00+02:00", "9999-12-31T23:59:59Z"],
    ),
    "uuid": ("uuid", ["A0EEBC999C0B4EF8BB6D6BB9BD380A11", "00000000-0000-0000-0000-000000000000"]),
    "bytea": ("bytes", ["\\x", "00ff", "\\xDEADBEEF"]),
    "jsonb": ("json", ['{"bb": 1.50, "a": [1e2, "é\\n\\u0001", null, true]}', "[]", '"\\u00e9"']),
    "json": ("json", ['{ "b":1,"a":2 , "b":3}', "-0.0", "1E-3"]),
    "mood": ("text", ["sad", "it's %s"]),
    "short": ("text", ["abc"]),
}
ENUMS = (
    "CREATE TYPE mood AS ENUM ('sad', 'it''s %s');"
    " CREATE DOMAIN short AS varchar(5) CHECK (value <> 'no');"
)


@pytest.mark.parametrize("kind", TYPES)
def test_a_value_of_each_type_is_written_and_read_back_as_its_canonical_text(
    make: Make, kind: str
) -> None:
    expected, written = TYPES[kind]
    bed = make(f"{ENUMS} CREATE TABLE entitlements (account_id text PRIMARY KEY, v {kind})")
    target = bed.fenced()
    assert target.schema().columns[1].kind is ColumnKind(expected)
    read = reader(ColumnKind(expected)) or str
    texts = [*map(read, written), None]
    rows: list[Row] = [(f"a{i:02}", text) for i, text in enumerate(texts)]
    commit(target, [grant(*row) for row in rows], rows)
    assert target.lines(EVERYTHING) == [encode(row) for row in rows]
    # Each becomes the next one, so that each is a before-image, NULL too.
    later = [*rows[1:], rows[0]]
    rolled: list[Row] = [(row[0], after[1]) for row, after in zip(rows, later, strict=True)]
    commit(target, map(update, rows, rolled), rolled, number=2)
    commit(target, [revoke(*row) for row in rolled], [], number=3)
    assert bed.count("entitlements") == 0
    assert [change.before for _, change in target.changes(account="a00")] == [
        None,
        rows[0],
        rolled[0],
    ]


def test_what_others_wrote_in_another_form_is_the_same_value(make: Make) -> None:
    bed = make(
        "CREATE TABLE entitlements (account_id text PRIMARY KEY, n numeric, f float8,"
        " t timestamptz, j jsonb, b bytea, i timestamp)"
    )
    bed.do(
        "SET timezone = 'Asia/Kolkata'; SET bytea_output = 'escape'; SET extra_float_digits = -5",
        "INSERT INTO entitlements VALUES ('a', 1.500, 1e20, '2026-11-30 08:00', '{\"a\":1}',"
        " 'abc', 'infinity'), ('b', 'NaN', '-0', '4713-01-01 00:00:00 BC', '1', '', '20000-01-01')",
    )
    odd = "-c timezone=Asia/Kolkata -c datestyle=SQL -c bytea_output=escape"
    url = bed.server.url(options=f"{odd} -c extra_float_digits=-5 -c jit_above_cost=0")
    target = bed.fenced(url=url)
    rows = [decode(line) for line in target.lines(EVERYTHING)]
    assert rows[0] == (
        "a",
        "1.5",
        "100000000000000000000",
        "2026-11-30T02:30:00.000000Z",
        '{"a": 1}',
        "\\x616263",
        "infinity",
    )
    assert rows[1][:3] == ("b", "NaN", "0")
    commit(target, [revoke(*row) for row in rows], [])


@pytest.mark.parametrize(
    "kind", ["text[]", "char(5)", "money", "interval", "time", "point", "int4range", "bit(3)"]
)
def test_a_type_that_is_not_understood_is_refused_where_it_would_be_compared(
    make: Make, kind: str
) -> None:
    bed = make(f"CREATE TABLE entitlements (account_id text PRIMARY KEY, v {kind}, w text)")
    with pytest.raises(TargetUnusable, match=r"column v is .*, which is not compared") as refused:
        bed.target().schema()
    assert "leave it out" in refused.value.hint
    assert [c.name for c in bed.target(columns=("w",)).schema().columns] == ["account_id", "w"]


# --- order

KEYS = [
    *("", "-", "A", "Z", "a", "a b", "a-b", "a_b", "ab", "B", "é", "e\u0301", "z", "ß", "日"),
    *("\U0001f600", "\uffff", "it's", 'q"', "a,b", " a", "a ", "0" * 32, "x@y.org", "10", "9"),
]
TABLES = {
    "in its own order": ("text", True, ""),
    "by an index": ("text", False, 'CREATE INDEX ON entitlements (account_id COLLATE "C")'),
    "by sorting": ("text", False, ""),
    "as varchar by sorting": ("varchar(40)", False, ""),
}


@pytest.fixture
def disorderly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database's collation is taken for one of words: no other is on every machine."""
    monkeypatch.setattr("reconcile.core.targets.postgres_catalog._CODE_POINT", {"C", "POSIX"})


@pytest.fixture(params=TABLES)
def ordered(make: Make, request: pytest.FixtureRequest) -> PostgresBed:
    kind, in_order, index = TABLES[request.param]
    if not in_order:
        request.getfixturevalue("disorderly")
    bed = make(f"CREATE TABLE entitlements (account_id {kind} PRIMARY KEY)")
    bed.do(index or "SELECT 1")
    return bed


def test_ranges_are_in_order_of_code_points_whatever_the_collation(ordered: PostgresBed) -> None:
    ordered.insert(*((key,) for key in KEYS))
    target = ordered.target()
    keys = sorted(KEYS)
    assert [decode(line)[0] for line in target.lines(EVERYTHING)] == keys
    bounds = [None, *keys[2::5], "\U0010ffff", None]
    found = []
    for lower, upper in pairwise(bounds):
        part = [str(decode(line)[0]) for line in target.lines(KeySpan(lower, upper))]
        assert part == [
            k for k in keys if (lower is None or k > lower) and (upper is None or k <= upper)
        ]
        found += part
    assert found == keys
    # Again, and out of order.
    assert [decode(line)[0] for line in target.lines(KeySpan("A", "a"))] == ["B", "Z", "a"]


def test_a_bound_is_found_in_that_order(ordered: PostgresBed) -> None:
    ordered.insert(*((key,) for key in KEYS))
    keys = sorted(KEYS)
    target = ordered.target()
    lower = None
    parts = []
    while (upper := target.bound(KeySpan(lower, "z"), 4)) is not None:
        parts.append([decode(line)[0] for line in target.lines(KeySpan(lower, upper))])
        lower = upper
    parts.append([decode(line)[0] for line in target.lines(KeySpan(lower, "z"))])
    assert list(chain(*parts)) == [key for key in keys if key <= "z"]
    assert all(len(part) == 5 for part in parts[:-1])
    assert [decode(line)[0] for line in target.lines(KeySpan("z", None))] == [
        key for key in keys if key > "z"
    ]


def test_a_bound_that_no_text_of_postgres_can_be_still_cuts_where_it_should(
    ordered: PostgresBed,
) -> None:
    keys = ["", "a", "a\x01", "ab", "aé", "a\ue000", "\ud7ff", "\ue000", "b"]
    ordered.insert(*((key,) for key in keys))
    target = ordered.target()
    for bound in ("a\0b", "a\udc80", "\ud800", "\0"):
        below = [decode(line)[0] for line in target.lines(KeySpan(None, bound))]
        above = [decode(line)[0] for line in target.lines(KeySpan(bound, None))]
        assert below == sorted(key for key in keys if key <= bound)
        assert above == sorted(key for key in keys if key > bound)


def test_a_table_without_that_order_is_read_once(
    bed: PostgresBed, monkeypatch: pytest.MonkeyPatch, disorderly: None
) -> None:
    keys = [f"{n:05}" for n in range(300)]
    bed.insert(*((key, "x", None) for key in keys))
    opened: list[Any] = []
    opens = postgres_stream.Stream._open
    monkeypatch.setattr(postgres_stream, "_BATCH", 7)
    monkeypatch.setattr(
        postgres_stream.Stream, "_open", lambda *args: (opened.append(args[2]), opens(*args))[1]
    )
    target = bed.target()
    bounds = [None, *keys[9::10], None]
    found = [
        decode(line)[0]
        for lower, upper in pairwise(bounds)
        for line in target.lines(KeySpan(lower, upper))
    ]
    assert found == keys
    assert opened == [KeySpan(None, keys[9])]
    assert target._look_outside().table.order.endswith(' COLLATE "C"')
    # Of a range that is asked for again while the others are read, as of the rest.
    target.lines(KeySpan(None, keys[9]))
    target.lines(KeySpan(keys[9], keys[19]))
    bed.do("DELETE FROM entitlements WHERE account_id = '00005'")
    assert len(target.lines(KeySpan(keys[1], keys[9]))) == 7
    assert len(target.lines(KeySpan(keys[19], keys[29]))) == 10
    bed.insert(("00005", "x", None))
    # A range that is asked for again is as it is now.
    bed.do("DELETE FROM entitlements WHERE account_id = '00015'")
    assert len(target.lines(KeySpan(keys[9], keys[19]))) == 9
    # So is all, from the beginning.
    assert (
        sum(len(target.lines(KeySpan(a, b))) for a, b in [(None, keys[5]), (keys[5], None)]) == 299
    )


def test_an_account_that_is_a_number_is_in_order_of_its_value(make: Make) -> None:
    bed = make("CREATE TABLE entitlements (account_id smallint PRIMARY KEY)")
    bed.insert((-5,), (9,), (10,), (100,))
    target = bed.target()
    lines = target.lines(KeySpan("-9223372036854775808", "10"))
    assert [decode(line)[0] for line in lines] == ["-5", "9", "10"]
    assert target.bound(EVERYTHING, 2) == "10"


def test_an_account_that_is_a_uuid_is_in_order_of_its_text(make: Make) -> None:
    bed = make("CREATE TABLE entitlements (account_id uuid PRIMARY KEY)")
    keys = [f"{n}0000000-0000-0000-0000-000000000000" for n in "9afAF0"[:4]]
    bed.insert(*((key,) for key in dict.fromkeys(key.lower() for key in keys)))
    target = bed.target()
    found = [decode(line)[0] for line in target.lines(EVERYTHING)]
    assert found == sorted(dict.fromkeys(key.lower() for key in keys))
    assert [decode(line)[0] for line in target.lines(KeySpan(found[0], None))] == found[1:]


@pytest.mark.parametrize(
    ("kind", "keys", "odd"),
    [
        ("date", ["0999-12-31", "2026-11-30", "9999-12-31"], "infinity"),
        ("timestamp(6)", ["0001-01-01T00:00:00.000000", "2026-11-30T02:30:00.000001"], "10000-1-1"),
        ("timestamptz", ["1969-12-31T23:59:59.999999Z", "2026-11-30T02:30:00.000000Z"], "1-1-1 BC"),
    ],
)
def test_accounts_that_are_days_or_instants_are_in_order_of_time(
    make: Make, kind: str, keys: list[str], odd: str
) -> None:
    bed = make(f"CREATE TABLE entitlements (account_id {kind} PRIMARY KEY)")
    bed.insert(*((key,) for key in keys))
    target = bed.fenced()
    assert [decode(line)[0] for line in target.lines(EVERYTHING)] == keys
    assert [decode(line)[0] for line in target.lines(KeySpan(keys[0], keys[1]))] == [keys[1]]
    bed.insert((odd,))
    with pytest.raises(TargetUnusable, match="a row whose account account_id is"):
        target.lines(EVERYTHING)


LETTERS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(keys=st.sets(LETTERS, min_size=1, max_size=30), cut=LETTERS)
def test_any_texts_are_cut_as_the_source_cuts_them(
    ordered: PostgresBed, keys: set[str], cut: str
) -> None:
    ordered.do("DELETE FROM entitlements")
    ordered.insert(*((key,) for key in keys))
    target = ordered.target()
    found = [
        [decode(line)[0] for line in target.lines(span)]
        for span in (KeySpan(None, cut), KeySpan(cut, None))
    ]
    target.close()
    assert found == [sorted(k for k in keys if k <= cut), sorted(k for k in keys if k > cut)]


# --- tables

COLUMNS = "account_id text, entitlement text, level text"
REFUSED = {
    "missing": ("SELECT 1", "has no table"),
    "view": (
        f"CREATE TABLE t ({COLUMNS}); CREATE VIEW entitlements AS SELECT * FROM t",
        "is a view",
    ),
    "materialized view": (
        f"CREATE TABLE t ({COLUMNS}); CREATE MATERIALIZED VIEW entitlements AS SELECT * FROM t",
        "is a materialized view",
    ),
    "parent": (
        f"CREATE TABLE entitlements ({COLUMNS}, PRIMARY KEY (account_id, entitlement));"
        " CREATE TABLE child () INHERITS (entitlements)",
        "other tables inherit",
    ),
    "no key": (f"CREATE TABLE entitlements ({COLUMNS})", "has no primary key"),
    "account no text": (
        "CREATE TABLE entitlements (account_id jsonb PRIMARY KEY)",
        r"the account account_id of .* is jsonb",
    ),
    "account an enumeration": (
        "CREATE TYPE m AS ENUM ('a'); CREATE TABLE entitlements (account_id m PRIMARY KEY)",
        r"the account account_id of .* is .*\.m$",
    ),
    "key that waits": (
        "CREATE TABLE entitlements (account_id text PRIMARY KEY DEFERRABLE)",
        "no unique index on exactly its key",
    ),
    "generated": (
        "CREATE TABLE entitlements (account_id text PRIMARY KEY, level text GENERATED ALWAYS AS"
        " (lower(account_id)) STORED)",
        "is generated and cannot be written",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_table_that_cannot_serve_is_refused_with_what_to_do(make: Make, what: str) -> None:
    statement, says = REFUSED[what]
    options = {"columns": ("level",)} if what == "generated" else {}
    with pytest.raises(TargetUnusable, match=says) as refused:
        make(statement).target(**options).schema()
    assert refused.value.hint


@pytest.mark.parametrize(
    "index",
    [
        "(account_id)",
        "(account_id, entitlement, level)",
        "(account_id, lower(entitlement))",
        "(account_id, entitlement) WHERE level IS NULL",
    ],
)
def test_a_unique_index_on_another_key_does_not_do(make: Make, index: str) -> None:
    bed = make(
        f"CREATE TABLE entitlements ({COLUMNS}); CREATE UNIQUE INDEX ON entitlements {index}"
    )
    key = ("account_id", "entitlement")
    with pytest.raises(TargetUnusable, match="no unique index on exactly its key") as refused:
        bed.target(key=key).schema()
    bed.do(refused.value.hint)
    assert bed.target(key=key).schema().key == (0, 1)


def test_row_security_that_hides_rows_is_refused(bed: PostgresBed) -> None:
    role = bed.role("SELECT, INSERT, UPDATE, DELETE")
    bed.do("ALTER TABLE entitlements ENABLE ROW LEVEL SECURITY")
    with pytest.raises(TargetUnusable, match=r"row security of table .* hides rows"):
        bed.target(url=bed.server.url(user=role)).schema()
    assert bed.target().schema()


def test_a_partitioned_table_is_as_good_as_any(make: Make) -> None:
    bed = make(
        f"CREATE TABLE entitlements ({COLUMNS}, PRIMARY KEY (account_id, entitlement))"
        " PARTITION BY RANGE (account_id);"
        " CREATE TABLE low PARTITION OF entitlements FOR VALUES FROM (MINVALUE) TO ('m');"
        " CREATE TABLE high PARTITION OF entitlements FOR VALUES FROM ('m') TO (MAXVALUE)"
    )
    bed.insert(("a", "x", "1"), ("z", "x", "1"))
    target = bed.fenced()
    changes = [
        revoke("a", "x", "1"),
        update(("z", "x", "1"), ("z", "x", "2")),
        grant("m", "x", "3"),
    ]
    commit(target, changes, [("m", "x", "3"), ("z", "x", "2")])
    assert bed.rows() == [("m", "x", "3"), ("z", "x", "2")]
    assert bed.rows("high") == bed.rows()


def test_names_that_need_quotes_are_quoted(make: Make) -> None:
    bed = make('CREATE TABLE "we""ird %s T" ("Äcc %d" text PRIMARY KEY, "select" text)')
    target = bed.fenced(table='we"ird %s T', scope="\"select\" LIKE '1%'")
    commit(target, [grant("a", "12")], [("a", "12")])
    commit(target, [update(("a", "12"), ("a", "13"))], [("a", "13")], number=2)
    commit(target, [revoke("a", "13")], [], number=3)
    assert bed.target(table='we"ird %s T', key=("äcc %D",)).schema().account.name == "Äcc %d"


def test_a_table_is_found_by_the_search_path_and_by_its_schema(bed: PostgresBed) -> None:
    path = bed.server.url(options=f"-c search_path={bed.schema}")
    for url, table in ((path, "entitlements"), (bed.server.url(), f"{bed.schema}.entitlements")):
        config = TargetConfig("postgres", url, table)
        target = open_target(config, "job", bed.clock)
        assert target.schema().account.name == "account_id"
        target.close()


def test_our_tables_are_in_the_schema_that_is_named(bed: PostgresBed) -> None:
    bed.do(f"CREATE SCHEMA {bed.schema}_ops")
    try:
        target = bed.fenced(schema=f"{bed.schema}_ops")
        commit(target, [grant("a", "x", "1")], [("a", "x", "1")])
        assert bed.tables() == {"entitlements"}
        assert bed.count(f"{bed.schema}_ops.reconcile_changes") == 1
    finally:
        bed.server.drop(f"{bed.schema}_ops")


def test_the_printed_statements_make_the_same_tables(bed: PostgresBed, make: Make) -> None:
    bed.fenced()
    other = make()
    other.do(ddl(other.schema))
    question = (
        "SELECT table_name, column_name, data_type, is_nullable, is_identity FROM"
        " information_schema.columns WHERE table_schema = '{}' ORDER BY 1, ordinal_position"
    )
    ours, theirs = (
        one.other.execute(question.format(one.schema).encode()).fetchall() for one in (bed, other)
    )
    assert ours == theirs


# --- scope


@pytest.mark.parametrize(
    "scope",
    [
        *("1) OR (true", "true) OR (true", "true; DROP TABLE entitlements", "level = $1"),
        *("nothing = 1", "level", "(", "count(*) > 1", "true /*"),
    ],
)
def test_a_scope_that_is_no_condition_is_refused(bed: PostgresBed, scope: str) -> None:
    with pytest.raises(TargetUnusable, match="cannot be used") as refused:
        bed.target(scope=scope).schema()
    assert "SQL condition" in refused.value.hint
    assert bed.tables() == {"entitlements"}


def test_rows_out_of_scope_are_neither_seen_nor_touched(bed: PostgresBed) -> None:
    bed.do("ALTER TABLE entitlements ADD origin text DEFAULT '50% ours'")
    bed.do("INSERT INTO entitlements VALUES ('a', 'x', '1', 'theirs'), ('b', 'x', '1', '50% ours')")
    target = bed.fenced(scope="origin LIKE '50%' -- ours", columns=("entitlement", "level"))
    assert [decode(line) for line in target.lines(EVERYTHING)] == [("b", "x", "1")]
    for change in (revoke("a", "x", "1"), update(("a", "x", "1"), ("a", "x", "2"))):
        with pytest.raises(ChangedMeanwhile):
            commit(target, [change], [("b", "x", "1")])
    with pytest.raises(AccountRefused, match="outside the scope") as refused:
        commit(target, [grant("a", "x", "1")], [("a", "x", "1"), ("b", "x", "1")])
    assert refused.value.account == "a"
    commit(target, [revoke("b", "x", "1"), grant("c", "x", None)], [("c", "x", None)])
    assert bed.rows() == [("a", "x", "1", "theirs"), ("c", "x", None, "50% ours")]


def test_other_key_policies_are_refused(bed: PostgresBed) -> None:
    with pytest.raises(TargetUnusable, match="compares exactly"):
        bed.target(key_policy=KeyPolicy.CASEFOLD).schema()


# --- what the table does not take

TRIGGER = """CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF new.account_id = 'bad' THEN {} END IF; RETURN new; END $$;
CREATE TRIGGER t BEFORE INSERT OR UPDATE ON entitlements FOR EACH ROW EXECUTE FUNCTION f()"""
UNWILLING = {
    "a trigger that changes a value": (TRIGGER.format("new.level := 'x';"), "does not hold"),
    "a trigger that takes a row away": (TRIGGER.format("RETURN NULL;"), "ignores the change"),
    "a trigger that refuses": (TRIGGER.format("RAISE EXCEPTION 'not him';"), "not him"),
    "a check": ("ALTER TABLE entitlements ADD CHECK (account_id <> 'bad')", "check constraint"),
    "another unique index": (
        "INSERT INTO entitlements VALUES ('z', 'x', '7'); CREATE UNIQUE INDEX ON"
        " entitlements ((CASE level WHEN '7' THEN 1 END))",
        "duplicate key",
    ),
    "a constraint that waits for the end": (
        "CREATE TABLE known (id text PRIMARY KEY); INSERT INTO known SELECT 'a' || n FROM"
        " generate_series(0, 99) n; ALTER TABLE entitlements ADD FOREIGN KEY (account_id)"
        " REFERENCES known DEFERRABLE INITIALLY DEFERRED",
        "foreign key constraint",
    ),
    "a type that rounds": (
        "ALTER TABLE entitlements ALTER level TYPE numeric(3,1) USING NULL",
        "does not hold",
    ),
    "a type that is too short": (
        "ALTER TABLE entitlements ALTER account_id TYPE varchar(3)",
        "too long",
    ),
}


@pytest.mark.parametrize("what", UNWILLING)
def test_a_row_that_the_table_does_not_take_sets_its_account_apart(
    bed: PostgresBed, what: str
) -> None:
    statement, says = UNWILLING[what]
    bed.do(statement)
    before = bed.rows()
    bad = "long" if "short" in what else "bad"
    rows: list[Row] = [(f"a{n}", "x", "0") for n in range(100)]
    odd = (bad, "x", "7.25" if "rounds" in what else "7")
    target = bed.fenced()
    changes = [grant(*row) for row in rows[:60]] + [grant(*odd)] + [grant(*r) for r in rows[60:]]
    with pytest.raises(AccountRefused, match=says) as refused:
        commit(target, changes, [*rows, odd, *before])
    assert refused.value.account == bad
    assert refused.value.hint
    assert bed.rows() == before
    assert bed.count("reconcile_changes") == bed.count("reconcile_ranges") == 0


def test_an_update_that_the_table_does_not_take_names_its_account(bed: PostgresBed) -> None:
    bed.insert(*((f"a{n}", "x", "0") for n in range(9)), ("bad", "x", "0"))
    bed.do(TRIGGER.format("new.level := old.level;"))
    target = bed.fenced()
    names = [*(f"a{n}" for n in range(9)), "bad"]
    changes = [update((name, "x", "0"), (name, "x", "1")) for name in names]
    with pytest.raises(AccountRefused, match="does not hold") as refused:
        commit(target, changes, [(name, "x", "1") for name in names])
    assert refused.value.account == "bad"


def test_a_revoke_that_the_table_does_not_take_names_its_account(bed: PostgresBed) -> None:
    bed.insert(("a", "x", "0"), ("bad", "x", "0"))
    bed.do(
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF old.account_id = 'bad' THEN RETURN NULL; END IF; RETURN old; END $$;"
        " CREATE TRIGGER t BEFORE DELETE ON entitlements FOR EACH ROW EXECUTE FUNCTION f()"
    )
    with pytest.raises(AccountRefused, match="ignores the change") as refused:
        commit(bed.fenced(), [revoke("a", "x", "0"), revoke("bad", "x", "0")], [])
    assert refused.value.account == "bad"


def test_rows_that_a_trigger_adds_are_somebody_elses_and_named(bed: PostgresBed) -> None:
    bed.do(
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF new.level <> 'extra'"
        " THEN INSERT INTO entitlements VALUES (new.account_id, 'more', 'extra'); END IF;"
        " RETURN new; END $$; ALTER FUNCTION f SET search_path FROM CURRENT;"
        " ALTER FUNCTION f SET search_path FROM CURRENT;"
        " CREATE TRIGGER t AFTER INSERT ON entitlements FOR EACH ROW EXECUTE FUNCTION f()"
    )
    with pytest.raises(ChangedMeanwhile) as stopped:
        commit(bed.fenced(), [grant("a", "x", "1")], [("a", "x", "1")])
    assert stopped.value.accounts == ("a",)


@pytest.mark.parametrize("text", ["a\0b", "\udc80"])
def test_a_text_that_postgres_cannot_keep_sets_its_account_apart(
    bed: PostgresBed, text: str
) -> None:
    target = bed.fenced()
    for row in (("a", "x", text), (text, "x", "1")):
        with pytest.raises(AccountRefused, match="PostgreSQL does not keep") as refused:
            commit(target, [grant("0", "x", "1"), grant(*row)], [])
        assert refused.value.account == row[0]
    assert bed.rows() == []


def test_a_row_of_nobody_is_refused(make: Make) -> None:
    bed = make(
        f"CREATE TABLE entitlements ({COLUMNS}); CREATE UNIQUE INDEX ON entitlements"
        " (account_id, entitlement)"
    )
    bed.insert((None, "x", "1"), ("a", None, "1"))
    target = bed.fenced(key=("account_id", "entitlement"))
    with pytest.raises(TargetUnusable, match="whose account account_id is NULL"):
        target.lines(EVERYTHING)
    bed.do("DELETE FROM entitlements WHERE account_id IS NULL")
    assert [decode(line) for line in target.lines(EVERYTHING)] == [("a", None, "1")]
    commit(target, [update(("a", None, "1"), ("a", None, "2"))], [("a", None, "2")])
    commit(target, [revoke("a", None, "2")], [], number=2)


# --- without psycopg


def test_without_psycopg_the_line_that_installs_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "psycopg", None)
    config = TargetConfig("postgres", "postgresql://u@h/db", "t")
    with pytest.raises(ConfigError, match="needs psycopg") as refused:
        open_target(config, "job", None)  # type: ignore[arg-type]
    assert "pip install 'reconcile[postgres]'" in refused.value.hint


@pytest.mark.parametrize(
    "url", ["postgresql://u:S3c/ret@h/db", "postgresql://h/db?nonsense=S3cret"]
)
def test_an_address_that_cannot_be_read_is_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(ConfigError, match=r"target\.url") as refused:
        open_target(TargetConfig("postgres", url, "t"), "job", None)  # type: ignore[arg-type]
    assert "S3c" not in str(refused.value) + refused.value.hint


def test_a_fence_of_another_schema_is_not_ours(bed: PostgresBed) -> None:
    target = bed.fenced()
    assert target.raise_fence(fence(2), "store", NOW).generation == 1
    elsewhere = bed.target(schema="pg_temp_none")
    assert elsewhere.floor(fence(1).key) is None
