"""The manual pages are well formed, and say what there is."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from reconcile.cli.completion.tables import Command, table
from reconcile.cli.exit_codes import ExitCode
from reconcile.core.ports import Store
from reconcile.stores import testing

MAN = Path(__file__).parents[2] / "man"
PAGES = sorted(MAN.glob("*.[0-9]"))
OURS = "|".join(re.escape(f"Xr {page.stem} {page.suffix[1:]}") for page in PAGES)


def maker() -> Any:
    """`man/make.py`."""
    spec = spec_from_file_location("make_man", MAN / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mandoc(*argv: str | Path) -> str:
    """What mandoc prints."""
    if shutil.which("mandoc") is None:
        assert os.environ.get("RECONCILE_TEST_SYSTEM") != "1", "mandoc missing"
        pytest.skip("not run: mandoc missing")
    done = subprocess.run(["mandoc", *argv], capture_output=True, text=True, check=False)
    return done.stdout


def linted(*pages: Path) -> list[str]:
    """What mandoc finds fault with. That a page of ours is not installed is no fault."""
    found = mandoc("-T", "lint", *pages).splitlines()
    return [line for line in found if not re.search(f"manual not found: ({OURS})", line)]


def test_no_page_has_a_fault(tmp_path: Path) -> None:
    assert {page.name for page in PAGES} == {
        "reconcile.1",
        "reconcile.toml.5",
        "reconcile-stores.7",
    }
    assert linted(*PAGES) == []
    page = tmp_path / "page.7"
    page.write_text(".Dd nonsense\n.Sh NAME\n")
    assert "page.7" in linted(page)[0], "a fault is found"


def test_the_pages_are_what_the_program_says() -> None:
    make = maker()
    for name in make.PAGES:
        kept = (MAN / name).read_text()
        assert kept == make.page(name), f"make {name} anew: python man/make.py"


def test_every_command_option_key_and_exit_status_can_be_read_at_80_columns() -> None:
    make = maker()
    declared = table()
    plain = re.sub("(.)\b\\1", r"\1", mandoc("-T", "ascii", "-O", "width=78", MAN / "reconcile.1"))
    plain = re.sub("_\b(.)", r"\1", plain)
    for command in declared.commands:
        for option in command.options:
            assert all(spelling in plain for spelling in option.spellings)
    status = plain.partition("\nEXIT STATUS\n")[2].partition("\nEXAMPLES\n")[0]
    codes = re.findall(r"^     (\d+) ", status, re.MULTILINE)
    assert [int(code) for code in codes] == [code.value for code in ExitCode]
    keys = mandoc("-T", "ascii", "-O", "width=78", MAN / "reconcile.toml.5")
    keys = re.sub("(.)\b\\1", r"\1", re.sub("_\b(.)", r"\1", keys))
    for key in make.defaults():
        assert re.search(rf"^     {re.escape(key.partition('.')[2] or key)}\b", keys, re.MULTILINE)
    assert max(map(len, (plain + keys).splitlines())) <= 80


def test_a_key_without_a_word_about_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    make = maker()
    known = make.defaults()
    monkeypatch.setattr(make, "defaults", lambda: {**known, "jobs_to_come": "none"})
    with pytest.raises(SystemExit, match=r"lacks .'jobs_to_come'."):
        make.page("reconcile.toml.5")


@pytest.mark.parametrize("command", table().commands, ids=lambda command: command.name)
def test_the_help_of_each_command_states_its_exit_status(command: Command) -> None:
    assert "Exit status" in command.text


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
