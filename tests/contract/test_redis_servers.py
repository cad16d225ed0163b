"""The Redis store on servers that are set up in ways of their own: what is refused, what is
warned of, and what is said when a server does not do its part."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from threading import Event, Thread
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import redis
from support.fakes import eventually
from support.ports import free_port
from support.proxy import proxy
from support.valkey import fresh_url, start, start_sentinel, url_of

from reconcile.cli.environment import SystemClock
from reconcile.core.config import TTL_NETWORK
from reconcile.core.errors import (
    AccessDenied,
    ConfigError,
    ReconcileError,
    StoreUnreachable,
    StoreUnusable,
)
from reconcile.core.model import Append, Delete, Kind, LeaseKey, Put, Rate, RunId
from reconcile.stores.redis import __doc__ as documentation
from reconcile.stores.redis_rows import store_keys
from reconcile.stores.redis_url import parse
from reconcile.stores.registry import opener
from reconcile.stores.testing_support import JOB, KEY, TTL, A, B, cursor_at, grant

if TYPE_CHECKING:
    from reconcile.core.ports import Store

SECRET = "hunter2"
Opens = Callable[..., Any]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A server on a port, whose settings each test may change."""
    server = start(tmp_path_factory.mktemp("valkey"), tcp=True)
    yield server
    server.stop()


@pytest.fixture
def admin(server) -> Iterator[redis.Redis]:
    """An administrator; what a test has set is set back."""
    client = redis.Redis(port=server.port, decode_responses=True)
    before = client.config_get()
    yield client
    for name in ("maxmemory", "maxmemory-policy", "appendonly", "save", "min-replicas-to-write"):
        client.config_set(name, before[name])
    client.execute_command("REPLICAOF", "NO", "ONE")
    client.acl_deluser("ops")
    client.close()


