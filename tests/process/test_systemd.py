"""A real systemd calls the job: as `units` prints it, and by a timer every two seconds."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from support.fakes import eventually
from support.scene import drifted, night
from support.systemd import PROGRAM, Machine

SERVICE = "reconcile-entitlements.service"
TIMER = "reconcile-entitlements.timer"
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
    more='range_size = 1\nfence_wait = "30s"\nlease = { ttl = "4s" }\n'
    'catch_up = { policy = "all" }',
)
EXPOSURE = 2.0
"""Of 10, as `systemd-analyze security` counts; below 2 it calls a service OK."""

pytestmark = pytest.mark.timeout(150)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    made = Machine(tmp_path_factory.mktemp("machine"))
    yield made
    made.close()


def lay_out(machine: Machine, config: str) -> None:
    """A source, a target that lacks some of it, no store, and the configuration."""
    machine.write("/etc/reconcile/reconcile.toml", config)
    machine.run("rm", "-rf", "/var/lib/reconcile", "/srv/app/app.db")
    wanted = night(1, 100)
    with (machine.srv / "export.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["account_id", "entitlement", "level"])
        writer.writerows([*key, level] for key, level in sorted(wanted.items()))
    db = sqlite3.connect(machine.srv / "app.db")
    with db:
        db.execute(
            "CREATE TABLE entitlements (account_id TEXT NOT NULL, entitlement TEXT NOT NULL,"
            " level TEXT, PRIMARY KEY (account_id, entitlement)) WITHOUT ROWID"
        )
        has = drifted(wanted, 2)
        db.executemany("INSERT INTO entitlements VALUES (?,?,?)", [(*k, v) for k, v in has.items()])
    db.close()
    assert machine.run("chown", "-R", "reconcile:", "/srv/app").returncode == 0


def installed(machine: Machine, *options: str) -> None:
    """The units as they are printed."""
    where = ("--output", "/etc/systemd/system", "--user", "reconcile", "--force")
    done = machine.reconcile("units", "entitlements", "--systemd", *where, *options, user="root")
    assert done.returncode == 0, done.stderr
    machine.systemctl("daemon-reload")


def shown(machine: Machine) -> dict[str, Any]:
    done = machine.reconcile("status", "entitlements", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def intervals(machine: Machine) -> list[dict[str, Any]]:
    return list(shown(machine)["intervals"])


def completed(machine: Machine) -> int:
    return sum(one["state"] == "completed" for one in intervals(machine))


def test_the_printed_service_does_the_night_with_nothing_but_what_it_needs(
    machine: Machine,
) -> None:
    lay_out(machine, NIGHTLY)
    installed(machine)
    unit = machine.run("cat", f"/etc/systemd/system/{SERVICE}").stdout
    assert f"ExecStart={PROGRAM} -c /etc/reconcile/reconcile.toml run entitlements\n" in unit
    for line in ("ProtectSystem=strict", "PrivateTmp=yes", "PrivateNetwork=yes", "User=reconcile"):
        assert f"\n{line}\n" in unit
    checked = machine.run("systemd-analyze", "verify", SERVICE, TIMER)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")

    assert machine.start(SERVICE) == "success"
    said = machine.journal("-u", SERVICE, "-t", "reconcile")
    assert "entitlements 20" in said
    assert " completed in " in said
    assert "Z entitlements" not in said, "the journal has the time itself"
    (one,) = [i for i in intervals(machine) if i["state"] == "completed"]
    owner = machine.run("stat", "-c", "%U %a", "/var/lib/reconcile/state.db").stdout
    assert owner == "reconcile 600\n"
    assert one["count"] == len(night(1, 100))

    assert machine.start(SERVICE) == "success"
    assert "nothing due" in machine.journal("-u", SERVICE, "-t", "reconcile")
    security = machine.run("systemd-analyze", "security", "--no-pager", SERVICE).stdout
    figure = float(security.splitlines()[-1].partition(": ")[2].split()[0])
    assert figure <= EXPOSURE, security


def test_what_fails_is_an_error_in_the_journal_and_of_the_service(machine: Machine) -> None:
    lay_out(machine, NIGHTLY)
    (machine.srv / "export.csv").unlink()
    installed(machine)
    machine.reconcile("run", "entitlements", "--interval", "latest")
    assert machine.start(SERVICE) == "exit-code"
    assert machine.shown(SERVICE, "ExecMainStatus") == "69"


def test_a_timer_with_a_kill_a_hang_and_an_overlap_completes_every_interval(
    machine: Machine,
) -> None:
    """Where work has to last, it waits for a lock on the target, which costs no processor."""
    lay_out(machine, OFTEN)
    installed(machine, "--every", "2s")
    assert machine.start(SERVICE) == "success"
    machine.systemctl("start", TIMER)
    eventually(lambda: completed(machine) >= 2, "the first intervals")

    with held(machine):
        eventually(lambda: at_work(machine), "the next knock is at work")
        done = machine.reconcile("run", "entitlements")
        assert (done.returncode, "entitlements busy: " in done.stderr) == (75, True)
    eventually(lambda: killed_in_a_run(machine), "a run is killed, and its interval gone on with")

    # What is stopped is ended by the watchdog; its patience is three minutes as printed, and that
    # of a service which has begun is not changed any more.
    machine.systemctl("stop", TIMER)
    machine.until(SERVICE, "ActiveState", "inactive", "failed")
    folder = f"/etc/systemd/system/{SERVICE}.d"
    machine.run("mkdir", folder)
    machine.write(f"{folder}/short.conf", "[Service]\nWatchdogSec=3s\n")
    machine.systemctl("daemon-reload")
    machine.systemctl("start", TIMER)
    with held(machine):
        eventually(lambda: at_work(machine), "the next knock is at work")
        machine.systemctl("kill", "--kill-whom=main", "--signal=STOP", SERVICE)
        eventually(lambda: machine.says("Watchdog timeout"), "what is stopped is ended")

    before = completed(machine)
    eventually(lambda: completed(machine) > before, "it goes on")
    machine.systemctl("stop", TIMER)
    machine.until(SERVICE, "ActiveState", "inactive", "failed")
    assert machine.start(SERVICE) == "success"
    found = intervals(machine)
    assert {one["state"] for one in found} == {"completed"}
    assert max(one["runs"] for one in found) >= 2
    assert machine.says("status=9/KILL")
    times = sorted(one["scheduled_at"] for one in found)
    seconds = [int(time[-3:-1]) for time in times]
    steps = {(b - a) % 60 for a, b in pairwise(seconds)}
    assert steps == {SECONDS}, "none is missing"
    assert len(times) == len(set(times))


class held:
    """The target's write lock is had by somebody else."""

    def __init__(self, machine: Machine) -> None:
        self._path = machine.srv / "app.db"

    def __enter__(self) -> None:
        self._db = sqlite3.connect(self._path, timeout=10, isolation_level=None)
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, *error: object) -> None:
        self._db.execute("ROLLBACK")
        self._db.close()


def killed_in_a_run(machine: Machine) -> bool:
    """Kill the service whenever it is at work, until it was within a run."""
    if at_work(machine):
        machine.systemctl("kill", "--kill-whom=main", "--signal=KILL", SERVICE, check=False)
    return any(one["runs"] > 1 for one in intervals(machine))


def at_work(machine: Machine) -> bool:
    """Whether the service has the lease."""
    lease = shown(machine)["jobs"][0]["lease"]
    return lease is not None and str(lease["pid"]) == machine.shown(SERVICE, "MainPID")
