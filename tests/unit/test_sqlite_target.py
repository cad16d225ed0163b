"""A SQLite target, where it differs from others; for what all promise see the contract."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fakes import FakeClock
from support.target import (
    Bed,
    commit,
    grant,
)

from reconcile.core.config import TargetConfig, sqlite_url
from reconcile.core.errors import (
    ConfigError,
    TargetUnusable,
)
from reconcile.core.targets import open_target
from reconcile.core.targets.sqlite_ddl import ddl


@pytest.fixture(params=["delete", "wal"])
def bed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bed]:
    made = Bed(tmp_path, wal=request.param == "wal")
    yield made
    made.close()


def test_the_printed_statements_make_the_same_tables(bed: Bed, tmp_path: Path) -> None:
    bed.fenced()
    with sqlite3.connect(":memory:") as by_hand:
        by_hand.executescript(ddl())
        question = "SELECT name, sql FROM sqlite_master WHERE name LIKE 'reconcile%' ORDER BY 1"
        assert by_hand.execute(question).fetchall() == bed.other.execute(question).fetchall()
    by_hand.close()


def test_a_target_says_what_it_is(bed: Bed) -> None:
    assert bed.target().describe() == f"sqlite {bed.path}, table entitlements"


def test_other_types_of_target_are_a_configuration_error(tmp_path: Path) -> None:
    for config in (
        TargetConfig("scim", "https://x", "t"),
        TargetConfig("sql", "redis://x", "t"),
    ):
        with pytest.raises(ConfigError, match="target"):
            open_target(config, "job", FakeClock())
    made = open_target(TargetConfig("sql", sqlite_url(tmp_path / "a.db"), "t"), "j", FakeClock())
    assert made.fenced


def test_the_journal_mode_stays_as_it_is(bed: Bed) -> None:
    before = bed.other.execute("PRAGMA journal_mode").fetchone()
    commit(bed.fenced(), [grant("a", "x", "1")], [("a", "x", "1")])
    assert bed.other.execute("PRAGMA journal_mode").fetchone() == before


def test_a_schema_that_is_no_text_is_damage(bed: Bed) -> None:
    target = bed.fenced()
    target.close()
    bed.other.close()
    content = bed.path.read_bytes()
    assert b"CREATE TABLE entitlements" in content
    bed.path.write_bytes(
        content.replace(b"CREATE TABLE entitlements", b"CREAT\xff\x80 ABLE entitlements")
    )
    with pytest.raises(TargetUnusable, match="damaged") as refused:
        bed.target().schema()
    assert "integrity_check" in refused.value.hint
