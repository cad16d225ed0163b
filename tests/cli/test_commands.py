"""How a job that is a command is shown; nothing is called here."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from reconcile.cli.render.printed import Passing
from reconcile.cli.render.status import intervals, intervals_tabbed
from reconcile.cli.render.words import Style
from reconcile.core.model import State
from reconcile.core.records import IntervalRecord
from reconcile.core.status import IntervalView
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


def test_doctor_goes_on_where_a_path_cannot_even_be_looked_at(cli: Cli) -> None:
    beyond = "x" * 300  # as EACCES is to who is not root
    cli.configure(
        f'[store]\nurl = "{beyond}/reconcile.db"\n[alerts]\ncommand = ["./{beyond}"]\n'
        f'[jobs.one]\ncommand = "./y"\ncwd = "{beyond}"\n'
        f'[jobs.two]\ncommand = "./{beyond}"\n[jobs.three]\ncommand = "true"\n'
    )
    shown = cli("doctor", "--json")
    assert shown.code == 1, str(shown)
    assert "is no folder to work in: File name too long" in shown.data
    assert "is not there: File name too long" in shown.data


NIGHT = datetime(2026, 11, 30, 2, 30, tzinfo=UTC)


def night(**fields: Any) -> IntervalView:
    record = IntervalRecord(
        id="2026-11-30", scheduled_at=NIGHT, runs=2, started_at=NIGHT, seconds=46, work="command"
    )
    record = replace(record, **fields)
    return IntervalView(record, "retrying" if record.failure else record.state.value, None)


def test_a_table_of_nights_has_what_commands_tell_of_themselves() -> None:
    done = night(state=State.COMPLETED, ranges_done=24, ranges_total=24, reported={"count": 1000})
    failed = night(
        state=State.UNFINISHED,
        failure={"text": "backup.sh exited 2", "last": "no route to host"},
    )
    assert intervals([done, failed], Style(), kind="command") == (
        "INTERVAL    STATE      STARTED  TOOK  RUNS  RANGES  COUNT\n"
        "2026-11-30  completed  02:30Z    46s     2   24/24  1,000\n"
        "2026-11-30  retrying   02:30Z    46s     2       -      -\n"
        "              backup.sh exited 2: no route to host\n"
    )
    head, first, _ = intervals_tabbed([done, failed], kind="command").splitlines()
    assert head.endswith("RUNS\tRERUN\tRANGES\tCOUNT\tWHY")
    assert first.endswith("2\t0\t24/24\t1,000\t-")


def test_what_a_command_prints_is_safe_to_show() -> None:
    told: list[str] = []
    passing = Passing(told.append)
    for piece in (b"a\x1b[", b"2Jb\n10%\r", b"20%\r\n\xc3", b"\xa9t\xc3\xa9\tx\n\xff", b"last"):
        passing.feed(piece)
    passing.end()
    assert "".join(told) == "a\\x1b[2Jb\n20%\n\u00e9t\u00e9\tx\n\\xfflast\n"
