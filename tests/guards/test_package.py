"""What a user installs is whole, and needs nothing that only tests need."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

# Both install from a package index, which may take its time.
pytestmark = pytest.mark.timeout(300)


def run(*argv: str | Path, folder: Path) -> str:
    """Both streams of a program that has to succeed."""
    done = subprocess.run(
        argv, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, f"{argv}\n{done.stdout}"
    return done.stdout


def test_the_wheel_has_every_file_of_the_package(
    copy_of_the_checkout: Path, tmp_path: Path
) -> None:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input")
    run(*pip, "wheel", "--no-deps", "-w", tmp_path, copy_of_the_checkout, folder=tmp_path)
    (wheel,) = tmp_path.glob("reconcile-*.whl")
    shipped = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}

    wanted = {copy_of_the_checkout / name for name in ("__init__.py", "py.typed")}
    for name in ("cli", "core", "stores"):
        wanted |= {file for file in (copy_of_the_checkout / name).rglob("*") if file.is_file()}
    assert shipped == {str(file.relative_to(tmp_path)) for file in wanted}


def test_the_example_installs_alone_runs_its_night_and_then_has_nothing_due(
    copy_of_the_checkout: Path,
) -> None:
    demo = ("sh", "examples/demo.sh")
    python = copy_of_the_checkout / "demo/.venv/bin/python"

    first = run(*demo, folder=copy_of_the_checkout)
    assert "2,400 accounts" in first
    assert "+212 -63 ~9" in first

    second = run(*demo, folder=copy_of_the_checkout)
    assert "nothing due" in second

    installed = run(python, "-m", "pip", "list", "--format=freeze", folder=copy_of_the_checkout)
    assert "typer==" in installed
    assert "pytest==" not in installed
    assert "hypothesis==" not in installed
