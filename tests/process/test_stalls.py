"""Holders that are stopped past their lease, anywhere: another takes over, and no later
write of theirs is accepted by store or target."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.fakes import eventually
from support.scene import NIGHTS, Ran, Scene, drifted, heard, is_stopped, night

if TYPE_CHECKING:
    import subprocess

LONG = bool(os.environ.get("RECONCILE_TEST_LONG"))
FIRST, SECOND = NIGHTS[1:]
RUN = ("run", "entitlements", "--interval", SECOND)
SHORT = '[jobs.entitlements.lease]\nttl = "2s"\n'
SHUT = 2**30 + 2
"""The byte from which on SQLite locks a database's file against readers, see `stepper`."""

WRITER = 120
"""The byte of a write-ahead log's index that whoever writes has locked."""

TOO_LATE = ("before the lease of entitlements was nearly over", "the lease's time was over before")
"""What a holder says that did not get to renew its lease."""

STALLS = 30
"""Stops at random moments of a night."""

STEPS_AT_MOST = 50
"""A night gets so far before it is stopped: nearly to its end, however fast the machine is."""

AT_ONCE = 10
"""So many scenes wait for their leases side by side."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Night one completed, night two exported, a lease of two seconds."""
    scene = Scene(tmp_path_factory.mktemp("stage") / "one", FIRST, range_size=50, extra=SHORT)
    truth = night(21, 600)
    scene.write_night(FIRST, truth)
    scene.write_night(SECOND, drifted(truth, 22))
    done = scene.run("run", "entitlements", "--interval", FIRST)
    assert done.code == 0, done.err
    return scene


def take_over(scene: Scene, stopped: subprocess.Popen[str]) -> int:
    """Let another process finish the night of a stopped one, then let that one go on.

    Returns how the stopped one ended.
    """
    before = wait_for_expiry(scene)
    other = run_in_the_end(scene, stopped) if before is None else run_in_time(scene)
    assert other.code == 0, other.err
    assert "locked" not in other.err
    if before is not None and scene.grant()[0] == before:
        # It had done its work, and only its release was left, of a lease nobody wanted.
        stopped.send_signal(signal.SIGCONT)
        _, err = stopped.communicate(timeout=30)
        assert stopped.returncode == 0, err
        scene.check(SECOND, scene.nights[FIRST])
        return 0
    scene.check(SECOND, scene.nights[FIRST])
    done = scene.everything()
    stopped.send_signal(signal.SIGCONT)
    _, err = stopped.communicate(timeout=30)
    changed = set(scene.everything().splitlines()) ^ set(done.splitlines())
    if changed:
        # Stopped while it raised the fence, it asked for a grant above the newer one, saw that
        # this is not the next to its own, and let go of it.
        rest = [row for row in changed if not row.startswith('INSERT INTO "lease"')]
        assert not rest, "a write was accepted after the takeover"
        assert scene.grant()[1]
        assert stopped.returncode == 80
    assert "Traceback" not in err
    runs = scene.run("status", "entitlements", SECOND, "--json").json()["runs"]
    if len(runs) == 2:
        assert [run["ending"] for run in runs] == ["abandoned", "completed"]
        assert runs[1]["generation"] > runs[0]["generation"]
        assert stopped.returncode in (80, -signal.SIGKILL), err
    return stopped.returncode


def is_in_the_way(scene: Scene, stopped: subprocess.Popen[str]) -> bool:
    """Whether a process that is stopped keeps others from writing to the store: its renewal, a
    thread of its own, may have been at it in that moment."""
    index = str((scene.folder / "reconcile.db-shm").stat().st_ino)
    locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return any(
        lock[3:5] == ["WRITE", str(stopped.pid)]
        and lock[5].rpartition(":")[2] == index
        and int(lock[6]) <= WRITER <= int(lock[7].replace("EOF", "999"))
        for lock in locks
    )


def run_in_time(scene: Scene) -> Ran:
    """Run the night, again where the machine is too busy for a lease of two seconds: then its
    holder ends in time, and the next trigger goes on."""
    give_up = time.monotonic() + 60
    while True:
        ran = scene.run(*RUN)
        too_late = ran.code in (1, 69) and any(words in ran.err for words in TOO_LATE)
        if not too_late or time.monotonic() > give_up:
            return ran


def run_in_the_end(scene: Scene, stopped: subprocess.Popen[str]) -> Ran:
    """Run the night again and again, while the stopped one keeps even readers away and may not be
    ended yet."""
    give_up = time.monotonic() + 20
    while True:
        other = scene.run(*RUN)
        if other.code != 75 or time.monotonic() > give_up:
            return other
        assert f"is locked by process {stopped.pid} (" in other.err
        assert "which is stopped; it has the lease of entitlements until" in other.err


