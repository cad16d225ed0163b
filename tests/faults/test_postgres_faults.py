"""A Postgres store on a network: lost and late answers, cuts, restarts, refusals."""

from __future__ import annotations

import signal
import socket
import time
from contextlib import suppress
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest
from support.fakes import eventually
from support.ports import free_port
from support.postgres_server import SECRET, fresh_name
from support.postgres_server import strict_server as server
from support.proxy import Proxy

from reconcile.cli.environment import SystemClock
from reconcile.cli.exit_codes import exit_code_of_error
from reconcile.core.errors import ReconcileError, StoreUnreachable
from reconcile.core.model import Append, Kind
from reconcile.stores.postgres import PostgresStore
from reconcile.stores.postgres_address import read_address
from reconcile.stores.testing_support import JOB, KEY, TONIGHT, B, cursor_at, grant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 1.0
SHORT = 0.3
"""Where it is to be waited for in vain."""

COMMIT = b"COMMIT\0"
RENEWAL = b"'1 microsecond'"


def opened(url: str, patience: float = PATIENCE) -> PostgresStore:
    return PostgresStore(read_address(url), clock=SystemClock(), patience=patience)


class Wire:
    """One store seen through a proxy, and directly."""

    def __init__(self) -> None:
        self.proxy, self.schema = Proxy(("127.0.0.1", server().port)), fresh_name("wire")
        self.direct = opened(server().url(self.schema))
        self.far = self.through(PATIENCE)

    def through(self, patience: float) -> PostgresStore:
        """The store seen through the proxy."""
        return opened(server().url(self.schema, port=str(self.proxy.port)), patience)

    def close(self) -> None:
        self.far.close()
        self.direct.close()
        self.proxy.close()
        server().drop(self.schema)


@pytest.fixture
def wire() -> Iterator[Wire]:
    made = Wire()
    yield made
    made.close()


class TestLostAnswers:
    """The server has done it, and nobody was told."""

    def test_an_acquire_grants_once(self, wire: Wire) -> None:
        wire.proxy.lose(COMMIT)
        lease = grant(wire.far, "r1")
        assert wire.proxy.lost == 1
        assert wire.direct.lease(KEY) == lease
        assert wire.direct.lease(KEY).fence.generation == lease.fence.generation

    def test_a_renewal_keeps_the_lease(self, wire: Wire) -> None:
        lease = grant(wire.far, "r1")
        wire.proxy.lose(COMMIT)
        renewed = wire.far.renew(lease.fence, 3)
        assert wire.proxy.lost == 1
        assert (renewed.fence, renewed.progress, renewed.live) == (lease.fence, 3, True)

    def test_a_checkpoint_is_written_once(self, wire: Wire) -> None:
        lease = grant(wire.far, "r1")
        wire.proxy.lose(COMMIT)
        wire.far.commit(lease.fence, 1, [Append(Kind.EVENT, JOB, TONIGHT, {}), cursor_at(1)])
        assert wire.proxy.lost == 1
        assert len(wire.direct.scan(Kind.EVENT, JOB)) == 1
        assert wire.direct.get(Kind.INTERVAL, JOB, TONIGHT).version == 1

    def test_a_release_releases(self, wire: Wire) -> None:
        lease = grant(wire.far, "r1")
        wire.proxy.lose(COMMIT)
        wire.far.release(lease.fence, 1, 0)
        assert wire.proxy.lost == 1
        assert grant(wire.direct, "r2", B).fence.generation == lease.fence.generation + 1

    def test_a_request_to_stop_arrives(self, wire: Wire) -> None:
        lease = grant(wire.far, "r1")
        wire.proxy.lose(COMMIT)
        assert wire.far.ask_stop(KEY, lease.fence.generation, {"actor": "ops"})
        assert wire.direct.renew(lease.fence, 1).stop == {"actor": "ops"}

    def test_a_note_is_not_made_twice(self, wire: Wire) -> None:
        wire.proxy.lose(COMMIT)
        with pytest.raises(StoreUnreachable, match="whether the last write was made is unknown"):
            wire.far.note([Append(Kind.EVENT, JOB, TONIGHT, {})])
        assert len(wire.direct.scan(Kind.EVENT, JOB)) == 1

    def test_what_is_lost_each_time_is_neither_kept_nor_lost(self, wire: Wire) -> None:
        lease = grant(wire.far, "r1")
        wire.proxy.lose(RENEWAL, times=2)
        with pytest.raises(StoreUnreachable, match="is unknown"):
            wire.far.renew(lease.fence, 3)
        assert wire.direct.lease(KEY).progress == 3
        assert wire.far.renew(lease.fence, 4).fence == lease.fence


