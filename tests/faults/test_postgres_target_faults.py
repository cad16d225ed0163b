"""A PostgreSQL target whose server, network, lock or rights fail: nothing of a range stays, and
nothing is applied twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from support.fakes import eventually
from support.postgres_bed import PostgresBed
from support.postgres_server import free_port, fresh_name
from support.target import EVERYTHING, RealClock, commit, fence, grant, part, proof, revoke, update

from reconcile.core.errors import (
    AccessDenied,
    ChangedMeanwhile,
    ConfigError,
    FencedOut,
    LeaseLapsed,
    ReconcileError,
    TargetLocked,
    TargetUnreachable,
    TargetUnusable,
)
from reconcile.core.rows import Row
from reconcile.core.targets import postgres_blockers
from reconcile.core.targets.postgres_session import Session

ROWS: list[Row] = [(f"account-{i:03}", "x", "1") for i in range(50)]
GRANTS = [grant(*row) for row in ROWS]
SLOW = """CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  PERFORM pg_sleep(60); RETURN new; END $$;
CREATE TRIGGER t BEFORE INSERT ON entitlements FOR EACH ROW EXECUTE FUNCTION f()"""
RIGHTS = (
    "GRANT SELECT, INSERT, UPDATE ON reconcile_fence TO {role}",
    "GRANT SELECT, INSERT, DELETE ON reconcile_ranges TO {role}",
    "GRANT SELECT, INSERT ON reconcile_changes TO {role}",
)
TABLE_RIGHTS = "SELECT, INSERT, UPDATE, DELETE"


@pytest.fixture
def bed() -> Iterator[PostgresBed]:
    made = PostgresBed()
    yield made
    made.close()


def untouched(bed: PostgresBed) -> bool:
    tables = ("entitlements", "reconcile_changes", "reconcile_ranges")
    return [bed.count(table) for table in tables] == [0, 0, 0]


def once(monkeypatch: pytest.MonkeyPatch, name: str, before: Any = None, after: Any = None) -> None:
    """Let something happen before or after a method of the session, the first time."""
    method: Any = getattr(Session, name)
    left = [1]

    def instead(self: Session, *args: Any, **options: Any) -> Any:
        first = left and left.pop()
        if first and before is not None:
            before(self)
        answer = method(self, *args, **options)
        if first and after is not None:
            after(self)
        return answer

    monkeypatch.setattr(Session, name, instead)


def lose(bed: PostgresBed) -> Callable[[Session], None]:
    """Somebody ends the session's server process, and the session finds out."""

    def end(session: Session) -> None:
        link: Any = session._link
        bed.server.ask("SELECT pg_terminate_backend(%s, 10000)", link.info.backend_pid)
        session.rows("SELECT 1")

    return end


# --- locks


def test_an_old_holder_that_keeps_the_fence_row_is_ended_after_the_wait(bed: PostgresBed) -> None:
    bed.fenced()
    with bed.server.admin() as old:
        old.execute("BEGIN")
        old.execute(f"SELECT 1 FROM {bed.schema}.reconcile_fence FOR UPDATE".encode())
        before = RealClock().boot()
        found = bed.target().raise_fence(fence(2), "store", timedelta(seconds=0.4))
        assert found.generation == 1
        assert RealClock().boot() - before >= 0.4
        with pytest.raises(psycopg.OperationalError):
            old.execute("SELECT 1")


def test_an_old_holder_that_lets_go_in_time_is_not_ended(bed: PostgresBed) -> None:
    bed.fenced()
    with bed.server.admin() as old:
        old.execute("BEGIN")
        old.execute(f"SELECT 1 FROM {bed.schema}.reconcile_fence FOR UPDATE".encode())
        found: list[Any] = []
        target = bed.target()
        thread = threading.Thread(
            target=lambda: found.append(
                target.raise_fence(fence(2), "store", timedelta(seconds=30))
            )
        )
        thread.start()
        waits = "SELECT 1 FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
        eventually(lambda: bed.server.ask(waits, old.info.backend_pid), "it waits")
        old.execute("COMMIT")
        thread.join(20)
        assert found[0].generation == 1
        assert old.execute("SELECT 1").fetchone() == (1,)


