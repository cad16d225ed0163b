"""The checkout, as the guards look at it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ("cli", "core", "stores")
MADE = shutil.ignore_patterns(
    ".*_cache", ".git", ".hypothesis", ".venv", "__pycache__", "*.egg-info", "build", "demo", "dist"
)


@pytest.fixture(scope="session")
def root() -> Path:
    """The top folder of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def modules() -> list[Path]:
    """Every Python file of the package."""
    return [ROOT / "__init__.py", *(f for name in PACKAGE for f in (ROOT / name).rglob("*.py"))]


@pytest.fixture(scope="session")
def copy_checkout() -> Callable[[Path], Path]:
    """Copies what is committed or about to be into a folder.

    It is called `reconcile`, so that with its parent on the path it is the package.
    """
    return lambda folder: Path(shutil.copytree(ROOT, folder / "reconcile", ignore=MADE))


@pytest.fixture
def copy_of_the_checkout(copy_checkout: Callable[[Path], Path], tmp_path: Path) -> Path:
    """Such a copy, which may be changed."""
    return copy_checkout(tmp_path)
