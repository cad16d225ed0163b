"""Runs the command line, and lets things happen to it at exact points.

    python stepper.py SPEC[,SPEC…] ARGV…

A step is one of those in `reconcile/core/engine.py`. COUNT is the how-manieth time it is
reached, or `*` for each time.

STEP:COUNT:SIGNAL        this process gets the signal there
STEP:COUNT:hang          that step never ends
STEP:COUNT:wait=SECONDS  that step takes so long
STEP:COUNT:until=FIFO    that step takes until somebody has had that pipe open for writing
commit@FILE:COUNT:SIGNAL the same right before a write to a database of that name is committed
commits@FILE:COUNT:SIGNAL the same in the middle of that, where nobody may read any more
locked@FILE+BYTE:COUNT:SIGNAL  the same right after SQLite has an exclusive lock from that byte
lock@FILE:COUNT:SIGNAL   the same after any call that locks or unlocks bytes of FILE or FILE-shm
STEP:COUNT:shut=FILE     from there all others are kept out of that database, as SQLite does when
                         the last connection closes, and this process is stopped
read@FILE:COUNT:SIGNAL   the same after a statement that reads, before its transaction ends
clock@PATH               the wall clock is out by the number of seconds in that file
clock=SECONDS@STEP:COUNT the wall clock is stepped there, once
disturb@ACCOUNT          somebody else writes to the account's rows after each look at the target
rival                    another store raises the target's fence right before we do
rival@postgres           the same in a PostgreSQL target
target_commit:COUNT:SIGNAL the process gets the signal right before a COMMIT in PostgreSQL
busy                     a thread of this process burns the processor
elsewhere                this process is on another host
"""

from __future__ import annotations

import fcntl
import os
import signal
import sqlite3
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from reconcile.cli import main, wiring


class Point:
    """What is to happen at a step, and how many passes are left until then."""

    def __init__(self, spec: str) -> None:
        self.name, count, self.action = spec.split(":")
        self.left = None if count == "*" else int(count)

    def passed(self) -> None:
        """It was reached once more."""
        if self.left is not None:
            self.left -= 1
            if self.left != 0:
                return
        self.act()

    def act(self) -> None:
        if self.action == "hang":
            threading.Event().wait()
        elif self.action.startswith("shut="):
            shut(Path(self.action.removeprefix("shut=")))
        elif self.action.startswith("until="):
            Path(self.action.removeprefix("until=")).read_bytes()
        elif self.action.startswith("wait="):
            time.sleep(float(self.action.removeprefix("wait=")))
        else:
            os.kill(os.getpid(), getattr(signal, self.action))


def shut(path: Path) -> None:
    """Lock others out of a database, and stop. The descriptor stays open, as its locks do."""
    file = os.open(path, os.O_RDWR)
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 2**30)
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 2**30 + 2)
    os.kill(os.getpid(), signal.SIGSTOP)


def at_locks(points: list[Point]) -> None:
    """Have SQLite's locking calls seen."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from support.sqlite_calls import watch_locks

    def told(file: str, kind: int, first: int) -> None:
        names = [f"lock@{file.removesuffix('-shm')}"]
        if kind == fcntl.F_WRLCK:
            names.append(f"locked@{file}+{first}")
        for point in points:
            if point.name in names:
                point.passed()

    watch_locks(told)


def at_steps(points: list[Point]) -> None:
    """Wrap the step hook that the wiring hands to the core."""
    build: Any = wiring.application

    def application(call: Any, report: Any, reached: Any, **options: Any) -> Any:
        def at(step: str) -> None:
            reached(step)
            for point in points:
                if point.name == step:
                    point.passed()

        return build(call, report, at, **options)

    wiring.application = application


def before_commits(points: list[Point]) -> None:
    """Have SQLite's connections made so that a COMMIT can be seen coming."""
    connect = sqlite3.connect

    def watched(database: str, *args: Any, **options: Any) -> sqlite3.Connection:
        name = Path(database.partition("?")[0]).name

        class Watched(sqlite3.Connection):
            writes = False

            def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
                if sql.startswith("BEGIN"):
                    self.writes = "IMMEDIATE" in sql
                    if any(point.name == f"commits@{name}" for point in points):
                        # SQLite would take this lock while it commits, where nothing of ours runs.
                        sql = sql.replace("IMMEDIATE", "EXCLUSIVE")
                if sql == "COMMIT" and self.writes:
                    for point in points:
                        if point.name in (f"commit@{name}", f"commits@{name}"):
                            point.passed()
                cursor = super().execute(sql, *parameters)
                if sql.startswith("SELECT") and self.in_transaction and not self.writes:
                    for point in points:
                        if point.name == f"read@{name}":
                            point.passed()
                return cursor

        return connect(database, *args, factory=Watched, **options)

    sqlite3.connect = watched  # type: ignore[assignment]


