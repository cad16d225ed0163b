"""Two hosts and one night, on each store that several hosts may share: who comes while another is
at work, who believes to be at work although another has done it, and who never got to begin."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING, ClassVar

import pytest
import redis
from support.fakes import eventually
from support.forks import DRIVERS
from support.pgbouncer import shared_bouncer
from support.ports import free_port
from support.postgres_server import fresh_name, shared_server
from support.scene import NIGHTS, Scene, drifted, is_stopped, night
from support.valkey import fresh_url, shared_url, start, url_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TONIGHT = NIGHTS[2]
RUN = ("run", "entitlements")
BUSY = 75
LONG = bool(os.environ.get("RECONCILE_TEST_LONG"))


class Shared(Scene):
    """A night in a store on a server."""

    variables: ClassVar[dict[str, str]] = DRIVERS

    def stopped_at(self, step: str) -> subprocess.Popen[str]:
        """A holder on this host that was stopped there."""
        holder = self.start_process(*RUN, step=f"{step}:SIGSTOP")
        eventually(lambda: is_stopped(holder.pid), "it is stopped")
        return holder

    def elsewhere(self, *argv: str) -> tuple[int, str]:
        """How a run on another host ended, and its words."""
        ran = self.run(*RUN, *argv, step="elsewhere")
        return ran.code, ran.err

    def fenced_at(self) -> int:
        return int(self.ask(self.target, "SELECT generation FROM reconcile_fence")[0][0])

    def endings(self) -> list[str]:
        """How each run of tonight ended, as `status` counts them."""
        shown = self.run("status", "entitlements", TONIGHT, "--json").json()
        return [run["ending"] for run in shown["runs"]]


STORES = ["valkey", "cluster", "postgres", "pooled"] if LONG else ["valkey"]


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a store on a server."""
    if request.param == "valkey":
        yield fresh_url(shared_url())
    elif request.param == "cluster":
        how = {"cluster_enabled": "yes", "cluster_port": free_port()}
        node = start(tmp_path / "node", tcp=True, **how)
        with closing(redis.Redis(port=node.port)) as client:
            # Of one node, which has all slots; scripts whose keys were of two would be refused.
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            eventually(lambda: b"state:ok" in told(client), "it is a cluster")
        yield url_of(node)
        node.terminate()
    else:
        schema = fresh_name("two_hosts")
        yield (shared_server() if request.param == "postgres" else shared_bouncer()).url(schema)
        shared_server().drop(schema)


def told(client: redis.Redis) -> bytes:
    """What a node says of its cluster."""
    answer: bytes = client.execute_command("CLUSTER", "INFO", NEVER_DECODE=True)
    return answer


@pytest.fixture
def begun(url: str, tmp_path: Path) -> Callable[[str], Shared]:
    """Makes the scene, with leases of that length."""

    def make(ttl: str) -> Shared:
        extra = f'[store]\nurl = "{url}"\n[jobs.entitlements.lease]\nttl = "{ttl}"\n'
        scene = Shared(tmp_path / "scene", TONIGHT, range_size=50, extra=extra)
        scene.write_night(TONIGHT, drifted(night(41, 200), 42))
        return scene

    return make


def woken(holder: subprocess.Popen[str]) -> tuple[int, str]:
    """How a stopped holder ends, and its words."""
    holder.send_signal(signal.SIGCONT)
    _, err = holder.communicate(timeout=30)
    assert "Traceback" not in err
    return holder.returncode, err


def test_a_host_that_starts_again_in_mid_interval_finds_the_holder_and_leaves(
    begun: Callable[[str], Shared],
) -> None:
    scene = begun("60s")
    holder = scene.stopped_at("range_committed:2")
    generation = scene.fenced_at()
    for _ in range(2):
        code, err = scene.elsewhere()
        assert code == BUSY, err
        assert re.search(rf"pid {holder.pid}\b", err), err
    code, err = woken(holder)
    assert code == 0, err
    assert scene.fenced_at() == generation
    assert scene.endings() == ["completed"]
    scene.check(TONIGHT, {})


@pytest.mark.parametrize(
    ("step", "endings"),
    [("lease_acquired:1", ["completed"]), ("range_committed:2", ["abandoned", "completed"])],
)
def test_of_two_that_both_believe_to_be_the_holder_one_does_the_night_and_runs_are_counted(
    begun: Callable[[str], Shared], step: str, endings: list[str]
) -> None:
    scene = begun("2s")
    holder = scene.stopped_at(step)
    code, err = scene.elsewhere("--wait", "30s")
    assert code == 0, err
    done = scene.rows(), scene.log(TONIGHT), scene.fenced_at()
    code, err = woken(holder)
    assert code == 80, err
    assert (scene.rows(), scene.log(TONIGHT), scene.fenced_at()) == done
    assert scene.endings() == endings
    scene.check(TONIGHT, {})
    assert scene.run(*RUN).code == 0
    assert (scene.rows(), scene.log(TONIGHT), scene.fenced_at()) == done, "nothing is replayed"


def test_one_that_was_killed_before_it_began_holds_the_lease_no_longer_than_it_lasts(
    begun: Callable[[str], Shared],
) -> None:
    scene = begun("3s")
    assert scene.run(*RUN, step="lease_acquired:1:SIGKILL").code == -signal.SIGKILL
    code, err = scene.elsewhere("--wait", "30s")
    assert code == 0, err
    assert scene.endings() == ["completed"], "a run that never began is none"
    scene.check(TONIGHT, {})
