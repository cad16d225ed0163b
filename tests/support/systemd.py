"""A real systemd, where there is one: asked about units, or started apart from the machine's."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest


def verify(folder: Path, units: Mapping[str, str]) -> str:
    """What `systemd-analyze verify` has against these units, their texts by name."""
    need("systemd-analyze")
    place = folder / "verified"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, text in units.items():
        (place / name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", *(str(place / name) for name in units)],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr + done.stdout


def need(*programs: str) -> None:
    """Say that a test is not run where a program is missing; fail where it must be there."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [name for name in programs if shutil.which(name, path=path) is None]
    if missing:
        assert os.environ.get("RECONCILE_TEST_SYSTEM") != "1", f"{missing} missing"
        pytest.skip(f"not run: {', '.join(missing)} missing")
