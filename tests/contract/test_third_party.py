"""A store of somebody else keeps the contract, and a job is kept in it.

`tests/third_party` is a distribution of its own, which knows `reconcile` by its name only. It
is built and installed as a user would, into a folder of this test, and found by its entry
point. The rest of this file is what its author would write.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from support.scene import ENVIRONMENT, NIGHTS, Scene, drifted, night

from reconcile.core.errors import ConfigError, StoreBusy, StoreUnreachable, StoreUnusable
from reconcile.core.model import Kind
from reconcile.stores.registry import opener
from reconcile.stores.testing import StoreContract
from reconcile.stores.testing_support import JOB, KEY, A, cursor_at, grant

if TYPE_CHECKING:
    from reconcile.core.model import JsonObject, LeaseKey
    from reconcile.core.ports import Store
    from reconcile.stores.testing import MovedClock

PACKAGE = Path(__file__).parents[1] / "third_party"
FIRST, SECOND = NIGHTS[1:]
PIP = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the distribution is installed."""
    copy = shutil.copytree(PACKAGE, tmp_path_factory.mktemp("source") / "package")
    folder = tmp_path_factory.mktemp("installed")
    how = ("--no-index", "--no-deps", "--no-build-isolation", "--no-compile", "--target")
    done = subprocess.run(
        [*PIP, *how, str(folder), str(copy)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture
def on_the_path(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, in which this process looks for modules and their entry points too."""
    monkeypatch.syspath_prepend(str(installed))
    return installed


class JsonFileHarness:
    """One document, seen from outside."""

    def __init__(self, path: Path, clock: MovedClock) -> None:
        self.path, self._clock = path, clock
        self.boot_id = A.boot_id
        self.advance, self.step_wall_clock = clock.advance, clock.step

    def open(self, patience: float = 5.0) -> Store:
        host: Any = SimpleNamespace(holder=lambda: SimpleNamespace(boot_id=self.boot_id))
        names: Any = SimpleNamespace(token=lambda: "5t0re")
        url = f"jsonfile://{self.path}"
        return opener(url, clock=self._clock, host=host, entropy=names, patience=patience)()

    def peek_generation(self, key: LeaseKey) -> int | None:
        row = self._document()["leases"].get(json.dumps([key.job, key.shard]))
        return None if row is None else row["generation"]

    def peek_record(self, kind: Kind, job: str, key: str) -> JsonObject | None:
        row = self._document()["records"].get(json.dumps([kind, job, key]))
        return None if row is None else json.loads(row["value"])

    def _document(self) -> Any:
        return json.loads(self.path.read_text())


@pytest.fixture
def harness(on_the_path: Path, tmp_path: Path, clock: MovedClock) -> JsonFileHarness:
    return JsonFileHarness(tmp_path / "state.json", clock)


class TestThirdPartyStore(StoreContract):
    pass


def test_it_comes_from_the_distribution_and_is_named_among_the_stores(
    harness: JsonFileHarness, on_the_path: Path
) -> None:
    assert Path(sys.modules[type(harness.open()).__module__].__file__ or "").parent == on_the_path
    with pytest.raises(ConfigError) as refused:
        opener("nosuch://x", clock=None, host=None, entropy=None)  # type: ignore[arg-type]
    assert "jsonfile:, memory:, postgres:" in refused.value.hint


def test_its_own_refusals_are_in_words(harness: JsonFileHarness) -> None:
    for place in ("state.json", "/", "/state.json?x=1"):
        with pytest.raises(ConfigError, match="names no file"):
            opener(f"jsonfile://{place}", clock=None, host=None, entropy=None)  # type: ignore[arg-type]
    store = harness.open()
    harness.path.rename(harness.path.with_suffix(".away"))
    with pytest.raises(StoreUnreachable, match="cannot be used"):
        grant(store, "r1")
    harness.path.write_text('{"format":1,"id":"another","leases":{}}')
    with pytest.raises(StoreUnreachable, match="was replaced"):
        grant(store, "r1")
    harness.path.write_text("[]")
    with pytest.raises(StoreUnusable, match="damaged"):
        store.get(Kind.JOB, JOB, "")


def test_whoever_has_its_lock_is_waited_for_with_a_bound(harness: JsonFileHarness) -> None:
    store = harness.open(patience=0.02)
    lease = grant(store, "r1")
    with Path(f"{harness.path}.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreBusy, match="locked"):
            store.commit(lease.fence, 1, [cursor_at(1)])
        assert store.lease(KEY) == lease
    assert store.commit(lease.fence, 1, [cursor_at(1)])


# --- a job of a user's, whose nights are kept in it


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Two nights, neither begun, for processes that are started as cron would."""
    made = Scene(
        tmp_path / "scene",
        FIRST,
        range_size=50,
        extra=f'[store]\nurl = "jsonfile://{tmp_path}/scene/state.json"\n',
    )
    truth = night(41, 200)
    made.write_night(FIRST, truth)
    made.write_night(SECOND, drifted(truth, 42))
    return made


def called(scene: Scene, installed: Path, *argv: str, step: str = "") -> tuple[int, str, str]:
    """How a command ended in a Python of its own, and both its streams."""
    path = os.pathsep.join([str(installed), ENVIRONMENT.get("PYTHONPATH", "")])
    done = subprocess.run(
        scene.command(*argv, step=step),
        cwd=scene.folder,
        env={**ENVIRONMENT, "HOME": str(scene.folder), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_night_that_is_killed_in_it_is_finished_by_the_next_run(
    scene: Scene, installed: Path
) -> None:
    code, _, err = called(scene, installed, "run", "entitlements", step="range_committed:2:SIGKILL")
    assert code == -9, err
    code, _, err = called(scene, installed, "run", "entitlements")
    assert code == 0, err
    scene.check_target(SECOND, scene.nights[FIRST])
    assert len(scene.log(FIRST)) == len(scene.nights[FIRST]), "each grant was logged once"
    code, out, err = called(scene, installed, "status", "entitlements", "--json")
    assert code == 0, err
    shown = json.loads(out)
    assert {one["interval"]: one["state"] for one in shown["intervals"]} == {
        FIRST: "completed",
        SECOND: "completed",
    }
    assert not scene.store.exists()
