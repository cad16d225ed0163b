"""A machine with a systemd, or a cron, of its own, on which reconcile is installed as on any.

It is a set of namespaces whose first process is that systemd or cron. Its /run, /etc, /opt, /srv
and /var/lib are private, so that a unit or a crontab finds the paths of a real installation, and
nothing of this machine is touched. The folder of the test is its /srv/app, on both sides.
"""

from __future__ import annotations

import csv
import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from .fakes import eventually
from .scene import Scene, drifted, night

BOOT = Path(__file__).with_name("machine_boot.sh")
CHECKOUT = Path(__file__).resolve().parents[2]
USER = "reconcile"
UID = 991
SPACES = ("--pid", "--fork", "--kill-child=KILL", "--mount", "--cgroup", "--ipc", "--uts")
PROGRAM = "/opt/reconcile/bin/reconcile"
CONFIG = """\
[jobs.entitlements]
schedule = "{schedule}"
{more}
source = "/srv/app/export.csv"
target = "/srv/app/app.db"
account = "account_id"
columns = ["entitlement", "level"]
"""
NIGHTLY = CONFIG.format(schedule="0 0 * * *", more="start = 2026-01-01")
SECONDS = 4
OFTEN = CONFIG.format(
    schedule=f"*:*:0/{SECONDS}",
    more='range_size = 1\nretry_delay = "1s"\nmax_attempts = 99\nfence_wait = "150s"\n'
    'lease = { ttl = "4s" }\ncatch_up = { policy = "all" }',
)
"""A job that is due all the time; its lease is short, and a lock on its target is waited for."""


