"""A knock with nothing due is cheap: cron makes one every ten minutes for every job."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"filelock", "hypothesis", "platformdirs", "pytest", "rich", "sqlite_utils", "sqlalchemy"}
DRIVERS = {"psycopg", "redis"}
TELLING = {"apprise", "http", "prometheus_client", "requests", "subprocess", "tempfile"}
"""What telling people takes, which a knock with nothing to tell does not."""

FROZEN_MOST = 14
"""Each costs a third to one and a half milliseconds to import: methods are written as text, and
compiled, at each start. A NamedTuple costs a third of that."""

# What the console script does, and then the names of all modules on standard error.
SPY = """
import sys
from reconcile.cli.main import entry
try:
    entry()
finally:
    print(*sys.modules, file=sys.stderr)
"""

# The same, and then the names of all dataclasses of ours.
MADE = """
import dataclasses, sys
make, made = dataclasses._process_class, []
def spy(cls, *options):
    made.append(f"{cls.__module__}.{cls.__qualname__}")
    return make(cls, *options)
dataclasses._process_class = spy
from reconcile.cli.main import entry
try:
    entry()
finally:
    print(*(name for name in made if name.startswith("reconcile.")), file=sys.stderr)
"""


def spied(spy: str, folder: Path, *argv: str) -> tuple[int, list[str]]:
    """Exit status of a call of `reconcile`, and the words of its standard error."""
    done = subprocess.run(
        [sys.executable, "-c", spy, *argv], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr.split()


def imported(folder: Path, *argv: str) -> tuple[int, set[str]]:
    """Exit status and top-level modules of a call of `reconcile`."""
    code, names = spied(SPY, folder, *argv)
    return code, {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("argv", [("--version",), ("--help",)])
def test_help_imports_nothing_heavy(tmp_path: Path, argv: tuple[str, ...]) -> None:
    code, modules = imported(tmp_path, *argv)
    assert code == 0
    assert "reconcile" in modules
    assert modules & HEAVY == set()


def test_a_run_with_nothing_due_imports_nothing_heavy(tmp_path: Path) -> None:
    assert imported(tmp_path, "init", "--demo")[0] == 0
    code, modules = imported(tmp_path, "run", "entitlements")
    assert (code, modules & DRIVERS) == (0, set())
    config = tmp_path / "reconcile.toml"
    told = f"[alerts]\ncommand = ['page']\nnotify = ['mailto://x']\n{config.read_text()}"
    config.write_text(told.replace("range_size", "heartbeat = 'http://127.0.0.1:9'\nrange_size", 1))
    code, modules = imported(tmp_path, "run", "entitlements")
    assert code == 0
    assert {"reconcile", "sqlite3", "cronsim"} <= modules
    assert modules & (HEAVY | DRIVERS) == set()
    assert modules & TELLING == set()
    assert modules & {"oncalendar", "tzdata", "zoneinfo"} == set(), "it is in UTC"


def test_a_run_with_nothing_due_makes_few_dataclasses(tmp_path: Path) -> None:
    assert imported(tmp_path, "init", "--demo")[0] == 0
    assert imported(tmp_path, "run", "entitlements")[0] == 0
    code, words = spied(MADE, tmp_path, "run", "entitlements", "-q")
    made = [word for word in words if word.startswith("reconcile.")]
    assert (code, "reconcile.core.records.JobRecord" in made) == (0, True)
    assert len(made) <= FROZEN_MOST, f"make NamedTuples of some, or import them later: {made}"
