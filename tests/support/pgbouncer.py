"""PgBouncer in transaction mode before a test's server, with SCRAM and TLS towards clients.

Debian's package `pgbouncer`, and `openssl` for the certificate.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from urllib.parse import quote

import pytest
from psycopg.conninfo import conninfo_to_dict

from .ports import free_port
from .postgres_server import NOBODY, PATIENCE, fresh_name, shared_server

SETTINGS = """
[databases]
* = host={host} port={port} user={role} {password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
pool_mode = transaction
default_pool_size = 4
max_client_conn = 200
auth_type = scram-sha-256
auth_file = {folder}/users
client_tls_sslmode = require
client_tls_cert_file = {folder}/cert.pem
client_tls_key_file = {folder}/key.pem
logfile = {folder}/log
"""
PASSWORD = "s3cr3t bouncer/word"


CLOCK = """
CREATE ROLE {role} LOGIN SUPERUSER;
CREATE SCHEMA {role};
CREATE TABLE {role}.moment (now timestamptz NOT NULL);
CREATE FUNCTION {role}.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql
  AS 'SELECT coalesce((SELECT now FROM {role}.moment), pg_catalog.clock_timestamp())';
ALTER ROLE {role} SET search_path = {role}, pg_catalog;
"""
"""The clock of all sessions of the role: the server's, until `moment` says another time."""


class Bouncer:
    """One PgBouncer, gone with this process. Its sessions are those of the role `role`."""

    def __init__(self, folder: Path) -> None:
        server = conninfo_to_dict(shared_server().base)
        self.folder, self.port = folder, free_port()
        self.role = fresh_name("bounced")
        # Before the first session, which a pool hands on to tests that move the clock.
        shared_server().do(CLOCK.format(role=self.role))
        certificate(folder)
        (folder / "users").write_text(f'"{self.role}" "{PASSWORD}"\n')
        word = server.get("password")
        text = SETTINGS.format(
            host=server.get("host", "127.0.0.1"),
            port=server.get("port", "5432"),
            role=self.role,
            password=f"password='{word}'" if word else "",
            listen=self.port,
            folder=folder,
        )
        (folder / "pgbouncer.ini").write_text(text)
        how = {}
        if os.geteuid() == 0:
            for path in (folder, *folder.iterdir()):
                os.chown(path, NOBODY, NOBODY)
            how = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        self.process = subprocess.Popen(
            [program(), folder / "pgbouncer.ini"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            **how,  # type: ignore[call-overload]
        )
        until = time.monotonic() + PATIENCE
        while not listens(self.port):
            assert self.process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < until, (folder / "log").read_text()
            time.sleep(0.02)

    def url(self, schema: str, password: str = PASSWORD, host: str = "localhost") -> str:
        """The address of a store behind it."""
        certificate = quote(str(self.folder / "cert.pem"), safe="")
        return (
            f"postgresql://{self.role}:{quote(password, safe='')}@{host}:{self.port}/postgres"
            f"?schema={schema}&sslmode=verify-full&sslrootcert={certificate}"
        )

    def stop(self) -> None:
        """End it, and its role."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)


def listens(port: int) -> bool:
    """Whether somebody takes connections there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def program() -> str:
    """Where pgbouncer is; a test that lacks it says so, and fails where it must not lack it."""
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None or shutil.which("openssl") is None:
        assert os.environ.get("RECONCILE_TEST_SYSTEM") != "1", "pgbouncer or openssl missing"
        pytest.skip("not run: pgbouncer or openssl missing")
    return found


def certificate(folder: Path) -> None:
    """A key and a certificate for localhost, signed by itself."""
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-nodes", "-days", "2", "-newkey", "ec"),
            *("-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", folder / "key.pem", "-out", folder / "cert.pem"),
        ],
        check=True,
        capture_output=True,
    )


@cache
def shared_bouncer() -> Bouncer:
    """The one of this process."""
    return own_bouncer()


def own_bouncer() -> Bouncer:
    """One more, gone with this process."""
    program()
    folder = Path(tempfile.mkdtemp(prefix="reconcile-pgb-"))
    folder.chmod(0o755)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = Bouncer(folder)
    atexit.register(made.stop)
    return made
