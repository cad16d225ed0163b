"""What spellings of accounts do to a night, through the real command line.

Under every policy the target becomes what a plain dict says it must, a second call changes
nothing, and an account with two spellings on one side is named and left alone.
`RECONCILE_TEST_LONG=1` searches 1,000 new examples of each policy.
"""

from __future__ import annotations

import csv
import json
import os
import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.cli import Cli, Shown

from reconcile.core.checksum import checksum, encode
from reconcile.core.endpoints import Committed
from reconcile.core.targets.sqlite import SqliteTarget

Table = dict[tuple[str, str], str]

LONG = bool(os.environ.get("RECONCILE_TEST_LONG"))
EXAMPLES = 1000 if LONG else 10
COMPLETED, INCOMPLETE, APPROVAL = 0, 3, 4
ONE, TWO = "caf\u00e9", "cafe\u0301"
BINARY = "CREATE TABLE entitlements (account_id TEXT, entitlement TEXT, level TEXT,"
BINARY += " PRIMARY KEY (account_id, entitlement))"
NOCASE = BINARY.replace("account_id TEXT", "account_id TEXT COLLATE NOCASE")

pytestmark = pytest.mark.timeout(3600 if LONG else 120)

MODEL: Mapping[str, Callable[[str], str]] = {
    "exact": lambda spelling: spelling,
    "casefold": lambda spelling: normalize("NFC", normalize("NFD", spelling).casefold()),
    "nfc": lambda spelling: normalize("NFC", spelling),
    "trim": lambda spelling: spelling.strip(" \u00a0"),
}