def test_a_session_that_may_not_be_ended_is_named(bed: PostgresBed) -> None:
    bed.fenced()
    role = bed.role(TABLE_RIGHTS, *RIGHTS)
    bed.other.execute("SET application_name = 'somebody''s shell'")
    bed.do("BEGIN", "SELECT 1 FROM reconcile_fence FOR UPDATE")
    target = bed.target(url=bed.server.url(user=role))
    with pytest.raises(TargetLocked) as refused:
        target.raise_fence(fence(2), "store", timedelta(seconds=0.2))
    pid = str(bed.other.info.backend_pid)
    assert f"session {pid} of role postgres (somebody's shell" in str(refused.value)
    assert f"pg_terminate_backend({pid})" in refused.value.hint
    bed.do("COMMIT")
    assert target.raise_fence(fence(2), "store", timedelta(0)).generation == 1


def test_a_row_that_is_locked_for_too_long_is_said_so_and_nothing_is_done(
    bed: PostgresBed,
) -> None:
    bed.insert(("a", "x", "1"))
    target = bed.fenced()
    bed.do("BEGIN", "SELECT 1 FROM entitlements FOR UPDATE")
    before = RealClock().boot()
    with pytest.raises(TargetLocked, match="locked by another session") as refused:
        commit(target, [revoke("a", "x", "1")], [], time=0.5)
    assert RealClock().boot() - before < 2.5
    assert "pg_blocking_pids" in refused.value.hint
    bed.do("ROLLBACK")
    assert bed.rows() == [("a", "x", "1")]
    commit(target, [revoke("a", "x", "1")], [])


def test_a_row_that_changes_while_we_wait_for_it_is_compared_again(bed: PostgresBed) -> None:
    bed.insert(("a", "x", "1"), ("b", "x", "1"))
    target = bed.fenced()
    bed.do("BEGIN", "UPDATE entitlements SET level = '7' WHERE account_id = 'a'")
    refused: list[Any] = []

    def work() -> None:
        try:
            changes = [update((n, "x", "1"), (n, "x", "2")) for n in "ab"]
            commit(target, changes, [("a", "x", "2"), ("b", "x", "2")])
        except ReconcileError as error:
            refused.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    waits = "SELECT 1 FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
    eventually(lambda: bed.server.ask(waits, bed.other.info.backend_pid), "it waits")
    bed.do("COMMIT")
    thread.join(20)
    assert [type(error) for error in refused] == [ChangedMeanwhile]
    assert refused[0].accounts == ("a",)
    assert bed.rows() == [("a", "x", "7"), ("b", "x", "1")]


