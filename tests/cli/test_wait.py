"""`run --wait`: a trigger that finds the lease busy stays for a while."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from support.cli import Cli
from support.fakes import Counting, FakeClock, FakeHost, holder
from support.small import write_source, write_target

from reconcile.cli.render.watcher import AnyWatcher
from reconcile.core.config import sqlite_url
from reconcile.core.model import LeaseKey, RunId
from reconcile.core.ports import Store
from reconcile.stores.registry import opener

CONFIG = """
[jobs.entitlements]
schedule = "30 2 * * *"
start = 2026-11-29
source = "export.csv"
target = "app.db"
"""
KEY = LeaseKey("entitlements")
TTL = timedelta(minutes=5)
WAITS = "entitlements  waits for db1 pid 4711 until 02:30:10Z\n"


class Patient(FakeClock):
    """Passes by itself while the main thread waits; after each second something may happen."""

    def __init__(self) -> None:
        super().__init__()
        self.waited = 0.0
        self.then: Callable[[], None] = lambda: None

    def wait(self, seconds: float, wake: threading.Event) -> bool:
        if threading.current_thread() is not threading.main_thread():
            return super().wait(seconds, wake)
        self.advance(seconds)
        self.waited += seconds
        self.then()
        return wake.is_set()


@pytest.fixture
def clock() -> Patient:
    return Patient()


@pytest.fixture
def waiter(cli: Cli, clock: Patient) -> Cli:
    """A user at a terminal, whose job has the nights of 2026-11-29 and 2026-11-30 due."""
    write_source(cli.folder / "export.csv")
    write_target(cli.folder / "app.db")
    cli.configure(CONFIG)
    cli.clock, cli.terminal = clock, True
    cli.environ = {"NO_COLOR": "1", "TERM": "dumb"}
    return cli


@pytest.fixture
def store(waiter: Cli) -> Store:
    """A connection of somebody else."""
    return opener(
        sqlite_url(waiter.folder / "reconcile.db"),
        clock=waiter.clock,
        host=FakeHost(holder("b")),
        entropy=Counting("b"),
    )()


class Other:
    """Another process, which has the lease for the night of 2026-11-29."""

    def __init__(self, store: Store, name: str = "b") -> None:
        self.store = store
        self.lease = store.acquire(
            KEY, RunId(name), holder(name), TTL, interval="2026-11-29T02:30:00Z"
        )

    def overlaps(self) -> int:
        newest = self.store.lease(KEY)
        assert newest is not None
        assert newest.fence == self.lease.fence
        return newest.overlaps

    def let_go(self) -> None:
        self.store.release(self.lease.fence, 1, None)


def lively(cli: Cli) -> Cli:
    cli.environ = {"NO_COLOR": "1"}
    return cli


def test_it_says_whom_it_waits_for_and_works_once_the_lease_is_free(
    waiter: Cli, store: Store, clock: Patient
) -> None:
    other = Other(store)

    def then() -> None:
        if clock.waited >= 3:
            clock.then = lambda: None
            other.let_go()

    clock.then = then
    shown = lively(waiter)("run", "entitlements", "--wait", "10s")
    assert shown.code == 0
    assert shown.words.startswith(WAITS)
    assert "2026-11-30  completed" in shown.words
    assert clock.waited == 3


def test_it_decides_anew_what_somebody_else_has_completed_meanwhile(
    waiter: Cli, store: Store, clock: Patient
) -> None:
    other = Other(store)

    def then() -> None:
        clock.then = lambda: None
        other.let_go()
        somebody = Cli(waiter.folder, waiter.monkeypatch, clock=clock)
        assert somebody("run", "entitlements").code == 0

    clock.then = then
    shown = waiter("run", "entitlements", "--wait", "10s")
    assert shown.code == 0
    assert "entitlements nothing due" in shown.words
    assert "completed in" not in shown.words


def test_an_interval_asked_for_by_name_may_be_completed_by_then(
    waiter: Cli, store: Store, clock: Patient
) -> None:
    other = Other(store)

    def then() -> None:
        clock.then = lambda: None
        other.let_go()
        assert Cli(waiter.folder, waiter.monkeypatch, clock=clock)("run", "entitlements").code == 0

    clock.then = then
    shown = waiter("run", "entitlements", "--interval", "2026-11-30", "--wait", "1m")
    assert (shown.code, "completed already" in shown.words) == (0, True)


def test_a_lease_that_expires_is_taken_when_it_has_and_not_at_the_next_look(
    waiter: Cli, store: Store, clock: Patient
) -> None:
    Other(store)
    clock.advance(0.6)
    shown = waiter("run", "entitlements", "--wait", "10m")
    assert shown.code == 0
    assert clock.waited == pytest.approx(TTL.total_seconds() - 0.6 + 0.01)


@pytest.mark.parametrize(("argv", "code"), [((), 75), (("-E", "9"), 9)])
def test_one_that_is_still_turned_away_leaves_its_note(
    waiter: Cli, store: Store, clock: Patient, argv: tuple[str, ...], code: int
) -> None:
    waiter.configure(CONFIG.replace("2026-11-29", "2026-11-30"))
    other = Other(store)
    shown = waiter("run", "entitlements", "--wait", "10s", *argv)
    assert shown.code == code
    assert "busy: 2026-11-29T02:30:00Z runs on db1 pid 4711" in shown.words
    assert clock.waited == 10
    # One when it came, one when it gave up: the holder looks again before it lets go.
    assert other.overlaps() == 2


def test_the_note_is_left_with_whoever_has_the_lease_at_the_end(
    waiter: Cli, store: Store, clock: Patient
) -> None:
    waiter.configure(CONFIG.replace("2026-11-29", "2026-11-30"))
    others = [Other(store)]

    def then() -> None:
        clock.then = lambda: None
        others[0].let_go()
        others.append(Other(store, "c"))

    clock.then = then
    assert waiter("run", "entitlements", "--wait", "10s").code == 75
    assert others[1].overlaps() == 1


@pytest.mark.parametrize(("signal", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_ends_the_wait(
    waiter: Cli, store: Store, clock: Patient, signal: str, code: int
) -> None:
    Other(store)

    def then() -> None:
        if clock.waited >= 2:
            waiter.stop.reason = signal

    clock.then = then
    shown = lively(waiter)("run", "entitlements", "--wait", "10s")
    assert shown.code == code
    assert shown.words == (
        f"{WAITS}entitlements  interrupted while it waited for db1 pid 4711; nothing was done\n"
    )
    assert clock.waited == 2


def test_the_time_it_waits_is_part_of_the_time_it_was_given(
    waiter: Cli, store: Store, clock: Patient
) -> None:
    Other(store)
    argv = ("run", "entitlements", "--wait", "60s", "--max-runtime", "5s")
    assert waiter(*argv).code == 75
    assert clock.waited == 5


def test_what_is_left_of_that_time_bounds_the_work(
    waiter: Cli, store: Store, clock: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Freed after 15 of 20 seconds, and each step of a run takes two."""
    waiter.configure(CONFIG.replace("target =", "range_size = 4\ntarget ="))
    other = Other(store)
    begun = clock.boot()

    def then() -> None:
        if clock.waited >= 15:
            clock.then = lambda: None
            other.let_go()

    def reached(watcher: AnyWatcher, step: str) -> None:
        del watcher, step
        clock.advance(2 if clock.waited >= 15 else 0)

    monkeypatch.setattr(AnyWatcher, "reached", reached)
    clock.then = then
    argv = ("run", "entitlements", "--wait", "1m", "--max-runtime", "20s")
    assert waiter(*argv).code == 124
    # Its first range is always finished; had it 20 seconds anew, it would have gone on longer.
    assert clock.boot() - begun < 15 + 20


def test_a_holder_that_died_is_not_waited_for(
    waiter: Cli, store: Store, clock: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    Other(store)
    clock.then = lambda: monkeypatch.setattr(FakeHost, "is_dead", lambda self, other: True)
    assert waiter("run", "entitlements", "--wait", "60s").code == 0
    assert clock.waited == 1


def test_a_program_reads_one_object_and_cron_mails_nothing(
    waiter: Cli, store: Store, clock: Patient
) -> None:
    Other(store)
    quiet = waiter("-q", "run", "entitlements", "--wait", "2s")
    assert (quiet.code, quiet.data, quiet.words) == (75, "", "")
    for_a_program = waiter("--json", "run", "entitlements", "--wait", "2s")
    assert json.loads(for_a_program.data)["outcome"] == "busy"
    assert for_a_program.words == ""


def test_what_is_no_duration_is_a_usage_error(waiter: Cli) -> None:
    shown = waiter("run", "entitlements", "--wait", "soon")
    assert shown.code == 2
    assert "--wait 'soon' is not a duration" in shown.words
