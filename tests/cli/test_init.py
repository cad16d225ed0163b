"""`reconcile init` and `init --demo`."""

from __future__ import annotations

import csv
import errno
import json
import os
import sqlite3
import tomllib
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from support.cli import Cli

from reconcile.cli import demo, whole_files
from reconcile.cli.whole_files import write_whole
from reconcile.core.errors import AccessDenied, TargetUnreachable, UsageError

TODAY = date(2026, 11, 30)
"""The day of the shared fake clock."""


def source_of(folder: Path) -> dict[tuple[str, str], str]:
    with (folder / "export.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["account_id", "entitlement", "level"]
    return {(account, entitlement): level for account, entitlement, level in rows[1:]}


def target_of(folder: Path) -> dict[tuple[str, str], str]:
    connection = sqlite3.connect(folder / "app.db")
    found = connection.execute("SELECT account_id, entitlement, level FROM entitlements").fetchall()
    connection.close()
    return {(account, entitlement): level for account, entitlement, level in found}


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def test_the_demo_says_what_it_wrote_and_what_to_type_next(cli: Cli, tmp_path: Path) -> None:
    shown = cli("init", "--demo")
    assert (shown.code, shown.data) == (0, "")
    assert (
        shown.words
        == """\
  reconcile.toml   one job, entitlements: nightly at 00:00 UTC, due now
  export.csv       what accounts should have: 6,020 rows, 2,400 accounts
  app.db           what they have now: table entitlements, 5,871 rows

Next:
  reconcile run entitlements --dry-run   see what would change
  reconcile run entitlements             change it
  reconcile status                       see what happened
"""
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "app.db",
        "export.csv",
        "reconcile.toml",
    ]


def test_the_demo_differs_by_212_grants_63_revokes_and_9_updates(cli: Cli, tmp_path: Path) -> None:
    cli("init", "--demo")
    wanted, found = source_of(tmp_path), target_of(tmp_path)
    assert (len(wanted), len(found)) == (6020, 5871)
    assert len({account for account, _ in wanted}) == 2400
    assert len(wanted.keys() - found.keys()) == 212
    assert len(found.keys() - wanted.keys()) == 63
    assert sum(wanted[key] != found[key] for key in wanted.keys() & found.keys()) == 9


def test_the_first_changes_of_the_demo_are_those_of_the_manual(cli: Cli, tmp_path: Path) -> None:
    cli("init", "--demo")
    wanted, found = source_of(tmp_path), target_of(tmp_path)
    keys = sorted(key for key in wanted | found if wanted.get(key) != found.get(key))
    assert [(*key, found.get(key), wanted.get(key)) for key in keys[:4]] == [
        ("acct-0007", "seats", None, "25"),
        ("acct-0007", "sso", None, "true"),
        ("acct-0012", "exports", "true", None),
        ("acct-0031", "seats", "10", "50"),
    ]


def test_the_source_of_the_demo_is_sorted_and_ends_with_a_line_end(
    cli: Cli, tmp_path: Path
) -> None:
    cli("init", "--demo")
    lines = (tmp_path / "export.csv").read_bytes().splitlines(keepends=True)
    assert lines[1:] == sorted(lines[1:])
    assert all(line.endswith(b"\n") for line in lines)


def test_the_demo_is_the_same_every_time(cli: Cli, tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        folder.mkdir()
        cli("-c", f"{folder}/reconcile.toml", "init", "--demo")
    assert (first / "export.csv").read_bytes() == (second / "export.csv").read_bytes()
    assert target_of(first) == target_of(second)


def test_the_first_night_of_the_demo_begins_at_the_last_midnight(cli: Cli, tmp_path: Path) -> None:
    cli("init", "--demo")
    job = tomllib.loads((tmp_path / "reconcile.toml").read_text())["jobs"]["entitlements"]
    assert job["schedule"] == "0 0 * * *"
    assert job["start"] == TODAY
    assert (job["source"], job["target"]) == ("export.csv", "app.db")


def test_a_plain_configuration_has_no_job_until_its_example_is_uncommented(
    cli: Cli,
    tmp_path: Path,
) -> None:
    shown = cli("init")
    assert shown.code == 0
    text = (tmp_path / "reconcile.toml").read_text()
    assert tomllib.loads(text) == {}
    begun = text.index("# [jobs.entitlements]")
    uncommented = "".join(
        line.removeprefix("# ").removeprefix("#") for line in text[begun:].splitlines(keepends=True)
    )
    assert tomllib.loads(uncommented)["jobs"]["entitlements"]["guards"] == {"max_revoke": "10%"}


@pytest.mark.parametrize("name", ["reconcile.toml", "export.csv", "app.db"])
def test_the_demo_never_overwrites(cli: Cli, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    shown = cli("init", "--demo")
    assert shown.code == 2
    assert f"{name} exists; init never overwrites" in shown.words
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_init_never_overwrites(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "reconcile.toml").write_text("mine")
    shown = cli("init")
    assert shown.code == 2
    assert shown.words.startswith(f"reconcile: {tmp_path}/reconcile.toml exists")
    assert (tmp_path / "reconcile.toml").read_text() == "mine"


def test_a_dangling_link_is_not_written_through(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "reconcile.toml").symlink_to(tmp_path / "elsewhere")
    assert cli("init").code == 2
    assert cli("init", "--demo").code == 2
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.usefixtures("open_umask")
def test_nobody_else_may_write_what_init_writes(cli: Cli, tmp_path: Path) -> None:
    cli("init", "--demo")
    modes = {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {0o644}


def test_a_plain_configuration_says_how_to_look_at_both_sides(cli: Cli, tmp_path: Path) -> None:
    assert cli("init").words.endswith(
        f"Next:\n  edit {tmp_path}/reconcile.toml\n"
        "  reconcile config                       check it, and see what it means\n"
        "  reconcile run entitlements --dry-run   look at both sides, change nothing\n"
    )


def test_init_writes_where_config_says_and_names_it_in_what_comes_next(
    cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "a b").mkdir()
    shown = cli("--config", "a b/jobs.toml", "init", "--demo")
    assert shown.code == 0
    assert f"  reconcile -c '{tmp_path}/a b/jobs.toml' run entitlements --dry-run " in shown.words
    assert (tmp_path / "a b" / "export.csv").exists()


def test_quiet_is_silent_and_json_names_the_files(cli: Cli, tmp_path: Path) -> None:
    silent = cli("-q", "-c", "other.toml", "init")
    assert (silent.code, silent.data, silent.words) == (0, "", "")
    shown = cli("init", "--demo", "--json")
    assert shown.words == ""
    assert json.loads(shown.data) == {
        "schema": 1,
        "files": [str(tmp_path / name) for name in ("reconcile.toml", "export.csv", "app.db")],
    }


def test_a_folder_that_is_not_there_is_an_error_with_a_hint(cli: Cli, tmp_path: Path) -> None:
    shown = cli("-c", "nowhere/reconcile.toml", "init")
    assert shown.code == 69
    assert "cannot be written: No such file or directory" in shown.words
    assert "choose another folder" in shown.words


def test_a_demo_that_fails_half_way_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, content: bytes) -> None:
        if path.name == "reconcile.toml":
            raise OSError(28, "No space left on device")
        write_whole(path, content)

    monkeypatch.setattr(demo, "write_whole", fail)
    with pytest.raises(TargetUnreachable, match="No space left"):
        demo.make_demo(tmp_path / "reconcile.toml", TODAY)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_appears_meanwhile_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "reconcile.toml"

    def intrude(path: Path, content: bytes) -> None:
        if path.name == "app.db":
            config.write_text("mine")
        write_whole(path, content)

    monkeypatch.setattr(demo, "write_whole", intrude)
    with pytest.raises(UsageError, match="exists"):
        demo.make_demo(config, TODAY)
    assert [path.name for path in tmp_path.iterdir()] == ["reconcile.toml"]
    assert config.read_text() == "mine"


def test_no_permission_is_told_apart_from_other_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, content: bytes) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(demo, "write_whole", refuse)
    with pytest.raises(AccessDenied, match="Permission denied"):
        demo.make_config(tmp_path / "reconcile.toml")


@pytest.mark.parametrize("missing", [["reconcile.toml"], ["reconcile.toml", "app.db"]])
def test_a_demo_that_was_killed_half_way_is_finished_by_the_next_call(
    cli: Cli, tmp_path: Path, missing: list[str]
) -> None:
    assert cli("init", "--demo").code == 0
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for name in missing:
        (tmp_path / name).unlink()
    assert cli("init", "--demo").code == 0
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == kept


def test_a_file_system_without_nameless_files_will_do(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = os.open

    def refused(path: Path, flags: int, *args: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return really(path, flags, *args)

    monkeypatch.setattr(whole_files.os, "open", refused)
    assert cli("init", "--demo").code == 0
    assert len(target_of(tmp_path)) == 5871
    assert cli("init").code == 2
