"""`reconcile.run()`: the command's work, for callers in Python."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.small import HAS, SHOULD, write_source, write_target

import reconcile
from reconcile.cli import function
from reconcile.cli.environment import Environment, SystemClock, silent_environment

TODAY = datetime.now(UTC).date()
CONFIG = f"""
[jobs.entitlements]
schedule = "0 0 * * *"
start = {TODAY}
source = "export.csv"
target = "app.db"
range_size = 8
"""
RANGES = 6
ROOT = Path(__file__).parents[2]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    write_source(tmp_path / "export.csv")
    write_target(tmp_path / "app.db")
    path = tmp_path / "reconcile.toml"
    path.write_text(CONFIG)
    return path


def test_a_night_is_worked_and_told_as_values(config: Path) -> None:
    out, err = io.StringIO(), io.StringIO()
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        first = reconcile.run("entitlements", config=config)
        second = reconcile.run("entitlements", config=str(config), max_runtime="14m")
    assert out.getvalue() + err.getvalue() == ""
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    assert (first.outcome, first.exit, first.error) == (reconcile.Outcome.COMPLETED, 0, None)
    (night,) = first.intervals
    assert isinstance(night, reconcile.IntervalOutcome)
    assert (night.interval, night.trigger, night.runs) == (str(TODAY), "schedule", 1)
    assert (night.granted, night.revoked, night.updated) == (3, 2, 0)
    assert (night.ranges_done, night.ranges_total) == (RANGES, RANGES)
    assert (night.count, night.accounts) == (len(SHOULD), 42)
    assert first.text.startswith(f"entitlements {TODAY} completed in ")

    assert (second.outcome, second.exit, second.intervals) == ("nothing_due", 0, ())
    assert second.text.startswith("entitlements nothing due, next ")
    assert second.next_due == datetime.combine(TODAY, datetime.min.time(), UTC) + timedelta(days=1)


def test_a_guard_and_a_missing_source_are_outcomes(config: Path) -> None:
    write_source(config.with_name("export.csv"), HAS[:30])
    waits = reconcile.run("entitlements", config=config)
    assert (waits.outcome, waits.exit) == ("needs_approval", 4)
    assert waits.intervals[0].approve is not None
    assert f"--approve {waits.intervals[0].approve}" in waits.text

    config.with_name("export.csv").unlink()
    (config.parent / "reconcile.db").unlink()
    failed = reconcile.run("entitlements", config=config)
    assert (failed.outcome, failed.exit) == ("failed", 69)
    assert isinstance(failed.error, reconcile.ReconcileError)
    assert failed.error.hint


def test_what_the_command_refuses_is_raised(config: Path) -> None:
    with pytest.raises(reconcile.UnknownJob) as unknown:
        reconcile.run("entitlement", config=config)
    assert unknown.value.hint == "did you mean entitlements?"
    with pytest.raises(reconcile.UsageError, match="wait '30' is not a duration"):
        reconcile.run("entitlements", config=config, wait=30)  # type: ignore[arg-type]
    with pytest.raises(reconcile.UsageError, match="max_runtime 'soon' is not a duration"):
        reconcile.run("entitlements", config=config, max_runtime="soon")
    with pytest.raises(reconcile.ConfigError, match="no such configuration"):
        reconcile.run("entitlements", config=config.with_name("other.toml"))
    (config.parent / "reconcile.db").write_text("no database, and far too long to be empty" * 9)
    with pytest.raises(reconcile.StoreUnusable):
        reconcile.run("entitlements", config=config)


def test_out_of_time_and_a_stop_end_at_a_checkpoint_where_the_next_call_goes_on(
    config: Path,
) -> None:
    first = reconcile.run("entitlements", config=config, max_runtime=timedelta(0))
    assert (first.outcome, first.exit) == ("out_of_time", 124)
    stop = threading.Event()
    stop.set()
    # A stop that was there before is obeyed before anything is begun.
    assert reconcile.run("entitlements", config=config, stop=stop).exit == 143
    last = reconcile.run("entitlements", config=config)
    assert (last.outcome, last.intervals[0].runs) == ("completed", 2)


def test_a_lease_that_is_over_ends_the_process_until_the_call_is_and_no_longer(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts: list[Any] = []
    ended: list[Exception] = []

    class Asked(threading.Event):
        def is_set(self) -> bool:
            hosts[0].abort(RuntimeError("while it works"))
            return super().is_set()

    def silent(*how: Any) -> Environment:
        made = silent_environment(*how)
        hosts.append(made.host)
        return made

    monkeypatch.setattr(function, "silent_environment", silent)
    monkeypatch.setattr(function, "end_process", ended.append)
    assert reconcile.run("entitlements", config=config, stop=Asked()).exit == 0
    assert {str(error) for error in ended} == {"while it works"}
    hosts[0].abort(RuntimeError("later"))
    assert "later" not in map(str, ended)


def test_two_threads_are_two_holders(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One works, and what the other finds meanwhile is that it does."""
    met, go_on = threading.Event(), threading.Event()
    found: dict[str, reconcile.RunOutcome] = {}
    now = SystemClock.now

    def slow(self: SystemClock) -> datetime:
        if threading.current_thread().name == "first" and lease_is_held(config):
            met.set()
            assert go_on.wait(20)
        return now(self)

    monkeypatch.setattr(SystemClock, "now", slow)

    def work() -> None:
        found["first"] = reconcile.run("entitlements", config=config)

    first = threading.Thread(target=work, name="first")
    first.start()
    assert met.wait(20)
    found["second"] = reconcile.run("entitlements", config=config)
    go_on.set()
    first.join()
    assert (found["second"].outcome, found["second"].exit) == ("busy", 75)
    assert found["second"].holder is not None
    assert found["first"].outcome == "completed"