def verify(folder: Path, units: Mapping[str, str]) -> str:
    """What `systemd-analyze verify` has against these units, their texts by name."""
    need("systemd-analyze")
    place = folder / "verified"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, text in units.items():
        (place / name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", *(str(place / name) for name in units)],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr + done.stdout


def need(*programs: str) -> None:
    """Say that a test is not run where a program is missing; fail where it must be there."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [name for name in programs if shutil.which(name, path=path) is None]
    if missing:
        assert os.environ.get("RECONCILE_TEST_SYSTEM") != "1", f"{missing} missing"
        pytest.skip(f"not run: {', '.join(missing)} missing")


class Machine:
    """A booted machine, until `close`. `srv` is the folder that it has as /srv/app."""

    def __init__(self, folder: Path, *init: str) -> None:
        need("unshare", "nsenter", "setpriv")
        if os.geteuid() != 0:
            pytest.skip("not run: a machine of its own takes root")
        self.srv = folder / "srv"
        self._lib = folder / "lib"
        self.srv.mkdir()
        self._lib.mkdir()
        self._log = folder / "boot.log"
        with self._log.open("wb") as log:
            self._first = subprocess.Popen(
                [
                    *("unshare", *SPACES, "sh", BOOT),
                    *(
                        self.srv,
                        self._lib,
                        sys.base_prefix,
                        sysconfig.get_path("purelib"),
                        CHECKOUT,
                    ),
                    *(USER, str(UID), *init),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            self._await_boot()
        except BaseException:
            self.close()
            raise

    def _await_boot(self) -> None:
        give_up = time.monotonic() + 20
        while not self.is_up():
            if self._first.poll() is not None or time.monotonic() > give_up:
                said = self._log.read_text(errors="replace")[-300:]
                pytest.skip(f"not run: no machine can be booted here: {said}")
            time.sleep(0.05)

    def is_up(self) -> bool:
        raise NotImplementedError

    def pid(self) -> int:
        """Its first process, as it is called out here; 0 while there is none."""
        children = Path(f"/proc/{self._first.pid}/task/{self._first.pid}/children")
        return int((children.read_text().split() or ["0"])[0])

    def run(self, *argv: str, user: str = "root") -> subprocess.CompletedProcess[str]:
        """A command in there, with cron's environment."""
        pid = self.pid()
        if not pid:
            return subprocess.CompletedProcess(argv, 1, "", "")
        as_user = (
            []
            if user == "root"
            else ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
        )
        return subprocess.run(
            ["nsenter", "-t", str(pid), "-m", "-p", "-u", "-i", *as_user, *argv],
            env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def reconcile(self, *argv: str, user: str = USER) -> subprocess.CompletedProcess[str]:
        """The program as it is installed there."""
        return self.run(PROGRAM, "-c", "/etc/reconcile/reconcile.toml", *argv, user=user)

    def write(self, path: str, text: str) -> None:
        """A file in there."""
        done = self.run("sh", "-c", f"printf %s {shlex.quote(text)} > {shlex.quote(path)}")
        assert done.returncode == 0, done.stderr

    def close(self) -> None:
        """Switch it off: its first process ends with its parent, and all others with it."""
        self._first.kill()
        self._first.wait()

    # --- what all of them do

    def lay_out(self, config: str) -> None:
        """A source, a target that lacks some of it, no store, and the configuration."""
        self.write("/etc/reconcile/reconcile.toml", config)
        self.run("rm", "-rf", "/var/lib/reconcile", "/srv/app/app.db")
        wanted = night(1, 100)
        with (self.srv / "export.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["account_id", "entitlement", "level"])
            writer.writerows([*key, level] for key, level in sorted(wanted.items()))
        db = sqlite3.connect(self.srv / "app.db")
        with db:
            db.execute(
                "CREATE TABLE entitlements (account_id TEXT NOT NULL, entitlement TEXT NOT NULL,"
                " level TEXT, PRIMARY KEY (account_id, entitlement)) WITHOUT ROWID"
            )
            has = drifted(wanted, 2)
            db.executemany(
                "INSERT INTO entitlements VALUES (?,?,?)", [(*k, v) for k, v in has.items()]
            )
        db.close()
        assert self.run("chown", "-R", f"{USER}:", "/srv/app").returncode == 0

    def shown(self) -> dict[str, Any]:
        """The job's status as an object."""
        done = self.reconcile("status", "entitlements", "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def intervals(self) -> list[dict[str, Any]]:
        return list(self.shown()["intervals"])

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """The store itself, for a call of status costs a hundred times as much."""
        path = self._lib / "reconcile" / "state.db"
        return Scene.ask(path, query) if path.exists() else []

    def completed(self) -> int:
        """How many intervals are."""
        query = "SELECT count(*) FROM record WHERE kind = 'interval' AND value ->> 'state' = ?"
        (found,) = self.ask(query.replace("?", "'completed'")) or [(0,)]
        return int(found[0])

    def in_a_run(self) -> int:
        """The process whose run has a checkpoint and is not finished; 0 where there is none."""
        query = (
            "SELECT holder ->> 'pid' FROM lease, record WHERE NOT released AND kind = 'interval'"
            " AND value ->> 'last_run_id' = run AND value ->> 'state' = 'unfinished'"
            " AND value ->> 'last_checkpoint_at' IS NOT NULL"
        )
        (found,) = self.ask(query) or [(0,)]
        return int(found[0])

    def killed_in_a_run(self) -> bool:
        """Kill whoever is in the middle of a run, until an interval has had more than one."""
        if pid := self.in_a_run():
            self.run("kill", "-KILL", str(pid))
        return self.most_runs() > 1

    def most_runs(self) -> int:
        """Of one interval."""
        query = "SELECT max(value ->> 'runs') FROM record WHERE kind = 'interval'"
        (found,) = self.ask(query) or [(0,)]
        return int(found[0] or 0)

    def holder(self, since: float = 0.0) -> tuple[int, str]:
        """Process and token of who has the lease, for so many seconds now; 0 where nobody has."""
        boot = time.clock_gettime(time.CLOCK_BOOTTIME)
        granted = int((time.time() - since) * 1e6)
        query = (
            "SELECT holder ->> 'pid', holder ->> 'token' FROM lease"
            f" WHERE NOT released AND expires_boot > {boot} AND granted_at <= {granted}"
        )
        (found,) = self.ask(query) or [(0, "")]
        return int(found[0]), str(found[1])

    def check_all(self, seconds: int) -> None:
        """Of a job that is due so often, every interval is completed, and none is missing; but
        for those that have come due since somebody looked."""
        found = sorted(self.intervals(), key=lambda one: str(one["scheduled_at"]))
        while found[-1]["state"] == "pending":
            found.pop()
        assert {one["state"] for one in found} == {"completed"}, found
        times = sorted(one["scheduled_at"] for one in found)
        of_minute = [int(time[-3:-1]) for time in times]
        assert {(b - a) % 60 for a, b in pairwise(of_minute)} == {seconds}
        assert len(times) == len(set(times))


class SystemdMachine(Machine):
    """One whose first process is systemd."""

    def __init__(self, folder: Path) -> None:
        need("systemd-analyze", "systemctl", "journalctl")
        super().__init__(folder, "systemd")

    def is_up(self) -> bool:
        return self.systemctl("is-active", "here.target", check=False).strip() == "active"

    def systemctl(self, *argv: str, check: bool = True) -> str:
        done = self.run("systemctl", "--no-pager", *argv)
        assert not check or done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, unit: str) -> str:
        """Start it, and wait for its end (`--wait` takes a bus); how it ended."""
        self.systemctl("start", unit, check=False)
        self.until(unit, "ActiveState", "inactive", "failed")
        return self.property(unit, "Result")

    def property(self, unit: str, name: str) -> str:
        """One property of a unit."""
        return self.systemctl("show", "--property", name, "--value", unit).strip()

    def until(self, unit: str, name: str, *values: str) -> None:
        """Wait until a property has one of these values."""
        eventually(lambda: self.property(unit, name) in values, f"{unit} {name} {values}")

    def says(self, text: str) -> bool:
        """Whether systemd itself has said so."""
        return text in self.journal("_PID=1", "-n", "200")

    def journal(self, *argv: str) -> str:
        """What is in the journal; each line waits there as it came, undated."""
        return self.run("journalctl", "--no-pager", "--output=cat", *argv).stdout


class CronMachine(Machine):
    """One whose first process is Debian's cron, whose minutes are `speed` times as short."""

    def __init__(self, folder: Path, speed: int) -> None:
        need("cron", "faketime")
        super().__init__(folder, "cron", str(speed))

    def is_up(self) -> bool:
        names = self.run("sh", "-c", "cat /proc/[0-9]*/comm").stdout  # faketime(1) is its parent
        return "cron" in names.split()

    def install(self, crontab: str) -> None:
        """The crontab of the user whom the job belongs to."""
        path = f"/var/spool/cron/crontabs/{USER}"
        self.write(f"{path}.new", crontab)
        for change in (("chown", f"{USER}:"), ("chmod", "600")):
            assert self.run(*change, f"{path}.new").returncode == 0
        self.run("mv", f"{path}.new", path)

    def mails(self) -> list[str]:
        """What was sent, oldest first."""
        found = sorted(path for path in (self.srv / "mail").iterdir() if path.name[0] != ".")
        return [path.read_text() for path in found]


class Held:
    """The target's write lock is had by somebody else, so that work lasts, and costs nothing."""

    def __init__(self, machine: Machine) -> None:
        self._path = machine.srv / "app.db"

    def __enter__(self) -> None:
        self._db = sqlite3.connect(self._path, timeout=10, isolation_level=None)
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, *error: object) -> None:
        self._db.execute("ROLLBACK")
        self._db.close()
