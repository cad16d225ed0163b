"""People who ask for a rerun of one interval at once, as real processes on each store."""

from __future__ import annotations

import os
import signal
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from support.fakes import eventually
from support.forks import DRIVERS
from support.postgres_server import fresh_name, shared_server
from support.scene import NIGHTS, Scene, is_stopped
from support.valkey import fresh_url, shared_url

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LONG = bool(os.environ.get("RECONCILE_TEST_LONG"))
TONIGHT = NIGHTS[2]
RERUN = ("rerun", "entitlements", TONIGHT)


class Done(Scene):
    """A scene whose only night is completed."""

    variables: ClassVar[dict[str, str]] = DRIVERS

    def signed(self, who: str) -> tuple[str, ...]:
        return ("--actor", who, "-m", f"asked by {who}")

    def trail(self, *types: str) -> list[dict[str, Any]]:
        return [event for event in self.events(TONIGHT) if event["type"] in types]


def on_sqlite() -> str:
    return "reconcile.db"


def on_valkey() -> str:
    return fresh_url(shared_url())


def on_postgres() -> str:
    return shared_server().url(fresh_name("reruns"))


@pytest.fixture
def done(make: Callable[[], str], tmp_path: Path) -> Done:
    extra = f'[store]\nurl = "{make()}"\n'
    scene = Done(tmp_path / "scene", TONIGHT, range_size=2, extra=extra)
    scene.write_night(TONIGHT, {(f"acct-{n}", "sso"): "1" for n in range(8)})
    assert scene.run("run", "entitlements").code == 0
    return scene


def check(scene: Done, number: int) -> None:
    """Each rerun has its own number and its own time, and who asked for it is on the trail."""
    found = scene.run("status", "entitlements", TONIGHT, "--json").json()
    reruns = [event for event in found["events"] if event["type"] == "rerun"]
    assert [event["rerun"] for event in reruns] == list(range(1, number + 1))
    assert all(event["reason"] == f"asked by {event['actor']}" for event in reruns)
    assert {event["checksum"] for event in reruns} == {found["intervals"][0]["checksum"]}
    runs = found["runs"]
    assert [run["ending"] for run in runs] == ["completed"] * (number + 1)
    times = [(run["started_at"], run["ended_at"]) for run in runs]
    assert all(end <= begin for (_, end), (begin, _) in pairwise(times))
    assert found["intervals"][0]["rerun"] == number


@pytest.mark.parametrize("make", [on_sqlite, *[on_valkey, on_postgres] * LONG])
def test_who_waits_for_a_rerun_has_the_next_number_and_who_does_not_is_refused_on_the_trail(
    done: Done,
) -> None:
    first = done.start_process(*RERUN, *done.signed("alice"), step="run_opened:1:SIGSTOP")
    eventually(lambda: is_stopped(first.pid), "the first rerun stops at work")
    refused = done.run(*RERUN, "--wait", "0s", *done.signed("bob"))
    assert refused.code == 75, refused.err
    assert f"pid {first.pid}" in refused.err
    second = done.start_process(*RERUN, *done.signed("carol"))
    eventually(lambda: bool(done.trail("rerun_waits")), "the second waits")
    first.send_signal(signal.SIGCONT)
    for one in (first, second):
        ran = done.end(one)
        assert ran.code == 0, ran.err
    told = done.trail("rerun_waits", "rerun_refused")
    assert [(event["type"], event["actor"], event["why"]) for event in told] == [
        ("rerun_refused", "bob", "busy"),
        ("rerun_waits", "carol", "busy"),
    ]
    assert all(f"pid {first.pid}" in event["holder"] for event in told)
    check(done, 2)


@pytest.mark.parametrize("make", [on_sqlite])
def test_who_waits_for_a_rerun_that_is_killed_is_told_to_finish_it_first(done: Done) -> None:
    first = done.start_process(*RERUN, *done.signed("alice"), step="run_opened:1:SIGSTOP")
    eventually(lambda: is_stopped(first.pid), "the first rerun stops at work")
    second = done.start_process(*RERUN, *done.signed("bob"))
    eventually(lambda: bool(done.trail("rerun_waits")), "the second waits")
    first.kill()
    first.communicate()
    refused = done.end(second)
    assert refused.code == 2
    assert f"finish it: reconcile resume entitlements {TONIGHT}" in refused.err
    assert [event["actor"] for event in done.trail("rerun_refused")] == ["bob"]
    assert done.run("run", "entitlements").code == 0
    assert done.run(*RERUN, *done.signed("bob")).code == 0
    assert [event["actor"] for event in done.trail("rerun")] == ["alice", "bob"]


@pytest.mark.parametrize("make", [on_sqlite, on_valkey, on_postgres])
def test_reruns_that_race_are_carried_out_one_after_the_other(done: Done) -> None:
    names = [f"racer-{n}" for n in range(12 if LONG else 3)]
    racers = [done.start_process(*RERUN, "--wait", "50s", *done.signed(name)) for name in names]
    for racer in racers:
        ran = done.end(racer)
        assert ran.code == 0, ran.err
    assert {event["actor"] for event in done.trail("rerun")} == set(names)
    check(done, len(names))
