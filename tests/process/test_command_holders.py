"""`reconcile` itself stopped and killed while it runs a command: nothing of that goes on, and the
next trigger begins when it is certain that nothing does."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.commands import boot, wait_for
from support.stamping import Stamping

from reconcile.core.work.commands.supervision.supervisor import processes

Family = set[tuple[int, int]]


def family_of(process: subprocess.Popen[str]) -> Family:
    """All that it has started, by number and start time."""
    return {(one.pid, one.started) for one in processes.descendants(process.pid)}


def living(family: Family) -> Family:
    """Who of them is not gone."""
    return family & {(one.pid, one.started) for one in processes.everyone() if not one.has_ended}


class Patient(Stamping):
    """Its lease is longer than what is done meanwhile takes on a busy machine."""

    ttl = 30.0


begun_here: Family = set()


@pytest.fixture(autouse=True)
def _nothing_outlives_a_failed_test() -> Iterator[None]:
    yield
    for pid, _ in living(begun_here):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    begun_here.clear()


def begun(
    folder: Path, kind: type[Stamping] = Stamping
) -> tuple[Stamping, subprocess.Popen[str], Family]:
    """The job, at work."""
    scene = kind(folder, extra="reconcile.db")
    holder = scene.start_process("run", "stamps")
    scene.wait_for_both()
    family = family_of(holder)
    begun_here.update(family)
    return scene, holder, family


def kill_both(holder: subprocess.Popen[str]) -> None:
    """The holder, and its supervisor before it, so that neither sees to what was started."""
    supervisor = next(one for one in processes.everyone() if one.parent == holder.pid)
    os.kill(holder.pid, signal.SIGSTOP)  # or it would see to the daemon
    os.kill(supervisor.pid, signal.SIGKILL)
    holder.kill()


def goes_on(scene: Stamping) -> str:
    """The next trigger takes the job over, and is ended; nobody's stamps are among another's.
    Returns what it said to who wants to hear of failures alone."""
    (old,) = scene.stamps()
    following = scene.start_process("-q", "run", "stamps", "--wait", "20s")
    wait_for(lambda: len(scene.stamps()) > 1, "the next holder's command")
    theirs = family_of(following)
    following.send_signal(signal.SIGTERM)
    ran = scene.end(following)
    assert ran.code == 143
    assert living(theirs) == set()
    stamps = scene.stamps()
    assert max(stamps.pop(old)) < min(min(one) for one in stamps.values())
    return ran.err


def test_a_stopped_holder_has_no_command_left_when_its_lease_is_over(tmp_path: Path) -> None:
    scene, holder, family = begun(tmp_path / "job")
    holder.send_signal(signal.SIGSTOP)
    stopped = boot()
    wait_for(lambda: not living(family), "the end of the command")
    ((*_, last),) = scene.stamps().values()
    assert last < stopped + scene.ttl  # it was renewed no later than that
    goes_on(scene)
    holder.send_signal(signal.SIGCONT)
    assert scene.end(holder).code == 80


def test_a_killed_holder_leaves_nothing_behind_and_is_followed_at_once(tmp_path: Path) -> None:
    scene, holder, family = begun(tmp_path / "job")
    holder.kill()
    scene.end(holder)
    wait_for(lambda: not living(family), "the end of the command")
    goes_on(scene)


def test_while_a_daemon_of_a_killed_holder_lives_nobody_follows(tmp_path: Path) -> None:
    """Killed together with its supervisor: what neither can end keeps its lease, while that is."""
    scene, holder, family = begun(tmp_path / "job", Patient)
    kill_both(holder)
    scene.end(holder)
    wait_for(lambda: len(living(family)) < len(family) - 1, "the end of its supervisor")
    left = {pid for pid, _ in living(family)}
    assert left
    busy = scene.run("run", "stamps")
    for pid in left:
        with suppress(ProcessLookupError):  # a sleep that is over
            os.kill(pid, signal.SIGKILL)
    assert busy.code == 75, busy.err
    goes_on(scene)


def test_who_takes_over_ends_first_and_names_what_nobody_was_left_to_end(tmp_path: Path) -> None:
    scene, holder, family = begun(tmp_path / "job")
    kill_both(holder)
    scene.end(holder)
    said = " ".join(goes_on(scene).split())
    assert living(family) == set()
    run = f"the run on {os.uname().nodename} pid {holder.pid}"
    assert f"left behind by {run}, and ended: " in said
    assert "sh (pid " in said


def test_an_act_by_hand_between_ends_it_too(tmp_path: Path) -> None:
    scene, holder, family = begun(tmp_path / "job")
    kill_both(holder)
    scene.end(holder)
    stopped = scene.run("stop", "stamps", "--force", "-m", "it was killed")
    assert stopped.code == 0, stopped.err
    assert living(family) == set()
    assert re.search(r"and ended: .*\bsh \(pid ", " ".join(stopped.err.split()))
    goes_on(scene)
