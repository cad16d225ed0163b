"""The disk of store or target is really full, or mounted read-only: real processes on a small
file system of their own. Nothing is lost, and the next run with room goes on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.scene import NIGHTS, STARTED, Ran, Scene, Table, night

TONIGHT = NIGHTS[2]
LONG = bool(os.environ.get("RECONCILE_TEST_LONG"))

SCRIPT = """\
set -e
mount -t tmpfs -o size=2m,mode=755 none small
cp -p kept/* small/ 2>/dev/null || true
{prepare}
code=0
"$@" || code=$?
mount -o remount,rw none small
rm -f small/filler
cp -p small/* kept/ 2>/dev/null || true
exit $code
"""
FILL = """\
dd if=/dev/zero of=small/filler bs=4k status=none 2>/dev/null || true
truncate -s -{free} small/filler
"""


@pytest.fixture(autouse=True)
def _nobody_is_left() -> Iterator[None]:
    yield
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def mounting() -> list[str]:
    """How to get mounts of one's own here."""
    command = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "-r"]
    try:
        mount = [*command, "mount", "-t", "tmpfs", "none", "/mnt"]
        done = subprocess.run(mount, check=False, capture_output=True)
    except FileNotFoundError:
        done = None
    if done is None or done.returncode != 0:
        pytest.skip("not run: no private mount namespace here (RLIMIT_FSIZE stands in)")
    return command


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """A night that grants some hundred kilobytes."""
    made = Scene(tmp_path / "scene", TONIGHT, range_size=100)
    truth: Table = dict.fromkeys(night(5, 400), "x" * 400)
    made.write_night(TONIGHT, truth)
    (made.folder / "small").mkdir()
    (made.folder / "kept").mkdir()
    return made


def run_with_little_room(scene: Scene, mounting: list[str], prepare: str) -> Ran:
    """A run while `small` is such a file system, and what it holds afterwards is in `kept`."""
    command = [*mounting, "sh", "-c", SCRIPT.format(prepare=prepare), "sh"]
    return scene.end(scene.launch([*command, *scene.command("-q", "run", "entitlements")]))


def in_small(scene: Scene, name: str) -> None:
    """Have the database of that name in the small file system."""
    config = scene.folder / "reconcile.toml"
    text = config.read_text()
    if name == "app.db":
        text = text.replace('"app.db"', '"small/app.db"')
        scene.target.rename(scene.folder / "kept" / name)
    else:
        text = f'[store]\nurl = "small/{name}"\n{text}'
    config.write_text(text)


def with_room(scene: Scene, name: str) -> None:
    """The next run has room, and completes the night with each change applied once."""
    for path in (scene.folder / "kept").iterdir():
        path.rename(scene.folder / "small" / path.name)
    ended = scene.run("run", "entitlements", "--interval", TONIGHT)
    assert ended.code == 0, ended.err
    (scene.folder / name).symlink_to(scene.folder / "small" / name)
    scene.check(TONIGHT, {})
    assert scene.ask(scene.folder / name, "PRAGMA integrity_check") == [("ok",)]


def only_message(ran: Ran) -> str:
    assert "Traceback" not in ran.err
    first, *others = ran.err.splitlines()
    assert first
    assert all(line.startswith(" ") for line in others if line), ran.err
    return " ".join(ran.err.split())


@pytest.mark.parametrize("free", [0, 100_000] if LONG else [100_000])
def test_a_full_disk_of_the_target_takes_a_range_back(
    scene: Scene, mounting: list[str], free: int
) -> None:
    in_small(scene, "app.db")
    ended = run_with_little_room(scene, mounting, FILL.format(free=free))
    assert ended.code == 69, ended.err
    message = only_message(ended)
    assert "small/app.db: database or disk is full" in message
    assert "df -h" in message
    kept = scene.folder / "kept" / "app.db"
    held = dict(scene.ask(kept, "SELECT account_id || entitlement, level FROM entitlements"))
    logged = scene.ask(kept, "SELECT name FROM sqlite_master WHERE name = 'reconcile_changes'")
    count = scene.ask(kept, "SELECT count(*) FROM reconcile_changes")[0][0] if logged else 0
    assert len(held) == count, "what was changed is in the log, and nothing else"
    with_room(scene, "app.db")


@pytest.mark.parametrize("free", [0, 40_000, 200_000] if LONG else [40_000])
def test_a_full_disk_of_the_store_loses_nothing(
    scene: Scene, mounting: list[str], free: int
) -> None:
    in_small(scene, "reconcile.db")
    ended = run_with_little_room(scene, mounting, FILL.format(free=free))
    assert ended.code == 69, ended.err
    message = only_message(ended)
    assert "the disk of the store" in message
    assert "df -h" in message
    with_room(scene, "reconcile.db")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("app.db", "small/app.db lies on a file system that is mounted read-only"),
        ("reconcile.db", "small/reconcile.db lies on a file system that is mounted read-only"),
    ],
)
def test_a_disk_mounted_read_only_changes_nothing(
    scene: Scene, mounting: list[str], name: str, says: str
) -> None:
    in_small(scene, name)
    ended = run_with_little_room(scene, mounting, "mount -o remount,ro none small")
    assert ended.code == 69, ended.err
    message = only_message(ended)
    assert says in message
    assert "findmnt" in message
    with_room(scene, name)
