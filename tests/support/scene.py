"""A job on disk, run by real processes, and its outcome recounted by other means.

`Scene` writes nights of a dated CSV source and an SQLite target, calls the command line as
cron would, and reads target, change log and store behind its back.
"""

from __future__ import annotations

import copy
import csv
import hashlib
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

from . import forks

CALL = "from reconcile.cli.main import entry; entry()"
NIGHTS = [str(datetime.now(UTC).date() - timedelta(days=ago)) for ago in (2, 1, 0)]
"""The dates of the last three nights, which are all due; the oldest first."""

STEPPER = Path(__file__).with_name("stepper.py")
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
if "PYTHONPATH" in os.environ:  # then this is where the tests have `reconcile` from
    ENVIRONMENT["PYTHONPATH"] = os.environ["PYTHONPATH"]

STARTED: list[subprocess.Popen[str]] = []
"""Processes of the test under way, some of which may be stopped."""

Table = dict[tuple[str, str], str]


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    def json(self) -> dict:  # type: ignore[type-arg]
        return json.loads(self.out)  # type: ignore[no-any-return]


@dataclass
class Scene:
    """One folder with a job `entitlements`, nightly at midnight UTC from `start` on."""

    folder: Path
    start: str = NIGHTS[0]
    range_size: int = 100
    extra: str = ""
    nights: dict[str, Table] = field(default_factory=dict)
    variables: ClassVar[dict[str, str]] = {}

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "reconcile.toml").write_text(
            "[jobs.entitlements]\n"
            'schedule = "0 0 * * *"\n'
            f"start = {self.start}\n"
            'source = "exports/{date}.csv"\n'
            'target = "app.db"\n'
            'account = "account_id"\n'
            'columns = ["entitlement", "level"]\n'
            f"range_size = {self.range_size}\n" + self.extra
        )
        (self.folder / "exports").mkdir(exist_ok=True)
        with sqlite3.connect(self.target) as db:
            db.execute(
                "CREATE TABLE entitlements (account_id TEXT NOT NULL, entitlement TEXT NOT NULL,"
                " level TEXT, PRIMARY KEY (account_id, entitlement))"
            )
        db.close()

    def copy(self, folder: Path) -> Scene:
        """The same job in another folder, with all that was done in it."""
        shutil.copytree(self.folder, folder)
        made = copy.copy(self)
        made.folder, made.nights = folder, dict(self.nights)
        return made

    @property
    def target(self) -> Path:
        return self.folder / "app.db"

    @property
    def store(self) -> Path:
        return self.folder / "reconcile.db"

    def write_night(self, date: str, table: Table) -> None:
        """Export a table as the truth of a date."""
        self.nights[date] = table
        path = self.folder / "exports" / f"{date}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["account_id", "entitlement", "level"])
            writer.writerows(
                [account, name, level] for (account, name), level in sorted(table.items())
            )

    def fill(self, table: Table) -> None:
        """Put rows into the target before the first night."""
        with sqlite3.connect(self.target) as db:
            rows = [(*key, level) for key, level in table.items()]
            db.executemany("INSERT INTO entitlements VALUES (?, ?, ?)", rows)
        db.close()

    # --- calling it

    def command(self, *argv: str, step: str = "") -> list[str]:
        """The command line; with `step` (NAME:COUNT:SIGNAL) under the stepper."""
        if step:
            return [sys.executable, str(STEPPER), step, *argv]
        return [sys.executable, "-c", CALL, *argv]

    def start_process(self, *argv: str, step: str = "") -> subprocess.Popen[str]:
        """Start it and come back at once."""
        return self.launch(self.command(*argv, step=step))

    def launch(self, command: list[str]) -> subprocess.Popen[str]:
        """Start any command in the folder; see `support/forks.py` for what is forked."""
        environ = {**ENVIRONMENT, **self.variables, "HOME": str(self.folder)}
        process = forks.start(command, cwd=self.folder, env=environ)
        STARTED.append(process)
        return process

    def run(self, *argv: str, step: str = "") -> Ran:
        """Run it to its end."""
        return self.end(self.start_process(*argv, step=step))

    def end(self, process: subprocess.Popen[str]) -> Ran:
        """Wait for its end."""
        out, err = process.communicate(timeout=60)
        return Ran(process.returncode, out, err)

    # --- looking behind its back

    def files(self) -> set[str]:
        """The names of all files in the folder but the nights' exports."""
        found = (path.relative_to(self.folder) for path in self.folder.rglob("*"))
        return {str(path) for path in found if path.parts[0] != "exports"}

    def rows(self) -> Table:
        """The target's table."""
        query = "SELECT account_id, entitlement, level FROM entitlements"
        return {(account, name): level for account, name, level in self.ask(self.target, query)}

    def log(self, date: str) -> list[tuple[str, str]]:
        """The change log of one interval as (action, key)."""
        query = f"SELECT action, key FROM reconcile_changes WHERE interval = '{date}'"
        return self.ask(self.target, query)  # type: ignore[return-value]

    @staticmethod
    def ask(path: Path, query: str, wait: float = 5.0) -> list[tuple]:  # type: ignore[type-arg]
        db = sqlite3.connect(path, timeout=wait)
        try:
            found = db.execute(query).fetchall()
            db.commit()
            return found
        finally:
            db.close()

    def grant(self, wait: float = 5.0) -> tuple[int, bool]:
        """The newest generation, and whether another may be granted now."""
        boot = time.clock_gettime(time.CLOCK_BOOTTIME)
        query = f"SELECT generation, released OR expires_boot <= {boot} FROM lease"
        (found,) = self.ask(self.store, query, wait) or [(0, 1)]
        return found[0], bool(found[1])

    def everything(self) -> str:
        """All that is in the store and the target, to see whether anything is written."""
        texts = []
        for path in (self.store, self.target):
            db = sqlite3.connect(path)
            texts += list(db.iterdump())
            db.close()
        return "\n".join(texts)

    def events(self, date: str) -> list[dict]:  # type: ignore[type-arg]
        """The trail of one interval, as the command line shows it."""
        return self.run("status", "entitlements", date, "--json").json()["events"]  # type: ignore[no-any-return]

    def check_target(self, date: str, before: Table) -> None:
        """The table is that night's truth, and each change that led to it is logged once."""
        after = self.nights[date]
        assert self.rows() == after
        log = self.log(date)
        assert len(log) == len(set(log)), "a change is in the log twice"
        assert sorted(action for action, _ in log) == sorted(
            ["grant"] * len(after.keys() - before.keys())
            + ["revoke"] * len(before.keys() - after.keys())
            + ["update"] * sum(before[key] != after[key] for key in before.keys() & after.keys())
        )

    def check(self, date: str, before: Table) -> None:
        """The night is done: table, log, and the stored proof agree with a recount."""
        self.check_target(date, before)
        after = self.nights[date]
        shown = self.run("status", "entitlements", date, "--json").json()
        (interval,) = shown["intervals"]
        assert interval["state"] == "completed"
        assert interval["count"] == len(after)
        assert interval["checksum"] == recounted(after)


