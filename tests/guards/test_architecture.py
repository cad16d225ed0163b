"""Imports go one way: cli -> core <- stores."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CONTRACTS = ("direction", "pure core", "wiring", "strangers")
LINT = Path(sys.executable).with_name("lint-imports")


def lint(folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LINT, "--no-cache", "--no-logo", "--config", folder / "pyproject.toml"],
        cwd=folder,
        env=os.environ | environ,
        capture_output=True,
        text=True,
        check=False,
    )


def test_imports_go_one_way(root: Path) -> None:
    done = lint(root)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "statement", "broken"),
    [
        ("core/errors.py", "from ..cli import demo", "direction"),
        ("core/errors.py", "from ..stores import named_sql", "direction"),
        ("stores/memory.py", "from ..cli import demo", "direction"),
        ("core/planning/walk.py", "import time", "pure core"),
        ("core/engine.py", "import os", "pure core"),
        ("core/checksum.py", "import sqlite3", "pure core"),
        ("core/sources/csv.py", "import random", "pure core"),
        ("cli/main.py", "from ..stores import sqlite", "wiring"),
        ("stores/memory.py", "from . import sqlite", "strangers"),
    ],
)
def test_a_forbidden_import_breaks_its_contract(
    copy_of_the_checkout: Path, module: str, statement: str, broken: str
) -> None:
    path = copy_of_the_checkout / module
    path.write_text(f"{path.read_text()}\n{statement}\n")
    done = lint(copy_of_the_checkout, PYTHONPATH=str(copy_of_the_checkout.parent))
    assert done.returncode == 1, done.stdout + done.stderr
    verdicts = dict(re.findall(r"^([a-z ]+): .* (KEPT|BROKEN)\b", done.stdout, re.MULTILINE))
    assert verdicts == {
        contract: "BROKEN" if contract == broken else "KEPT" for contract in CONTRACTS
    }
