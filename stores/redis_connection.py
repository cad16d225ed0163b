"""One connection to a Redis or Valkey server, to the primary that sentinels name, or to a
cluster: it runs scripts, and turns the driver's errors into ours.

Retries. The driver repeats nothing: its own retries would hide that an answer was lost, and
only the caller knows which request may be sent twice. Two answers are no answer yet, since
the server has done nothing: that it does not know the script (it is sent whole), and that
another node of the cluster has the keys (it is asked). After any other trouble the
connection is given up, and the next call makes a new one, asking the sentinels again. A
script that only reads is asked once more, since a connection that stood idle may be gone. All
of that together takes no longer than `patience`, also where the answer trickles in.

Replicas. With ``?wait=N`` a script that writes is followed by WAIT on the same connection.
Fewer replicas in time is an unknown outcome, as if the answer had been lost.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

import redis.exceptions as driver

from ..core.errors import StoreUnreachable
from .redis_errors import is_unknown_command, no_sentinels, refusal
from .redis_sockets import hurried

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..core.ports import Clock
    from .redis_rows import Argument
    from .redis_scripts import Script
    from .redis_url import RedisAddress

_REDIRECTS = 5
_Node = tuple[str, int]


class _Client(Protocol):
    """The part of redis-py's client that is needed here."""

    def execute_command(self, *command: Argument) -> Any: ...
    def close(self) -> None: ...


