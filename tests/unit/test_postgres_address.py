"""What of a Postgres address is ours, what libpq's, and what is shown."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from reconcile.core.errors import ConfigError
from reconcile.stores.postgres_address import read_address

BASE = {"client_encoding": "utf8", "fallback_application_name": "reconcile"}


@pytest.mark.parametrize(
    ("url", "parts", "schema", "shown"),
    [
        (
            "postgresql://ops:pw@db.example:6432/rec",
            {"user": "ops", "password": "pw", "host": "db.example", "port": "6432"},
            "reconcile",
            "postgresql://ops@db.example:6432/rec",
        ),
        (
            "postgres://ops:p%40w%3F@db/rec?schema=night%20shift&sslmode=verify-full",
            {"user": "ops", "password": "p@w?", "host": "db", "sslmode": "verify-full"},
            "night shift",
            "postgresql://ops@db/rec?schema=night%20shift",
        ),
        (
            "postgresql://ops:p?schema=x@db/rec?sslmode=require&schema=real",
            {"user": "ops", "password": "p?schema=x", "host": "db", "sslmode": "require"},
            "real",
            "postgresql://ops@db/rec?schema=real",
        ),
        (
            "postgresql://a,b:1,c:2/rec",
            {"host": "a,b,c", "port": ",1,2"},
            "reconcile",
            "postgresql://a,b:1,c:2/rec",
        ),
        (
            "postgresql:///rec?host=/run/pg&password=pw&port=5433",
            {"host": "/run/pg", "password": "pw", "port": "5433"},
            "reconcile",
            "postgresql://:5433/rec?host=/run/pg",
        ),
        (
            "postgresql:///rec?service=nights",
            {"service": "nights"},
            "reconcile",
            "postgresql:///rec?service=nights",
        ),
    ],
)
def test_an_address_is_taken_apart(
    url: str, parts: dict[str, str], schema: str, shown: str
) -> None:
    address = read_address(url)
    known = conninfo_to_dict(address.conninfo)
    assert known == {**BASE, "target_session_attrs": "read-write", "dbname": "rec", **parts}
    assert (address.schema, address.shown) == (schema, shown)


@pytest.mark.parametrize("encoding", ["latin1", "auto", "sql_ascii"])
def test_another_encoding_than_the_one_that_is_used_is_refused(encoding: str) -> None:
    assert read_address("postgresql://h/rec?client_encoding=UTF-8").schema == "reconcile"
    with pytest.raises(ConfigError, match="its client_encoding is another than UTF8"):
        read_address(f"postgresql://h/rec?client_encoding={encoding}")


def test_a_user_who_asks_for_another_kind_of_server_is_not_overruled() -> None:
    address = read_address("postgresql://h/rec?target_session_attrs=primary")
    assert conninfo_to_dict(address.conninfo)["target_session_attrs"] == "primary"


@pytest.mark.parametrize(
    "query",
    ["schema=", "schema=a&schema=b", "schema=pg_toast", "schema=" + "x" * 64, "schema=a%00b"],
)
def test_a_schema_that_postgres_cannot_have_is_refused(query: str) -> None:
    with pytest.raises(ConfigError, match="its schema is not one name"):
        read_address(f"postgresql://ops:secret-word@h/rec?{query}")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ops:100%secret-word@h/rec",
        "postgresql://ops:secret-word@h/rec?unheard=of",
        "postgresql://ops:secret-word@[::1/rec",
    ],
)
def test_an_address_that_libpq_cannot_read_is_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(ConfigError, match="libpq cannot read this address") as refused:
        read_address(url)
    assert "secret-word" not in str(refused.value) + refused.value.hint


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ops:pw@secret-word/x@h/rec",
        "postgresql://ops:pw/secret-word@h/rec",
        "postgresql://ops:secret-word/pw@h/rec",
        "postgresql://ops:pw@secret-word@h/rec?schema=x",
    ],
)
def test_a_password_that_may_go_on_behind_an_at_or_slash_is_not_taken_for_a_host(url: str) -> None:
    with pytest.raises(ConfigError, match="where the password in this address ends") as refused:
        read_address(url)
    assert "%2F %40" in refused.value.hint
    assert "secret-word" not in str(refused.value) + refused.value.hint
