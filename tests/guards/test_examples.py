"""What the documents show works as it stands there."""

from __future__ import annotations

import configparser
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from reconcile.cli.app import COMMANDS
from reconcile.cli.exit_codes import ExitCode
from reconcile.core.config import Config
from reconcile.core.operations.drill.findings import PROMISES
from reconcile.core.toml import parse
from reconcile.core.toml_defaults import defaults
from reconcile.core.toml_http import defaults as http_defaults
from reconcile.core.toml_sql import defaults as sql_defaults

RECONCILE = Path(sys.executable).with_name("reconcile")
INSTALLED = "/opt/reconcile/bin/reconcile"
LINKED = "/usr/local/bin/reconcile"
"""Where README has it found."""
CONFIGURED = "/etc/reconcile/reconcile.toml"


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a document in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def manual(root: Path) -> list[Path]:
    """What users read: README, and the pages that it links."""
    return [root / "README.md", *sorted((root / "docs").glob("*.md"))]


def configurations(root: Path) -> Iterator[tuple[str, str]]:
    for name in ("examples/reconcile.toml", "examples/commands.toml"):
        yield name, (root / name).read_text()
    for path in manual(root):
        for number, block in enumerate(blocks(path.read_text(), "toml")):
            yield f"{path.name}, block {number}", block


def read(text: str) -> Config:
    return parse([(Path("/srv/app/reconcile.toml"), text)], {})


OTHERS = ("backup", "nightly", "steps", "steps-in-python", "steps-in-a-function")
"""Jobs that the documents have beside the main one."""


def test_every_configuration_shown_is_accepted(root: Path) -> None:
    for name, text in configurations(root):
        jobs = read(text).jobs
        assert jobs.keys() <= {"entitlements", *OTHERS}, name
        assert jobs, name


def test_the_example_names_every_key_with_its_default(root: Path) -> None:
    text = (root / "examples/reconcile.toml").read_text()
    tables = tomllib.loads(text)
    job = tables["jobs"]["entitlements"]
    shown = {f"{t}.{k}": v for t in ("store", "alerts") for k, v in tables[t].items()}
    for key, value in job.items():
        nested = value if isinstance(value, dict) else None
        shown |= {f"{key}.{k}": v for k, v in nested.items()} if nested else {key: value}
    # A source and a target have no default.
    assert shown.keys() - {"source.path", "target.url"} == defaults().keys()
    literal = {key: told for key, told in defaults().items() if re.fullmatch(r"[\w%,-]+", told)}
    differs = {key for key, told in literal.items() if str(shown[key]).lower() != told.lower()}
    # The example shows these because they have none, and says so.
    assert differs == {
        key
        for key in differs
        if "default: " in line_of(text, key).lower() or literal[key] == "none"
    }


def test_the_manual_names_every_key_of_an_http_source(root: Path) -> None:
    text = (root / "docs/http-source.md").read_text()
    table = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    named = {name for cell in table for name in re.findall(r"`([\w.]+)`", cell)}
    for key in (key.removeprefix("source.") for key in http_defaults()):
        assert key in named or f"source.{key}]" in text or f"`{key}." in text, key


def test_the_manual_names_every_key_of_a_database_as_the_source(root: Path) -> None:
    told = (root / "docs/sql-source.md").read_text()
    for key in (key.removeprefix("source.") for key in sql_defaults()):
        assert f"\n| `{key}` |" in told, key


def test_the_example_of_commands_names_every_key_that_only_they_have(root: Path) -> None:
    job = tomllib.loads((root / "examples/commands.toml").read_text())["jobs"]["backup"]
    own = defaults("command").keys() - defaults().keys()
    assert job.keys() == own | {"schedule", "command"}
    assert job["kill_after"] == defaults("command")["kill_after"]


def line_of(text: str, key: str) -> str:
    """The line of the example that sets a key."""
    found = re.search(rf"^{re.escape(key.rpartition('.')[2])} = .*$", text, re.MULTILINE)
    assert found, key
    return found[0]


def commands(root: Path) -> list[str]:
    """What cron and systemd are told to call."""
    crontab = (root / "examples/crontab").read_text()
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read(root / "examples/reconcile-entitlements.service")
    readme = (root / "README.md").read_text()
    return [
        *re.findall(r"^\*/10 \* \* \* \* (.*)$", crontab + readme, re.MULTILINE),
        unit["Service"]["ExecStart"],
    ]


