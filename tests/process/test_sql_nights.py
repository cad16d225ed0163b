"""Nights whose source is a database: from each kind to each kind of target, checked by sums that
the databases make themselves."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from support.postgres_server import fresh_name
from support.scene import NIGHTS
from support.sql_scene import MariaDbSide, PostgresSide, SqlScene, grant, grants

LONG = os.environ.get("RECONCILE_TEST_LONG") == "1"
ACCOUNTS = 100_000 if LONG else 120


pytestmark = pytest.mark.timeout(1800 if LONG else 120)


@pytest.mark.parametrize("target", ["sqlite", "postgres"])
@pytest.mark.parametrize("source", ["sqlite", "postgres", "mariadb"])
def test_all_types_and_awkward_keys_are_equal_after_a_night_and_stay_so(
    tmp_path: Path, source: str, target: str
) -> None:
    scene = SqlScene(tmp_path, source, target, 5000 if LONG else 50)
    scene.truth.fill(grants(ACCOUNTS))
    # Some of the target's rows are right, some are wrong and some are nobody's.
    scene.view.fill([*grants(60)[:50], *grants(70, seed=1)[60:], grant("gone", "plan-0", 1)])
    ran = scene.run("run", "entitlements")
    assert ran.code == 0, ran.err
    scene.assert_equal()
    ran = scene.run("rerun", "entitlements", NIGHTS[-1], "-m", "once more")
    assert (ran.code, "+0 -0 ~0" in ran.err) == (0, True), ran.err
    scene.drop()


@pytest.mark.parametrize("step", ["range_planned:2:SIGKILL", "range_committed:3:SIGKILL"])
def test_killed_while_it_plans_or_applies_the_database_is_not_asked_again(
    tmp_path: Path, step: str
) -> None:
    scene = SqlScene(tmp_path, "sqlite", "sqlite")
    scene.truth.fill(grants(300))
    assert scene.run("run", "entitlements", step=step).code == -signal.SIGKILL
    # Asked again it would say something else.
    scene.truth.do(f"DELETE FROM {scene.truth.name} WHERE account > 'acc-000200'")
    ran = scene.run("run", "entitlements")
    assert ran.code == 0, ran.err
    assert scene.view.ask("SELECT count(*) FROM view") == [(450,)]
    assert len(scene.view.ask("SELECT DISTINCT key FROM reconcile_changes")) == 450
    assert scene.view.ask("SELECT count(*) FROM reconcile_changes") == [(450,)]


class Waiting:
    """A night that waits within its statement until the test lets go of a lock."""

    def __init__(self, folder: Path, more: str = "") -> None:
        self.scene = scene = SqlScene(folder, "mariadb", "sqlite")
        assert isinstance(scene.truth, MariaDbSide)
        self.server = scene.truth.server
        scene.truth.fill(grants(60))
        self.lock = fresh_name("lock")
        names = ", ".join(["account", "entitlement", *scene.columns])
        query = f"SELECT {names} FROM {scene.truth.name} WHERE GET_LOCK('{self.lock}', 60) = 1"
        scene.write(f'query = "{query}"', more=more)
        self.ours = self.server.connect("app")
        self._ask(f"SELECT GET_LOCK('{self.lock}', 0)")
        self.process = scene.start_process("run", "entitlements")
        self.wait(1)

    def wait(self, sessions: int) -> None:
        """Until so many sessions wait for the lock."""
        until = time.monotonic() + 30
        query = (
            f"SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE '%{self.lock}%'"
        )
        # The one that asks is one of them.
        while self._ask(query) != sessions + 1:
            assert time.monotonic() < until
            time.sleep(0.02)

    def release(self) -> None:
        self.ours.close()

    def _ask(self, query: str) -> int:
        with self.ours.cursor() as cursor:
            cursor.execute(query)
            (found,) = cursor.fetchone()
        return int(found)


def test_killed_while_the_database_answers_nothing_was_changed_and_the_next_run_reads_anew(
    tmp_path: Path,
) -> None:
    night = Waiting(tmp_path)
    night.process.kill()
    assert night.scene.end(night.process).code == -signal.SIGKILL
    night.release()
    assert night.scene.view.ask("SELECT count(*) FROM view") == [(0,)]
    assert night.scene.run("run", "entitlements").code == 0
    night.scene.assert_equal()
    assert not any("spool" in name for name in night.scene.files())


def test_a_signal_ends_the_wait_for_a_database_there_too(tmp_path: Path) -> None:
    night = Waiting(tmp_path)
    begun = time.monotonic()
    night.process.terminate()
    assert night.scene.end(night.process).code == 128 + signal.SIGTERM
    assert time.monotonic() - begun < 20
    night.release()
    assert night.scene.run("run", "entitlements").code == 0


def test_a_database_that_says_nothing_is_no_progress(tmp_path: Path) -> None:
    night = Waiting(tmp_path, 'lease.progress_deadline = "1s"\nlease.ttl = "3s"\n')
    ran = night.scene.end(night.process)
    night.release()
    assert (ran.code, "made no progress for 1s" in ran.err) == (1, True), ran.err
    assert night.scene.view.ask("SELECT count(*) FROM view") == [(0,)]
    assert night.scene.run("run", "entitlements").code == 0


@pytest.mark.parametrize("source", ["postgres", "mariadb"])
def test_killed_at_random_a_night_ends_equal_and_nothing_is_changed_twice(
    tmp_path: Path, source: str
) -> None:
    scene = SqlScene(tmp_path, source, "postgres")
    rows = grants(100_000 if LONG else 400)
    scene.truth.fill(rows)
    draw = random.Random(source)
    killed = 0
    for _ in range(20 if LONG else 3):
        process = scene.start_process("run", "entitlements")
        with suppress(subprocess.TimeoutExpired):
            process.wait(draw.uniform(0.02, 20 if LONG else 0.6))
        process.kill()
        killed += scene.end(process).code == -signal.SIGKILL
    ran = scene.run("run", "entitlements", "--interval", NIGHTS[-1])
    assert ran.code == 0, ran.err
    scene.assert_equal()
    assert isinstance(scene.view, PostgresSide)
    changes = f"SELECT count(*), count(DISTINCT key) FROM {scene.view.schema}.reconcile_changes"
    assert scene.view.ask(changes) == [(len(rows), len(rows))], f"{killed} kills"
    scene.drop()