class RedisConnection:
    """Runs scripts. Safe to share by threads; each call is on its own."""

    def __init__(self, address: RedisAddress, patience: float, clock: Clock) -> None:
        """Connects to nothing yet. `patience`: seconds that one call may take."""
        self.address = address
        self.location = address.location
        self._clock = clock
        self._patience = patience
        self._until = 0.0
        # A call is connecting, an answer, and maybe waiting for replicas.
        self._step = patience / 3
        self._guard = Lock()
        self._clients: dict[_Node | None, _Client] = {}
        self._where: dict[str, _Node] = {}

    def run(
        self,
        script: Script,
        slot: str,
        keys: Sequence[str],
        arguments: Sequence[Argument],
        *,
        writes: bool = True,
    ) -> Any:
        """What the script answers. `slot` is the hash tag of its keys."""
        whole = ("EVAL", script.text, len(keys), *keys, *arguments)
        short = ("EVALSHA", script.sha, *whole[2:])

        def ask(client: _Client, before: Sequence[str]) -> Any:
            try:
                answer = self._send(client, short, before)
            except driver.NoScriptError:
                answer = self._send(client, whole, before)
            if writes and self.address.wait:
                self._wait_for_replicas(client)
            return answer

        def once() -> Any:
            return self._redirected(slot, ask)

        def twice() -> Any:
            try:
                return once()
            except driver.AuthenticationError:
                raise
            except driver.ConnectionError:
                self._give_up()
            return once()

        return self._safely(once if writes else twice)

    def ask(self, *command: Argument) -> Any:
        """What the server answers to one command about itself; None where this user may not
        ask that, or nobody may."""

        def work() -> Any:
            try:
                return self._client(None).execute_command(*command)
            except driver.NoPermissionError:
                return None
            except driver.ResponseError as error:
                if is_unknown_command(error):
                    return None
                raise

        return self._safely(work)

    def close(self) -> None:
        """Give the connection back; harmless when repeated."""
        with self._guard:
            self._give_up()

    # --- inside, under the guard

    def _safely(self, work: Callable[[], Any]) -> Any:
        with self._guard:
            self._until = self._clock.boot() + self._patience
            try:
                return work()
            except driver.RedisError as error:
                if not isinstance(error, driver.ResponseError) or isinstance(
                    error, driver.ReadOnlyError | driver.ClusterDownError
                ):
                    self._give_up()
                raise refusal(error, self.location) from error
            except BaseException:
                self._give_up()  # an answer may still be on its way
                raise

    def _give_up(self) -> None:
        clients, self._clients, self._where = self._clients, {}, {}
        for client in clients.values():
            client.close()

    def _redirected(self, slot: str, ask: Callable[[_Client, Sequence[str]], Any]) -> Any:
        """Ask whoever has the slot. A node that refers to another has done nothing."""
        before: tuple[str, ...] = ()
        node = self._where.get(slot)
        for _ in range(_REDIRECTS):
            try:
                return ask(self._client(node), before)
            except driver.MovedError as moved:
                node, before = self._other_node(moved), ()
                self._where[slot] = node
            except driver.AskError as once:
                node, before = self._other_node(once), ("ASKING",)
        raise driver.ClusterDownError("CLUSTERDOWN the nodes refer to each other")

    def _other_node(self, error: driver.AskError) -> _Node:
        # A node that does not know its own name leaves it out.
        return error.host or self.address.nodes[0][0], error.port

    @staticmethod
    def _send(client: _Client, command: Sequence[Argument], before: Sequence[str]) -> Any:
        if before:
            client.execute_command(*before)
        return client.execute_command(*command)

    def _wait_for_replicas(self, client: _Client) -> None:
        wanted = self.address.wait
        found = client.execute_command("WAIT", wanted, int(self._step * 1000))
        if found < wanted:
            raise StoreUnreachable(
                f"the store {self.location} has the write, but only {found} of {wanted} "
                "replicas confirmed it in time",
                hint="check its replicas: redis-cli info replication",
            )

    # --- connecting

    def _client(self, node: _Node | None) -> _Client:
        """A client of that node, None for the one that the address names."""
        client = self._clients.get(node)
        if client is None:
            client = self._connect(node)
            self._clients[node] = client
        return client

    def _connect(self, node: _Node | None) -> _Client:
        from redis import Redis

        address = self.address
        how = self._how() | {
            "username": address.user,
            "password": address.password,
            "db": address.database,
        }
        if address.socket:
            where: dict[str, Any] = {"unix_socket_path": address.socket}
        else:
            if node is None:
                node = self._primary() if address.service else address.nodes[0]
            where = {"host": node[0], "port": node[1]}
        client: Any = Redis(**where, **how)
        self._hurry(client)
        client.connection = client.connection_pool.get_connection()
        return client  # type: ignore[no-any-return]

    def _primary(self) -> _Node:
        """Who is the primary now, as the first sentinel that knows it says."""
        from redis.sentinel import MasterNotFoundError, Sentinel

        how = self._how() | {
            "username": self.address.sentinel_user,
            "password": self.address.sentinel_password,
        }
        sentinels: Any = Sentinel(  # type: ignore[no-untyped-call]
            list(self.address.nodes), sentinel_kwargs=how
        )
        others = 0
        refused: driver.AuthenticationError | None = None
        try:
            for sentinel in sentinels.sentinels:
                self._hurry(sentinel)
                try:
                    found = sentinel.sentinel_masters().get(self.address.service)
                except driver.AuthenticationError as error:
                    refused = error
                    continue
                except (driver.ConnectionError, driver.TimeoutError):
                    continue
                except driver.ResponseError as error:
                    if not is_unknown_command(error):
                        raise
                    others += 1
                    continue
                if found and sentinels.check_master_state(found, self.address.service):
                    return found["ip"], found["port"]
        finally:
            for sentinel in sentinels.sentinels:
                sentinel.close()
        if others == len(self.address.nodes):
            raise no_sentinels(self.location)
        raise refused or MasterNotFoundError

    def _hurry(self, client: Any) -> None:
        """Have it wait no longer than the call under way may."""
        pool = client.connection_pool
        pool.connection_class = hurried(
            pool.connection_class, lambda: self._until - self._clock.boot()
        )

    def _how(self) -> dict[str, Any]:
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        address = self.address
        how: dict[str, Any] = {
            "socket_connect_timeout": self._step,
            # The server itself waits for replicas that long before it answers.
            "socket_timeout": self._step * (1.5 if address.wait else 1),
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
            "driver_info": None,
        }
        if address.tls:
            how |= {
                "ssl": True,
                "ssl_ca_certs": address.ca,
                "ssl_certfile": address.cert,
                "ssl_keyfile": address.key,
            }
        return how