def test_the_crontab_line_and_the_unit_work_with_what_cron_gives_them(
    root: Path, tmp_path: Path
) -> None:
    subprocess.run([RECONCILE, "init", "--demo"], cwd=tmp_path, check=True, capture_output=True)
    with (tmp_path / "reconcile.toml").open("a") as file:
        file.write('\n[jobs.backup]\nschedule = "30 2 * * *"\ncommand = "true"\n')
    lines = commands(root)
    assert len(lines) == 4
    for line in lines:
        program = line.partition(" ")[0]
        assert program in (INSTALLED, LINKED)
        assert CONFIGURED in line
        called = line.replace(program, str(RECONCILE)).replace(
            CONFIGURED, str(tmp_path / "reconcile.toml")
        )
        done = subprocess.run(
            ["/bin/sh", "-c", called],
            cwd="/",
            env={
                "HOME": str(tmp_path),
                "LOGNAME": "root",
                "PATH": "/usr/bin:/bin",
                "SHELL": "/bin/sh",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        if " -q " in line:
            assert done.stdout + done.stderr == ""


def test_the_unit_calls_those_codes_no_failure_that_are_none(root: Path) -> None:
    text = (root / "examples/reconcile-entitlements.service").read_text()
    codes = f"{ExitCode.BUSY:d} {ExitCode.OUT_OF_TIME:d} {ExitCode.SIGTERM:d}"
    assert f"SuccessExitStatus={codes}\n" in text


def test_the_manual_names_every_exit_status(root: Path) -> None:
    section = (root / "README.md").read_text().partition("## Exit status")[2].partition("\n## ")[0]
    named = re.findall(r"^\| ([0-9, ]+) \|", section, re.MULTILINE)
    assert [int(code) for cell in named for code in cell.split(",")] == list(ExitCode)


def test_the_manual_shows_every_command_and_tells_which_are_not_there_yet(root: Path) -> None:
    shown, _, rest = (root / "README.md").read_text().partition("## What it does not do yet")
    missing = re.search(r"^- the commands? ((?:`\w+`,?\s+)*`\w+`);$", rest, re.MULTILINE)
    assert {*re.findall(r"reconcile (?:-c \S+ )?(\w+)", shown)} >= COMMANDS.keys()
    named = re.findall(r"`(\w+)`", missing[1]) if missing else []
    assert {*named} & COMMANDS.keys() == set()


def test_a_drill_names_the_promises_as_the_manual_does(root: Path) -> None:
    section = (root / "README.md").read_text().partition("## What is promised")[2]
    told = re.findall(r"^(\d+)\. \*\*(.+?)\.\*\*", section, re.MULTILINE)
    promised = {int(number): title.lower() for number, title in told}
    assert {number: promised.get(number) for number in PROMISES} == dict(PROMISES)


def headings(text: str) -> set[str]:
    """What a link into a page may name after its `#`."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


def test_links_lead_somewhere(root: Path) -> None:
    for page in (*manual(root), root / "CONTRIBUTING.md"):
        for link in re.findall(r"\]\(([^)]+)\)", page.read_text()):
            if link.startswith("https://"):
                continue
            path, _, place = link.partition("#")
            assert (page.parent / path).exists(), f"{page.name}: {link}"
            if place:
                assert place in headings((page.parent / path).read_text()), f"{page.name}: {link}"


def test_readme_leads_to_every_page(root: Path) -> None:
    links = re.findall(r"\]\((docs/[^)#]+)\)", (root / "README.md").read_text())
    assert {root / link for link in links} == {*manual(root)[1:]}


def test_the_screens_of_the_readme_are_those_of_the_program(root: Path) -> None:
    pages = [*(root / "tests/cli/screens").glob("*.txt"), root / "tests/cli/test_status.py"]
    text = "\n".join(page.read_text() for page in pages).replace("\\N{EN DASH}", "\N{EN DASH}")
    drawn = re.sub(r"^2>(?: |$)", "", text, flags=re.MULTILINE)
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", (root / "README.md").read_text(), re.S | re.M)
    shown = [block for language, block in fenced if not language]
    screens = [text for text in shown if re.match(r"\$ reconcile (status|run .*latest)", text)]
    assert len(screens) == 3
    for screen in screens:
        assert screen.partition("\n")[2] in drawn, screen
