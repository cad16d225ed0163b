"""Databases as source and target of one job: rows of every type under awkward keys, and sums over
both tables that each database makes itself, in plain SQL."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import unicodedata
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from hashlib import md5
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from uuid import UUID

from .mariadb_server import MariaDb, shared_mariadb
from .postgres_server import Server, fresh_name, shared_server
from .scene import NIGHTS, Ran, Scene

AWKWARD = (
    *("a-b", "a_b", "a b", "ab", "aB", "AB", "A-b", "a--b", "a.b", "Ab "),
    *(" ab", "ab ", "a\tb", "a,b", 'a"b', "a'b", "a\\b", "a%b", "a;b", "a:b", "a{b}", "%s", ":x"),
    *(
        "é",
        unicodedata.normalize("NFD", "é"),
        "É",
        "ß",
        "ss",
        "\u0131",
        "İ",
        "ÿ",
        "Straße",
        "naïve",
    ),
    *("日本", "日", "本日", "😀", "😀a", "\uffff", "\ue000", "漢字-1", "👩‍👩‍👧"),
    *("0123456789abcdef0123456789abcdef", "0123456789ABCDEF0123456789abcdef"),
    *("ann@example.org", "Ann@Example.org", "ann+x@example.org", "9007199254740993", "007", "7"),
    *("null", "NULL", "-", "--", "/*", "x" * 190),
)
"""Keys that collations, drivers and file formats take for others."""


class Grant(NamedTuple):
    """One row, as Python has its values."""

    account: str
    entitlement: str
    big: int
    price: Decimal
    ratio: float
    active: bool
    day: date
    at: datetime
    moment: datetime
    ref: UUID
    data: bytes
    doc: str
    note: str | None


COLUMNS = Grant._fields[2:]


def grants(accounts: int, seed: int = 0) -> list[Grant]:
    """Awkward accounts first, then plain ones; values are functions of the row's number."""
    names = [*AWKWARD, *(f"acc-{n:06}" for n in range(len(AWKWARD), accounts))][:accounts]
    return [
        grant(name, f"plan-{k}", n * 2 + k + seed)
        for n, name in enumerate(names)
        for k in range(1 + n % 2)
    ]


def grant(account: str, entitlement: str, n: int) -> Grant:
    """A row whose values depend on a number."""
    moment = datetime(2026, 3, 29, 0, 59, 59, tzinfo=UTC) + timedelta(seconds=n, microseconds=n % 7)
    return Grant(
        account,
        entitlement,
        (1 << 53) + n if n % 3 else -(1 << 63) + n,
        Decimal(n).scaleb(-4) + Decimal("12345678901234567890"),
        n / 7 if n % 5 else float(n) * 1e200,
        n % 2 == 0,
        date(1999, 12, 31) + timedelta(days=n % 9999),
        moment.replace(tzinfo=None) + timedelta(hours=n, microseconds=n % 1000),
        moment,
        UUID(int=n * 0x1234567890ABCDEF + 1),
        n.to_bytes(4, "big") + b"\0\xff'\\",
        json.dumps({"b": [n, None, True], "aa": "é\"'"}, ensure_ascii=False),
        None if n % 4 == 0 else ("" if n % 4 == 1 else f"'{n}'; -- 😀"),
    )