@pytest.fixture(scope="module", autouse=True)
def together(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Servers that take seconds to know each other, which they do beside the first tests."""
    new = tmp_path_factory.mktemp
    primary = start(new("primary"), tcp=True, repl_diskless_sync_delay=0)
    replica = start(new("replica"), tcp=True, replicaof=f"127.0.0.1 {primary.port}")
    ports = [free_port(), free_port()]
    nodes = [
        start(new("node"), tcp=True, cluster_enabled="yes", cluster_port=port) for port in ports
    ]
    clients = first, second = [redis.Redis(port=node.port) for node in nodes]
    first.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 10922)
    second.execute_command("CLUSTER", "ADDSLOTSRANGE", 10923, 16383)
    first.execute_command("CLUSTER", "MEET", "127.0.0.1", nodes[1].port, ports[1])
    yield SimpleNamespace(primary=primary, replica=replica, nodes=nodes, clients=clients)
    for client in clients:
        client.close()
    for server in (replica, primary, *nodes):
        server.terminate()


@pytest.fixture
def opens() -> Iterator[Opens]:
    """Opens stores as the program does, and closes them."""
    opened: list[Store] = []

    def open_(url: str, patience: float = 60.0) -> Store:
        clock, host = SystemClock(), SimpleNamespace(holder=lambda: A)
        names = SimpleNamespace(token=lambda: "5t0re")
        connect = opener(url, clock=clock, host=host, entropy=names, patience=patience)
        opened.append(connect())
        return opened[-1]

    yield open_
    for store in opened:
        store.close()


def refused(call: Callable[[], object], error: type[ReconcileError], says: str) -> ReconcileError:
    """The one refusal, which shows no secret."""
    with pytest.raises(error, match=says) as told:
        call()
    assert SECRET not in str(told.value) + told.value.hint
    assert told.value.hint
    return told.value


def test_a_server_on_a_port_is_a_store_of_several_hosts(server, opens: Opens) -> None:
    facts = opens(fresh_url(url_of(server))).facts()
    assert (facts.single_host, facts.default_ttl, facts.id) == (False, TTL_NETWORK, "5t0re")
    assert facts.location.startswith(f"redis://127.0.0.1:{server.port}/0?prefix=test-")


def test_stores_of_two_databases_are_apart(server, opens: Opens) -> None:
    base = f"redis://127.0.0.1:{server.port}"
    first, second = opens(fresh_url(f"{base}/0")), opens(fresh_url(f"{base}/3"))
    assert grant(first, "r1").live
    assert second.lease(KEY) is None


# --- how a server keeps what it is given


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu", "allkeys-random"])
def test_a_server_that_may_evict_a_generation_is_refused(
    server, admin, opens: Opens, policy: str
) -> None:
    admin.config_set("maxmemory-policy", policy)
    error = refused(lambda: opens(fresh_url(url_of(server))), ConfigError, policy)
    assert "maxmemory-policy noeviction" in error.hint


@pytest.mark.parametrize("policy", ["noeviction", "volatile-lru", "volatile-ttl"])
def test_a_server_that_evicts_only_what_has_a_time_to_live_is_not(
    server, admin, opens: Opens, policy: str
) -> None:
    admin.config_set("maxmemory-policy", policy)
    assert opens(fresh_url(url_of(server))).facts().warnings == ()


@pytest.mark.parametrize(
    ("appends", "fsync", "save", "durable", "says"),
    [
        ("yes", "always", "", True, ""),
        ("yes", "everysec", "", False, ""),
        ("no", "always", "3600 1", False, ""),
        ("no", "always", "", False, "keeps nothing on a disk"),
    ],
)
def test_what_a_server_keeps_on_its_disk_is_told(
    server, admin, opens: Opens, appends: str, fsync: str, save: str, durable: bool, says: str
) -> None:
    admin.config_set("appendfsync", fsync)
    admin.config_set("save", save)
    admin.config_set("appendonly", appends)
    facts = opens(fresh_url(url_of(server))).facts()
    assert facts.durable is durable
    assert [says in text for text in facts.warnings] == [True] * bool(says)


# --- who may do what


def allow(admin: redis.Redis, *rules: str) -> None:
    admin.execute_command("ACL", "SETUSER", "ops", "reset", "on", f">{SECRET}", *rules)


def as_ops(server) -> str:
    return fresh_url(f"redis://ops:{SECRET}@127.0.0.1:{server.port}/0")


def documented_privileges() -> list[str]:
    """The privileges that the store's documentation names."""
    assert documentation is not None
    _, _, rest = documentation.partition("Least privileges:")
    words = rest.partition(", on ``")[0].replace("``", " ").replace(",", " ").split()
    return [word.strip(".") for word in words if word.startswith("+")]


def test_the_least_privileges_that_are_documented_are_enough_and_all_needed(
    server, admin, opens: Opens
) -> None:
    least = documented_privileges()
    assert "on ``~reconcile:*``" in str(documentation)
    allow(admin, "~reconcile:*", *least, "+config|get")
    admin.config_resetstat()
    use_all(opens(as_ops(server).partition("?")[0]))
    used = {name.replace("cmdstat_", "+") for name in admin.info("commandstats")}
    assert set(least) - used == {"+wait", "+asking"}


def use_all(store: Store) -> None:
    """Every method of a store."""
    lease = grant(store, "r1")
    store.renew(lease.fence, 1)
    change = Put(Kind.CHANGES, JOB, "1", {}, tag="open", blob=b"1")
    store.commit(lease.fence, 1, [cursor_at(1), change, Append(Kind.EVENT, JOB, "01", {})])
    store.note([Put(Kind.CHANGES, JOB, "1", {}), Put(Kind.INTERVAL, JOB, "01", {})])
    assert store.get(Kind.CHANGES, JOB, "1") is not None
    assert len(store.scan(Kind.EVENT, JOB)) == 1
    assert len(store.scan(Kind.EVENT, JOB, newest_first=True)) == 1
    store.note([Delete(Kind.CHANGES, JOB, "1"), Delete(Kind.INTERVAL, JOB, "01")])
    store.note([Delete(Kind.EVENT, JOB, record.key) for record in store.scan(Kind.EVENT, JOB)])
    assert store.take("all", Rate(1, TTL)) == 0
    assert store.ask_stop(KEY, lease.fence.generation, {})
    store.release(lease.fence, 2, 0)
    assert store.lease(KEY) is not None
    assert store.facts().id


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        (["~*", "-@all"], "does not let this user"),
        (["~*", "+info", "+config|get"], "does not let this user"),
        (["~*", "+@all", "-hset"], "does not let this user"),
        (["~theirs:*", "+@all"], "does not let this user"),
    ],
)
def test_a_user_that_may_not_do_enough_is_refused(
    server, admin, opens: Opens, rules: list[str], says: str
) -> None:
    allow(admin, *rules)
    refused(lambda: opens(as_ops(server)), AccessDenied, says)