class TestSilence:
    """Nobody says that the connection is gone."""

    @pytest.mark.parametrize("asks", ["renew", "commit", "get"])
    def test_a_call_ends_with_its_patience_and_the_next_one_works(
        self, wire: Wire, asks: str
    ) -> None:
        lease = grant(wire.far, "r1")
        far = wire.through(SHORT)
        calls: dict[str, Callable[[], object]] = {
            "renew": lambda: far.renew(lease.fence, 1),
            "commit": lambda: far.commit(lease.fence, 1, [cursor_at(1)]),
            "get": lambda: far.get(Kind.INTERVAL, JOB, TONIGHT),
        }
        wire.proxy.silence()
        begun = time.monotonic()
        with pytest.raises(StoreUnreachable, match="did not answer in time"):
            calls[asks]()
        assert SHORT <= time.monotonic() - begun < SHORT + 1
        wire.proxy.mend()
        eventually(lambda: answers(calls[asks]), "it answers again")
        assert wire.far.lease(KEY).fence == lease.fence
        far.close()

    @pytest.mark.parametrize("asks", ["renew", "lease"])
    def test_an_answer_that_trickles_in_is_not_waited_for(self, wire: Wire, asks: str) -> None:
        lease = grant(wire.far, "r1")
        far = wire.through(SHORT)
        calls: dict[str, Callable[[], object]] = {
            "renew": lambda: far.renew(lease.fence, 1),
            "lease": lambda: far.lease(KEY),
        }
        wire.proxy.trickles = True
        begun = time.monotonic()
        with pytest.raises(StoreUnreachable, match="did not answer in time"):
            calls[asks]()
        assert time.monotonic() - begun < SHORT + 1
        far.close()

    def test_a_name_that_nobody_looks_up_is_not_waited_for(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        over = Event()
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(30))
        begun = time.monotonic()
        try:
            with pytest.raises(StoreUnreachable, match="did not answer in time"):
                opened("postgresql://postgres@db.example/postgres", SHORT)
            assert time.monotonic() - begun < SHORT + 1
        finally:
            over.set()

    def test_a_silent_host_leaves_time_for_the_next(self, wire: Wire) -> None:
        silent, port = listener()
        wire.proxy.delay(b"", 0.15)
        hosts = f"127.0.0.1:{port},127.0.0.1:{wire.proxy.port}"
        with silent:
            store = opened(f"postgresql://postgres@{hosts}/postgres?schema={wire.schema}", 1.8)
        assert store.facts().id == wire.direct.facts().id
        store.close()

    def test_an_answer_that_is_late_but_in_time_is_one(self, wire: Wire) -> None:
        lease = grant(wire.far, "r1")
        wire.proxy.delay(COMMIT, 0.9 * PATIENCE / 2)
        assert wire.far.renew(lease.fence, 1).live

    def test_a_late_request_of_one_that_gave_up_changes_nothing(self, wire: Wire) -> None:
        far = wire.through(SHORT)
        stale = grant(wire.far, "r1")
        wire.proxy.silence()
        with pytest.raises(StoreUnreachable):
            far.commit(stale.fence, 1, [cursor_at(17)])
        far.close()
        newer = grant(wire.direct, "r2", B, replaces="r1")
        wire.proxy.mend()
        assert wire.direct.commit(newer.fence, 1, [cursor_at(18)])
        assert wire.direct.get(Kind.INTERVAL, JOB, TONIGHT).value == {"cursor": 18}


