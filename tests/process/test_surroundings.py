"""Whatever it is called from: streams that are closed or full, folders that are gone, locales,
odd names, bytes that are no text. The end is a documented one, and nobody sees a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.cli import Cli
from support.fakes import FakeClock
from support.scene import CALL, ENVIRONMENT, NIGHTS, Scene, night

import reconcile

TONIGHT = NIGHTS[2]
RUN = "run entitlements"


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A night that is completed."""
    scene = Scene(tmp_path_factory.mktemp("surroundings") / "done", TONIGHT, range_size=5)
    scene.write_night(TONIGHT, night(3, 20))
    assert scene.run("run", "entitlements").code == 0
    return scene


def called(scene: Scene, script: str, **environ: str) -> subprocess.CompletedProcess[bytes]:
    """A line of shell in the folder, in which `reconcile` calls it."""
    program = f"reconcile() {{ {sys.executable} -c '{CALL}' \"$@\"; }}\n"
    return subprocess.run(
        ["bash", "-c", program + script],
        cwd=scene.folder,
        env={**ENVIRONMENT, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=60,
    )


NO_ROOM = b"reconcile: standard output cannot be written to: No space left on device\n"


@pytest.mark.parametrize(
    ("script", "code", "out", "err"),
    [
        pytest.param("reconcile status", 0, b"entitlements\tok", b"", id="no HOME"),
        pytest.param("reconcile status >&-", 0, b"", b"reconcile.toml, store", id="no stdout"),
        pytest.param("reconcile status --json 2>&-", 0, b'"schema": 1', b"", id="no stderr"),
        pytest.param("reconcile run nojob 2>&-", 78, b"", b"", id="no stderr for an error"),
        pytest.param(f"reconcile {RUN} <&- >&- 2>&-", 0, b"", b"", id="no streams"),
        pytest.param("reconcile status >/dev/full", 1, b"", NO_ROOM, id="full stdout"),
        pytest.param("reconcile status --json >/dev/full", 1, b"", NO_ROOM, id="full stdout, JSON"),
        pytest.param("reconcile --help >/dev/full", 1, b"", NO_ROOM, id="full stdout, help"),
        pytest.param(f"reconcile {RUN} 2>/dev/full", 0, b"", b"", id="full stderr"),
        pytest.param(
            "reconcile changes entitlements | head -1; exit ${PIPESTATUS[0]}",
            0,
            b"grant\tacct-00000",
            b"",
            id="head",
        ),
        pytest.param(
            "mkdir gone; cd gone; rmdir ../gone; reconcile status",
            78,
            b"",
            b"no configuration; looked for",
            id="current folder gone",
        ),
        pytest.param(
            "mkdir gone; cd gone; rmdir ../gone; reconcile -c $OLDPWD/reconcile.toml status",
            0,
            b"entitlements\tok",
            b"",
            id="current folder gone, configuration named",
        ),
        pytest.param(
            "mkdir gone; cd gone; rmdir ../gone; reconcile init",
            69,
            b"",
            b"cannot be written: No such file or directory",
            id="init where the current folder is gone",
        ),
        pytest.param("reconcile -c exports status", 78, b"", b"is not a file", id="folder as -c"),
        pytest.param("reconcile --store exports status", 65, b"", b"not a regular", id="--store"),
        pytest.param("reconcile --store '' status", 78, b"", b"names no file", id="empty --store"),
        pytest.param("reconcile run $'\\xff'", 78, b"", b"no job '\\udcff'", id="bytes as a job"),
        pytest.param("reconcile $'\\xff'", 2, b"", b"'\\udcff'", id="bytes as a command"),
        pytest.param("reconcile run $'\\e[2J'", 78, b"", b"'\\x1b[2J'", id="escapes as a job"),
    ],
)
def test_the_end_is_a_documented_one(
    done: Scene, script: str, code: int, out: bytes, err: bytes
) -> None:
    ended = called(done, script)
    assert ended.returncode == code, ended.stderr
    assert out in ended.stdout
    assert bool(ended.stdout) == bool(out)
    assert err in ended.stderr
    assert b"Traceback" not in ended.stderr
    assert b"\x1b" not in ended.stderr


@pytest.mark.parametrize("locale", ["C", "nonsense"])
def test_a_locale_without_letters_costs_letters_only(done: Scene, locale: str) -> None:
    ended = called(done, "reconcile status", LC_ALL=locale, PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.isascii()
    assert ended.stdout.splitlines()[1].endswith(b"\t+")


ODD_NAMES = ["a b'\"$x %20?#", "new\nline\x1b[31m by\udcfftes"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_folder_may_have_any_name(tmp_path: Path, name: str, done: Scene) -> None:
    scene = done.copy(tmp_path / name)
    scene.store.unlink()
    ended = scene.run("run", "entitlements")
    assert ended.code == 0, ended.err
    (scene.folder / "exports" / f"{TONIGHT}.csv").unlink()
    ended = scene.run("rerun", "entitlements", TONIGHT, "-m", "w\udcffhy\n\x1b[2J")
    lines = ended.err.splitlines()
    assert ended.code in (1, 69), ended.err
    assert len(lines) == 2, "one that it began, and one that it failed"
    assert "does not exist" in lines[1]
    assert "\x1b" not in ended.err
    shown = scene.run("status", "entitlements", TONIGHT, "--json")
    assert "w\udcffhy\n\x1b[2J" in [
        event.get("reason") for event in json.loads(shown.out)["events"]
    ]
    assert "\x1b[2J" not in scene.run("status", "entitlements", TONIGHT).err


@pytest.mark.parametrize("width", [1, 20, 39])
def test_a_narrow_terminal_shows_everything_all_the_same(
    done: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    folder, now = done.copy(tmp_path / "copy").folder, FakeClock(datetime.now(UTC))
    cli = Cli(folder, monkeypatch, clock=now, terminal=True, width=width)
    for argv in (
        ("status",),
        ("status", "entitlements"),
        ("status", "entitlements", TONIGHT),
        ("changes", "entitlements"),
        ("config",),
        ("run", "entitlements", "--dry-run"),
        ("run", "nojob"),
    ):
        shown = cli(*argv)
        assert shown.code == (78 if argv[-1] == "nojob" else 0), str(shown)
        assert TONIGHT in shown.data + shown.words or argv[0] in ("run", "config")


def test_a_pipe_that_nobody_empties_does_not_lose_what_it_holds(done: Scene) -> None:
    """A reader that reads nothing for a while, then all of it."""
    reader, writer = os.pipe()
    process = subprocess.Popen(
        done.command("changes", "entitlements"),
        cwd=done.folder,
        env=ENVIRONMENT,
        stdout=writer,
        stderr=subprocess.PIPE,
    )
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        lines = stream.read().splitlines()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert len(lines) == len(done.nights[TONIGHT]), "of each row a line"


@pytest.mark.parametrize("name", ["plain", "a b'\"$x %d\\%20?#"])
def test_a_printed_crontab_line_runs_in_the_bare_environment_of_cron(
    tmp_path: Path, name: str, done: Scene
) -> None:
    """No HOME, no PATH, no terminal, another folder; read as cron reads it, then by its shell."""
    scene = done.copy(tmp_path / name)
    scene.store.unlink()
    config = str(scene.folder / "reconcile.toml")
    script = tmp_path / "reconcile"
    code = CALL.replace("; ", "\n")
    path = f"import sys\nsys.path.insert(0, {str(Path(reconcile.__file__).parents[1])!r})\n"
    script.write_text(f"#!{sys.executable}\n{path}{code}\n")
    script.chmod(0o755)
    printed = subprocess.run(
        [script, "-c", config, "units", "entitlements", "--crontab"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()[-1]
    assert printed.startswith("*/10 * * * * ")
    command = printed.removeprefix("*/10 * * * * ").replace("\\%", "%")
    ended = subprocess.run(
        ["env", "-i", "/bin/sh", "-c", command],
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
    assert scene.grant()[1], "the lease was had, and given back"