def heard(process: subprocess.Popen[str], lines: int) -> str:
    """The next so many lines of its words, or fewer where it ends; no letter more is taken."""
    assert process.stderr is not None
    found = b""
    while lines and (letter := os.read(process.stderr.fileno(), 1)):
        found += letter
        lines -= letter == b"\n"
    return found.decode()


def is_stopped(pid: int) -> bool:
    """Whether a process has been stopped by SIGSTOP."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def recounted(table: Table) -> str:
    """Count and checksum of a table, with no code of the project."""
    total = 0
    for (account, name), level in table.items():
        line = b"".join(b"%d:%s," % (len(x.encode()), x.encode()) for x in (account, name, level))
        total += int(hashlib.sha256(line).hexdigest()[:32], 16)
    return f"sha256-sum:{len(table)}:{total % 2**128:032x}"


def night(seed: int, accounts: int = 1000) -> Table:
    """A table of that many accounts with one to four entitlements each."""
    rng = random.Random(seed)
    names = ["api", "exports", "seats", "sso", "support"]
    table: Table = {}
    for number in range(accounts):
        for name in rng.sample(names, rng.randint(1, 4)):
            table[(f"acct-{number:05d}", name)] = rng.choice(["", "10", "25"])
    return table


def drifted(table: Table, seed: int, share: float = 0.05) -> Table:
    """Another truth: some rows gone, some changed, some new, scattered over all accounts."""
    rng = random.Random(seed)
    after = dict(table)
    for key in rng.sample(sorted(table), int(len(table) * share)):
        if rng.random() < 0.5:
            del after[key]
        else:
            after[key] = "50"
    for number in range(int(len(table) * share)):
        after[(f"acct-{rng.randrange(10**5):05d}", f"new-{number}")] = ""
    return after
