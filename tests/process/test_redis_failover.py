"""A failover to a replica that lacks the last writes, in mid-night, by a real sentinel.

The replica follows through a proxy that is cut, so it never hears of the second night: not of its
grants, nor of what was planned and applied under the last. Then the primary is killed and the
replica takes its place. It would give the same generations again, to others; the target's fence
row is what takes it above them.
"""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import redis
from support.fakes import eventually
from support.proxy import proxy
from support.scene import NIGHTS, Scene, drifted, is_stopped, night
from support.valkey import start, start_sentinel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIRST, SECOND = NIGHTS[1:]
RUN = ("run", "entitlements")
STORE = """[store]
url = "redis+sentinel://127.0.0.1:{port}/main/0{options}"
[jobs.entitlements.lease]
ttl = "3s"
"""


class Pair:
    """A primary, a replica that follows it through a proxy, and a sentinel that knows both."""

    def __init__(self, primary: Any, replica: Any, between: Any, sentinel: int) -> None:
        self.primary, self.replica, self.between = primary, replica, between
        self.sentinel = sentinel

    def lease(self, server: Any) -> dict[str, str]:
        """The job's lease as that server has it."""
        with closing(redis.Redis(port=server.port, decode_responses=True)) as client:
            return client.hgetall("reconcile:{entitlements}:lease:0")

    def is_level(self) -> bool:
        """Whether the replica has all that the primary has."""
        return self.lease(self.primary) == self.lease(self.replica) != {}

    def fail_over(self) -> None:
        """Kill the primary, and wait until the sentinel has put the replica in its place."""
        self.primary._process.send_signal(signal.SIGKILL)
        with closing(redis.Redis(port=self.sentinel, decode_responses=True)) as client:
            client.execute_command("SENTINEL", "FAILOVER", "main")

            def is_done() -> bool:
                # Its address is named early, while the failover may still be given up.
                return bool(client.sentinel_master("main")["port"] == self.replica.port)

            eventually(is_done, "the sentinel names the replica")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as ends:
        primary = start(tmp_path / "primary", tcp=True, repl_diskless_sync_delay=0)
        ends.callback(primary.terminate)
        between = ends.enter_context(proxy("127.0.0.1", primary.port))
        replica = start(tmp_path / "replica", tcp=True, replicaof=f"127.0.0.1 {between.port}")
        ends.callback(replica.terminate)
        sentinel = ends.enter_context(sentinel_knowing(tmp_path, primary.port, replica.port))
        yield Pair(primary, replica, between, sentinel)


@contextmanager
def sentinel_knowing(folder: Path, primary: int, replica: int) -> Iterator[int]:
    """A sentinel's port, once it knows that the replica can be promoted."""
    with (
        start_sentinel(folder, primary) as port,
        closing(redis.Redis(port=port, decode_responses=True)) as client,
    ):

        def knows() -> bool:
            found = client.execute_command("SENTINEL", "REPLICAS", "main")
            return any(
                int(one["port"]) == replica and one["master-link-status"] == "ok" for one in found
            )

        eventually(knows, "the sentinel knows the replica")
        yield port


def made(folder: Path, pair: Pair, options: str = "") -> Scene:
    """The first night completed, and the replica has all of it."""
    scene = Scene(
        folder, FIRST, range_size=50, extra=STORE.format(port=pair.sentinel, options=options)
    )
    truth = night(41, 400)
    scene.write_night(FIRST, truth)
    scene.write_night(SECOND, drifted(truth, 42))
    done = scene.run(*RUN, "--interval", FIRST)
    assert done.code == 0, done.err
    eventually(pair.is_level, "the replica has the first night")
    return scene


def fenced_at(scene: Scene) -> int:
    return int(scene.ask(scene.target, "SELECT generation FROM reconcile_fence")[0][0])


def test_a_failover_that_lost_the_last_writes_replays_nothing_and_goes_on_upwards(
    pair: Pair, tmp_path: Path
) -> None:
    scene = made(tmp_path / "scene", pair)
    assert "?wait=1" in scene.run("status").err
    pair.between.cut()
    for _ in range(3):
        assert scene.run(*RUN, step="lease_acquired:1:SIGKILL").code == -signal.SIGKILL
    holder = scene.start_process(*RUN, step="range_committed:3:SIGSTOP")
    eventually(lambda: is_stopped(holder.pid), "it is stopped")
    lost = pair.lease(pair.primary)
    kept = pair.lease(pair.replica)
    assert int(lost["generation"]) == int(kept["generation"]) + 4, "the replica lacks the grants"
    assert fenced_at(scene) == int(lost["generation"])
    applied = scene.log(SECOND)
    assert applied
    pair.fail_over()

    ran = scene.run(*RUN, step="elsewhere")
    assert ran.code == 0, ran.err
    assert fenced_at(scene) > int(lost["generation"]), "no generation is used twice"
    assert int(pair.lease(pair.replica)["generation"]) == fenced_at(scene)
    scene.check(SECOND, scene.nights[FIRST])
    assert scene.log(SECOND)[: len(applied)] == applied, "what was applied stands, once"

    before = scene.rows(), scene.log(SECOND)
    holder.send_signal(signal.SIGCONT)
    _, err = holder.communicate(timeout=30)
    assert holder.returncode in (69, 80), err
    assert "Traceback" not in err
    assert before == (scene.rows(), scene.log(SECOND))


@pytest.mark.skipif(not os.environ.get("RECONCILE_TEST_LONG"), reason="waits for many an answer")
def test_with_a_replica_that_is_waited_for_nothing_is_done_that_a_failover_could_lose(
    pair: Pair, tmp_path: Path
) -> None:
    scene = made(tmp_path / "scene", pair, "?wait=1")
    assert "replicas" not in scene.run("status").err
    pair.between.cut()
    ran = scene.run(*RUN)
    assert ran.code == 69, ran.err
    assert "0 of 1 replicas" in ran.err
    assert scene.log(SECOND) == []
    assert fenced_at(scene) == int(pair.lease(pair.replica)["generation"])
    pair.fail_over()
    # Alone, it has nobody to wait for.
    config = scene.folder / "reconcile.toml"
    config.write_text(config.read_text().replace("?wait=1", ""))
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    scene.check(SECOND, scene.nights[FIRST])