def test_a_right_taken_away_in_the_middle_is_told(server, admin, opens: Opens) -> None:
    allow(admin, "~*", "+@all")
    store = opens(as_ops(server))
    lease = grant(store, "r1")
    allow(admin, "~*", "+@all", "-hset")
    refused(lambda: store.renew(lease.fence, 1), AccessDenied, "does not let this user")


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        (["-config"], []),
        (["-info"], []),
        (["-config", "-info"], ["read neither INFO nor CONFIG"]),
    ],
)
def test_a_server_that_hides_its_settings_is_a_store_with_a_warning(
    server, admin, opens: Opens, rules: list[str], says: list[str]
) -> None:
    allow(admin, "~*", "+@all", *rules)
    facts = opens(as_ops(server)).facts()
    assert len(facts.warnings) == len(says)
    assert all(part in text for part, text in zip(says, facts.warnings, strict=True))


def test_a_server_that_hides_whether_it_saves_is_warned_of(server, admin, opens: Opens) -> None:
    admin.config_set("appendonly", "no")
    allow(admin, "~*", "+@all", "-config")
    (warning,) = opens(as_ops(server)).facts().warnings
    assert "cannot be seen" in warning


def test_an_evicting_policy_is_found_by_either_way(server, admin, opens: Opens) -> None:
    admin.config_set("maxmemory-policy", "allkeys-lru")
    for rule in ("-config", "-info"):
        allow(admin, "~*", "+@all", rule)
        refused(lambda: opens(as_ops(server)), ConfigError, "allkeys-lru")


@pytest.mark.parametrize("login", [f"ops:{SECRET}x@", f"nobody:{SECRET}@"])
def test_a_wrong_password_is_refused_without_showing_it(
    server, admin, opens: Opens, login: str
) -> None:
    allow(admin, "~*", "+@all")
    url = f"redis://{login}127.0.0.1:{server.port}"
    error = refused(lambda: opens(url), AccessDenied, "refuses this user or password")
    assert f"redis://127.0.0.1:{server.port}/0" in str(error)


def test_a_server_that_asks_for_a_password_is_not_told_none(server, admin, opens: Opens) -> None:
    admin.config_set("requirepass", SECRET)
    try:
        refused(lambda: opens(url_of(server)), AccessDenied, "refuses this user or password")
    finally:
        admin.config_set("requirepass", "")


# --- servers that do not do their part


def test_a_database_that_is_not_there_is_a_wrong_address(server, opens: Opens) -> None:
    url = f"redis://127.0.0.1:{server.port}/4"
    refused(lambda: opens(url), ConfigError, "no such database")


def test_a_server_that_is_not_there_cannot_be_reached(tmp_path, opens: Opens) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    error = refused(
        lambda: opens(f"redis://:{SECRET}@127.0.0.1:{port}"), StoreUnreachable, "refused"
    )
    assert f"127.0.0.1:{port}" in str(error)
    refused(lambda: opens(f"unix://{tmp_path}/none"), StoreUnreachable, "No such file")
    refused(lambda: opens("redis://host.invalid"), StoreUnreachable, "cannot be reached")
    refused(
        lambda: opens(f"redis+sentinel://127.0.0.1:{port}/main"),
        StoreUnreachable,
        "cannot be reached",
    )


def test_a_server_that_does_not_answer_is_given_up_in_time(opens: Opens) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        refused(lambda: opens(url, patience=0.3), StoreUnreachable, "did not answer in time")


@pytest.mark.parametrize("asks", ["read", "write"])
def test_an_answer_that_trickles_in_is_given_up_in_time(server, opens: Opens, asks: str) -> None:
    with proxy("127.0.0.1", server.port) as between:
        store = opens(fresh_url(f"redis://127.0.0.1:{between.port}/0"), patience=0.6)
        lease = grant(store, "r1")
        calls = {"read": lambda: store.lease(KEY), "write": lambda: store.renew(lease.fence, 1)}
        between.trickles = True
        begun = time.monotonic()
        refused(calls[asks], StoreUnreachable, "did not answer in time")
        assert time.monotonic() - begun < 0.6 + 0.5