def wrong_clock(path: Path) -> None:
    """The offset may be changed at any time, for all processes that look at the same file."""
    shift_clock(lambda: float(path.read_text()))


def shift_clock(offset: Any) -> None:
    """Put the wall clock, and nothing else, out."""
    from reconcile.cli.environment import SystemClock

    now: Any = SystemClock.now
    SystemClock.now = lambda self: now(self) + timedelta(seconds=offset())  # type: ignore[method-assign]


def stepped_clock(spec: str) -> Point:
    """A clock that is right until a step is reached."""
    seconds, _, at = spec.partition("@")
    offset = [0.0]
    shift_clock(lambda: offset[0])
    point = Point(f"{at}:clock")
    point.act = lambda: offset.__setitem__(0, float(seconds))  # type: ignore[method-assign]
    return point


def disturbed(account: str) -> None:
    """Somebody else changes the account's rows whenever they have been read."""
    from reconcile.core.targets.sqlite import SqliteTarget

    lines: Any = SqliteTarget.lines
    numbers = iter(range(10**9))

    def read(self: Any, span: Any) -> Any:
        found = lines(self, span)
        db = sqlite3.connect(self._database.path)
        with db:
            db.execute(
                "UPDATE entitlements SET level = ? WHERE account_id = ?",
                (f"other-{next(numbers)}", account),
            )
        db.close()
        return found

    SqliteTarget.lines = read  # type: ignore[method-assign]


def rivalled() -> None:
    """Another store is always one generation ahead."""
    from reconcile.core.targets.sqlite import SqliteTarget

    raise_fence: Any = SqliteTarget.raise_fence

    def raised(self: Any, fence: Any, store_id: str, wait: Any) -> Any:
        db = sqlite3.connect(self._database.path)
        with db:
            db.execute(
                "UPDATE reconcile_fence SET generation = ?, run_id = 'theirs', store_id = 'rival'",
                (fence.generation + 1,),
            )
        db.close()
        return raise_fence(self, fence, store_id, wait)

    SqliteTarget.raise_fence = raised  # type: ignore[method-assign]


def rivalled_in_postgres() -> None:
    """The same in a table whose name has its schema."""
    import psycopg

    from reconcile.core.targets.postgres import PostgresTarget

    raise_fence: Any = PostgresTarget.raise_fence

    def raised(self: Any, fence: Any, store_id: str, wait: Any) -> Any:
        schema = self._config.table.partition(".")[0]
        with psycopg.connect(self._session.address.conninfo) as db:
            db.execute(
                f"UPDATE {schema}.reconcile_fence SET generation = %s, run_id = 'theirs',"
                " store_id = 'rival'".encode(),
                (fence.generation + 1,),
            )
        return raise_fence(self, fence, store_id, wait)

    PostgresTarget.raise_fence = raised  # type: ignore[method-assign]


def at_target_commits(points: list[Point]) -> None:
    """Have the commits in PostgreSQL seen coming."""
    from reconcile.core.targets.postgres_session import Session

    commit: Any = Session.commit

    def watched(self: Any, by: float) -> None:
        for point in points:
            if point.name == "target_commit":
                point.passed()
        commit(self, by)

    Session.commit = watched  # type: ignore[method-assign]


def moved() -> None:
    """Another host: nobody there knows of processes here."""
    from reconcile.cli.host import LinuxHost

    holder: Any = LinuxHost.holder

    def theirs(self: Any) -> Any:
        return holder(self)._replace(host="other", machine_id="other", boot_id="other")

    LinuxHost.holder = theirs  # type: ignore[method-assign]


def burn() -> None:
    """Python code that never rests."""
    number = 0
    while True:
        number += 1


def install(specs: str) -> None:
    """Make everything happen that the specs name."""
    points = []
    for spec in specs.split(","):
        if spec.startswith("clock@"):
            wrong_clock(Path(spec.removeprefix("clock@")))
        elif spec.startswith("clock="):
            points.append(stepped_clock(spec.removeprefix("clock=")))
        elif spec.startswith("disturb@"):
            disturbed(spec.removeprefix("disturb@"))
        elif spec == "rival":
            rivalled()
        elif spec == "rival@postgres":
            rivalled_in_postgres()
        elif spec == "elsewhere":
            moved()
        elif spec == "busy":
            threading.Thread(target=burn, daemon=True).start()
        else:
            points.append(Point(spec))
    at_steps(points)
    if any(point.name == "target_commit" for point in points):
        at_target_commits(points)
    if any("@" in point.name for point in points):
        before_commits(points)
    if any(point.name.startswith("lock") for point in points):
        at_locks(points)


if __name__ == "__main__":
    install(sys.argv[1])
    sys.argv = ["reconcile", *sys.argv[2:]]
    main.entry()