def wait_for_expiry(scene: Scene) -> int | None:
    """Wait until the lease, if there still is one, is over; its generation. None where nobody can
    read it, as its holder was stopped while SQLite keeps readers away."""
    found: list[int | None] = []

    def is_over() -> bool:
        try:
            generation, over = scene.grant(wait=0.5)
        except sqlite3.OperationalError:
            generation, over = None, True
        found.append(generation)
        return over

    eventually(is_over, "its lease expires")
    return found[-1]


def test_stopped_at_thirty_random_moments_it_writes_nothing_after_the_takeover(
    stage: Scene, tmp_path: Path
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")  # noqa: T201 - pytest shows it where the test fails

    def stall(number: int) -> int:
        rng = random.Random(seed + number)
        scene = stage.copy(tmp_path / str(number))
        generation, _ = scene.grant()
        first = scene.start_process(*RUN, "-v")
        eventually(lambda: scene.grant()[0] > generation, "it has the lease")
        heard(first, rng.randrange(STEPS_AT_MOST))
        time.sleep(rng.uniform(0, 0.02))
        first.send_signal(signal.SIGSTOP)
        eventually(lambda: first.poll() is not None or is_stopped(first.pid), "it is stopped")
        return take_over(scene, first)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        codes = list(pool.map(stall, range(STALLS)))
    assert sum(code in (80, -signal.SIGKILL) for code in codes) >= STALLS // 2, codes


INSIDE = [
    "commit@reconcile.db:2:SIGSTOP",  # the run is opened
    "commit@reconcile.db:9:SIGSTOP",
    "commit@app.db:1:SIGSTOP",  # the fence is raised
    "commit@app.db:2:SIGSTOP",
    "commit@app.db:9:SIGSTOP",
    f"locked@app.db+{SHUT}:1:SIGSTOP",  # readers are kept away too, and there is a hot journal
    f"locked@app.db+{SHUT}:5:SIGSTOP",
    f"wal,locked@app.db+{SHUT}:1:SIGSTOP",  # the target's last connection closes
    "read@app.db:12:SIGSTOP",  # without a write-ahead log, who reads keeps writers away
]


def test_stopped_inside_a_transaction_it_is_ended_as_what_blocks_the_others(
    stage: Scene, tmp_path: Path
) -> None:
    def stall(point: str) -> int:
        scene = stage.copy(tmp_path / point)
        if point.startswith("wal,"):
            scene.ask(scene.target, "PRAGMA journal_mode = WAL")
        first = scene.start_process(*RUN, step=point.removeprefix("wal,"))
        eventually(lambda: is_stopped(first.pid), "it is stopped")
        begun = time.monotonic()
        code = take_over(scene, first)
        assert time.monotonic() - begun < 25, "nobody waits much longer than fence_wait"
        return code

    with ThreadPoolExecutor(AT_ONCE) as pool:
        assert list(pool.map(stall, INSIDE)) == [-signal.SIGKILL] * len(INSIDE)


KEPT_OUT = [
    "range_planned:4:shut=reconcile.db",
    "range_committed:3:shut=reconcile.db",
    f"locked@reconcile.db+{SHUT}:1:SIGSTOP",  # the last connection closes
]


def test_stopped_while_nobody_can_read_whose_lease_it_is_it_is_ended_once_that_is_over(
    stage: Scene, tmp_path: Path
) -> None:
    def stall(point: str) -> list[str]:
        scene = stage.copy(tmp_path / point.replace(":", "-"))
        fence = fenced_at(scene)
        first = scene.start_process(*RUN, step=point)
        eventually(lambda: is_stopped(first.pid), "it is stopped")
        assert take_over(scene, first) == -signal.SIGKILL
        assert fenced_at(scene) > fence
        return endings(scene)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(stall, KEPT_OUT))
    assert found == [["abandoned", "completed"], ["abandoned", "completed"], ["completed"]]


def test_who_is_stopped_while_it_lets_go_of_what_another_took_over_is_ended_too(
    stage: Scene, tmp_path: Path
) -> None:
    scene = stage.copy(tmp_path / "scene")
    points = ["range_committed:3:SIGSTOP", f"locked@reconcile.db+{SHUT}:1:SIGSTOP"]
    first = scene.start_process(*RUN, step=",".join(points))
    eventually(lambda: is_stopped(first.pid), "it is stopped")
    wait_for_expiry(scene)
    assert scene.run(*RUN).code == 0
    first.send_signal(signal.SIGCONT)
    eventually(lambda: f"WRITE {first.pid} " in Path("/proc/locks").read_text(), "it closes")
    eventually(lambda: is_stopped(first.pid), "it is stopped again")
    looked = scene.run("status")
    assert looked.code == 69, "who only looks ends nobody"
    assert f"is locked by process {first.pid} (" in looked.err
    assert "its lease of entitlements was over at" in looked.err
    assert is_stopped(first.pid)
    assert scene.run(*RUN).code == 0
    assert first.wait(10) == -signal.SIGKILL
    scene.check(SECOND, scene.nights[FIRST])