def test_a_name_that_nobody_looks_up_is_given_up_in_time(opens: Opens, monkeypatch) -> None:
    over = Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(30))
    begun = time.monotonic()
    try:
        refused(lambda: opens("redis://db.example", patience=0.3), StoreUnreachable, "in time")
        assert time.monotonic() - begun < 0.3 + 0.5
    finally:
        over.set()


def test_sentinels_that_are_silent_take_no_longer_than_a_call_may(opens: Opens) -> None:
    with ExitStack() as all_of_them:
        doors = [
            all_of_them.enter_context(closing(socket.create_server(("127.0.0.1", 0))))
            for _ in range(9)
        ]
        hosts = ",".join(f"127.0.0.1:{door.getsockname()[1]}" for door in doors)
        begun = time.monotonic()
        refused(
            lambda: opens(f"redis+sentinel://{hosts}/main", patience=0.6),
            StoreUnreachable,
            "no sentinel that answers",
        )
        assert time.monotonic() - begun < 0.6 + 0.5


def test_a_full_server_takes_no_writes_but_gives_leases_back(server, admin, opens: Opens) -> None:
    url = fresh_url(url_of(server))
    store = opens(url)
    lease = grant(store, "r1")
    store.note([cursor_at(1)])
    admin.config_set("maxmemory", "1")
    for write in (
        lambda: store.commit(lease.fence, 1, [cursor_at(2)]),
        lambda: store.note([cursor_at(2)]),
        lambda: grant(store, "r2", replaces="r1"),
    ):
        refused(write, StoreUnreachable, "out of memory")
    assert [record.value for record in opens(url).scan(Kind.INTERVAL, JOB)] == [{"cursor": 1}]
    assert store.renew(lease.fence, 1).live
    store.release(lease.fence, 1, 0)
    assert opens(url).lease(KEY).released


def test_a_server_that_misses_its_replicas_takes_no_writes(server, admin, opens: Opens) -> None:
    store = opens(fresh_url(url_of(server)))
    admin.config_set("min-replicas-to-write", "1")
    refused(lambda: store.note([cursor_at(1)]), StoreUnreachable, "fewer replicas")


def test_something_else_under_our_name_is_damage(server, admin, opens: Opens) -> None:
    admin.set("odd:{@store}:store", "x")
    refused(lambda: opens(url_of(server) + "?prefix=odd"), StoreUnusable, "is damaged")


