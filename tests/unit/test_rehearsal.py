"""The folders of drills: gone with the drill, whatever becomes of it."""

from __future__ import annotations

import fcntl
import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reconcile.cli.environment import real_environment
from reconcile.cli.rehearsal.folders import LOCKED, make_folder, sweep_folders
from reconcile.cli.rehearsal.stage import STORE, FolderStage
from reconcile.core.errors import TargetUnreachable
from reconcile.core.operations.drill.scratch import script


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_only_folders_of_drills_that_are_dead_are_removed(temporary: Path) -> None:
    alive, lock = make_folder()
    dead, other = make_folder()
    os.close(other)
    (dead / "target.db").write_text("")
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / LOCKED).write_text("")
    link = temporary / "reconcile-drill-link"
    link.symlink_to(elsewhere)
    sweep_folders()
    assert set(temporary.iterdir()) == {alive, elsewhere, link}
    assert (elsewhere / LOCKED).exists()
    os.close(lock)
    sweep_folders()
    assert set(temporary.iterdir()) == {elsewhere, link}


def test_the_address_of_the_store_is_for_its_owner_alone_and_goes(temporary: Path) -> None:
    stage = FolderStage(real_environment(), "sqlite:////srv/reconcile.db")
    with stage:
        (folder,) = temporary.iterdir()
        assert folder.stat().st_mode & 0o077 == 0
        assert (folder / STORE).stat().st_mode & 0o077 == 0
        lock = os.open(folder / LOCKED, os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(lock)
    assert list(temporary.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named_with_what_to_do(temporary: Path) -> None:
    stage = FolderStage(real_environment(), "sqlite:////srv/reconcile.db")
    with stage:
        (folder,) = temporary.iterdir()
        scene = script("half", datetime(2026, 11, 30, tzinfo=UTC), 1)
        (folder / scene.job).write_text("in the way")
        with pytest.raises(TargetUnreachable, match="File exists") as refused:
            stage.scene(scene)
        assert "TMPDIR" in refused.value.hint
