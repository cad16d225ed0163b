"""A MariaDB server for the tests of one process, in a folder of its own, gone with the process.

It is Debian's `mariadb-server`. Where that lacks, a test says so and is skipped, and fails where
RECONCILE_TEST_SYSTEM is 1.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from .ports import free_port

PATIENCE = 60.0
PASSWORD = "hunter2/%@:"
"""That of the user `reader`, who may read the database `app`, and of `nobody`, who may not."""
_die_with_parent = ctypes.CDLL(None).prctl
_SMALL = (
    "--innodb-buffer-pool-size=24M",
    "--innodb-log-file-size=8M",
    "--innodb-flush-log-at-trx-commit=0",
    "--skip-innodb-doublewrite",
    "--performance-schema=OFF",
)


class MariaDb:
    """A server that tests may also stop."""

    def __init__(self, folder: Path) -> None:
        server, installer = (_program(name) for name in ("mariadbd", "mariadb-install-db"))
        self.folder, self.port = folder, free_port()
        own = [f"--datadir={folder}/data", *(["--user=root"] if os.geteuid() == 0 else [])]
        done = subprocess.run(
            [
                *(installer, "--no-defaults", *own, *_SMALL, "--skip-test-db"),
                *("--skip-name-resolve", "--auth-root-authentication-method=normal"),
            ],
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(server, "--no-defaults", *own, *_SMALL, f"--socket={folder}/socket"),
                    *(f"--port={self.port}", "--bind-address=127.0.0.1"),
                    *("--character-set-server=utf8mb4", "--skip-name-resolve"),
                    f"--pid-file={folder}/pid",
                ],
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=lambda: _die_with_parent(1, signal.SIGKILL),  # noqa: PLW1509  no thread of ours has a lock here
            )
        self._wait()
        self.do(
            "CREATE DATABASE app CHARACTER SET utf8mb4",
            f"CREATE USER reader IDENTIFIED BY '{PASSWORD}'",
            f"CREATE USER nobody IDENTIFIED BY '{PASSWORD}'",
            "GRANT SELECT ON app.* TO reader",
        )

    def url(self, user: str = "reader", database: str = "app", port: int | None = None) -> str:
        """The address of a database, as a user."""
        from urllib.parse import quote

        login = user if user == "root" else f"{user}:{quote(PASSWORD, safe='')}"
        return f"mariadb://{login}@127.0.0.1:{port or self.port}/{database}"

    def connect(self, database: str = "") -> Any:
        """A connection that may do everything, in autocommit."""
        import pymysql

        return pymysql.connect(
            unix_socket=f"{self.folder}/socket",
            user="root",
            database=database or None,
            charset="utf8mb4",
            autocommit=True,
        )

    def do(self, *statements: str, database: str = "") -> None:
        """Run statements as an administrator."""
        with self.connect(database) as db, db.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def ask(self, query: str, database: str = "app") -> list[tuple[Any, ...]]:
        """What a query says."""
        with self.connect(database) as db, db.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    def fill(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        """Insert rows into a table of `app`."""
        places = ", ".join(["%s"] * len(rows[0]))
        with self.connect("app") as db, db.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {table} VALUES ({places})", rows)

    def stop(self) -> None:
        """End it at once, as if it had crashed."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(PATIENCE)

    def _wait(self) -> None:
        until = time.monotonic() + PATIENCE
        while b"ready for connections" not in (said := (self.folder / "log").read_bytes()):
            assert self._process.poll() is None, said
            assert time.monotonic() < until, said
            time.sleep(0.02)


def _program(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        assert os.environ.get("RECONCILE_TEST_SYSTEM") != "1", "mariadb-server missing"
        pytest.skip("not run: mariadb-server missing")
    return found


@cache
def shared_mariadb() -> MariaDb:
    """The server of this process."""
    return own_mariadb()


def own_mariadb() -> MariaDb:
    """One more server, gone with this process."""
    folder = Path(tempfile.mkdtemp(prefix="reconcile-my-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = MariaDb(folder)
    atexit.register(made.stop)
    return made