class TestRestarts:
    """The server goes away and comes back."""

    @pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
    def test_calls_go_on_after_a_restart(self, wire: Wire, how: signal.Signals) -> None:
        lease = grant(wire.direct, "r1")
        assert wire.direct.commit(lease.fence, 1, [cursor_at(1)])
        server().stop(how)
        server().start()
        assert wire.direct.renew(lease.fence, 1).fence == lease.fence
        assert wire.direct.commit(lease.fence, 2, [cursor_at(2)])
        assert wire.direct.get(Kind.INTERVAL, JOB, TONIGHT).value == {"cursor": 2}

    def test_a_call_waits_a_moment_for_a_server_that_comes_back(self, wire: Wire) -> None:
        store = opened(server().url(wire.schema), patience=20)
        lease = grant(store, "r1")
        server().stop()
        renewed = []
        thread = Thread(target=lambda: renewed.append(store.renew(lease.fence, 1)))
        thread.start()
        server().start()
        thread.join()
        assert renewed[0].fence == lease.fence
        store.close()

    def test_a_server_that_is_stopped_is_not_waited_for(self, wire: Wire) -> None:
        lease = grant(wire.direct, "r1")
        store = opened(server().url(wire.schema), SHORT)
        server().pause()
        try:
            begun = time.monotonic()
            with pytest.raises(StoreUnreachable, match="did not answer in time"):
                store.renew(lease.fence, 1)
            assert time.monotonic() - begun < SHORT + 1
        finally:
            server().unpause()
        store.close()
        assert wire.direct.renew(lease.fence, 1).fence == lease.fence

    def test_a_session_that_an_administrator_ended_is_opened_anew(self, wire: Wire) -> None:
        lease = grant(wire.direct, "r1")
        server().do(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'reconcile'"
        )
        assert wire.direct.commit(lease.fence, 1, [cursor_at(1)])


def answers(ask: Callable[[], object]) -> bool:
    """Whether a store with little patience has an answer in time."""
    try:
        ask()
    except StoreUnreachable:
        return False
    return True


def listener() -> tuple[socket.socket, int]:
    """A port where somebody listens and says nothing."""
    made = socket.create_server(("127.0.0.1", 0))
    return made, made.getsockname()[1]


def message(kind: bytes, body: bytes) -> bytes:
    """One message of the server's side of the protocol."""
    return kind + (len(body) + 4).to_bytes(4, "big") + body


def ends_sessions(door: socket.socket) -> None:
    """Let everybody in, and end each session at its first request."""
    known = (b"server_version", b"18.0"), (b"client_encoding", b"UTF8")
    known += (b"default_transaction_read_only", b"off"), (b"in_hot_standby", b"off")
    told = b"".join(message(b"S", b"\0".join([*pair, b""])) for pair in known)
    end = message(b"E", b"SFATAL\0C08P01\0Mquery_wait_timeout\0\0")
    with suppress(OSError):
        while True:
            session, _ = door.accept()
            with session:
                session.recv(1 << 16)
                session.sendall(message(b"R", bytes(4)) + told + message(b"Z", b"I"))
                session.recv(1 << 16)
                session.sendall(end)