def test_a_fence_is_not_raised_while_a_range_is_being_committed(
    bed: PostgresBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, newer = bed.fenced(), bed.target()
    newer.schema()
    found: list[Any] = []
    thread = threading.Thread(
        target=lambda: found.append(newer.raise_fence(fence(2), "store", timedelta(seconds=30)))
    )

    def raised(session: Session) -> None:
        thread.start()
        waits = "SELECT 1 FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
        link: Any = session._link
        eventually(lambda: bed.server.ask(waits, link.info.backend_pid), "it waits")

    once(monkeypatch, "tried", before=raised)
    assert commit(target, GRANTS, ROWS)
    thread.join(20)
    assert found[0].generation == 1
    with pytest.raises(FencedOut):
        commit(target, [], ROWS, number=2)


def test_what_others_commit_during_the_transaction_is_part_of_what_is_summed_up(
    bed: PostgresBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The range is read by a later statement than the one that locked the fence row."""
    target = bed.fenced()
    once(monkeypatch, "tried", before=lambda _: bed.insert(("somebody", "else", "1")))
    with pytest.raises(ChangedMeanwhile):
        commit(target, GRANTS, ROWS)
    assert bed.rows() == [("somebody", "else", "1")]


def test_a_deadlock_is_tried_again(bed: PostgresBed, monkeypatch: pytest.MonkeyPatch) -> None:
    bed.insert(("a", "x", "1"), ("b", "x", "1"))
    target = bed.fenced()
    bed.do(
        "SET deadlock_timeout = '60s'",
        "BEGIN",
        "UPDATE entitlements SET level = '1' WHERE account_id = 'b'",
    )
    threads: list[threading.Thread] = []

    def cross(session: Session) -> None:
        """Our transaction has row a; another has b and now wants a."""
        session.execute("SET LOCAL deadlock_timeout = '10ms'")
        session.execute(
            f"SELECT 1 FROM {bed.schema}.entitlements WHERE account_id = 'a' FOR UPDATE"
        )
        query = "UPDATE entitlements SET level = '1' WHERE account_id = 'a'"
        threads.append(threading.Thread(target=lambda: bed.do(query, "COMMIT")))
        threads[0].start()
        waits = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
        eventually(lambda: bed.server.ask(waits, bed.other.info.backend_pid), "it waits")

    once(monkeypatch, "tried", before=cross)
    done = commit(target, [revoke("b", "x", "1")], [("a", "x", "1")])
    threads[0].join(20)
    assert done.changes["revoke"] == 1
    assert bed.rows() == [("a", "x", "1")]
    assert bed.count("reconcile_changes") == 1


# --- time


def test_a_server_that_is_too_slow_is_broken_off_within_the_lease(bed: PostgresBed) -> None:
    target = bed.fenced()
    bed.do(SLOW)
    before = RealClock().boot()
    with pytest.raises(TargetUnreachable):
        commit(target, GRANTS, ROWS, time=0.5)
    assert RealClock().boot() - before < 2.5
    assert untouched(bed)
    bed.do("DROP TRIGGER t ON entitlements")
    assert commit(target, GRANTS, ROWS)


def test_a_server_that_does_not_answer_is_not_waited_for(
    bed: PostgresBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = bed.fenced()
    bed.do(SLOW)
    endless = "SET LOCAL statement_timeout = 0"
    once(monkeypatch, "tried", before=lambda session: session.execute(endless))
    monkeypatch.setattr("reconcile.core.targets.postgres_session._GRACE", 0.2)
    monkeypatch.setattr("reconcile.core.postgres.link._WITH_TRANSACTION_TIMEOUT", 10**9)
    before = RealClock().boot()
    with pytest.raises(TargetUnreachable, match="did not answer in time"):
        commit(target, GRANTS, ROWS, time=0.5)
    assert RealClock().boot() - before < 2.5
    assert untouched(bed)
    sleeps = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    eventually(lambda: not bed.server.ask(sleeps), "the server was told to let go")


def test_a_holder_that_is_stopped_within_its_transaction_is_rolled_back_by_the_server(
    bed: PostgresBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = bed.fenced()
    open_ones = (
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"
        " AND application_name = 'reconcile'"
    )

    def stopped(_: Session) -> None:
        assert bed.server.ask(open_ones) == 1
        eventually(lambda: bed.server.ask(open_ones) == 0, "the server ends it")
        assert untouched(bed)
        assert bed.target().raise_fence(fence(2), "store", timedelta(seconds=5)).generation == 1

    once(monkeypatch, "commit", before=stopped)
    # Its fence has been raised: by the time it goes on it may not try again.
    with pytest.raises((FencedOut, LeaseLapsed, TargetUnreachable)):
        commit(target, GRANTS, ROWS, time=0.6)
    assert untouched(bed)


def test_the_server_is_told_how_long_a_commit_may_take_for_this_transaction_alone(
    bed: PostgresBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = bed.fenced()
    told: dict[str, float] = {}

    def look(session: Session) -> None:
        told.update(
            (name, int(milliseconds) / 1000)
            for name, milliseconds in session.rows(
                "SELECT name, setting FROM pg_settings WHERE name LIKE '%%_timeout' AND source"
                " = 'session' AND unit = 'ms'"
            )
        )

    once(monkeypatch, "tried", before=look)
    commit(target, GRANTS, ROWS, time=7.0)
    names = ("lock", "statement", "idle_in_transaction_session")
    assert {f"{name}_timeout" for name in names} <= told.keys()
    assert all(0 < seconds <= 7 for seconds in told.values())
    told.clear()
    with target._session.reading(1):
        pass
    assert target._session._link is not None
    left = target._session._link.execute("SHOW idle_in_transaction_session_timeout").fetchone()
    assert left == ("0",)


def test_limits_of_the_role_do_not_end_what_may_take_longer(bed: PostgresBed) -> None:
    role = bed.role("ALL", "ALTER ROLE {role} SUPERUSER")
    for limit in ("transaction", "statement", "idle_in_transaction_session", "lock"):
        bed.do(f"ALTER ROLE {role} SET {limit}_timeout = 5")
    target = bed.fenced(url=bed.server.url(user=role))
    with target._session.reading(1):
        target._session.rows("SELECT pg_sleep(0.01)")
    commit(target, GRANTS, ROWS)
    assert not untouched(bed)


def test_a_lease_that_is_over_before_the_commit_takes_all_of_it_back(
    bed: PostgresBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock: Any = RealClock()
    target = bed.fenced(clock=clock)
    boot = clock.boot
    once(monkeypatch, "commit", before=lambda _: setattr(clock, "boot", lambda: boot() + 100))
    with pytest.raises(LeaseLapsed):
        target.commit(fence(1), part(GRANTS, ROWS), boot() + 60)
    clock.boot = boot
    assert untouched(bed)
    assert commit(target, GRANTS, ROWS)


def test_work_that_is_broken_off_leaves_nothing_and_goes_on_no_more(bed: PostgresBed) -> None:
    target = bed.fenced()
    bed.do(SLOW)
    ended: list[Exception] = []

    def work() -> None:
        try:
            commit(target, GRANTS, ROWS, time=60)
        except ReconcileError as error:
            ended.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    sleeps = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    eventually(lambda: bed.server.ask(sleeps), "it is slow")
    target.interrupt()
    thread.join(20)
    assert [type(error) for error in ended] == [LeaseLapsed]
    eventually(lambda: not bed.server.ask(sleeps), "the server has let go")
    bed.do("DROP TRIGGER t ON entitlements")
    assert untouched(bed)
    for act in (
        target.schema,
        lambda: target.lines(EVERYTHING),
        lambda: commit(target, GRANTS, ROWS),
        lambda: target.complete(fence(1), proof()),
    ):
        with pytest.raises(LeaseLapsed):
            act()
    target.close()
    assert commit(bed.target(), GRANTS, ROWS)


# --- lost connections


def test_a_connection_lost_before_the_commit_is_made_anew(
    bed: PostgresBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = bed.fenced()
    once(monkeypatch, "commit", before=lose(bed))
    assert commit(target, GRANTS, ROWS).changes["grant"] == len(ROWS)
    assert bed.count("entitlements") == bed.count("reconcile_changes") == len(ROWS)
    assert bed.count("reconcile_ranges") == 1


def test_a_commit_whose_answer_is_lost_is_found_by_its_marker(
    bed: PostgresBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = bed.fenced()
    once(monkeypatch, "commit", after=lose(bed))
    assert commit(target, GRANTS, ROWS).changes["grant"] == len(ROWS)
    assert bed.count("entitlements") == bed.count("reconcile_changes") == len(ROWS)
    assert bed.count("reconcile_ranges") == 1


def test_a_commit_whose_answer_is_lost_to_a_newer_run_is_fenced_out(
    bed: PostgresBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = bed.fenced()
    newer = bed.target()

    def taken_over(session: Session) -> None:
        newer.raise_fence(fence(2), "store", timedelta(seconds=5))
        lose(bed)(session)

    once(monkeypatch, "commit", after=taken_over)
    with pytest.raises(FencedOut):
        commit(target, GRANTS, ROWS)
    assert bed.count("reconcile_ranges") == 1


def test_a_raised_fence_whose_answer_is_lost_still_says_what_was_before(
    bed: PostgresBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed.fenced(5).complete(fence(5), proof())
    once(monkeypatch, "commit", after=lose(bed))
    found = bed.target().raise_fence(fence(9), "store-b", timedelta(0))
    assert (found.generation, found.store_id, found.newest is not None) == (5, "store", True)


def test_a_completion_whose_answer_is_lost_is_made_once(
    bed: PostgresBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = bed.fenced()
    once(monkeypatch, "commit", after=lose(bed))
    target.complete(fence(1), proof())
    row = target.floor(fence(1).key)
    assert row is not None
    assert row.newest is not None


def test_a_connection_that_was_lost_while_nobody_used_it_is_made_anew(bed: PostgresBed) -> None:
    bed.insert(("a", "x", "1"))
    target = bed.fenced()
    link: Any = target._session._link
    bed.server.ask("SELECT pg_terminate_backend(%s, 10000)", link.info.backend_pid)
    assert len(target.lines(EVERYTHING)) == 1


# --- addresses


def test_a_server_that_is_not_there_is_unreachable(bed: PostgresBed) -> None:
    for parts in ({"port": str(free_port())}, {"host": "/nowhere"}):
        with pytest.raises(TargetUnreachable, match="cannot be reached") as refused:
            bed.target(url=bed.server.url(**parts)).schema()
        assert refused.value.hint


def test_a_database_that_is_not_there_is_a_configuration_error(bed: PostgresBed) -> None:
    with pytest.raises(ConfigError, match=r"target\.url: .*does not exist") as refused:
        bed.target(url=bed.server.url(dbname="nowhere")).schema()
    assert refused.value.hint


def test_a_user_that_is_not_known_is_denied_and_the_password_not_said(bed: PostgresBed) -> None:
    with pytest.raises(AccessDenied) as refused:
        bed.target(url=bed.server.url(user="nobody", password="S3cret")).schema()
    assert "S3cret" not in str(refused.value) + refused.value.hint


def test_a_database_of_another_encoding_is_refused(bed: PostgresBed) -> None:
    name = fresh_name("ascii")
    bed.do(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    try:
        with pytest.raises(TargetUnusable, match="keeps text as SQL_ASCII") as refused:
            bed.target(url=bed.server.url(dbname=name)).schema()
        assert "UTF8" in refused.value.hint
    finally:
        bed.do(f"DROP DATABASE {name}")


# --- rights


def a_night(target: Any) -> None:
    """All that a run does."""
    target.schema()
    target.raise_fence(fence(3), "store", timedelta(seconds=1))
    target.bound(EVERYTHING, 10)
    target.lines(EVERYTHING)
    commit(target, [grant("a", "x", "1")], [("a", "x", "1")], generation=3)
    changed = update(("a", "x", "1"), ("a", "x", "2"))
    commit(target, [changed], [("a", "x", "2")], generation=3, number=2)
    commit(target, [revoke("a", "x", "2")], [], generation=3, number=3)
    target.marker("plan", 3)
    target.complete(fence(3), proof())
    list(target.changes())


def test_a_role_with_the_documented_rights_alone_does_all_of_a_night(bed: PostgresBed) -> None:
    bed.fenced()
    a_night(bed.target(url=bed.server.url(user=bed.role(TABLE_RIGHTS, *RIGHTS))))
    assert bed.count("reconcile_changes") == 3


WITHOUT = [
    (TABLE_RIGHTS.replace(f"{right}, ", "").replace(f", {right}", ""), RIGHTS)
    for right in ("SELECT", "INSERT", "UPDATE", "DELETE")
] + [(TABLE_RIGHTS, RIGHTS[:i] + RIGHTS[i + 1 :]) for i in range(3)]


@pytest.mark.parametrize(("of_table", "of_ours"), WITHOUT)
def test_a_role_that_lacks_one_of_them_is_told_so(
    bed: PostgresBed, of_table: str, of_ours: tuple[str, ...]
) -> None:
    bed.fenced()
    target = bed.target(url=bed.server.url(user=bed.role(of_table, *of_ours)))
    with pytest.raises(AccessDenied, match="permission denied") as refused:
        a_night(target)
    assert refused.value.hint


def test_a_role_that_may_not_create_our_tables_is_given_the_statements(bed: PostgresBed) -> None:
    role = bed.role(TABLE_RIGHTS)
    target = bed.target(url=bed.server.url(user=role))
    with pytest.raises(AccessDenied, match="may not create them") as refused:
        target.raise_fence(fence(1), "store", timedelta(0))
    statements = refused.value.hint.partition(": ")[2]
    assert "\n" not in statements
    bed.do(statements)
    a_night(target)


def test_a_role_that_may_create_them_needs_no_help(bed: PostgresBed) -> None:
    role = bed.role(TABLE_RIGHTS, "GRANT CREATE ON SCHEMA {schema} TO {role}")
    a_night(bed.target(url=bed.server.url(user=role)))


def test_only_sessions_of_our_own_role_are_ended(
    bed: PostgresBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An administrator could end anybody's."""
    monkeypatch.setattr(postgres_blockers, "EVERY", 0.05)
    bed.fenced()
    role = bed.role(TABLE_RIGHTS, *RIGHTS)
    with psycopg.connect(bed.server.url(user=role)) as theirs:
        theirs.execute(f"SELECT 1 FROM {bed.schema}.reconcile_fence FOR UPDATE".encode())
        with pytest.raises(TargetLocked, match=f"of role {role}"):
            bed.target().raise_fence(fence(2), "store", timedelta(0))
        assert theirs.execute("SELECT 1").fetchone() == (1,)