def lease_is_held(config: Path) -> bool:
    import sqlite3

    path = config.with_name("reconcile.db")
    if not path.exists():
        return False
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return bool(database.execute("SELECT 1 FROM lease WHERE NOT released").fetchall())
    except sqlite3.OperationalError:
        return False
    finally:
        database.close()


def test_importing_it_imports_nothing_and_every_public_name_is_there() -> None:
    spy = (
        "import sys; before = {*sys.modules}; import reconcile;"
        "print(*sorted({*sys.modules} - before));"
        "print(all(getattr(reconcile, name) for name in reconcile.__all__))"
    )
    done = subprocess.run(
        [sys.executable, "-c", spy], capture_output=True, text=True, check=True, cwd="/"
    )
    modules, public = done.stdout.splitlines()
    assert {name for name in modules.split() if name.startswith("reconcile")} == {"reconcile"}
    assert public == "True"
    assert set(reconcile.__all__) <= set(dir(reconcile))
    with pytest.raises(AttributeError):
        _ = reconcile.nonsense  # type: ignore[attr-defined]


class Context:
    """A platform with this much time left."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds

    def get_remaining_time_in_millis(self) -> int:
        return self._seconds * 1000


def example() -> ModuleType:
    path = ROOT / "examples/scheduled_function.py"
    spec = importlib.util.spec_from_file_location("scheduled_function", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_ends_at_a_checkpoint_and_the_next_event_goes_on(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECONCILE_CONFIG", str(config))
    handler = example().handler
    # Each event has time for one more range only, of the twice that many steps of a night.
    outcomes = [handler({}, Context(20)) for _ in range(2 * RANGES)]
    assert {one["outcome"] for one in outcomes[:-1]} >= {"out_of_time"}
    assert outcomes[-1]["outcome"] in {"completed", "nothing_due"}
    assert handler({}, Context(900)) == {"outcome": "nothing_due", "intervals": []}


def test_the_example_rings_where_a_person_has_to_look(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECONCILE_CONFIG", str(config))
    config.with_name("export.csv").unlink()
    with pytest.raises(RuntimeError, match=f"{TODAY} failed: .*does not exist") as rings:
        example().handler({}, Context(900))
    assert isinstance(rings.value.__cause__, reconcile.SourceUnreachable)