def test_a_stopped_process_that_was_granted_nothing_is_named_and_left_alone(
    stage: Scene, tmp_path: Path
) -> None:
    scene = stage.copy(tmp_path / "scene")
    knock = scene.start_process("status", step=f"locked@reconcile.db+{SHUT}:1:SIGSTOP")
    eventually(lambda: is_stopped(knock.pid), "it is stopped")
    other = scene.run(*RUN)
    assert other.code == 69
    assert f"is locked by process {knock.pid} (" in other.err
    assert "which is stopped, and not known to be a holder" in other.err
    assert f"kill -CONT {knock.pid}" in other.err
    assert is_stopped(knock.pid)
    knock.send_signal(signal.SIGCONT)
    assert scene.end(knock).code == 0
    assert scene.run(*RUN).code == 0
    scene.check(SECOND, scene.nights[FIRST])


@pytest.mark.skipif(not LONG, reason="RECONCILE_TEST_LONG is not set")
@pytest.mark.timeout(3600)
def test_stopped_between_any_two_locking_calls_a_holder_never_keeps_the_night_from_being_done(
    stage: Scene, tmp_path: Path
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")  # noqa: T201 - pytest shows it where the test fails
    rng = random.Random(seed)
    points = [f"lock@{rng.choice(['reconcile', 'app'])}.db:{n}:SIGSTOP" for n in range(1, 420)]

    def stall(point: str) -> str:
        scene = stage.copy(tmp_path / point.replace(":", "-"))
        if rng.random() < 0.5:
            scene.ask(scene.target, "PRAGMA journal_mode = WAL")
        generation, _ = scene.grant()
        first = scene.start_process(*RUN, step=point)
        eventually(lambda: first.poll() is not None or is_stopped(first.pid), "it is stopped")
        if first.poll() is not None:
            return "ended before"
        before = wait_for_expiry(scene)
        if before is not None and before > generation:
            return f"ended with {take_over(scene, first)}"
        other = run_in_the_end(scene, first)
        if before is None and other.code == 0:
            assert first.wait(10) == -signal.SIGKILL
            scene.check(SECOND, scene.nights[FIRST])
            return "ended with -9, unread"
        # It had not come as far as a lease: it may be in the way, and nobody may end it.
        assert other.code in (0, 69), other.err
        assert other.code == 0 or f"process {first.pid} (" in other.err, other.err
        first.send_signal(signal.SIGCONT)
        scene.end(first)
        assert scene.run(*RUN).code == 0
        scene.check(SECOND, scene.nights[FIRST])
        return f"no holder, {other.code}"

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = Counter(pool.map(stall, rng.sample(points, 300)))
    print(found)  # noqa: T201
    assert found["ended with -9"] > 10
    assert found["ended with -9, unread"] > 0
    assert found["ended with 80"] > 10


def test_who_has_let_go_of_the_lease_and_is_stopped_as_it_closes_the_target_is_ended(
    stage: Scene, tmp_path: Path
) -> None:
    scene = stage.copy(tmp_path / "scene")
    scene.ask(scene.target, "PRAGMA journal_mode = WAL")
    assert scene.run(*RUN, step="range_committed:3:SIGKILL").code == -signal.SIGKILL
    by_hand = ("stop", "entitlements", "--force", "-m", "OPS-31", "--actor", "alice")
    closing = scene.start_process(*by_hand, step=f"locked@app.db+{SHUT}:1:SIGSTOP")
    eventually(lambda: is_stopped(closing.pid), "it is stopped")
    assert scene.grant()[1], "the lease is free"
    done = scene.run(*RUN)
    assert done.code == 0, done.err
    assert closing.wait(10) == -signal.SIGKILL
    scene.check(SECOND, scene.nights[FIRST])


def test_a_holder_stopped_inside_a_transaction_of_the_store_is_busy_while_its_lease_lives(
    stage: Scene, tmp_path: Path
) -> None:
    scene = stage.copy(tmp_path / "scene")
    config = scene.folder / "reconcile.toml"
    config.write_text(config.read_text().replace("2s", "60s"))
    first = scene.start_process(*RUN, step="commit@reconcile.db:9:SIGSTOP")
    eventually(lambda: is_stopped(first.pid), "it is stopped")
    other = scene.run(*RUN)
    assert other.code == 75
    assert f"pid {first.pid}" in other.err
    assert "locked" not in other.err
    first.send_signal(signal.SIGCONT)
    _, err = first.communicate(timeout=30)
    assert first.returncode == 0, err
    scene.check(SECOND, scene.nights[FIRST])


def test_the_fence_is_raised_before_the_stopped_run_is_reported_closed(
    stage: Scene, tmp_path: Path
) -> None:
    def stall(at: str) -> tuple[bool, int]:
        scene = stage.copy(tmp_path / at)
        first = scene.start_process(*RUN, step=f"{at}:SIGSTOP")
        eventually(lambda: is_stopped(first.pid), "it is stopped")
        in_the_way = is_in_the_way(scene, first)
        eventually(lambda: scene.grant()[1], "its lease expires")
        fence = fenced_at(scene)
        granted_only = scene.run(*RUN, step="lease_acquired:1:SIGKILL")
        assert granted_only.code == -signal.SIGKILL
        assert endings(scene) == [None], "granted, and the target still accepts the old one"
        assert fenced_at(scene) == fence
        assert scene.run(*RUN, step="fence_raised:1:SIGKILL").code == -signal.SIGKILL
        assert endings(scene) == [None]
        assert fenced_at(scene) > fence
        return in_the_way, take_over(scene, first)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(
            pool.map(stall, ["range_planned:4", "range_committed:3", "target_completed:1"])
        )
    assert [code for _, code in found] == [-signal.SIGKILL if way else 80 for way, _ in found]


def test_a_holder_stopped_inside_a_transaction_is_ended_though_its_successor_died_waiting(
    stage: Scene, tmp_path: Path
) -> None:
    scene = stage.copy(tmp_path / "scene")
    first = scene.start_process(*RUN, step="commit@app.db:5:SIGSTOP")
    eventually(lambda: is_stopped(first.pid), "it is stopped")
    eventually(lambda: scene.grant()[1], "its lease expires")
    assert scene.run(*RUN, step="decided:1:SIGKILL").code == -signal.SIGKILL
    assert scene.run(*RUN, step="lease_acquired:1:SIGKILL").code == -signal.SIGKILL
    assert take_over(scene, first) == -signal.SIGKILL


def test_a_target_that_another_program_keeps_locked_is_left_alone_and_the_lease_given_back(
    stage: Scene, tmp_path: Path
) -> None:
    scene = stage.copy(tmp_path / "scene")
    other = sqlite3.connect(scene.target, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    ran = scene.run(*RUN)
    other.execute("ROLLBACK")
    other.close()
    assert ran.code == 69, ran.err
    assert "locked by another program" in ran.err
    assert scene.grant()[1], "nobody has to wait for its lease"
    assert scene.run(*RUN).code == 0
    scene.check(SECOND, scene.nights[FIRST])


def fenced_at(scene: Scene) -> int:
    return int(scene.ask(scene.target, "SELECT generation FROM reconcile_fence")[0][0])


def endings(scene: Scene) -> list[str | None]:
    runs = scene.run("status", "entitlements", SECOND, "--json").json()["runs"]
    return [run["ending"] for run in runs]


def test_who_was_stopped_is_fenced_out_before_a_night_is_skipped_that_may_be_half_applied(
    stage: Scene, tmp_path: Path
) -> None:
    def skip(point: str) -> str:
        scene = stage.copy(tmp_path / point.replace(":", "-"))
        stopped = scene.start_process(*RUN, step=point)
        eventually(lambda: stopped.poll() is not None or is_stopped(stopped.pid), "it is stopped")
        eventually(lambda: scene.grant()[1], "its lease expires")
        skipped = scene.run("skip", "entitlements", SECOND, "-m", "OPS-31", "--actor", "alice")
        assert skipped.code == 0, skipped.err
        done = scene.everything()
        stopped.send_signal(signal.SIGCONT)
        _, err = stopped.communicate(timeout=30)
        assert stopped.returncode in (80, -signal.SIGKILL), err
        assert scene.everything() == done, "a write was accepted after the skip"
        shown = scene.run("status", "entitlements", SECOND, "--json").json()
        assert [run["ending"] for run in shown["runs"]] == ["abandoned"]
        (interval,) = shown["intervals"]
        return f"{interval['state']} {interval['reason']} {len(scene.log(SECOND)) > 0}"

    points = ["judged:1", "range_committed:1", "commit@reconcile.db:9", "commit@app.db:5"]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(skip, [f"{point}:SIGSTOP" for point in points]))
    assert set(found) <= {"skipped operator False", "failed cancelled True"}, found
    assert found[:2] == ["skipped operator False", "failed cancelled True"]
