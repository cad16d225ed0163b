"""Every bad input has its exit status, one message with what to do, and changes nothing.

One row of `support/bad_table.py` is one thing that may be wrong at 3 a.m.; each is done to a
job that has one night completed and one due, which then runs as cron would call it.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.bad_inputs import DONE, DUE, Night, completed_night, copied
from support.bad_making import target_on_network_file_system
from support.bad_table import EVERYTHING, Bad
from support.cli import Cli, Shown

from reconcile.cli.commands.run import run
from reconcile.cli.exit_codes import ExitCode

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture(scope="module")
def completed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    with pytest.MonkeyPatch.context() as patch:
        yield completed_night(Cli(tmp_path_factory.mktemp("completed"), patch))


@pytest.fixture
def night(completed: Night, monkeypatch: pytest.MonkeyPatch) -> Iterator[Night]:
    """That folder, where any user may enter it."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        made = copied(completed, Path(name))
        made.cli.monkeypatch = monkeypatch
        yield made


each = pytest.mark.parametrize(
    "bad", [pytest.param(b, id=f"{of}: {b.name}") for of, b in EVERYTHING]
)


@each
def test_a_bad_input_is_one_message_and_changes_nothing(night: Night, bad: Bad) -> None:
    bad.make(night)
    files, target, done = night.files(), night.target_holds(), night.completed()
    accounts = [night.rows_of(account) for account in bad.left or ()]
    shown = night.run("-q")
    assert shown.code == bad.code, str(shown)
    assert shown.data == ""
    message, hint = said(shown)
    assert bad.says.replace("{}", str(night.folder)) in message
    assert bad.do in hint
    assert night.files() == files
    if bad.left is None:
        assert night.target_holds() == target
    else:
        assert [night.rows_of(account) for account in bad.left] == accounts
    assert night.completed() == done


def said(shown: Shown) -> tuple[str, str]:
    """The one message, and what is indented below it, each as one line."""
    assert "Traceback" not in shown.words
    first, *others = shown.words.splitlines()
    assert all(line.startswith(" ") for line in others if line), f"two messages: {shown}"
    message = f"{first} {' '.join(line.strip() for line in others)}"
    return message, " ".join(line.strip() for line in others)


@pytest.mark.parametrize(
    "bad", [pytest.param(b, id=f"{of}: {b.name}") for of, b in EVERYTHING[::9]]
)
def test_a_bad_input_is_one_object_for_programs(night: Night, bad: Bad) -> None:
    bad.make(night)
    shown = night.run("--json")
    assert shown.code == bad.code
    found = json.loads(shown.data)
    error = found.get("error") or found["intervals"][0]["error"]
    if error is not None:
        assert bad.says.replace("{}", str(night.folder)) in error["message"]
        do = bad.do.replace("-c other.toml ", "")  # how it was called is added for people
        assert do in error["hint"] or bad.left is not None
    else:
        assert found["exit"] == bad.code


def test_the_same_night_without_anything_bad_is_completed(night: Night) -> None:
    """Or the table would prove nothing."""
    files, target = night.files(), night.target_holds()
    assert night.run("-q").code == 0
    assert night.files() == files
    assert night.target_holds() != target
    assert any(DUE in key for key in night.completed())


def test_a_target_that_is_vouched_for_may_lie_anywhere(night: Night) -> None:
    target_on_network_file_system(night)
    night.configure('"app.db"', '"sqlite:///app.db?single_host=yes"')
    assert night.run("-q").code == 0


@pytest.mark.parametrize("content", [b"", None])
def test_an_empty_store_goes_on_from_what_the_target_knows(
    night: Night, content: bytes | None
) -> None:
    night.store.unlink()
    if content is not None:
        night.store.write_bytes(content)
    assert night.run("-q").code == 0
    assert len(night.completed()) == 2, "the night that was done is a span of its own"


def test_an_empty_target_was_restored_and_each_night_says_what_it_lacks(night: Night) -> None:
    night.target.write_bytes(b"")
    shown = night.run("-q")
    assert shown.code == 65
    for date in (DONE, DUE):
        assert re.search(rf"entitlements {date}( r1)? failed: ", shown.words)
    assert shown.words.count("or create it; reconcile never does") == 2
    assert night.target.read_bytes() == b""
    assert night.completed() == [], "the target does not hold the night that was done"


# --- the exit statuses that the manual has


def in_the_manual() -> set[int]:
    """The codes of the README's table."""
    table = README.read_text().partition("## Exit status")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([\d, ]+) \|", table, re.MULTILINE)
    return {int(code) for row in rows for code in row.split(",")}


def test_the_manual_has_every_exit_status() -> None:
    assert in_the_manual() == {int(code) for code in ExitCode}


def test_every_exit_status_of_a_bad_input_is_in_the_help_of_run() -> None:
    _, _, listed = (run.__doc__ or "").partition("Exit status:")
    assert listed
    for code in {bad.code for _, bad in EVERYTHING}:
        assert re.search(rf"\b{code}\b", listed), code
