"""Drills for tests: a job of somebody's, the drill beside it, and bugs put into the program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from .scene import CALL, ENVIRONMENT, Ran, Scene

SEEDS = Path(__file__).with_name("seeds")


class Bug(NamedTuple):
    """A bug: what the text of a module says, and what it says with the bug; then what it breaks:
    the rehearsal, its promise, and a part of the evidence."""

    module: str
    right: str
    wrong: str
    name: str
    promise: int
    evidence: str


BUGS = {
    "the target does not look at its fence": Bug(
        "reconcile.core.targets.books",
        "if row is None or not is_of(row, fence):",
        "if row is None:",
        "stalled holder",
        2,
        "was accepted after",
    ),
    "a holder renews without progress": Bug(
        "reconcile.core.trust",
        "if still <= deadline:",
        "if still <= deadline * 1000:",
        "no progress",
        7,
        "still renewed",
    ),
    "a skip is not recorded": Bug(
        "reconcile.core.operations.decided",
        "for skip in seen.decision.skips:\n        record",
        "for skip in ():\n        record",
        "three nights down",
        5,
        "is missing",
    ),
}
"""Those that a drill has to see on each store."""

MORE = {
    "a live lease is granted again": Bug(
        "reconcile.stores.sqlite",
        "if replaces != last.fence.run and (last.live or last.holder == holder):",
        "if False:",
        "one holder",
        1,
        "started together",
    ),
    "the old run is closed before the fence is raised": Bug(
        "reconcile.core.engine",
        """            raise_fence(
                self._keeper,
                self._work,
                self._store,
                self._store_id,
                self._task.interval.key,
                self._runtime,
            )
            self._runtime.reached("fence_raised")
            self._runtime.report(self._journal.open_run())
""",
        """            opened = self._journal.open_run()
            raise_fence(
                self._keeper,
                self._work,
                self._store,
                self._store_id,
                self._task.interval.key,
                self._runtime,
            )
            self._runtime.reached("fence_raised")
            self._runtime.report(opened)
""",
        "stalled holder",
        3,
        "before the target's fence was raised",
    ),
    "a range is applied again though it has its marker": Bug(
        "reconcile.core.targets.sqlite",
        "if standing is not None:",
        "if False:",
        "killed at range 17",
        4,
        "",
    ),
    "a checkpoint is not read": Bug(
        "reconcile.core.work.entitlements.apply",
        "differing(self.order.records, job, plan, done)",
        "differing(self.order.records, job, plan, 0)",
        "killed at range 17",
        4,
        "resumed at 1;",
    ),
    "the guards let everything pass": Bug(
        "reconcile.core.work.entitlements.judge",
        "    return judge_counts(guards, totals)",
        "    return None",
        "half a source",
        12,
        "rows were changed",
    ),
    "a holder that hangs is not ended": Bug(
        "reconcile.core.renewal",
        "self._runtime.host.abort(error)",
        "pass",
        "no progress",
        8,
        "it still lived",
    ),
    "another checksum is recorded than was proved": Bug(
        "reconcile.core.journal",
        "else proof.observed,",
        "else proof.observed + proof.observed,",
        "proof",
        6,
        "recounted",
    ),
}
"""One at least for each other rehearsal, on SQLite."""

_SOME = """
import sys
from pathlib import Path
from reconcile.cli.environment import real_environment
from reconcile.cli.options import Call, GlobalOptions
from reconcile.cli.rehearsal.stage import FolderStage
from reconcile.cli.render.drill import as_object
from reconcile.cli.render.objects import line
from reconcile.cli.wiring import application
from reconcile.core.config import as_written
from reconcile.core.operations.drill import drill
call = Call(real_environment(), GlobalOptions(config=Path("reconcile.toml")), 75)
app = application(call, lambda report: None, lambda step: None)
report = drill(app, FolderStage(call.env, as_written(app.config.store.url)), sys.argv[1:])
call.env.data(line(as_object(report, not report.holds)))
"""


def environment(scene: Scene, bug: str = "") -> dict[str, str]:
    """That of a drill of a scene, whose temporary files are the scene's own."""
    scratch = scene.folder / "tmp"
    scratch.mkdir(exist_ok=True)
    environ = {**ENVIRONMENT, "HOME": str(scene.folder), "TMPDIR": str(scratch)}
    if bug:
        environ["RECONCILE_TEST_SEED"] = json.dumps({**BUGS, **MORE}[bug][:3])
        before = os.environ.get("PYTHONPATH")
        environ["PYTHONPATH"] = os.pathsep.join([str(SEEDS), *([before] if before else [])])
    return environ


def start(scene: Scene, *argv: str, bug: str = "") -> subprocess.Popen[str]:
    """A whole drill of the scene's store, by the command line."""
    return subprocess.Popen(
        [sys.executable, "-P", "-c", CALL, "drill", *argv],
        cwd=scene.folder,
        env=environment(scene, bug),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> Ran:
    """Its end."""
    out, err = process.communicate(timeout=110)
    return Ran(process.returncode, out, err)


def some(scene: Scene, *names: str, bug: str = "") -> dict[str, Any]:
    """What a drill of these rehearsals alone says as JSON."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", _SOME, *names],
        cwd=scene.folder,
        env=environment(scene, bug),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def keep_in(scene: Scene, url: str) -> None:
    """Have the scene's store at that address."""
    config = scene.folder / "reconcile.toml"
    config.write_text(f'[store]\nurl = "{url}"\n\n' + config.read_text())


def children(pid: int) -> list[int]:
    """The processes that a process has started, from any of its threads."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


def wait_for_death(pids: list[int], seconds: float = 20) -> None:
    """Until none of them lives any more."""
    give_up = time.monotonic() + seconds
    while alive := [pid for pid in pids if _lives(pid)]:
        assert time.monotonic() < give_up, f"{alive} live on"
        time.sleep(0.02)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