class Place:
    """A job on demand in a folder, its export and its table."""

    def __init__(self, cli: Cli, policy: str, ddl: str = BINARY) -> None:
        self.cli = cli
        self.folder = cli.folder
        cli.configure(
            "[jobs.entitlements]\n"
            f'key_policy = "{policy}"\n'
            'source = "export.csv"\n'
            'target = "app.db"\n'
            "range_size = 2\n"
            'guards = { max_revoke = "100%", max_update = "100%" }\n'
        )
        with closing(self.connect()) as db:
            db.execute(ddl)

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.folder / "app.db", isolation_level=None)

    def has(self, table: Table) -> None:
        with closing(self.connect()) as db:
            db.execute("BEGIN")
            db.executemany(
                "INSERT INTO entitlements VALUES (?, ?, ?)",
                [(*key, level) for key, level in table.items()],
            )
            db.execute("COMMIT")

    def export(self, table: Table) -> None:
        with (self.folder / "export.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
            writer.writerow(["account_id", "entitlement", "level"])
            writer.writerows([(*key, level) for key, level in table.items()])

    def run(self) -> Shown:
        """Whatever is due, long after what was before."""
        self.cli.clock.advance(timedelta(hours=3).total_seconds())
        return self.cli("run", "entitlements")

    def rows(self) -> Table:
        with closing(self.connect()) as db:
            return {(a, e): level for a, e, level in db.execute("SELECT * FROM entitlements")}

    def log(self) -> list[tuple[Any, ...]]:
        with closing(self.connect()) as db:
            return db.execute(
                'SELECT action, account, "before", "after" FROM reconcile_changes'
            ).fetchall()

    def last(self) -> Any:
        shown = json.loads(self.cli("status", "entitlements", "--json").data)
        return max(shown["intervals"], key=lambda one: one["scheduled_at"])


@pytest.fixture
def place(cli: Cli) -> Callable[..., Place]:
    return lambda policy, ddl=BINARY: Place(cli, policy, ddl)


# --- against a model

pieces = st.sampled_from(
    ["a", "A", "b", "\u00e9", "e\u0301", "\u00c9", "\u00df", "ss", " ", "\u00a0"]
)
accounts = (
    st.lists(pieces, min_size=1, max_size=3)
    .map("".join)
    .filter(lambda spelling: spelling.strip() != "")
)
tables = st.dictionaries(
    st.tuples(accounts, st.sampled_from("xy")), st.sampled_from("12"), max_size=9
)


def spellings(table: Table, policy: str) -> dict[str, set[str]]:
    """Of each account, how a side spells it."""
    found = defaultdict(set)
    for spelling, _ in table:
        found[MODEL[policy](spelling)].add(spelling)
    return found


def expected(source: Table, target: Table, policy: str) -> tuple[Table, set[str]]:
    """The target after a night, and the accounts that are left alone."""
    theirs, ours = spellings(source, policy), spellings(target, policy)
    apart = {a for side in (theirs, ours) for a, of in side.items() if len(of) > 1}
    after = {key: level for key, level in target.items() if MODEL[policy](key[0]) in apart}
    for (spelling, entitlement), level in source.items():
        account = MODEL[policy](spelling)
        if account not in apart:
            own = next(iter(ours.get(account, {account})))
            after[own, entitlement] = level
    return after, apart


@pytest.mark.parametrize("policy", MODEL)
@settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(source=tables, target=tables)
@example(source={("A", "x"): "1", ("a", "y"): "1"}, target={("a", "x"): "2", ("b", "x"): "1"})
@example(source={("a", "x"): "1"}, target={("A", "x"): "1", (" a", "x"): "1", ("a", "x"): "1"})
@example(source={(ONE, "x"): "1", (TWO, "x"): "1"}, target={(ONE, "y"): "1", (TWO, "y"): "1"})
@example(source={("b", "x"): "1"}, target={("A", "x"): "1"})
def test_a_night_makes_of_the_target_what_a_dict_says(
    policy: str, source: Table, target: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = {**source, ("zz", "x"): "1"}  # an empty one is for the guards
    after, apart = expected(source, target, policy)
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Cli(Path(folder), monkeypatch), policy)
        place.has(target)
        place.export(source)
        first = place.run()
        assert first.code == (INCOMPLETE if apart else COMPLETED), str(first)
        assert place.rows() == after
        assert {account for _, account, *_ in place.log()}.isdisjoint(apart)
        _check_log(place, target, after)
        if not apart:
            lines = [encode((MODEL[policy](a), e, level)) for (a, e), level in after.items()]
            assert place.last()["checksum"] == str(checksum(lines))
        log = place.log()
        again = place.run()
        assert again.code == first.code, str(again)
        assert place.rows() == after
        assert place.log() == log


def _check_log(place: Place, before: Table, after: Table) -> None:
    """The log leads from what was to what is, in the target's own spelling."""
    rows = {(*key, level) for key, level in before.items()}
    for _, _, was, became in place.log():
        if was is not None:
            rows.remove(tuple(json.loads(was).values()))
        if became is not None:
            rows.add(tuple(json.loads(became).values()))
    assert rows == {(*key, level) for key, level in after.items()}


# --- the stories behind it


def test_composed_and_decomposed_forms_are_one_account_that_is_named_and_left(
    place: Callable[..., Place],
) -> None:
    there = place("nfc")
    there.has({(ONE, "x"): "1", ("bob", "x"): "1", ("eve", "x"): "1"})
    there.export({(TWO, "y"): "1", (ONE, "x"): "2", ("bob", "x"): "2"})
    shown = there.run()
    assert shown.code == INCOMPLETE
    assert f"'{ONE}'" in shown.words
    assert r"'cafe\u0301'" in shown.words
    assert there.rows() == {(ONE, "x"): "1", ("bob", "x"): "2"}


def test_in_the_target_two_forms_of_one_account_are_named_and_left(
    place: Callable[..., Place],
) -> None:
    there = place("nfc")
    had = {(ONE, "x"): "1", (TWO, "x"): "1", (TWO, "y"): "1"}
    there.has({**had, ("bob", "x"): "1"})
    there.export({(TWO, "x"): "2", ("bob", "x"): "2"})
    shown = there.run()
    assert shown.code == INCOMPLETE
    words = " ".join(shown.words.split())
    assert f"the target spells it 'cafe\\u0301' and '{ONE}'" in words
    assert there.rows() == {**had, ("bob", "x"): "2"}


def test_under_exact_composed_and_decomposed_forms_are_two_accounts(
    place: Callable[..., Place],
) -> None:
    there = place("exact")
    there.has({(ONE, "x"): "1", (TWO, "y"): "1", ("google", "x"): "1"})
    there.export({(TWO, "y"): "2", (ONE, "x"): "1", ("Google", "x"): "1", ("google", "x"): "1"})
    shown = there.run()
    assert shown.code == COMPLETED, str(shown)
    assert there.rows() == {
        (ONE, "x"): "1",
        (TWO, "y"): "2",
        ("google", "x"): "1",
        ("Google", "x"): "1",
    }


def test_two_keys_that_the_table_would_take_for_one_are_both_named(
    place: Callable[..., Place],
) -> None:
    there = place("casefold", NOCASE)
    there.has({("google", "x"): "1"})
    there.export({("google", "x"): "1", ("Google", "x"): "2", ("bob", "x"): "1"})
    shown = there.run()
    assert shown.code == INCOMPLETE
    assert "'google'" in shown.words
    assert "'Google'" in shown.words
    assert there.rows() == {("google", "x"): "1", ("bob", "x"): "1"}
    there.export({("GOOGLE", "x"): "2", ("bob", "x"): "1"})
    assert there.run().code == COMPLETED
    assert there.rows() == {("google", "x"): "2", ("bob", "x"): "1"}


@pytest.mark.parametrize("policy", ["exact", "nfc", "trim"])
def test_a_table_that_takes_two_keys_for_one_is_refused_with_the_policy_that_would_do(
    place: Callable[..., Place], policy: str
) -> None:
    there = place(policy, NOCASE)
    there.has({("google", "x"): "1"})
    there.export({("google", "x"): "1", ("Google", "x"): "2"})
    shown = there.run()
    assert shown.code == 65
    assert "compares account_id as NOCASE" in shown.words
    assert 'key_policy = "casefold"' in shown.words
    assert there.rows() == {("google", "x"): "1"}


def test_where_an_index_of_another_kind_takes_two_keys_for_one_the_range_stops_with_both_named(
    place: Callable[..., Place],
) -> None:
    there = place("exact", BINARY)
    with closing(there.connect()) as db:
        db.execute("CREATE UNIQUE INDEX loose ON entitlements (lower(account_id), entitlement)")
    there.has({("bob", "x"): "1"})
    there.export({("Google", "x"): "1", ("google", "x"): "2"})
    shown = there.run()
    assert shown.code == 65
    words = " ".join(shown.words.split())
    assert "takes accounts 'google' and 'Google' for one" in words
    assert 'key_policy = "casefold"' in words
    assert there.rows() == {("bob", "x"): "1"}


def test_numbers_have_no_spellings(place: Callable[..., Place]) -> None:
    there = place("trim", BINARY.replace("account_id TEXT", "account_id INTEGER"))
    there.export({("7", "x"): "1"})
    shown = there.run()
    assert shown.code == 65
    assert "take key_policy out" in shown.words


def test_an_account_that_falls_apart_while_it_is_applied_is_left_and_the_others_are_done(
    place: Callable[..., Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = place("casefold")
    there.has({("Ann", "x"): "1", ("Bob", "x"): "1"})
    there.export({("ann", "x"): "2", ("bob", "x"): "2", ("eve", "x"): "1"})
    commit = SqliteTarget.commit
    waiting = [("ANN", "new", "1")]

    def meanwhile(self: SqliteTarget, *args: Any) -> Committed:
        if waiting:
            with closing(there.connect()) as db:
                db.execute("INSERT INTO entitlements VALUES (?, ?, ?)", waiting.pop())
        return commit(self, *args)

    monkeypatch.setattr(SqliteTarget, "commit", meanwhile)
    shown = there.run()
    assert shown.code == INCOMPLETE, str(shown)
    assert "the target spells it 'ANN' and 'Ann'" in " ".join(shown.words.split())
    assert there.rows() == {
        ("Ann", "x"): "1",
        ("ANN", "new"): "1",
        ("Bob", "x"): "2",
        ("eve", "x"): "1",
    }
    with closing(there.connect()) as db:
        db.execute("DELETE FROM entitlements WHERE account_id = 'ANN'")
    assert there.run().code == COMPLETED
    assert there.rows() == {("Ann", "x"): "2", ("Bob", "x"): "2", ("eve", "x"): "1"}


def test_guards_and_changes_know_an_account_by_any_spelling(place: Callable[..., Place]) -> None:
    there = place("casefold")
    text = (there.folder / "reconcile.toml").read_text()
    there.cli.configure(text.replace('"100%" }', '"100%", must_contain = ["ANN"] }'))
    there.has({("Ann", "x"): "1"})
    there.export({("aNN", "x"): "2"})
    planned = there.cli("run", "entitlements", "--dry-run")
    assert planned.code == COMPLETED, str(planned)
    for asked in ("ann", "aNN"):
        shown = there.cli("changes", "entitlements", "--planned", "--account", asked)
        assert "update" in shown.data
    assert there.run().code == COMPLETED
    for asked in ("ann", "Ann", "aNN"):
        assert "Ann" in there.cli("changes", "entitlements", "--account", asked).data
    assert there.cli("changes", "entitlements", "--account", "bob").data == ""
    there.export({("bob", "x"): "2"})
    assert there.run().code == APPROVAL


def test_another_policy_makes_another_plan(place: Callable[..., Place]) -> None:
    """What was stopped under one policy is not approved under another."""
    there = place("exact")
    text = (there.folder / "reconcile.toml").read_text()
    there.cli.configure(text.replace('max_revoke = "100%"', "max_revoke_min = 0"))
    there.has({("Ann", "x"): "1"})
    there.export({("ann", "x"): "1"})
    stopped = there.run()
    assert stopped.code == APPROVAL
    there.cli.configure(text.replace('"exact"', '"casefold"'))
    assert there.run().code == COMPLETED
    assert there.rows() == {("Ann", "x"): "1"}
    assert there.log() == []
