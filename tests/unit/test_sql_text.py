"""Placeholders in SQL: which are values, which are refused, and what becomes of the rest."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import mysql, postgresql, sqlite

from reconcile.core.errors import ConfigError
from reconcile.core.model import Interval
from reconcile.core.sources.sql.statement import statement
from reconcile.core.sql_config import SqlConfig
from reconcile.core.sql_text import check, is_dated

NIGHT = Interval("j", datetime(2026, 11, 30, 2, 30, tzinfo=UTC), "2026-11-30")
DIALECTS = {
    "postgres": postgresql.dialect(paramstyle="pyformat"),
    "mysql": mysql.dialect(paramstyle="format"),
    "sqlite": sqlite.dialect(paramstyle="qmark"),
}


def compiled(sql: SqlConfig, name: str, columns: tuple[str, ...] = ("a", "b")) -> tuple[str, Any]:
    """What the driver is given, with its own escapes undone."""
    found = statement(sql, columns, NIGHT).compile(dialect=DIALECTS[name])
    return str(found).replace("%%", "%" if name != "sqlite" else "%%"), found.params


@pytest.mark.parametrize("name", DIALECTS)
@given(st.text(alphabet="ab1 :%?\\'\"${}()-/*\n;é", max_size=30))
def test_what_is_no_placeholder_reaches_the_database_as_it_is_written(name: str, sql: str) -> None:
    query = f"SELECT {sql}."
    found, params = compiled(SqlConfig(query=query), name)
    if name != "sqlite":  # two of them are one, and one has been made two
        query = query.replace("%%", "%")
        found = found.replace("%%", "%")
    assert (found, params) == (query.strip(), {})


@pytest.mark.parametrize("name", DIALECTS)
def test_placeholders_are_values_and_the_text_around_them_stays(name: str) -> None:
    query = "SELECT x::text, '12:30', ':y' FROM t WHERE d = {date}::date AND e > {yesterday:%Y%m};"
    found, params = compiled(SqlConfig(query=query), name)
    assert list(params.values()) == ["2026-11-30", "202611"]
    assert "2026" not in found
    assert "x::text, '12:30', ':y' FROM t WHERE d = " in found
    assert "::date AND e > " in found
    assert "VARCHAR" not in found.upper(), "a value has no type before the database gives it one"


def test_a_scope_that_ends_in_a_comment_hides_no_bracket() -> None:
    found, _ = compiled(SqlConfig(table="app.t", scope="day = {date} -- mine"), "sqlite")
    assert " ".join(found.split()) == "SELECT a, b FROM app.t WHERE (day = ? -- mine )"
    assert "-- mine\n)" in found


@pytest.mark.parametrize(
    ("sql", "dated"),
    [
        ("SELECT {date}", True),
        ("SELECT '{\"a\": 1}'::jsonb", False),
        ("SELECT 1 -- of {date}, it's", False),
        ("SELECT /* {date} ' */ 1", False),
        ("SELECT 'it''s', {interval}", True),
        ("SELECT {dates}", False),
    ],
)
def test_only_placeholders_outside_comments_make_it_dated(sql: str, dated: bool) -> None:
    check(sql)
    assert is_dated(sql) is dated


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT '{date}'", "within quotes"),
        ("SELECT 'since {yesterday:%Y}'", "within quotes"),
        ('SELECT "t_{date:%Y}".x', "within quotes"),
        ("SELECT `t_{date}`.x", "within quotes"),
        ("SELECT {date:%Q}", "unknown strftime mark"),
    ],
)
def test_what_cannot_be_bound_is_refused(sql: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        check(sql)
