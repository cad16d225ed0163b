"""The process boundary: options, usage, refusals, defects, and what goes to which stream."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli import CONFIG, Cli

from reconcile.cli.app import COMMANDS
from reconcile.core.errors import ConfigError, StoreBusy, StoreUnreachable
from reconcile.core.events import RunReport
from reconcile.core.model import Outcome


@pytest.fixture
def idle(cli: Cli) -> Cli:
    """Nothing is due."""
    cli.run_answers(RunReport("entitlements", Outcome.NOTHING_DUE, cli.clock.now()))
    return cli


@pytest.mark.parametrize(
    "argv",
    [
        ("-q", "run", "entitlements"),
        ("run", "-q", "entitlements"),
        ("run", "entitlements", "-q"),
        ("--quiet", "run", "entitlements"),
        ("run", "entitlements", "--quiet"),
        ("-qc", "reconcile.toml", "run", "entitlements"),
        ("run", "entitlements", "-qc", "reconcile.toml"),
    ],
)
def test_global_options_work_before_and_after_the_command(idle: Cli, argv: tuple[str, ...]) -> None:
    shown = idle(*argv)
    assert (shown.code, shown.data, shown.words) == (0, "", "")
    assert idle("run", "entitlements").words != ""


def test_the_configuration_named_last_counts(idle: Cli) -> None:
    other = idle.folder / "other.toml"
    other.write_text('[jobs.entitlements]\nnonsense = "x"\n')
    assert idle("-c", "other.toml", "run", "entitlements").code == 78
    assert idle("-c", "other.toml", "run", "entitlements", "-c", "reconcile.toml").code == 0
    assert idle("-c", "reconcile.toml", "run", "entitlements", "-c", "other.toml").code == 78


def test_json_works_before_and_after_the_command(idle: Cli) -> None:
    before, after = idle("--json", "run", "entitlements"), idle("run", "entitlements", "--json")
    assert before.data == after.data
    assert json.loads(before.data)["outcome"] == "nothing_due"
    assert before.words == after.words == ""


def test_version_and_help_are_data(cli: Cli) -> None:
    version = cli("--version")
    assert (version.code, version.words) == (0, "")
    assert version.data.startswith("reconcile ")
    for argv in (("--help",), ("run", "--help"), ("run", "-h"), ("-h",)):
        helped = cli(*argv)
        assert (helped.code, helped.words) == (0, "")
        assert helped.data.startswith("Usage: reconcile")


@pytest.mark.parametrize("argv", [("--help",), ("--version",)])
def test_a_reader_that_has_left_is_no_fault(argv: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [sys.executable, "-c", "from reconcile.cli.main import entry; entry()", *argv],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_help_names_every_command(cli: Cli) -> None:
    shown = cli("--help").data
    assert all(f"\n  {name} " in shown for name in COMMANDS)


def test_nothing_asked_for_is_a_usage_error_that_shows_the_help(cli: Cli) -> None:
    shown = cli()
    assert (shown.code, shown.data) == (2, "")
    assert shown.words == cli("--help").data


@pytest.mark.parametrize(
    ("argv", "says", "hint"),
    [
        (("stat",), "Did you mean 'status'?", "see reconcile --help"),
        (("knock", "x"), "No such command 'knock'", "see reconcile --help"),
        (("run",), "Missing argument 'JOB'", "see reconcile run --help"),
        (("run", "a", "b"), "(b)", "see reconcile run --help"),
        (("run", "a", "--nope"), "No such option: --nope", "see reconcile run --help"),
        (("-q", "-v", "run", "a"), "exclude each other", "leave one of them out"),
        (("-q", "run", "a", "-v"), "exclude each other", "leave one of them out"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused(
    cli: Cli, argv: tuple[str, ...], says: str, hint: str
) -> None:
    shown = cli(*argv)
    first, second = shown.words.splitlines()
    assert (shown.code, shown.data, second) == (2, "", f"  {hint}")
    assert first.startswith("reconcile: ")
    assert says in first


@pytest.mark.parametrize("number", ["-1", "256", "many", "1.5"])
def test_a_busy_exit_is_an_exit_status(cli: Cli, number: str) -> None:
    assert cli("run", "entitlements", "-E", number).code == 2


@pytest.mark.parametrize("span", ["5", "5x", "0.5h", "-1h", ""])
def test_a_span_of_time_has_a_unit(cli: Cli, span: str) -> None:
    shown = cli("run", "entitlements", "--max-runtime", span)
    assert shown.code == 2
    assert f"--max-runtime {span!r} is not a duration" in shown.words


def test_a_refusal_is_one_message_and_what_to_do(cli: Cli) -> None:
    cli.fails_with("run", StoreUnreachable("db.example:5432 refused", hint="start it"))
    assert str(cli("run", "entitlements")) == (
        "$ reconcile run entitlements\n"
        "2> reconcile: db.example:5432 refused\n"
        "2>   start it\n"
        "exit 69\n"
    )


def test_a_refusal_of_several_lines_names_the_program_on_each(cli: Cli) -> None:
    cli.fails_with("run", ConfigError("a: one\nb: two", hint="mend\nboth"))
    assert (
        cli("run", "entitlements").words == "reconcile: a: one\nreconcile: b: two\n  mend\n  both\n"
    )


def test_each_problem_of_a_configuration_has_its_mend_below_it(cli: Cli) -> None:
    wrong = "range_sise = 1\nplan_age = 1\n"
    cli.configure(f'[jobs.a]\nschedule = "@daily"\nsource = "a.csv"\ntarget = "a.db"\n{wrong}')
    shown = cli("run", "a")
    assert shown.code == 78
    assert shown.words == (
        "reconcile: reconcile.toml line 5: jobs.a.range_sise: no such key\n"
        "  did you mean range_size?\n"
        "reconcile: reconcile.toml line 6: jobs.a.plan_age: is the number 1, not a duration\n"
        '  write "90s", "10m", "6h" or "3d"\n'
    )


@pytest.mark.parametrize(
    "argv",
    [
        ("status",),
        ("status", "entitlements"),
        ("resume",),
        ("rerun", "entitlements", "latest", "-m", "x"),
        ("skip", "entitlements", "latest", "-m", "x"),
        ("stop", "entitlements", "-m", "x"),
    ],
)
def test_a_store_that_is_named_and_not_there_is_not_made(cli: Cli, argv: tuple[str, ...]) -> None:
    cli.configure()
    for address in ("none.db", "sqlite:///none.db", "reconcile.toml/none.db"):
        shown = cli("--store", address, *argv)
        assert shown.code == 69
        assert "there is no store /" in shown.words
    assert [path.name for path in cli.folder.iterdir()] == ["reconcile.toml"]


def test_run_makes_the_store_that_is_named(cli: Cli) -> None:
    cli.configure()
    cli("--store", "new.db", "run", "entitlements")
    assert (cli.folder / "new.db").exists()
    assert cli("--store", "new.db", "status").code == 0


@pytest.mark.parametrize("command", ["status", "resume"])
def test_nothing_unfinished_is_said_where_the_oldest_is_asked_for(cli: Cli, command: str) -> None:
    cli.configure(CONFIG.replace("target", "start = 2030-01-01\ntarget"))
    shown = cli(command, "entitlements", "oldest")
    assert shown.code == 2
    assert shown.words.startswith("reconcile: entitlements: nothing is unfinished\n")


def test_commands_to_type_call_the_program_as_it_was_called(cli: Cli) -> None:
    cli.program = "/opt/my tools/reconcile"
    hint = "see how it stands: reconcile status entitlements"
    cli.fails_with("run", StoreUnreachable("refused", hint=hint))
    text = cli("run", "entitlements").words
    assert "see how it stands: '/opt/my tools/reconcile' status entitlements\n" in text


def test_a_refusal_is_one_object_for_programs(cli: Cli) -> None:
    cli.fails_with("run", StoreUnreachable("refused", hint="start it"))
    shown = cli("run", "entitlements", "--json")
    assert (shown.code, shown.words, shown.data.count("\n")) == (69, "", 1)
    assert json.loads(shown.data) == {
        "schema": 1,
        "error": {
            "exit": 69,
            "name": "store_unreachable",
            "message": "refused",
            "hint": "start it",
        },
    }


def test_a_usage_error_is_an_object_too(cli: Cli) -> None:
    for argv in (("--json", "run"), ("run", "--json"), ("stat", "--json")):
        shown = cli(*argv)
        assert (shown.code, shown.words) == (2, "")
        assert json.loads(shown.data)["error"]["name"] == "usage"


def test_quiet_prints_a_refusal(cli: Cli) -> None:
    cli.fails_with("run", StoreUnreachable("refused"))
    assert cli("-q", "run", "entitlements").words == "reconcile: refused\n"


def test_a_busy_store_is_busy_and_quiet_about_it(cli: Cli) -> None:
    cli.fails_with("run", StoreBusy("the store is being written to"))
    assert cli("run", "entitlements").code == 75
    assert cli("run", "entitlements", "-E", "0").code == 0
    quiet = cli("-q", "run", "entitlements")
    assert (quiet.code, quiet.words) == (75, "")


def test_an_unknown_job_is_a_fault_of_the_configuration(cli: Cli) -> None:
    cli.configure()
    shown = cli("run", "entitlement")
    assert shown.code == 78
    assert "did you mean entitlements?" in shown.words


def test_no_configuration_says_how_to_begin(cli: Cli) -> None:
    shown = cli("run", "entitlements", "-c", "none.toml")
    assert shown.code == 78
    assert "none.toml" in shown.words


# --- defects


def test_a_defect_leaves_its_traceback_in_a_private_file(cli: Cli) -> None:
    cli.fails_with("run", KeyError("x"))
    shown = cli("run", "entitlements")
    (file,) = (cli.folder / "state").iterdir()
    assert (shown.code, shown.data) == (70, "")
    assert shown.words == (
        "reconcile: this is a defect of reconcile: KeyError: 'x'\n"
        f"  its traceback is in {file}; please report it\n"
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "Traceback (most recent call last)" in file.read_text()


def test_a_defect_is_an_object_for_programs(cli: Cli) -> None:
    cli.fails_with("run", RuntimeError())
    error = json.loads(cli("--json", "run", "entitlements").data)["error"]
    assert (error["exit"], error["name"]) == (70, "bug")
    assert error["message"] == "this is a defect of reconcile: RuntimeError"


def test_a_traceback_goes_to_a_temporary_folder_when_there_is_no_other(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    (cli.folder / "state").write_text("not a folder")
    cli.fails_with("run", KeyError("x"))
    assert f"its traceback is in {temporary}/" in cli("run", "entitlements").words


def test_a_traceback_that_nowhere_takes_is_said_to_be_lost(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    (cli.folder / "state").write_text("not a folder")
    cli.fails_with("run", KeyError("x"))
    shown = cli("run", "entitlements")
    assert shown.code == 70
    assert "its traceback could not be written to any folder" in shown.words


def test_an_interrupt_before_the_work_began_is_130(cli: Cli) -> None:
    cli.fails_with("run", KeyboardInterrupt())
    shown = cli("run", "entitlements")
    assert (shown.code, shown.data, shown.words) == (130, "", "")


def test_a_name_with_control_characters_is_one_line_and_moves_no_cursor(cli: Cli) -> None:
    cli.fails_with("run", StoreUnreachable("a\nb\x1b[2Jc.db is gone", hint="look at a\x07b"))
    assert cli("run", "entitlements").words == (
        "reconcile: a\\nb\\x1b[2Jc.db is gone\n  look at a\\x07b\n"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_each_command_fits_eighty_columns(name: str, cli: Cli) -> None:
    shown = cli(name, "--help")
    assert shown.code == 0
    assert max(map(len, shown.data.splitlines())) <= 80
    assert "[[" not in shown.data
    assert "xit status" in shown.data.replace("\n  ", " ")
