"""Tables of an older version of the Postgres store are brought up to date: once, whole, in order.

There is one migration so far, so the tests add a second to a copy of the folder.
"""

from __future__ import annotations

import shutil
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from support.postgres_server import fresh_name, shared_server

from reconcile.core.errors import StoreUnusable
from reconcile.core.model import Kind
from reconcile.stores import postgres_schema
from reconcile.stores.postgres import PostgresStore
from reconcile.stores.postgres_address import read_address
from reconcile.stores.testing_support import JOB, KEY, TONIGHT, cursor_at, grant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from reconcile.stores.testing import MovedClock

SECOND = """
CREATE TABLE reconcile.more (n int NOT NULL);
INSERT INTO reconcile.more VALUES (1);
UPDATE reconcile.meta SET value = '2' WHERE name = 'schema_version';
"""


@pytest.fixture
def schema() -> Iterator[str]:
    name = fresh_name("migrated")
    yield name
    shared_server().drop(name)


@pytest.fixture
def opens(schema: str, clock: MovedClock) -> Iterator[Callable[[], PostgresStore]]:
    """Opens the store in the schema, and closes it."""
    opened: list[PostgresStore] = []

    def open_() -> PostgresStore:
        address = read_address(shared_server().url(schema))
        opened.append(PostgresStore(address, clock=clock, patience=10))
        return opened[-1]

    yield open_
    for store in opened:
        store.close()


@pytest.fixture
def upgraded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Makes this process one of the next version, whose migration is that text."""

    def upgrade(text: str) -> None:
        folder = tmp_path / "next"
        shutil.copytree(postgres_schema._FOLDER, folder, dirs_exist_ok=True)
        (folder / "0002_more.sql").write_text(text)
        monkeypatch.setattr(postgres_schema, "_FOLDER", folder)
        monkeypatch.setattr(postgres_schema, "SCHEMA_VERSION", 2)

    return upgrade


def version(schema: str) -> Any:
    text = f"SELECT value FROM {schema}.meta WHERE name = 'schema_version'"
    return shared_server().ask(text)


def test_what_was_in_the_older_tables_is_kept_and_the_migration_is_made_once(
    schema: str, opens: Callable[[], PostgresStore], upgraded: Callable[[str], None]
) -> None:
    old = opens()
    lease = grant(old, "r1")
    old.commit(lease.fence, 1, [cursor_at(17)])
    assert version(schema) == "1"
    upgraded(SECOND)
    ids: list[str] = []
    threads = [Thread(target=lambda: ids.append(opens().facts().id)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ids == [old.facts().id] * 4
    assert version(schema) == "2"
    assert shared_server().ask(f"SELECT count(*) FROM {schema}.more") == 1
    store = opens()
    assert store.lease(KEY) == lease
    record = store.get(Kind.INTERVAL, JOB, TONIGHT)
    assert record is not None
    assert record.value == {"cursor": 17}
    assert store.renew(lease.fence, 1).live


def test_a_migration_that_fails_half_way_leaves_the_older_tables_as_they_were(
    schema: str,
    opens: Callable[[], PostgresStore],
    upgraded: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lease = grant(opens(), "r1")
    upgraded(f"{SECOND} SELECT no_such_thing;")
    with pytest.raises(StoreUnusable, match="no_such_thing"):
        opens()
    assert version(schema) == "1"
    assert shared_server().ask(f"SELECT to_regclass('{schema}.more')") is None
    monkeypatch.undo()
    assert opens().renew(lease.fence, 1).live


def test_a_new_store_gets_all_migrations_in_order(
    schema: str, opens: Callable[[], PostgresStore], upgraded: Callable[[str], None]
) -> None:
    upgraded(SECOND)
    assert grant(opens(), "r1").live
    assert version(schema) == "2"
    assert shared_server().ask(f"SELECT n FROM {schema}.more") == 1
