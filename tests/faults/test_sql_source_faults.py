"""A database as the source that breaks off, refuses or says odd things."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.api import Calls
from support.mariadb_server import own_mariadb, shared_mariadb
from support.postgres_server import fresh_name, shared_server

from reconcile.core.config import SourceConfig
from reconcile.core.endpoints import BrokenOff, Unordered
from reconcile.core.errors import (
    AccessDenied,
    ConfigError,
    ReconcileError,
    SourceUnreachable,
    SourceUnusable,
)
from reconcile.core.model import Interval
from reconcile.core.rows import Column, ColumnKind, Row, Schema
from reconcile.core.sources import open_source
from reconcile.core.sources.spool import Spools
from reconcile.core.sources.sql.dialects import dialect_of
from reconcile.core.sources.sql.postgres import collation_notes
from reconcile.core.sources.sql.reading import SqlReading
from reconcile.core.sql_config import SqlConfig

NIGHT = Interval("entitlements", datetime(2026, 11, 30, 2, 30, tzinfo=UTC), "2026-11-30")
PLAIN = Schema(
    (Column("account_id", ColumnKind.TEXT, False), Column("entitlement", ColumnKind.TEXT, False)),
    (0, 1),
)
MANY = {
    "mariadb": "SELECT CONCAT('a', seq) AS account_id, REPEAT('x', 2000) AS entitlement"
    " FROM seq_1_to_12000",
    "postgres": "SELECT 'a' || n AS account_id, repeat('x', 2000) AS entitlement"
    " FROM generate_series(1, 12000) n",
}


def schema_of(**kinds: ColumnKind) -> Schema:
    more = tuple(Column(name, kind) for name, kind in kinds.items())
    return Schema((*PLAIN.columns, *more), (0, 1))


def url_of(kind: str) -> str:
    return shared_mariadb().url() if kind == "mariadb" else shared_server().url()


def opened(
    folder: Path,
    url: str,
    query: str | None = None,
    calls: Calls | None = None,
    schema: Schema = PLAIN,
    **options: Any,
) -> SqlReading:
    sql = SqlConfig(
        query, None if query else options.pop("table", None), options.pop("scope", None)
    )
    folder.mkdir(exist_ok=True)
    source = open_source(
        SourceConfig("sql", url, sql=sql, **options),
        Spools(folder / "spool", "entitlements"),
        max_age=timedelta(hours=1),
    )
    found = source.open(NIGHT, schema, calls or Calls())
    assert isinstance(found, SqlReading)
    return found


def all_of(reading: SqlReading) -> tuple[list[Row], dict[str, str]]:
    rows: list[Row] = []
    bad: dict[str, str] = {}
    with closing(reading):
        for page in reading.pages():
            rows += page.rows
            bad |= page.bad
    return rows, bad


def refusal(folder: Path, url: str, query: str | None = None, **options: Any) -> ReconcileError:
    with pytest.raises(ReconcileError) as caught:
        all_of(opened(folder, url, query, **options))
    assert not list((folder / "spool").glob("*.spool")), "nothing can be planned from it"
    return caught.value


def end_sessions(kind: str, mark: str) -> None:
    """Break off what the server does for statements that have this in them."""
    if kind == "postgres":
        shared_server().do(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE"
            f" '%{mark}%' AND pid <> pg_backend_pid()"
        )
        return
    server = shared_mariadb()
    query = f"SELECT id FROM information_schema.processlist WHERE info LIKE '%{mark}%'"
    for (number,) in server.ask(f"{query} AND id <> CONNECTION_ID()"):
        server.do(f"KILL {number}")


@pytest.mark.parametrize("kind", MANY)
def test_a_connection_that_breaks_off_in_the_middle_is_no_end_of_the_rows(
    tmp_path: Path, kind: str
) -> None:
    mark = fresh_name("mark")
    query = f"{MANY[kind]} /* {mark} */"
    reading = opened(tmp_path, url_of(kind), query)
    pages = reading.pages()
    next(pages)
    # PostgreSQL shows the FETCH of a cursor; its name says nothing of the statement.
    end_sessions(kind, mark if kind == "mariadb" else "FETCH FORWARD")
    with pytest.raises(SourceUnreachable, match="cannot be read"):
        list(pages)
    reading.close()
    assert not list((tmp_path / "spool").glob("*.spool"))
    rows, bad = all_of(opened(tmp_path, url_of(kind), query))
    assert (len(rows), bad) == (12000, {})
    assert rows == sorted(rows)


def test_an_error_after_many_rows_is_no_end_of_them_either(tmp_path: Path) -> None:
    query = (
        "SELECT 'a' || n AS account_id, repeat('x', 9) || 1 / (9000 - n) AS entitlement"
        " FROM generate_series(1, 12000) n"
    )
    error = refusal(tmp_path, url_of("postgres"), query)
    assert isinstance(error, SourceUnusable)
    assert "division by zero" in str(error)


def test_a_server_that_goes_away_is_unreachable(tmp_path: Path) -> None:
    server = own_mariadb()
    reading = opened(tmp_path, server.url(), MANY["mariadb"])
    pages = reading.pages()
    next(pages)
    server.stop()
    with pytest.raises(SourceUnreachable):
        list(pages)
    reading.close()
    error = refusal(tmp_path, server.url(), MANY["mariadb"])
    assert isinstance(error, SourceUnreachable)
    assert "hunter2" not in str(error) + error.hint


def test_each_refusal_is_told_apart_and_none_shows_the_password(tmp_path: Path) -> None:
    maria, query = shared_mariadb(), "SELECT 'a' AS account_id, 'b' AS entitlement"
    wrong = maria.url().replace("hunter2", "hunter3")
    postgres = shared_server().url()
    file = tmp_path / "none.db"
    (tmp_path / "not.db").write_text("this is no database, but a text that is long enough")
    for url, asked, kind, words in (
        (wrong, query, AccessDenied, "Access denied"),
        (maria.url("nobody"), query, AccessDenied, "Access denied"),
        (maria.url(), "SELECT * FROM mysql.user", AccessDenied, "denied"),
        (maria.url("root"), "DELETE FROM mysql.user", SourceUnusable, "READ ONLY"),
        (maria.url("root"), "CREATE TABLE app.made (a int)", SourceUnusable, "READ ONLY"),
        (maria.url(), "SELEC 1", SourceUnusable, "SQL syntax"),
        (maria.url(), "SELECT 1 AS a", SourceUnusable, "has no column account_id"),
        (maria.url("root", "nowhere"), query, ConfigError, "nowhere"),
        (maria.url(port=1), query, SourceUnreachable, "refused"),
        (postgres, "SELECT * FROM nothing", SourceUnusable, "nothing"),
        (postgres, "WITH x AS (DELETE FROM y RETURNING 1) TABLE x", SourceUnusable, ""),
        (postgres.replace("postgres?", "nowhere?"), query, ConfigError, "nowhere"),
        (f"sqlite://{file}", query, SourceUnreachable, "no file"),
        (f"sqlite://{tmp_path}/not.db", "SELECT * FROM t", SourceUnusable, "not a database"),
        ("nonesuch://u:hunter2@h/d", query, ConfigError, "no database nonesuch"),
        ("oracle+oracledb://u:hunter2@h/d", query, ConfigError, "oracledb is not installed"),
        ("mysql://u:hunter2@h:x/d", query, ConfigError, "cannot read this address"),
    ):
        error = refusal(tmp_path, url, asked)
        assert (type(error), words in str(error)) == (kind, True), (url, str(error))
        assert "hunter" not in str(error) + error.hint, error
    assert not file.exists()


def test_a_limit_that_somebody_set_for_people_cuts_nothing(tmp_path: Path) -> None:
    server = shared_mariadb()
    server.do("SET GLOBAL sql_select_limit = 10", "SET GLOBAL max_statement_time = 0.001")
    try:
        rows, _ = all_of(opened(tmp_path, server.url(), MANY["mariadb"]))
    finally:
        server.do("SET GLOBAL sql_select_limit = DEFAULT", "SET GLOBAL max_statement_time = 0")
    assert len(rows) == 12000


@pytest.mark.parametrize("kind", MANY)
def test_a_run_that_is_to_end_leaves_the_rows_unread(tmp_path: Path, kind: str) -> None:
    class Between(Calls):
        """Asked to stop while nobody waits for the database."""

        def stand_by(self) -> None:
            pass

    calls = Between()
    calls.stop_after = 2
    endless = MANY[kind].replace("12000", "12000000")
    reading = opened(tmp_path, url_of(kind), endless, calls)
    begun = time.monotonic()
    with pytest.raises(BrokenOff):
        list(reading.pages())
    reading.close()
    assert time.monotonic() - begun < 30, "to read them all takes minutes"
    assert not list((tmp_path / "spool").glob("*.spool"))


def test_a_collation_of_another_version_is_told() -> None:
    postgres = dialect_of(shared_server().url())
    assert postgres.notes() == [], "the tests' server has but C"
    (told,) = collation_notes("here", "app", "2.31", "2.36")
    assert "made by version 2.31, and the server has 2.36" in told
    for was, now in (("2.36", "2.36"), (None, "2.36"), ("2.36", None)):
        assert collation_notes("here", "app", was, now) == []


class TestOneReading:
    """What is kept of a reading, and for whom."""

    @pytest.fixture
    def table(self) -> Iterator[str]:
        name = fresh_name("kept")
        shared_server().do(
            f"CREATE TABLE {name} (account_id text, entitlement text)",
            f"INSERT INTO {name} VALUES ('b', '1'), ('a', '1'), ('B', '1')",
        )
        yield name
        shared_server().do(f"DROP TABLE {name}")

    def test_another_process_goes_on_with_it_until_it_is_too_old(
        self, tmp_path: Path, table: str
    ) -> None:
        calls, url = Calls(), shared_server().url()
        first = opened(tmp_path, url, calls=calls, table=table)
        page = next(page for page in first.pages() if page.rows)
        first.close()
        shared_server().do(f"INSERT INTO {table} VALUES ('c', '1')")
        calls.at += timedelta(minutes=59)
        other = opened(tmp_path, url, calls=calls, table=table)
        assert [row[0] for page in other.pages() for row in page.rows] == ["B", "a", "b"]
        calls.at += timedelta(minutes=2)
        assert [row[0] for page in other.pages("a", page.resume) for row in page.rows] == [
            *("B", "a", "b")
        ], "a plan holds on to its reading"
        assert [row[0] for page in other.pages() for row in page.rows] == ["B", "a", "b", "c"]
        with pytest.raises(Unordered):
            list(other.pages("a", page.resume))
        other.close()

    def test_one_that_is_damaged_or_for_other_settings_is_not_believed(
        self, tmp_path: Path, table: str
    ) -> None:
        url = shared_server().url()
        assert len(all_of(opened(tmp_path, url, table=table))[0]) == 3
        shared_server().do(f"DELETE FROM {table} WHERE account_id = 'b'")
        assert len(all_of(opened(tmp_path, url, table=table))[0]) == 3
        (spool,) = (tmp_path / "spool").glob("*.spool")
        data = bytearray(spool.read_bytes())
        data[-50] ^= 1
        spool.write_bytes(data)
        assert len(all_of(opened(tmp_path, url, table=table))[0]) == 2
        shared_server().do(f"DELETE FROM {table}")
        assert len(all_of(opened(tmp_path, url, table=table, scope="true"))[0]) == 0


class TestValuesOfServers:
    """What drivers would make less of."""

    def test_documents_keep_their_text_and_odd_instants_set_one_account_apart(
        self, tmp_path: Path
    ) -> None:
        query = (
            "SELECT * FROM (VALUES ('a', 'x', 'infinity'::timestamptz, '{\"n\": 1.10}'::jsonb,"
            ' \'{"n": 1e2, "n": 12345678901234567890.50}\'::json),'
            " ('b', 'x', '2026-11-30 01:02:03.5+01', 'null', NULL),"
            " ('c', 'x', '0044-03-15 BC', '1', '1')"
            ") AS t(account_id, entitlement, at, doc, raw)"
        )
        schema = schema_of(at=ColumnKind.INSTANT, doc=ColumnKind.JSON, raw=ColumnKind.TEXT)
        rows, bad = all_of(opened(tmp_path, url_of("postgres"), query, schema=schema))
        assert rows == [("b", "x", "2026-11-30T00:02:03.500000Z", "null", None)]
        assert bad.keys() == {"a", "c"}
        schema = schema_of(doc=ColumnKind.JSON, raw=ColumnKind.TEXT)
        rows, _ = all_of(opened(tmp_path, url_of("postgres"), query, schema=schema))
        assert rows[0][2:] == ('{"n": 1.10}', '{"n": 1e2, "n": 12345678901234567890.50}')

    def test_of_mariadb_instants_bits_and_days_that_are_none_are_what_they_are(
        self, tmp_path: Path
    ) -> None:
        server, name = shared_mariadb(), fresh_name("odd")
        server.do(
            "SET SESSION sql_mode = ''",
            "SET time_zone = '+05:00'",
            f"CREATE TABLE {name} (account_id text, entitlement text, at timestamp(6) NULL,"
            " local datetime(3), bits bit(12), big bigint unsigned, narrow float)",
            f"INSERT INTO {name} VALUES ('a', 'x', '2026-11-30 05:00:00.25', '2026-11-30 05:00',"
            " b'100000000001', 18446744073709551615, 0.1), ('b', 'x', NULL, '0000-00-00', 1, 1, 1)",
            database="app",
        )
        schema = schema_of(
            at=ColumnKind.INSTANT,
            local=ColumnKind.TIMESTAMP,
            bits=ColumnKind.INTEGER,
            big=ColumnKind.DECIMAL,
        )
        rows, bad = all_of(opened(tmp_path, server.url(), table=name, schema=schema))
        assert rows == [
            (
                *("a", "x", "2026-11-30T00:00:00.250000Z", "2026-11-30T05:00:00.000000", "2049"),
                "18446744073709551615",
            )
        ]
        assert bad.keys() == {"b"}
        schema = schema_of(narrow=ColumnKind.FLOAT)
        error = refusal(tmp_path / "other", server.url(), table=name, schema=schema)
        assert "narrow is FLOAT" in str(error)
        server.do(f"DROP TABLE {name}", database="app")

    def test_names_that_are_words_of_the_language_are_names(self, tmp_path: Path) -> None:
        words = ("nothing", "select", "Mixed", 'a"b%')
        for kind in ("postgres", "mariadb"):
            server = shared_mariadb() if kind == "mariadb" else shared_server()
            for word in words:
                quoted = (
                    f"`{word}`" if kind == "mariadb" else f'"{word.replace(chr(34), chr(34) * 2)}"'
                )
                where = f"app.{quoted}" if kind == "mariadb" else quoted
                server.do(
                    f"CREATE TABLE {where} (account_id varchar(9), entitlement varchar(9))",
                    f"INSERT INTO {where} VALUES ('a', 'x')",
                )
                try:
                    found = all_of(opened(tmp_path, url_of(kind), table=word))
                finally:
                    server.do(f"DROP TABLE {where}")
                assert found == ([("a", "x")], {})

    def test_columns_are_found_by_rename_and_in_any_case_and_once(self, tmp_path: Path) -> None:
        url = url_of("postgres")
        query = "SELECT 'x' AS \"Entitlement\", 'a' AS login"
        found = opened(tmp_path, url, query, rename={"login": "account_id"})
        assert all_of(found)[0] == [("a", "x")]
        found = opened(tmp_path, url, query, account="LOGIN")
        assert all_of(found)[0] == [("a", "x")]
        twice = "SELECT 'a' AS account_id, 'x' AS entitlement, 'y' AS entitlement"
        error = refusal(tmp_path / "twice", url, twice)
        assert "more than one column entitlement" in str(error)
