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

# What the console script does, and then the names of all modules on standard error.
SPY = """
import sys
from reconcile.cli.main import entry
try:
    entry()
finally:
    print(*sys.modules, file=sys.stderr)
"""


def imported(folder: Path, *argv: str) -> tuple[int, set[str]]:
    """Exit status and top-level modules of a call of `reconcile`."""
    done = subprocess.run(
        [sys.executable, "-c", SPY, *argv], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, {name.partition(".")[0] for name in done.stderr.split()}


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