class SqliteSide:
    """A table in an SQLite file."""

    ddl = (
        "CREATE TABLE {name} (account TEXT NOT NULL, entitlement TEXT NOT NULL, big INTEGER,"
        " price TEXT, ratio REAL, active BOOLEAN, day TEXT, at TEXT, moment TEXT, ref TEXT,"
        " data TEXT, doc TEXT, note TEXT, PRIMARY KEY (account, entitlement))"
    )
    texts: ClassVar[dict[str, str]] = {
        "active": "CASE active WHEN 1 THEN 'true' ELSE 'false' END",
        "price": "rtrim(rtrim(price, '0'), '.')",
    }
    query_of_data = "data"

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self.url = f"sqlite:///{path}"
        self.do(self.ddl.format(name=name))

    def do(self, *statements: str) -> None:
        with sqlite3.connect(self.path) as db:
            for statement in statements:
                db.execute(statement)
        db.close()

    def fill(self, rows: list[Grant]) -> None:
        values = [
            (
                *(row.account, row.entitlement, row.big, format(row.price, "f"), row.ratio),
                *(int(row.active), row.day.isoformat(), _text(row.at), f"{_text(row.moment)}Z"),
                *(str(row.ref), f"\\x{row.data.hex()}", row.doc, row.note),
            )
            for row in rows
        ]
        with sqlite3.connect(self.path) as db:
            names = ", ".join(Grant._fields)
            places = ", ".join("?" * len(Grant._fields))
            db.executemany(f"INSERT INTO {self.name} ({names}) VALUES ({places})", values)
        db.close()

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        db = sqlite3.connect(self.path)
        db.create_function("md5n", 1, lambda text: int(md5(text.encode()).hexdigest()[:10], 16))
        found = db.execute(query).fetchall()
        db.close()
        return found

    def sum_of(self, column: str) -> tuple[int, int]:
        """How many rows there are, and the sum over a column with its key."""
        text = self.texts.get(column, column)
        whole = f"account || '|' || entitlement || '|' || coalesce({text}, 'NULL!')"
        ((count, total),) = self.ask(f"SELECT count(*), sum(md5n({whole})) FROM {self.name}")
        return count, int(total)

    def floats(self) -> dict[tuple[str, str], float]:
        return {
            (a, e): r
            for a, e, r in self.ask(f"SELECT account, entitlement, ratio FROM {self.name}")
        }

    def drop(self) -> None:
        """It goes with its folder."""


class PostgresSide:
    """A table in a schema of its own."""

    ddl = (
        "CREATE TABLE {name} (account text NOT NULL, entitlement varchar(80) NOT NULL, big bigint,"
        " price numeric(38,10), ratio double precision, active boolean, day date, at timestamp,"
        " moment timestamptz, ref uuid, data bytea, doc jsonb, note text,"
        " PRIMARY KEY (account, entitlement))"
    )
    texts: ClassVar[dict[str, str]] = {
        "price": "trim_scale(price)::text",
        "at": """to_char(at, 'YYYY-MM-DD"T"HH24:MI:SS.US')""",
        "moment": """to_char(moment AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')""",
        "data": r"'\x' || encode(data, 'hex')",
        "doc": "doc::text",
    }
    query_of_data = r"'\x' || encode(data, 'hex')"

    def __init__(self, name: str) -> None:
        self.server: Server = shared_server()
        self.schema = fresh_name("sql")
        self.name = f"{self.schema}.{name}"
        self.url = self.server.url()
        self.server.do(f"CREATE SCHEMA {self.schema}", self.ddl.format(name=self.name))

    def do(self, *statements: str) -> None:
        self.server.do(*statements)

    def fill(self, rows: list[Grant]) -> None:
        with self.server.admin() as db, db.cursor() as cursor:
            copied = f"COPY {self.name} FROM STDIN".encode()
            with cursor.copy(copied) as copy:
                for row in rows:
                    copy.write_row(row)

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        with self.server.admin() as db:
            return db.execute(query.encode()).fetchall()

    def sum_of(self, column: str) -> tuple[int, int]:
        text = self.texts.get(column, f"{column}::text")
        whole = f"account || '|' || entitlement || '|' || coalesce({text}, 'NULL!')"
        number = f"('x' || left(md5({whole}), 10))::bit(40)::bigint"
        ((count, total),) = self.ask(f"SELECT count(*), sum({number}) FROM {self.name}")
        return count, int(total)

    def floats(self) -> dict[tuple[str, str], float]:
        return {
            (a, e): r
            for a, e, r in self.ask(f"SELECT account, entitlement, ratio FROM {self.name}")
        }

    def drop(self) -> None:
        self.server.drop(self.schema)


