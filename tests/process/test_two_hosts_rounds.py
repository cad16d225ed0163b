"""The main job by the command line on two hosts, for each kind of store and of target: one is
killed, stopped or cut off at some range, while the other waits for the lease.

What is in the target then is recounted by plain dicts. Nothing may be lost or applied twice, by
whoever; no generation comes again; and the other has the lease no later than a second after the
one before would have ended, which is its TTL after it was last renewed.

The suite plays two rounds for each; `RECONCILE_TEST_LONG=1` fifty per store.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pytest
from support.fakes import eventually
from support.forks import DRIVERS
from support.hosted import KINDS, opened
from support.hosts import Host
from support.postgres_scene import PostgresScene
from support.postgres_server import shared_server
from support.proxy import proxy
from support.scene import NIGHTS, Scene, drifted, heard, is_stopped, night
from support.wired import begin, postgres_at, wired

from reconcile.core.model import LeaseKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.hosts import Onto
    from support.proxy import Proxy

    from reconcile.core.model import Lease

TONIGHT = NIGHTS[2]
RUN = ("run", "entitlements")
TRUTH = night(61, 300)
BEFORE = drifted(TRUTH, 62)
TTL = timedelta(seconds=3)
LATEST = timedelta(seconds=1)
LONG = bool(os.environ.get("RECONCILE_TEST_LONG"))
ROUNDS = 25 if LONG else 2
AT_ONCE = 2
TARGETS = ("sqlite", "postgres")
MISHAPS = ("killed", "stopped", "cut off")
STEPS = ("range_planned", "range_committed", "checkpoint_saved")
ENDINGS = {"killed": {-signal.SIGKILL}, "stopped": {69, 80}, "cut off": {69, 80}}


class Round(NamedTuple):
    """What was seen in one."""

    mishap: str
    where: str
    after_renewal: timedelta
    """From the last renewal of the old lease to the grant of the other,"""
    after_mishap: timedelta
    """and from the mishap."""
    ending: int


class SqliteTable(Scene):
    """As `PostgresScene`, for what this test asks of it."""

    variables: ClassVar[dict[str, str]] = DRIVERS

    def answer(self, query: str) -> list[tuple[Any, ...]]:
        return self.ask(self.target, query)

    def drop(self) -> None:
        pass


class Stage:
    """A night to be worked: by the near host through proxies, by the far one directly."""

    def __init__(self, folder: Path, store: str, target: str) -> None:
        kind = PostgresScene if target == "postgres" else SqliteTable
        self.scene: Any = kind(folder, TONIGHT, range_size=20)
        self.proxies: list[Proxy] = []
        """To the store, and to a target that is on a server."""
        self.pipe = folder / "pipe"
        os.mkfifo(self.pipe)
        self._closing = ExitStack()
        self._closing.callback(self.scene.drop)
        self.scene.write_night(TONIGHT, TRUTH)
        self.scene.fill(BEFORE)
        direct, near, to_store = self._closing.enter_context(wired(store))
        self.proxies.append(to_store)
        self._store = self._closing.enter_context(closing(opened(direct)))
        self._store.facts()  # it is made by who has patience
        config = folder / "reconcile.toml"
        job = config.read_text()
        lease = f'[jobs.entitlements.lease]\nttl = "{TTL.total_seconds():g}s"\n'
        (folder / "far.toml").write_text(f'{job}{lease}[store]\nurl = "{direct}"\n')
        # Who only looks has more patience than so short a lease leaves.
        config.write_text(f'{job}[store]\nurl = "{direct}"\n')
        if target == "postgres":
            to_target = self._closing.enter_context(proxy(*postgres_at()))
            self.proxies.append(to_target)
            there = shared_server().url(host="127.0.0.1", port=str(to_target.port))
            job = job.replace(self.scene.url, there)
        (folder / "near.toml").write_text(f'{job}{lease}[store]\nurl = "{near}"\n')

    def lease(self) -> Lease:
        """The newest grant, as anybody may see it."""
        found = self._store.lease(LeaseKey("entitlements"))
        assert found is not None
        return found

    def last_of_this_grant(self) -> Lease:
        """As it was renewed for the last time, once it has ended or another has been granted. A
        renewal may have been under way when its holder was cut off."""
        first = last = self.lease()
        while last.live and last.fence == first.fence:
            first = last
            time.sleep(0.05)
            last = self.lease()
        return last if last.fence == first.fence else first

    def hold(self, first: Onto) -> Callable[[], None]:
        """Wait until it waits at the pipe; lets it go on."""
        found: list[int] = []

        def is_there() -> bool:
            with suppress(OSError):
                found.append(os.open(self.pipe, os.O_WRONLY | os.O_NONBLOCK))
            assert not first.has_ended, first.process.communicate()
            return bool(found)

        eventually(is_there, "the range is reached")
        return lambda: os.close(found[0])

    def close(self) -> None:
        """Forget it all."""
        self._closing.close()


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Host]]:
    folder = tmp_path_factory.mktemp("hosts")
    with closing(Host("near", folder)) as near, closing(Host("far", folder)) as far:
        yield near, far


def recount(stage: Stage, old: int, new: int) -> None:
    """The log, replayed change by change on what was there before, is the truth; so is the table.
    Each key that differed is changed once, and the later generation only after the other."""
    table, changed, generations = dict(BEFORE), set(), []
    for generation, action, key, before, after in stage.scene.answer(
        'SELECT generation, action, "key", "before", "after" FROM reconcile_changes ORDER BY id'
    ):
        account, name = json.loads(key)
        was = None if before is None else json.loads(before)["level"]
        now = None if after is None else json.loads(after)["level"]
        assert table.get((account, name)) == was
        assert action == ("grant" if was is None else "revoke" if now is None else "update")
        assert (account, name) not in changed
        changed.add((account, name))
        generations.append(generation)
        if now is None:
            del table[account, name]
        else:
            table[account, name] = now
    assert table == TRUTH == stage.scene.rows()
    assert changed == {key for key in BEFORE | TRUTH if BEFORE.get(key) != TRUTH.get(key)}
    assert generations == sorted(generations)
    assert set(generations) <= {old, new}
    assert stage.scene.answer("SELECT generation FROM reconcile_fence") == [(new,)]


def place(rng: random.Random, mishap: str, target: str) -> str:
    """Where it happens: after a step, or before a commit in the target."""
    steps = list(STEPS)
    if target == "postgres":
        steps.append("target_commit")
    elif mishap == "killed":
        # Stopped there it would keep SQLite's lock, and the other host may not end it.
        steps.append("commit@app.db")
    return f"{rng.choice(steps)}:{rng.randint(1, 12)}"


def befall(stage: Stage, first: Onto, mishap: str, has_target: bool) -> None:
    """Let it happen. Who is cut off from the store may still have the target, or neither."""
    if mishap == "killed":
        first.send_signal(signal.SIGKILL)
        eventually(lambda: first.has_ended, "it is dead")
    elif mishap == "stopped":
        first.send_signal(signal.SIGSTOP)
        eventually(lambda: is_stopped(first.pid), "it is stopped")
    else:
        for proxy in stage.proxies[:1] if has_target else stage.proxies:
            proxy.silence()


def play(
    stage: Stage, hosts: tuple[Host, Host], mishap: str, where: str, rng: random.Random
) -> Round:
    """One night."""
    near, far = hosts
    first = near.launch(stage.scene, "-c", "near.toml", *RUN, step=f"{where}:until={stage.pipe}")
    go_on = stage.hold(first)
    second = far.launch(stage.scene, "-c", "far.toml", *RUN, "--wait", "60s")
    seen = ""
    while " waits for near " not in seen:
        seen = heard(second.process, 1)
        assert seen, stage.scene.end(second.process)
    time.sleep(rng.random() * TTL.total_seconds() / 5)  # anywhere between two renewals
    at = datetime.now(UTC)
    befall(stage, first, mishap, rng.random() < 0.5)
    go_on()
    old = stage.last_of_this_grant()
    ran = stage.scene.end(second.process)
    assert ran.code == 0, ran.err
    new = stage.lease()
    assert old.fence.generation < new.fence.generation
    assert old.expires_at <= new.granted_at, "granted to two at once"
    recount(stage, old.fence.generation, new.fence.generation)
    done = stage.scene.answer("SELECT * FROM reconcile_changes ORDER BY id"), stage.scene.rows()
    for between in stage.proxies:
        between.mend()
    if mishap == "stopped":
        first.send_signal(signal.SIGCONT)
    woken = stage.scene.end(first.process)
    assert "Traceback" not in woken.err, woken.err
    assert woken.code in ENDINGS[mishap], (mishap, woken)
    assert done == (
        stage.scene.answer("SELECT * FROM reconcile_changes ORDER BY id"),
        stage.scene.rows(),
    ), "a write came after the takeover"
    stage.scene.check(TONIGHT, BEFORE)
    shown = stage.scene.run("status", "entitlements", TONIGHT, "--json").json()["runs"]
    generations = [run["generation"] for run in shown]
    assert generations == sorted(set(generations))
    assert generations[-1] == new.fence.generation
    since = new.granted_at - (old.expires_at - old.ttl)
    return Round(mishap, where, since, new.granted_at - at, woken.code)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("store", KINDS)
@pytest.mark.timeout(3600 if LONG else 120)
def test_nothing_is_lost_or_applied_twice_and_the_other_host_is_not_late(
    hosts: tuple[Host, Host], tmp_path: Path, store: str, target: str
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")  # noqa: T201 - pytest shows it where the test fails
    turn = KINDS.index(store) + 2 * TARGETS.index(target)

    def night(number: int) -> Round:
        with closing(Stage(tmp_path / str(number), store, target)) as stage:
            rng = random.Random(seed + number)
            mishap = MISHAPS[(number + turn) % len(MISHAPS)]
            where = place(rng, mishap, target)
            try:
                return play(stage, hosts, mishap, where, rng)
            except Exception as error:
                error.add_note(f"round {number}: {mishap} at {where}")
                raise

    begin(store, target)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        played = [pool.submit(night, number) for number in range(ROUNDS)]
    failed = [error for one in played if isinstance(error := one.exception(), Exception)]
    rounds = [one.result() for one in played if one.exception() is None]
    for one in rounds:
        print(*one)  # noqa: T201
    if failed:
        raise ExceptionGroup(f"{len(failed)} rounds of {ROUNDS}", failed)
    assert max(one.after_renewal for one in rounds) <= TTL + LATEST