class TestRefusals:
    """One message each, with its exit status, and without the secret."""

    @pytest.mark.parametrize(
        ("address", "code", "text"),
        [
            ("postgresql://scram:{wrong}@127.0.0.1:{port}/postgres", 77, "password authentication"),
            ("postgresql://scram@127.0.0.1:{port}/postgres", 77, "no password supplied"),
            ("postgresql://stranger@127.0.0.1:{port}/postgres", 77, 'role "stranger"'),
            ("postgresql://postgres:{wrong}@127.0.0.1:{port}/no_such", 78, 'database "no_such"'),
            ("postgresql://nothing:{wrong}@127.0.0.1:{port}/postgres", 77, "permission denied"),
            ("postgresql://postgres:{wrong}@127.0.0.1:{closed}/postgres", 69, "refused"),
            ("postgresql://postgres:{wrong}@127.0.0.1:{silent}/postgres", 69, "did not answer"),
            ("postgresql://postgres:{wrong}@nowhere.invalid/postgres", 69, "nowhere.invalid"),
            ("postgresql://postgres:{wrong}@127.0.0.1:{port}/postgres?sslmode=require", 78, "SSL"),
            ("postgresql://postgres:{wrong}@127.0.0.1:{port}/postgres?sslmode=odd", 78, "odd"),
            ("postgresql://postgres:{wrong}@127.0.0.1:{port}/x?nonsense=1", 78, "cannot read"),
            ("postgresql://scram:a@127.0.0.1:{port}/postgres", 77, "password authentication"),
            ("postgresql://postgres@127.0.0.1:{port}/x?connect_timeout=soon", 78, "whole number"),
            ("postgresql://postgres@127.0.0.1:{port}9/postgres", 78, "invalid port number"),
            ("postgresql://postgres@127.0.0.1:{port}/postgres?keepalives=x", 78, "integer value"),
            ("postgresql://postgres@127.0.0.1:{port}/postgres?options=-cx%3Dy", 78, "parameter"),
            ("postgresql://postgres@127.0.0.1:{port}/postgres?service=x", 78, "service"),
            ("postgresql://postgres:100%{wrong}@127.0.0.1/x", 78, "cannot read"),
        ],
    )
    def test_an_address_that_leads_nowhere(self, address: str, code: int, text: str) -> None:
        quiet, silent = listener()
        url = address.format(
            port=server().port, closed=free_port(), silent=silent, wrong="s3cr3t-word"
        )
        begun = time.monotonic()
        with quiet, pytest.raises(ReconcileError) as refused:
            opened(url)
        assert "{silent}" not in address or time.monotonic() - begun < PATIENCE + 0.5
        said = f"{refused.value} {refused.value.hint}"
        assert exit_code_of_error(refused.value) == code
        assert text in said
        assert refused.value.hint
        assert "s3cr3t-word" not in said
        assert "\n" not in said

    def test_a_role_without_a_connection_left_is_not_taken_for_a_stranger(self) -> None:
        role = fresh_name("limited")
        server().do(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 0")
        try:
            with pytest.raises(StoreUnreachable, match="too many connections for role"):
                opened(server().url(user=role))
        finally:
            server().do(f"DROP ROLE {role}")

    def test_a_pooler_that_ends_a_session_is_no_damage(self) -> None:
        """As PgBouncer does where no connection to the server is free in time."""
        quiet, port = listener()
        with quiet:
            pooler = Thread(target=ends_sessions, args=(quiet,), daemon=True)
            pooler.start()
            with pytest.raises(StoreUnreachable, match="query_wait_timeout"):
                opened(f"postgresql://x@127.0.0.1:{port}/x?sslmode=disable")

    def test_the_right_password_opens_and_is_not_shown(self) -> None:
        from urllib.parse import quote

        server().do("CREATE SCHEMA IF NOT EXISTS scrams AUTHORIZATION scram")
        user = f"scram:{quote(SECRET, safe='')}"
        url = f"postgresql://{user}@127.0.0.1:{server().port}/postgres?schema=scrams"
        store = opened(url)
        assert store.facts().location == (
            f"postgresql://scram@127.0.0.1:{server().port}/postgres?schema=scrams"
        )
        store.close()

    def test_a_role_without_rights_is_told_which(self, wire: Wire) -> None:
        with pytest.raises(ReconcileError, match="permission denied") as refused:
            opened(server().url(wire.schema, user="nothing"))
        assert exit_code_of_error(refused.value) == 77
        assert "least_privileges" in refused.value.hint

    def test_a_database_that_only_reads_is_no_store(self, wire: Wire) -> None:
        role = fresh_name("reader")
        server().do(f"CREATE ROLE {role} LOGIN SUPERUSER")
        server().do(f"ALTER ROLE {role} SET default_transaction_read_only = on")
        try:
            with pytest.raises(StoreUnreachable, match="read-only"):
                opened(server().url(wire.schema, user=role))
        finally:
            server().do(f"DROP ROLE {role}")
