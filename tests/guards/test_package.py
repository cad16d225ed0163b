"""What a user installs is whole, and needs nothing that only tests need."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest


def run(*argv: str | Path, folder: Path) -> str:
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.timeout(300)  # it downloads and installs
def test_a_wheel_installs_alone_and_works(copy_of_the_checkout: Path, tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input")
    run(*pip, "wheel", "--no-deps", "-w", tmp_path, copy_of_the_checkout, folder=tmp_path)
    (wheel,) = tmp_path.glob("reconcile-*.whl")

    venv.create(tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    run(*pip, "--python", python, "install", wheel, folder=tmp_path)

    here = tmp_path / "here"
    here.mkdir()
    reconcile = tmp_path / "venv/bin/reconcile"
    assert "status" in run(reconcile, "--help", folder=here)
    run(reconcile, "init", "--demo", folder=here)
    run(reconcile, "run", "entitlements", folder=here)
    shipped = run(
        python,
        "-c",
        "import pathlib, reconcile as r; p = pathlib.Path(r.__file__).parent;"
        "print(*sorted(f.relative_to(p) for f in p.rglob('*') if '__pycache__' not in f.parts"
        " and f.is_file()))",
        folder=here,
    ).split()
    source = copy_of_the_checkout
    wanted = [source / "__init__.py", source / "py.typed"]
    for name in ("cli", "core", "stores"):
        wanted += [file for file in (source / name).rglob("*") if file.is_file()]
    assert shipped == sorted((str(file.relative_to(source)) for file in wanted), key=Path)