class MariaDbSide:
    """A table in the database `app`."""

    ddl = (
        "CREATE TABLE {name} (account varchar(200) COLLATE utf8mb4_bin NOT NULL,"
        " entitlement varchar(80) COLLATE utf8mb4_bin NOT NULL, big bigint, price decimal(38,10),"
        " ratio double, active boolean, day date, at datetime(6), moment timestamp(6) NULL,"
        " ref uuid, data varbinary(80), doc json, note text COLLATE utf8mb4_bin,"
        " seen int AUTO_INCREMENT UNIQUE)"
    )
    texts: ClassVar[dict[str, str]] = {
        "price": "TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM price))",
        "active": "IF(active, 'true', 'false')",
        "at": "DATE_FORMAT(at, '%Y-%m-%dT%H:%i:%s.%f')",
        "moment": "DATE_FORMAT(CONVERT_TZ(moment, @@time_zone, '+00:00'), '%Y-%m-%dT%H:%i:%s.%fZ')",
        "data": r"CONCAT('\\x', LOWER(HEX(data)))",
    }
    query_of_data = r"CONCAT('\\x', LOWER(HEX(data)))"

    def __init__(self, name: str) -> None:
        self.server: MariaDb = shared_mariadb()
        self.name = fresh_name(name)
        self.url = self.server.url()
        self.do(self.ddl.format(name=self.name))

    def do(self, *statements: str) -> None:
        self.server.do(*statements, database="app")

    def fill(self, rows: list[Grant]) -> None:
        self.server.do("SET GLOBAL time_zone = '+00:00'")
        self.server.fill(
            f"{self.name} ({', '.join(Grant._fields)})",
            [
                tuple(
                    v.replace(tzinfo=None)
                    if isinstance(v, datetime)
                    else str(v)
                    if isinstance(v, UUID)
                    else v
                    for v in row
                )
                for row in rows
            ],
        )

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        return self.server.ask(query)

    def sum_of(self, column: str) -> tuple[int, int]:
        text = self.texts.get(column, column)
        whole = f"CONCAT(account, '|', entitlement, '|', COALESCE({text}, 'NULL!'))"
        number = f"CAST(CONV(LEFT(MD5({whole}), 10), 16, 10) AS UNSIGNED)"
        ((count, total),) = self.ask(f"SELECT COUNT(*), SUM({number}) FROM {self.name}")
        return count, int(total)

    def floats(self) -> dict[tuple[str, str], float]:
        return {
            (a, e): r
            for a, e, r in self.ask(f"SELECT account, entitlement, ratio FROM {self.name}")
        }

    def drop(self) -> None:
        self.do(f"DROP TABLE {self.name}")


Side = SqliteSide | PostgresSide | MariaDbSide


def side(kind: str, folder: Path, name: str) -> Side:
    """An empty table in a database of that kind."""
    if kind == "sqlite":
        return SqliteSide(folder / f"{name}.db", name)
    return PostgresSide(name) if kind == "postgres" else MariaDbSide(name)


class SqlScene(Scene):
    """See `Scene`: one job from one database to another, all columns compared."""

    variables: ClassVar[dict[str, str]] = {
        "PYTHONIMPORTS": "psycopg pymysql sqlalchemy.dialects.postgresql sqlalchemy.dialects.mysql"
        " sqlalchemy.dialects.sqlite reconcile.core.targets.postgres"
        " reconcile.core.sources.sql.postgres_values"
        " reconcile.core.sources.sql.postgres reconcile.core.sources.sql.mysql"
        " reconcile.core.sources.sql.sqlite"
    }

    def __init__(self, folder: Path, source: str, target: str, range_size: int = 50) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.nights = folder, {}
        self.truth, self.view = side(source, folder, "truth"), side(target, folder, "view")
        self.columns = [c for c in COLUMNS if target != "sqlite" or c != "data"]
        self.write(f'table = "{self.truth.name}"', range_size)

    def write(self, source: str, range_size: int = 50, more: str = "") -> None:
        """The configuration, with so much of the source said."""
        columns = json.dumps(["entitlement", *self.columns])
        (self.folder / "reconcile.toml").write_text(
            "[jobs.entitlements]\n"
            f'schedule = "0 0 * * *"\nstart = {NIGHTS[-1]}\nrange_size = {range_size}\n{more}'
            f'account = "account"\ncolumns = {columns}\n'
            f'[jobs.entitlements.source]\nurl = "{self.truth.url}"\n{source}\n'
            f'[jobs.entitlements.target]\nurl = "{self.view.url}"\ntable = "{self.view.name}"\n'
            'key = ["account", "entitlement"]\n'
            '[jobs.entitlements.guards]\nmax_update = "100%"\n'
        )

    def end(self, process: subprocess.Popen[str]) -> Ran:
        """See `Scene`; it may take as long as 100,000 accounts on a busy machine do."""
        out, err = process.communicate(timeout=600)
        return Ran(process.returncode, out, err)

    def assert_equal(self) -> None:
        """Both tables are the same, by sums that each database makes itself."""
        for column in self.columns:
            if column == "ratio":
                assert self.truth.floats() == self.view.floats()
            else:
                assert self.truth.sum_of(column) == self.view.sum_of(column), column

    def drop(self) -> None:
        """Drop both tables."""
        self.truth.drop()
        self.view.drop()


def _text(at: datetime) -> str:
    return at.replace(tzinfo=None).isoformat(timespec="microseconds")
