"""A job with one night done and one due, what may be wrong with its inputs, and what of it
must be as before whatever was wrong."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from .cli import Cli, Shown
from .fakes import FakeClock

DONE, DUE = "2026-11-29", "2026-11-30"
CONFIG = f"""
[jobs.entitlements]
schedule = "30 2 * * *"
start = {DONE}
source = "exports/{{date}}.csv"
target = "app.db"
columns = ["entitlement", "level"]
"""
TABLE = """CREATE TABLE entitlements (
  account_id TEXT NOT NULL, entitlement TEXT NOT NULL, level TEXT,
  PRIMARY KEY (account_id, entitlement))"""
HEADER = "account_id,entitlement,level\n"
ROWS = [f"acct-{n:02},seats,10\n" for n in range(1, 13)]
BEFORE = HEADER + "".join(ROWS)
AFTER = HEADER + "".join(
    [ROWS[0], "acct-02,seats,25\n", *ROWS[3:9], "acct-10,api,\n", *ROWS[9:], "acct-13,sso,\n"]
)
"""One update, one revoke of all that an account has, two grants."""

NOBODY = 65534


@dataclass(repr=False)
class Night:
    """A folder in which the night of `DONE` is completed and that of `DUE` is due.

    `argv` is how it is called, by `user` (None: by who runs the tests), with `during` around
    it.
    """

    cli: Cli
    argv: tuple[str, ...] = ("run", "entitlements")
    user: int | None = None
    during: list[Callable[[], Iterator[None]]] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """Where everything is."""
        return self.cli.folder

    @property
    def config(self) -> Path:
        """The configuration."""
        return self.folder / "reconcile.toml"

    @property
    def source(self) -> Path:
        """The file of the night that is due."""
        return self.folder / "exports" / f"{DUE}.csv"

    @property
    def target(self) -> Path:
        """The database of the target."""
        return self.folder / "app.db"

    @property
    def store(self) -> Path:
        """The database of the store."""
        return self.folder / "reconcile.db"

    def configure(self, old: str, new: str) -> None:
        """Replace something in the configuration."""
        text = self.config.read_text()
        assert old in text
        self.config.write_text(text.replace(old, new))

    def add(self, line: str) -> None:
        """Add a line to the configuration."""
        self.config.write_text(f"{self.config.read_text()}{line}\n")

    def sql(self, *statements: str, path: Path | None = None) -> None:
        """Do something to a database, the target's if no other is named."""
        with closing(sqlite3.connect(path or self.target, isolation_level=None)) as db:
            for statement in statements:
                db.execute(statement)

    def give_to_nobody(self) -> None:
        """Whoever calls has no rights but those of any user."""
        if os.geteuid() == 0:
            self.user = NOBODY
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, NOBODY, NOBODY)

    def run(self, *more: str) -> Shown:
        """Call the command line as that user, with whatever goes on meanwhile."""
        with contexts(self.during), as_user(self.user):
            return self.cli(*self.argv, *more)

    # --- what is there

    def files(self) -> dict[str, object]:
        """Kind, mode and content of all that reconcile must never touch."""
        ours = (self.target.name, self.store.name)
        return {
            str(path.relative_to(self.folder)): _content(path)
            for path in sorted(self.folder.rglob("*"))
            if not path.name.startswith(ours) or path.is_dir()
        }

    def target_holds(self) -> object:
        """All that the target has, but for who may write to it; its bytes where it is none."""
        try:
            with opened(self.target) as db:
                lines = list(db.iterdump())
                if any(line.startswith("CREATE TABLE reconcile_fence") for line in lines):
                    fence = "SELECT job, newest_interval, newest_checksum FROM reconcile_fence"
                    lines += [str(row) for row in db.execute(fence)]
                return [line for line in lines if 'INTO "reconcile_fence"' not in line]
        except (sqlite3.Error, UnicodeDecodeError, OSError):
            return _content(self.target)

    def rows_of(self, account: str) -> list[tuple[str, ...]]:
        """What an account has."""
        with opened(self.target) as db:
            query = "SELECT * FROM entitlements WHERE account_id = ? ORDER BY 2, 3"
            return db.execute(query, (account,)).fetchall()

    def completed(self) -> object:
        """The intervals that the store says are completed; the bytes of what is no store."""
        try:
            with opened(self.store) as db:
                found = db.execute("SELECT key, value FROM record WHERE kind = 'interval'")
                states = {key: json.loads(value)["state"] for key, value in found}
                return [key for key, state in states.items() if state == "completed"]
        except (sqlite3.Error, OSError, ValueError, KeyError, TypeError):
            return _content(self.store)


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A copy of a database, so that looking at it makes no file beside it."""
    data = bytearray(path.read_bytes())
    data[18:20] = b"\1\1"  # whoever had it open last has emptied its write-ahead log
    with closing(sqlite3.connect(":memory:")) as db:
        db.deserialize(bytes(data))
        yield db


def _content(path: Path) -> object:
    mode = path.lstat().st_mode if os.path.lexists(path) else 0
    link = str(path.readlink()) if stat.S_ISLNK(mode) else ""
    return oct(mode), link, path.read_bytes() if path.is_file() else b""


class Ticking(FakeClock):
    """Goes on from that night as fast as the host's clock, for those who really wait."""

    def __init__(self) -> None:
        super().__init__()
        self._since = time.monotonic()

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=time.monotonic() - self._since)

    def boot(self) -> float:
        return super().boot() + time.monotonic() - self._since

    def wait(self, seconds: float, wake: threading.Event) -> bool:
        return wake.wait(seconds)


@contextmanager
def contexts(during: Iterable[Callable[[], Iterator[None]]]) -> Iterator[None]:
    """All of them at once."""
    with ExitStack() as stack:
        for one in during:
            stack.enter_context(contextmanager(one)())
        yield


@contextmanager
def as_user(user: int | None) -> Iterator[None]:
    """This process with the rights of another user."""
    if user is None:
        yield
        return
    os.setegid(user)
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def completed_night(cli: Cli) -> Night:
    """Make that folder."""
    night = Night(cli)
    cli.configure(CONFIG)
    (night.folder / "exports").mkdir()
    (night.folder / "exports" / f"{DONE}.csv").write_text(BEFORE)
    night.sql(TABLE)
    done = cli("run", "entitlements", "--interval", DONE)
    assert done.code == 0, done
    night.source.write_text(AFTER)
    return night


def copied(night: Night, folder: Path) -> Night:
    """The same in a folder of its own."""
    shutil.copytree(night.folder, folder, dirs_exist_ok=True)
    made = Cli(folder, night.cli.monkeypatch, calls=night.cli.calls)
    return Night(made)