def answering(lines: dict[str, bytes]) -> Iterator[int]:
    """A server that says what it is told to, by the first word of a command."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def serve() -> None:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as asked:
                while head := asked.readline():
                    words = [
                        asked.read(int(asked.readline()[1:]) + 2) for _ in range(int(head[1:]))
                    ]
                    connection.sendall(lines[words[0].strip().decode()])

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
    thread.join(5)


def test_an_old_server_is_refused(opens: Opens) -> None:
    text = b"redis_version:6.2.14\r\nmaxmemory_policy:noeviction\r\n"
    for port in answering({"INFO": b"$%d\r\n%s\r\n" % (len(text), text)}):
        error = refused(
            lambda port=port: opens(f"redis://127.0.0.1:{port}"), StoreUnusable, "6.2.14"
        )
        assert "Valkey" in error.hint


def test_something_else_that_answers_is_no_server(opens: Opens) -> None:
    for port in answering({"INFO": b"HTTP/1.1 400 Bad Request\r\n"}):
        url = f"redis://127.0.0.1:{port}"
        refused(lambda url=url: opens(url), StoreUnreachable, "is no Redis or Valkey server")


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        ("-LOADING Redis is loading the dataset in memory", StoreUnreachable, "still loading"),
        ("-MASTERDOWN Link with MASTER is down", StoreUnreachable, "lost its primary"),
        ("-MISCONF Errors writing to the AOF file", StoreUnreachable, "save to its disk"),
        ("-BUSY Redis is busy running a script", StoreUnreachable, "busy with a script"),
        ("-CLUSTERDOWN The cluster is down", StoreUnreachable, "cluster that is down"),
        ("-TRYAGAIN Multiple keys request", StoreUnreachable, "moving the keys"),
        ("-ERR max number of clients reached", StoreUnreachable, "no connection left"),
        ("-DENIED Redis is running in protected mode", AccessDenied, "protected mode"),
    ],
)
def test_each_answer_of_a_server_is_told_in_words(
    opens: Opens, answer: str, error: type[ReconcileError], says: str
) -> None:
    for port in answering({"INFO": f"{answer}\r\n".encode()}):
        refused(lambda port=port: opens(f"redis://127.0.0.1:{port}"), error, says)


def test_a_server_without_scripts_is_refused_without_repeating_what_it_was_sent(
    opens: Opens,
) -> None:
    unknown = f"-ERR unknown command 'EVALSHA', with args beginning with: '{SECRET}'\r\n".encode()
    answers = {"INFO": b"$0\r\n\r\n", "CONFIG": b"*0\r\n", "EVALSHA": unknown}
    for port in answering(answers):
        refused(lambda port=port: opens(f"redis://127.0.0.1:{port}"), StoreUnusable, "'EVALSHA'\\)")


# --- replicas, sentinels, clusters


@pytest.fixture(scope="module")
def pair(together: Any) -> Any:
    """A primary and a replica of it."""
    with closing(redis.Redis(port=together.replica.port)) as client:
        eventually(
            lambda: client.info("replication")["master_link_status"] == "up", "it is a replica"
        )
    return together


def test_a_replica_is_refused_and_so_is_one_that_a_primary_became(pair, opens: Opens) -> None:
    error = refused(lambda: opens(url_of(pair.replica)), StoreUnreachable, "read-only replica")
    assert "sentinel" in error.hint


def test_a_primary_that_becomes_a_replica_is_noticed(server, admin, opens: Opens) -> None:
    store = opens(fresh_url(url_of(server)))
    lease = grant(store, "r1")
    admin.execute_command("REPLICAOF", "127.0.0.1", "1")
    refused(lambda: store.renew(lease.fence, 1), StoreUnreachable, "read-only replica")


def test_replicas_that_are_not_waited_for_are_warned_of(pair, opens: Opens) -> None:
    url = fresh_url(url_of(pair.primary))
    (warning,) = opens(url).facts().warnings
    assert "?wait=1" in warning
    assert opens(f"{url}&wait=1").facts().warnings == ()


def test_a_write_that_too_few_replicas_have_is_unknown_until_they_have_it(
    pair, opens: Opens
) -> None:
    url = fresh_url(url_of(pair.primary)) + "&wait=1"
    lease = grant(opens(url), "r1")
    store = opens(url, 0.9)
    with closing(redis.Redis(port=pair.replica.port)) as replica:
        replica.execute_command("CLIENT", "PAUSE", "100000", "WRITE")
        hold(pair.replica, stopped=True)
        try:
            for _ in range(2):
                error = refused(
                    lambda: store.commit(lease.fence, 1, [cursor_at(1)]), StoreUnreachable, "0 of 1"
                )
                assert "replicas" in str(error)
            refused(lambda: store.renew(lease.fence, 1), StoreUnreachable, "0 of 1")
            refused(lambda: store.release(lease.fence, 0, None), StoreUnreachable, "0 of 1")
            # Reading needs nobody's confirmation.
            assert store.get(Kind.INTERVAL, JOB, cursor_at(1).key) is not None
        finally:
            hold(pair.replica, stopped=False)
        replica.execute_command("CLIENT", "UNPAUSE")
    again = opens(url)
    assert again.commit(lease.fence, 1, [cursor_at(1)]) is False
    assert again.renew(lease.fence, 1).live


def hold(server, *, stopped: bool) -> None:
    import signal

    server._process.send_signal(signal.SIGSTOP if stopped else signal.SIGCONT)


def test_servers_that_are_no_sentinels_are_a_wrong_address(server, admin, opens: Opens) -> None:
    where = f"127.0.0.1:{server.port}"
    error = refused(
        lambda: opens(f"redis+sentinel://{where},{where}/main"), ConfigError, "is no sentinel"
    )
    assert "redis://HOST:6379" in error.hint
    # A sentinel may be among those that do not answer.
    refused(
        lambda: opens(f"redis+sentinel://{where},127.0.0.1:1/main"),
        StoreUnreachable,
        "no sentinel that answers",
    )
    admin.config_set("requirepass", SECRET)
    try:
        url = f"redis+sentinel://{where}/main"
        refused(lambda: opens(url), AccessDenied, "refuses this user or password")
    finally:
        admin.config_set("requirepass", "")


def test_sentinels_name_the_primary(pair, opens: Opens, tmp_path) -> None:
    with start_sentinel(tmp_path, pair.primary.port) as port:
        store = opens(fresh_url(f"redis+sentinel://127.0.0.1:1,127.0.0.1:{port}/main/1"))
        assert store.facts().location.startswith("redis+sentinel://127.0.0.1:1,127.0.0.1:")
        assert grant(store, "r1").live
        refused(
            lambda: opens(f"redis+sentinel://127.0.0.1:{port}/other"),
            StoreUnreachable,
            "no sentinel that answers knows its primary",
        )


@pytest.fixture(scope="module")
def cluster(together: Any) -> Any:
    """A cluster of two nodes: the first has two thirds of the slots, the second the others."""

    def is_whole(node: redis.Redis) -> bool:
        said = node.execute_command("CLUSTER", "INFO", NEVER_DECODE=True)
        return b"cluster_state:ok" in said

    for client in together.clients:
        eventually(lambda client=client: is_whole(client), "the nodes know each other")
    return together


def test_a_cluster_is_used_through_any_node(cluster, opens: Opens) -> None:
    jobs = [f"job-{n}" for n in range(12)]
    sizes = [client.dbsize() for client in cluster.clients]
    url = fresh_url(url_of(cluster.nodes[0]))
    stores = [
        opens(url),
        opens(url.replace(str(cluster.nodes[0].port), str(cluster.nodes[1].port))),
    ]
    for number, job in enumerate(jobs):
        store, other = stores[number % 2], stores[1 - number % 2]
        lease = store.acquire(LeaseKey(job), RunId("r1"), B, TTL, interval="i")
        batch = [Put(Kind.CHANGES, job, "1", {}, tag="open", blob=b"x")]
        assert store.commit(lease.fence, 1, [*batch, Append(Kind.EVENT, job, "i", {})])
        assert other.scan(Kind.CHANGES, job, tag="open")[0].blob == b"x"
        assert other.renew(lease.fence, 1).live
        assert other.take("api", Rate(100, TTL)) == 0
    grown = [client.dbsize() - size for client, size in zip(cluster.clients, sizes, strict=True)]
    assert all(count > 0 for count in grown), "each node has some of the jobs"
    use_all(stores[0])


def test_a_slot_on_the_move_is_followed(cluster, opens: Opens) -> None:
    first, second = cluster.clients
    url = fresh_url(url_of(cluster.nodes[0]))
    slot = first.execute_command("CLUSTER", "KEYSLOT", "{@store}")
    owner, other = (first, second) if slot <= 10922 else (second, first)
    names = [client.execute_command("CLUSTER", "MYID").decode() for client in (owner, other)]
    other.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", names[0])
    owner.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", names[1])
    store = opens(url)  # ASK: the other has it by now
    there = other.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 10)
    assert there == [store_keys(parse(url).prefix)[0].encode()]
    # Of a store whose keys are on both sides nothing is had before all are on one.
    refused(lambda: store.take("api", Rate(1, TTL)), StoreUnreachable, "moving the keys")
    # A node gives a slot away once it has no key of it: those of other tests' stores go.
    for left in owner.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 1000):
        owner.delete(left)
    for client in (other, owner):
        client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", names[1])
    assert store.take("api", Rate(1, TTL)) == 0  # MOVED: the other has it for good
    assert store.take("api", Rate(1, TTL)) > 0


def test_a_cluster_has_one_database(cluster, opens: Opens) -> None:
    url = f"redis://127.0.0.1:{cluster.nodes[0].port}/9"
    refused(lambda: opens(url), ConfigError, "no such database")
