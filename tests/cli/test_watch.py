"""`status --watch`: a night that another process works, seen from the store alone."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from support import screens
from support.scenes import RUN, TONIGHT, tonight
from support.screens import EYES, OTHER, TERMINAL, Eye, Moving, Screen, Stage, new_folder, settled

from reconcile.core.errors import StoreUnreachable
from reconcile.core.model import Holder
from reconcile.stores.sqlite import SqliteStore

PIPE, PROGRAM = EYES[2], EYES[-1]
ONE = ("status", "entitlements", "--watch")
ANOTHER = Holder("db1", "m1", "b1", "pid:[1]", 911, 1, "another", "svc-rec")
Act = Callable[[Stage], None]


class Ticking(Moving):
    """Each time that somebody waits, a second passes and the next thing happens."""

    def __init__(self, stage: Stage, acts: Sequence[Act]) -> None:
        super().__init__(stage.clock.now())
        self._stage, self._acts = stage, list(acts)
        self.waits = 0

    def wait(self, seconds: float, wake: Any) -> bool:
        self.waits += 1
        over = super().wait(seconds, wake)
        act = self._acts.pop(0) if self._acts else ctrl_c
        act(self._stage)
        return over


def ctrl_c(stage: Stage) -> None:
    stage.stop.reason = "SIGINT"


def nothing(stage: Stage) -> None:
    pass


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    folder = new_folder()
    made = Stage(folder, monkeypatch)
    tonight(made)
    yield made
    shutil.rmtree(folder)


def watched(stage: Stage, *acts: Act, eye: Eye = PIPE, argv: Sequence[str] = ONE) -> Screen:
    """What is seen of a night whose holder is in the middle of it; it stays there."""
    shown: list[Screen] = []

    def meanwhile(other: Stage) -> None:
        other.clock = Ticking(other, acts)
        other.eye = eye
        shown.append(other.elsewhere(eye=eye, stop=other.stop, clock=other.clock)(*argv))
        raise KeyboardInterrupt

    stage.elsewhere(holder=OTHER, hooks={("range_committed", 3): meanwhile})(*RUN)
    return shown[0]


def done(stage: Stage) -> None:
    """The holder is gone; another process finishes the night."""
    clock = Moving(stage.clock.now())
    shown = stage.elsewhere(holder=ANOTHER, dead=frozenset({OTHER.token}), clock=clock)(*RUN)
    assert shown.code == 0, str(shown)


def test_elsewhere_each_change_is_a_line(stage: Stage) -> None:
    shown = watched(stage, nothing, nothing, done)
    assert shown.code == 0
    first, *rest = shown.data.splitlines()
    generation = first.rpartition("generation ")[2].partition(",")[0]
    assert first == (
        "2026-11-30T02:30:13Z entitlements running: 2026-11-30 running on db1 pid 5102,"
        f" generation {generation}, applying range 2/6, +0 -2 ~0"
    )
    assert [line.partition(" ")[2] for line in rest] == ["entitlements ok: 2026-11-30 completed"]
    assert shown.words == ""


def test_an_interval_is_watched_until_it_is_finished(stage: Stage) -> None:
    shown = watched(stage, nothing, done, argv=("status", "entitlements", TONIGHT, "--watch"))
    assert shown.code == 0
    assert [line.split(" ", 1)[1].partition(" on ")[0] for line in shown.data.splitlines()] == [
        "entitlements 2026-11-30 running",
        "entitlements 2026-11-30 completed",
    ]


def test_a_program_gets_an_object_a_change(stage: Stage) -> None:
    shown = watched(stage, nothing, done, eye=PROGRAM)
    states = [json.loads(line)["jobs"][0]["state"] for line in shown.data.splitlines()]
    assert states == ["running", "ok"]


def test_a_terminal_shows_a_bar_from_the_store_above_the_table(stage: Stage) -> None:
    shown = watched(stage, nothing, eye=TERMINAL)
    assert shown.code == 0
    lines = re.sub(r"\x1b\[[0-9;]*m", "", settled(shown.data)).splitlines()
    assert re.fullmatch(r"entitlements 2026-11-30  ━+  applying range 2/6", lines[0])
    assert lines[1] == "  42 accounts   +0 -2 ~0"
    assert "2026-11-30  running" in "\n".join(lines)
    assert lines[-1].endswith("Ctrl-C ends this")
    assert all(len(line) <= 80 for line in lines)
    assert "\x1b[?25h" in shown.data, "the cursor is given back"


def test_nothing_is_read_but_two_small_records_a_second(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    for name in ("lease", "get", "scan"):
        real = getattr(SqliteStore, name)

        def counted(*args: Any, real: Any = real, name: str = name, **options: Any) -> Any:
            asked.append(name)
            return real(*args, **options)

        monkeypatch.setattr(SqliteStore, name, counted)
    at: list[int] = []

    def mark(stage: Stage) -> None:
        at.append(len(asked))

    watched(stage, *[mark] * 9)
    assert [later - before for before, later in pairwise(at)] == [2] * 8


def test_all_jobs_can_be_watched(stage: Stage) -> None:
    shown = watched(stage, done, argv=("status", "--watch"), eye=TERMINAL)
    assert "JOB           STATE" in settled(shown.data)
    assert "running" in shown.data
    assert "entitlements  \x1b[32mok" in settled(shown.data)


def test_a_store_that_is_lost_is_waited_for(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    real = SqliteStore.lease

    def lose(stage: Stage) -> None:
        def lost(*args: Any) -> Any:
            raise StoreUnreachable("its disk is gone", hint="")

        monkeypatch.setattr(SqliteStore, "lease", lost)

    def find(stage: Stage) -> None:
        monkeypatch.setattr(SqliteStore, "lease", real)

    shown = watched(stage, lose, nothing, find, done)
    said = [line.partition(" ")[2] for line in shown.data.splitlines()]
    assert said[1:] == [
        "this is old, and is tried again: its disk is gone",
        "entitlements ok: 2026-11-30 completed",
    ]


def test_a_store_that_is_lost_at_once_is_an_error(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*args: Any) -> Any:
        raise StoreUnreachable("its disk is gone", hint="look at it")

    monkeypatch.setattr(SqliteStore, "lease", lost)
    assert stage(*ONE).code == 69


@pytest.mark.parametrize("option", ["--check", "--metrics"])
def test_what_is_asked_once_is_not_watched(stage: Stage, option: str) -> None:
    assert stage("status", "--watch", option).code == 2


def test_a_reader_that_leaves_ends_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def left(stream: Any, text: str) -> int:
        raise BrokenPipeError

    def fail(stage: Stage) -> None:
        raise AssertionError("nobody reads any more")

    stage.clock = Ticking(stage, [fail])
    monkeypatch.setattr(screens._Stream, "write", left)
    assert stage(*ONE).code == 0
