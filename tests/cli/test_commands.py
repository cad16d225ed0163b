"""How a job that is a command is shown; nothing is called here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from reconcile.core.toml_defaults import defaults

if TYPE_CHECKING:
    from support.cli import Cli

JOB = '[jobs.backup]\nschedule = "30 2 * * *"\ncommand = "backup.sh --all"\n'


def test_config_shows_every_key_of_a_command_and_no_other(cli: Cli) -> None:
    cli.configure(JOB + 'env = { PGPASSWORD = "hunter22" }\n')
    shown = cli("config", "backup", "--json")
    (job,) = json.loads(shown.data)["jobs"]
    own = {key for key in defaults("command") if not key.startswith(("store.", "alerts."))}
    assert job["settings"].keys() == own | {"command"}
    assert job["settings"]["command"] == ["backup.sh", "--all"]
    assert job["settings"]["catch_up.policy"] == "latest"
    text = cli("config").data
    assert 'command = ["backup.sh", "--all"]\n' in text
    assert 'kill_after = "10s"  # default\n' in text
    assert "hunter22" not in text + shown.data
    cli.configure(text.replace('env = { "PGPASSWORD" = "****" }\n', ""))
    assert cli("config").code == 0


def test_status_says_what_is_called(cli: Cli) -> None:
    cli.configure(JOB)
    assert "work      backup.sh --all" in cli("status", "backup").words


def test_doctor_tells_whether_it_can_be_called(cli: Cli) -> None:
    cli.configure('[jobs.backup]\ncommand = "./backup.sh"\n')
    program = cli.folder / "backup.sh"
    assert "./backup.sh is not there" in cli("doctor").data
    program.write_text("#!/bin/sh\n")
    assert "./backup.sh is not executable" in cli("doctor").data
    program.chmod(0o755)
    assert "./backup.sh, executable" in cli("doctor").data
    cli.configure('[jobs.backup]\ncommand = "no-such-program-anywhere"\ncwd = "gone"\n')
    assert "is no folder" in cli("doctor").data
