"""The manual pages are well formed, and say what there is."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from reconcile.core.ports import Store
from reconcile.stores import testing


def linted(*pages: Path) -> str:
    """What mandoc finds fault with."""
    if shutil.which("mandoc") is None:
        assert os.environ.get("RECONCILE_TEST_SYSTEM") != "1", "mandoc missing"
        pytest.skip("not run: mandoc missing")
    argv = ["mandoc", "-T", "lint", *map(str, pages)]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


def test_no_page_has_a_fault(root: Path, tmp_path: Path) -> None:
    assert linted(*(root / "man").iterdir()) == ""
    page = tmp_path / "page.7"
    page.write_text(".Dd nonsense\n.Sh NAME\n")
    assert "page.7" in linted(page), "a fault is found"


def test_the_page_about_stores_has_each_method_and_each_rule(root: Path) -> None:
    page = (root / "man/reconcile-stores.7").read_text()
    methods = [name for name, _ in inspect.getmembers(Store, inspect.isfunction)]
    public = [name for name in methods if not name.startswith("_")]
    assert len(public) == 12
    assert [name for name in public if f"Fn {name}" not in page] == []
    assert testing.__doc__ is not None
    rules = sum(line[:3].strip(" .").isdigit() for line in testing.__doc__.splitlines())
    written = page.partition(".Bl -enum")[2].partition("\n.El")[0]
    assert written.count("\n.It") == rules == 12
