"""`reconcile add`: from a line of a crontab to a job."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import threading
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cli import CONFIG, Cli, Shown

from reconcile.cli.adding.command import adopted
from reconcile.cli.adding.crontab import crontab_line
from reconcile.cli.adding.table import appended, table
from reconcile.core.errors import UsageError

MINE = "# mine\r\n[jobs.first] # odd\r\nschedule='@daily'\r\ncommand = 'x'"


def jobs(cli: Cli) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = tomllib.loads(
        (cli.folder / "reconcile.toml").read_text()
    )["jobs"]
    return found


def test_a_command_of_cron_becomes_a_job_and_its_line_is_printed(cli: Cli) -> None:
    shown = cli(
        *("add", "backup", "--schedule", "30 2 * * *", "--"),
        *("flock", "-n", "/var/lock/b", "/usr/local/bin/backup.sh", "--all"),
    )
    assert str(shown).replace(str(cli.folder), "/srv") == (
        "$ reconcile add backup --schedule '30 2 * * *' -- flock -n /var/lock/b"
        " /usr/local/bin/backup.sh --all\n"
        "*/10 * * * * /opt/reconcile/bin/reconcile -q -c /srv/reconcile.toml run backup\n"
        "2>   /srv/reconcile.toml  made, with job backup\n"
        "2>   command   /usr/local/bin/backup.sh --all\n"
        "2>   left out  flock -n /var/lock/b\n"
        "2>             the lease keeps two runs apart; max_runtime ends one that hangs\n"
        "2>   next      2026-11-30 02:30Z, 2026-12-01 02:30Z, 2026-12-02 02:30Z\n"
        "2>\n"
        "2> Its crontab line, in place of the old one:\n"
        "2> Or a timer of systemd's:  reconcile units backup --systemd\n"
        '2> To try it now:            reconcile run backup --now -m "first try"\n'
        "exit 0\n"
    ).replace("2026-11-30 02:30Z, 2026-12-01 02:30Z, 2026-12-02 02:30Z", coming(cli))
    assert jobs(cli)["backup"] == {
        "schedule": "30 2 * * *",
        "command": ["/usr/local/bin/backup.sh", "--all"],
    }
    assert cli("config", "backup").code == 0
    assert stat.S_IMODE((cli.folder / "reconcile.toml").stat().st_mode) == 0o644


def coming(cli: Cli) -> str:
    """The next instants, as `config` knows them."""
    found = json.loads(cli("config", "backup", "--json").data)["jobs"][0]["next"][:3]
    return ", ".join(f"{text[:10]} {text[11:16]}Z" for text in found)


@pytest.mark.parametrize(
    ("given", "command", "dropped"),
    [
        (["x"], ["x"], None),
        (["flock", "/l", "x", "-n"], ["x", "-n"], "flock /l"),
        (["/usr/bin/flock", "-xnw", "5", "-E0", "/l", "x"], ["x"], "/usr/bin/flock -xnw 5 -E0 /l"),
        (["flock", "-w5", "/l", "x"], ["x"], "flock -w5 /l"),
        (["flock", "--timeout", "5", "--verbose", "/l", "x"], ["x"], None),
        (["flock", "-n", "/l", "-c", "a b"], ["a", "b"], "flock -n /l -c"),
        (["flock", "-n", "/l", "-c", "a && b"], ["sh", "-c", "a && b"], "flock -n /l -c"),
        (["flock", "-n", "9"], ["flock", "-n", "9"], None),
        (["a b --c 'd e'"], ["a", "b", "--c", "d e"], None),
        (["flock -n /l x --y"], ["x", "--y"], "flock -n /l"),
        (["x >/dev/null 2>&1"], ["sh", "-c", "x >/dev/null 2>&1"], None),
        (["flock -n /l x 'y z' >/l 2>&1"], ["sh", "-c", "x 'y z' >/l 2>&1"], "flock -n /l"),
        (["flock -n /l -c 'a; b' >/l"], ["sh", "-c", "sh -c 'a; b' >/l"], "flock -n /l -c"),
        (["flock -n /l x # nightly"], ["sh", "-c", "x # nightly"], "flock -n /l"),
        (["A=1 x"], ["sh", "-c", "A=1 x"], None),
        (["flock $HOME/l x"], ["sh", "-c", "flock $HOME/l x"], None),
        (["cd /srv && ./x"], ["sh", "-c", "cd /srv && ./x"], None),
        (["chronic x"], ["chronic", "x"], None),
    ],
)
def test_what_is_left_of_a_command(
    given: list[str], command: list[str], dropped: str | None
) -> None:
    found = adopted(given)
    assert list(found.command) == command
    if dropped is not None:
        assert found.dropped == dropped


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-n"], "ran a b"),
        (["-xnE", "9"], "ran a b"),
        (["-w", "1", "-E9", "--verbose"], "ran a b"),
        (["--timeout", "1", "-o"], "ran a b"),
        (["-nw", "1"], "ran a b"),
    ],
)
def test_flock_itself_reads_its_options_like_that(
    tmp_path: Path, options: list[str], said: str
) -> None:
    words = ["flock", *options, str(tmp_path / "l"), "echo", "ran", "a b"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert said in done.stdout.splitlines()
    assert list(adopted(words).command) == ["echo", "ran", "a b"]


@pytest.mark.parametrize(
    ("line", "schedule", "command"),
    [
        ("30 2 * * * /usr/local/bin/x", "30 2 * * *", ["/usr/local/bin/x"]),
        ("  */5\t1-3 * jan-mar MON,WED  x  y", "*/5 1-3 * jan-mar MON,WED", ["x", "y"]),
        ("@daily root x", "@daily", ["x"]),
        (r"0 0 * * * date +\%F >/l", "0 0 * * *", ["sh", "-c", "date +%F >/l"]),
        ("0 0 * * * flock -n /l x", "0 0 * * *", ["x"]),
    ],
)
def test_a_crontab_line_may_be_pasted(
    cli: Cli, line: str, schedule: str, command: list[str]
) -> None:
    shown = cli("add", "x", line)
    assert shown.code == 0, str(shown)
    assert jobs(cli)["x"] == {"schedule": schedule, "command": command}


@pytest.mark.parametrize("text", ["backup.sh --all 1 2 3 4", "1 2 3", "x", "a b c d e f"])
def test_what_is_no_crontab_line_is_not_taken_for_one(text: str) -> None:
    assert crontab_line(text) is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("@reboot x", "@reboot is no time"),
        ("0 0 * * * mail < %hello", "a % without a backslash"),
        ("@daily", "says when, but not what"),
    ],
)
def test_what_a_job_cannot_do_is_refused(cli: Cli, line: str, said: str) -> None:
    shown = cli("add", "x", line)
    assert (shown.code, shown.data) == (2, "")
    assert said in shown.words
    assert not (cli.folder / "reconcile.toml").exists()


def test_a_pasted_line_keeps_this_machines_clock(cli: Cli) -> None:
    cli.zone = "Europe/Berlin"
    shown = cli("add", "x", "30 2 * * * x")
    assert jobs(cli)["x"]["timezone"] == "Europe/Berlin"
    assert "cron means this machine's clock" in shown.words
    shown = cli("add", "y", "--schedule", "30 2 * * *", "--", "x")
    assert "timezone" not in jobs(cli)["y"]
    assert "--timezone Europe/Berlin" in shown.words


def test_what_is_in_the_file_stays_as_it_is(cli: Cli) -> None:
    path = cli.folder / "reconcile.toml"
    path.write_bytes(MINE.encode())
    path.chmod(0o640)
    shown = cli("add", "second", "--schedule", "@daily", "--deadline", "6h", "--", "y")
    assert shown.code == 0, str(shown)
    after = path.read_bytes()
    assert after.startswith(MINE.encode() + b"\r\n\r\n[jobs.second]\r\n")
    assert b"\n" not in after.replace(b"\r\n", b"")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(jobs(cli)) == ["first", "second"]
    assert [each.name for each in cli.folder.iterdir()] == ["reconcile.toml"]


def test_of_a_link_what_it_leads_to_is_written(cli: Cli) -> None:
    real = cli.folder / "real.toml"
    real.write_text(CONFIG)
    (cli.folder / "reconcile.toml").symlink_to(real)
    assert cli("add", "x", "@daily y").code == 0
    assert (cli.folder / "reconcile.toml").is_symlink()
    assert "[jobs.x]" in real.read_text()


@pytest.mark.parametrize("leads_to", ["reconcile.toml", "gone/jobs.toml"])
def test_a_link_that_leads_nowhere_is_named(cli: Cli, leads_to: str) -> None:
    path = cli.folder / "reconcile.toml"
    path.symlink_to(leads_to)
    shown = cli("add", "x", "@daily y")
    assert shown.code == 69, str(shown)
    named = path if leads_to == path.name else cli.folder / "gone"
    assert shown.words.startswith(f"reconcile: {named} ")


@pytest.mark.parametrize("name", ["a/b", "", "x.env", "x]\n[jobs.y", " x ", "é"])
def test_what_can_be_no_name_is_refused_as_that(cli: Cli, name: str) -> None:
    before = cli.configure().read_bytes()
    shown = cli("add", name, "--schedule", "@daily", "--", "y")
    assert shown.code == 2
    assert "cannot be the name of a job" in shown.words
    refused(cli, shown, before)


def refused(cli: Cli, shown: Shown, before: bytes | None) -> None:
    path = cli.folder / "reconcile.toml"
    assert (path.read_bytes() if path.exists() else None) == before
    assert shown.data == ""
    assert "Traceback" not in shown.words


@pytest.mark.parametrize(
    ("name", "argv", "code"),
    [
        ("entitlements", ("--schedule", "@daily", "--", "x"), 2),
        ("Bad Name", ("--schedule", "@daily", "--", "x"), 2),
        ("x", ("--schedule", "61 * * * *", "--", "x"), 2),
        ("x", ("--schedule", "@daily", "--timezone", "Mars/Base", "--", "x"), 2),
        ("x", ("--schedule", "@daily", "--deadline", "soon", "--", "x"), 2),
        ("x", ("--schedule", "@daily", "--", "a 'b"), 2),
        ("x", ("--schedule", "@daily", "--", "w\udcff"), 2),
        ("x", ("--", "x"), 2),
        ("x", ("--schedule", "@daily"), 2),
        ("x", ("--schedule", "@daily", "x", "--all"), 2),
    ],
)
def test_what_is_wrong_changes_nothing(
    cli: Cli, name: str, argv: tuple[str, ...], code: int
) -> None:
    before = cli.configure().read_bytes()
    shown = cli("add", name, *argv)
    assert shown.code == code, str(shown)
    refused(cli, shown, before)


def test_a_job_of_a_drop_in_has_its_name_too(cli: Cli) -> None:
    before = cli.configure().read_bytes()
    (cli.folder / "conf.d").mkdir()
    (cli.folder / "conf.d/a.toml").write_text("[jobs.x]\nschedule = '@daily'\ncommand = 'x'\n")
    shown = cli("add", "x", "@daily y")
    assert shown.code == 2
    assert "conf.d/a.toml" in shown.words
    refused(cli, shown, before)


def test_a_configuration_that_is_wrong_already_is_told_first(cli: Cli) -> None:
    before = cli.configure("jobs = 3\n").read_bytes()
    shown = cli("add", "x", "@daily y")
    assert shown.code == 78
    refused(cli, shown, before)


@pytest.mark.skipif(os.geteuid() != 0, reason="not run: another user takes root")
def test_a_file_of_somebody_else_stays_his(cli: Cli) -> None:
    path = cli.configure()
    os.chown(path, 12345, 23456)
    assert cli("add", "x", "@daily y").code == 0
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)


def test_of_many_who_add_at_the_same_time_none_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Cli(tmp_path, monkeypatch).configure()
    codes: list[int] = []

    def add(number: int) -> None:
        codes.append(Cli(tmp_path, monkeypatch)("add", f"x{number}", "@daily y").code)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [0] * 8
    found = tomllib.loads((tmp_path / "reconcile.toml").read_text())["jobs"]
    assert len(found) == 9


def test_a_program_gets_an_object(cli: Cli) -> None:
    shown = cli("add", "x", "--json", "--schedule", "@daily", "--", "flock", "/l", "y")
    found = json.loads(shown.data)
    assert (found["job"], found["command"], found["made"]) == ("x", ["y"], True)
    assert found["left_out"] == "flock /l"
    assert shlex.split(found["crontab"])[-2:] == ["run", "x"]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
def test_any_words_come_back_from_the_file_as_they_were(words: list[str]) -> None:
    if any("\0" in word for word in words):
        return
    text = table("x", {"command": tuple(words)})
    assert tomllib.loads(appended(b"a = 1", text).decode())["jobs"]["x"]["command"] == words


@given(st.lists(st.text(max_size=8), min_size=1))
def test_anything_may_be_given(words: list[str]) -> None:
    try:
        found = adopted(words)
    except UsageError:
        return
    assert found.command
