"""Completions as they are typed in real shells, and the scripts as they are made."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.typing_in import Typist

from reconcile.cli.completion import SHELLS, script
from reconcile.stores.sqlite import SqliteStore

REPOSITORY = Path(__file__).parents[2]
COMPLETIONS = REPOSITORY / "completions"
CONFIG = """
[jobs.entitlements]
schedule = "30 2 * * *"
start = 2026-11-29
source = "exports/{date}.csv"
target = "app.db"
[jobs.hourly]
schedule = "30 * * * *"
source = "exports/now.csv"
target = "app.db"
"""
BEGIN = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source {script}"),
    "zsh": (
        ["zsh", "-f", "-i"],
        "fpath=({folder} $fpath); autoload -Uz compinit && compinit -D -u",
    ),
    "fish": (["fish", "--no-config", "-i"], "source {script}"),
}


@pytest.mark.parametrize("shell", list(SHELLS))
def test_the_kept_script_is_the_one_that_is_made(shell: str) -> None:
    kept = (COMPLETIONS / SHELLS[shell]).read_text()
    assert kept == script(shell), "make it anew: python man/make.py"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a configuration, a store with some intervals, and the program."""
    from datetime import UTC, datetime

    from support.fakes import Counting, FakeClock

    from reconcile.core.model import ABSENT, Kind, Put, instant_key
    from reconcile.core.records import IntervalRecord

    (tmp_path / "reconcile.toml").write_text(CONFIG)
    (tmp_path / "wrong.toml").write_text("[jobs.\n")
    (tmp_path / "odd.toml").write_text('[jobs."odd $(touch evil) one"]\n')
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/reconcile"
    program.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c 'import sys; from reconcile.cli.main import entry;"
        ' entry()\' "$@"\n'
    )
    program.chmod(0o700)
    store = SqliteStore(
        tmp_path / "reconcile.db", clock=FakeClock(), boot_id="b", new_id=Counting("s").token
    )
    for job, name, hour in (
        ("entitlements", "2026-11-29", 2),
        ("hourly", "2026-11-28T02:30Z", 2),
        ("hourly", "2026-11-28T17:30Z", 17),
    ):
        at = datetime.fromisoformat(f"{name[:10]}T{hour:02d}:30+00:00").astimezone(UTC)
        value = IntervalRecord(id=name, scheduled_at=at).to_json()
        store.note([Put(Kind.INTERVAL, job, instant_key(at), value, ABSENT)])
    store.close()
    return tmp_path


@pytest.fixture
def typist(shell: str, home: Path) -> Iterator[Typist]:
    if shutil.which(shell) is None:
        assert os.environ.get("RECONCILE_TEST_SYSTEM") != "1", f"{shell} missing"
        pytest.skip(f"not run: {shell} missing")
    argv, begin = BEGIN[shell]
    env = {
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
        "HOME": str(home),
        "TERM": "xterm",
        "PS1": ">",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": str(REPOSITORY.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    made = Typist(argv, env, home)
    made.do(begin.format(script=COMPLETIONS / SHELLS[shell], folder=COMPLETIONS))
    yield made
    made.close()


TYPED = {
    "reconcile stat": "reconcile status",
    "reconcile status --met": "reconcile status --metrics",
    "reconcile status ent": "reconcile status entitlements",
    "reconcile -q -c reconcile.toml run ent": "reconcile -q -c reconcile.toml run entitlements",
    "reconcile -c wr": "reconcile -c wrong.toml",
    "reconcile status entitlements 2026": "reconcile status entitlements 2026-11-29",
    "reconcile rerun hourly 2026-11-28T17:": "reconcile rerun hourly 2026-11-28T17:30Z",
    "reconcile run entitlements --interval 2": "reconcile run entitlements --interval 2026-11-29",
    "reconcile status entitlements --state over": "reconcile status entitlements --state overdue",
    "reconcile skip entitlements -m why old": "reconcile skip entitlements -m why oldest",
    # What is wrong is not said, and nothing is offered.
    "reconcile -c wrong.toml status ent": "reconcile -c wrong.toml status ent",
    "reconcile nonsense x": "reconcile nonsense x",
}


@pytest.mark.parametrize("shell", list(SHELLS))
def test_what_is_typed_is_completed(shell: str, typist: Typist, home: Path) -> None:
    got = {text: typist.completed(text).rstrip() for text in TYPED}
    assert got == TYPED
    typist.completed("reconcile -c odd.toml status odd")
    assert not (home / "evil").exists(), "no name of a job is carried out"
