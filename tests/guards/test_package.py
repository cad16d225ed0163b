"""What a user installs is whole, and needs nothing that only tests need."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
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


MAN = Path(__file__).parents[2] / "man"
RUN = ("run", "entitlements")
DEMO = ("sh", "examples/demo.sh")


@pytest.fixture(scope="module")
def installed(
    copy_checkout: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """A checkout in which the example has been called once, and what that said."""
    checkout = copy_checkout(tmp_path_factory.mktemp("package"))
    return checkout, run(*DEMO, folder=checkout)


def test_the_wheel_has_every_file_of_the_package(installed: tuple[Path, str]) -> None:
    checkout, _ = installed
    (record,) = checkout.glob("demo/.venv/lib/*/site-packages/reconcile-*.dist-info/RECORD")
    named = {line.partition(",")[0] for line in record.read_text().splitlines()}
    shipped = {
        name for name in named if name.startswith("reconcile/") and "__pycache__" not in name
    }

    wanted = {checkout / name for name in ("__init__.py", "py.typed")}
    for name in ("cli", "core", "stores"):
        wanted |= {file for file in (checkout / name).rglob("*") if file.is_file()}
    assert shipped == {str(file.relative_to(checkout.parent)) for file in wanted}
    beside = {name for name in named - shipped if ".dist-info/" not in name}
    pages = {f"../../../share/man/man{page.suffix[1:]}/{page.name}" for page in MAN.glob("*.[0-9]")}
    assert pages
    assert {name for name in beside if "__pycache__" not in name} == {
        "../../../bin/reconcile",
        *pages,
        "../../../share/bash-completion/completions/reconcile.bash",
        "../../../share/zsh/site-functions/_reconcile",
        "../../../share/fish/vendor_completions.d/reconcile.fish",
    }


def test_the_example_installs_alone_runs_its_night_and_then_has_nothing_due(
    installed: tuple[Path, str],
) -> None:
    checkout, first = installed
    assert "2,400 accounts" in first
    assert "+212 -63 ~9" in first

    second = run(*DEMO, folder=checkout)
    assert "nothing due" in second

    python = checkout / "demo/.venv/bin/python"
    found = run(python, "-m", "pip", "list", "--format=freeze", folder=checkout)
    assert "typer==" in found
    assert "pytest==" not in found
    assert "hypothesis==" not in found


@pytest.mark.parametrize(
    ("url", "driver", "extra"),
    [
        ("postgresql://ops:hunter2@127.0.0.1/rec", "psycopg", "postgres"),
        ("redis://ops:hunter2@127.0.0.1", "redis", "redis"),
    ],
)
def test_without_an_extra_its_store_is_refused_with_what_installs_it(
    installed: tuple[Path, str], url: str, driver: str, extra: str
) -> None:
    checkout, _ = installed
    python = checkout / "demo/.venv/bin/python"
    lacks = subprocess.run([python, "-c", f"import {driver}"], capture_output=True, check=False)
    assert lacks.returncode == 1
    done = subprocess.run(
        [python.with_name("reconcile"), "-c", "demo/reconcile.toml", *RUN, "--store", url],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 78
    assert f"pip install 'reconcile[{extra}]'" in done.stderr
    assert done.stderr.count("reconcile: ") == 1
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stdout + done.stderr
