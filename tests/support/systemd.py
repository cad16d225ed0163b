"""A real systemd, where there is one: asked about units, or booted apart from the machine's.

`Machine` is a systemd of its own as the first process of its namespaces: its /run, /etc, /opt,
/srv and /var/lib are private, so that a unit finds the paths of a real installation, and nothing
of this machine is touched. The folder of the test is its /srv, on both sides.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from .fakes import eventually

BOOT = Path(__file__).with_name("systemd_boot.sh")
MANAGER = Path("/usr/lib/systemd/systemd")
CHECKOUT = Path(__file__).resolve().parents[2]
USER = "reconcile"
UID = 991
SPACES = ("--pid", "--fork", "--kill-child=KILL", "--mount", "--cgroup", "--ipc", "--uts")
PROGRAM = "/opt/reconcile/bin/reconcile"


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
    """A booted systemd, until `close`. `srv` is the folder that it has as /srv."""

    def __init__(self, folder: Path) -> None:
        need("systemd-analyze", "systemctl", "journalctl", "unshare", "nsenter")
        if os.geteuid() != 0:
            pytest.skip("not run: a systemd of its own takes root")
        self.srv = folder / "srv"
        self.srv.mkdir()
        self._log = folder / "boot.log"
        with self._log.open("wb") as log:
            self._first = subprocess.Popen(
                [
                    *("unshare", *SPACES, "sh", BOOT),
                    *(self.srv, sys.base_prefix, sysconfig.get_path("purelib"), CHECKOUT),
                    *(USER, str(UID), MANAGER),
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
        while self.systemctl("is-active", "here.target", check=False).strip() != "active":
            if self._first.poll() is not None or time.monotonic() > give_up:
                said = self._log.read_text(errors="replace")[-300:]
                pytest.skip(f"not run: no systemd can be booted here: {said}")
            time.sleep(0.05)

    def run(self, *argv: str, user: str = "root") -> subprocess.CompletedProcess[str]:
        """A command in there, with cron's environment."""
        children = Path(f"/proc/{self._first.pid}/task/{self._first.pid}/children")
        pid = children.read_text().split()
        if not pid:
            return subprocess.CompletedProcess(argv, 1, "", "")
        as_user = (
            []
            if user == "root"
            else ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
        )
        return subprocess.run(
            ["nsenter", "-t", pid[0], "-m", "-p", "-u", "-i", *as_user, *argv],
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

    def systemctl(self, *argv: str, check: bool = True) -> str:
        done = self.run("systemctl", "--no-pager", *argv)
        assert not check or done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, unit: str) -> str:
        """Start it, and wait for its end (`--wait` takes a bus); how it ended."""
        self.systemctl("start", unit, check=False)
        self.until(unit, "ActiveState", "inactive", "failed")
        return self.shown(unit, "Result")

    def shown(self, unit: str, name: str) -> str:
        """One property of a unit."""
        return self.systemctl("show", "--property", name, "--value", unit).strip()

    def until(self, unit: str, name: str, *values: str) -> None:
        """Wait until a property has one of these values."""
        eventually(lambda: self.shown(unit, name) in values, f"{unit} {name} {values}")

    def says(self, text: str) -> bool:
        """Whether systemd itself has said so."""
        return text in self.journal("_PID=1", "-n", "200")

    def journal(self, *argv: str) -> str:
        """What is in the journal; each line waits there as it came, undated."""
        return self.run("journalctl", "--no-pager", "--output=cat", *argv).stdout

    def close(self) -> None:
        """Switch it off: its first process ends with its parent, and all others with it."""
        self._first.kill()
        self._first.wait()
