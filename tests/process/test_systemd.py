"""A real systemd calls the job: as `units` prints it, and by a timer every two seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.fakes import eventually
from support.machine import NIGHTLY, OFTEN, PROGRAM, SECONDS, Held, SystemdMachine
from support.scene import night

SERVICE = "reconcile-entitlements.service"
TIMER = "reconcile-entitlements.timer"
EXPOSURE = 1.0
"""Of 10, as `systemd-analyze security` counts; it calls a service OK below 5, and safe below 2."""
COMMAND = """\
[jobs.entitlements]
schedule = "0 0 * * *"
start = 2026-01-01
command = ["sh", "-c", "echo begun; sleep 987 & sleep 987; echo over"]
"""

pytestmark = pytest.mark.timeout(150)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SystemdMachine]:
    made = SystemdMachine(tmp_path_factory.mktemp("machine"))
    yield made
    made.close()


def installed(machine: SystemdMachine, *options: str) -> None:
    """The units as they are printed."""
    where = ("--output", "/etc/systemd/system", "--user", "reconcile", "--force")
    done = machine.reconcile("units", "entitlements", "--systemd", *where, *options, user="root")
    assert done.returncode == 0, done.stderr
    machine.systemctl("daemon-reload")


def test_the_printed_service_does_the_night_with_nothing_but_what_it_needs(
    machine: SystemdMachine,
) -> None:
    machine.lay_out(NIGHTLY)
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
    (one,) = [i for i in machine.intervals() if i["state"] == "completed"]
    owner = machine.run("stat", "-c", "%U %a", "/var/lib/reconcile/state.db").stdout
    assert owner == "reconcile 600\n"
    assert one["count"] == len(night(1, 100))

    assert machine.start(SERVICE) == "success"
    assert "nothing due" in machine.journal("-u", SERVICE, "-t", "reconcile")
    security = machine.run("systemd-analyze", "security", "--no-pager", SERVICE).stdout
    figure = float(security.splitlines()[-1].partition(": ")[2].split()[0])
    assert figure <= EXPOSURE, security


ODD = "a b'\"$x %d\\20 ;#"


def test_a_folder_may_have_any_name(machine: SystemdMachine) -> None:
    """Its configuration, store, source and target are in it, and the service may write there."""
    machine.lay_out(NIGHTLY)
    folder = machine.srv / ODD
    folder.mkdir()
    for name in ("export.csv", "app.db"):
        (machine.srv / name).rename(folder / name)
    (folder / "reconcile.toml").write_text(NIGHTLY.replace("/srv/app/", ""))
    assert machine.run("chown", "-R", "reconcile:", "/srv/app").returncode == 0
    inside = f"/srv/app/{ODD}/reconcile.toml"
    where = ("--output", "/etc/systemd/system", "--user", "reconcile", "--force")
    words = ("units", "entitlements", "--systemd", *where)
    done = machine.run(PROGRAM, "-c", inside, *words)
    assert done.returncode == 0, done.stderr
    machine.systemctl("daemon-reload")
    assert machine.start(SERVICE) == "success"
    assert (folder / "reconcile.db").exists()


def test_what_fails_is_an_error_in_the_journal_and_of_the_service(machine: SystemdMachine) -> None:
    machine.lay_out(NIGHTLY)
    (machine.srv / "export.csv").unlink()
    installed(machine)
    machine.reconcile("run", "entitlements", "--interval", "latest")
    assert machine.start(SERVICE) == "exit-code"
    assert machine.property(SERVICE, "ExecMainStatus") == "69"


def test_a_stopped_service_ends_its_command_with_all_it_started_and_has_not_failed(
    machine: SystemdMachine,
) -> None:
    machine.lay_out(COMMAND)
    installed(machine)
    machine.systemctl("start", SERVICE)
    eventually(lambda: "begun" in machine.journal("-u", SERVICE), "the command has begun")
    assert "started, generation" in machine.property(SERVICE, "StatusText")
    assert len(machine.run("pgrep", "-x", "sleep").stdout.split()) == 2
    machine.systemctl("stop", SERVICE)
    assert machine.property(SERVICE, "ActiveState") == "inactive"
    assert machine.run("pgrep", "-x", "sleep").stdout == ""
    assert " interrupted (SIGTERM)" in machine.journal("-u", SERVICE)
    assert "over" not in machine.journal("-u", SERVICE, "-t", "reconcile").split()


def test_a_timer_with_a_kill_a_hang_and_an_overlap_completes_every_interval(
    machine: SystemdMachine,
) -> None:
    """Where work has to last, it waits for a lock on the target, which costs no processor."""
    machine.lay_out(OFTEN)
    installed(machine, "--every", "2s")
    assert machine.start(SERVICE) == "success"
    machine.systemctl("start", TIMER)
    eventually(lambda: machine.completed() >= 2, "the first intervals")

    with Held(machine):
        eventually(lambda: at_work(machine), "the next knock is at work")
        done = machine.reconcile("run", "entitlements")
        assert (done.returncode, "entitlements busy: " in done.stderr) == (75, True)
    eventually(machine.killed_in_a_run, "a run is killed, and its interval gone on with")

    # What is stopped is ended by the watchdog; its patience is three minutes as printed, and that
    # of a service which has begun is not changed any more.
    machine.systemctl("stop", TIMER)
    machine.until(SERVICE, "ActiveState", "inactive", "failed")
    folder = f"/etc/systemd/system/{SERVICE}.d"
    machine.run("mkdir", folder)
    machine.write(f"{folder}/short.conf", "[Service]\nWatchdogSec=3s\n")
    machine.systemctl("daemon-reload")
    machine.systemctl("start", TIMER)
    with Held(machine):
        eventually(lambda: at_work(machine), "the next knock is at work")
        machine.systemctl("kill", "--kill-whom=main", "--signal=STOP", SERVICE)
        eventually(lambda: machine.says("Watchdog timeout"), "what is stopped is ended")

    before = machine.completed()
    eventually(lambda: machine.completed() > before, "it goes on")
    machine.systemctl("stop", TIMER)
    machine.until(SERVICE, "ActiveState", "inactive", "failed")
    assert machine.start(SERVICE) == "success"
    assert max(one["runs"] for one in machine.intervals()) > 1
    machine.check_all(SECONDS)
    assert machine.says("status=9/KILL")


def at_work(machine: SystemdMachine) -> bool:
    """Whether the service has had the lease for longer than it takes when nobody is in its way."""
    holder, _ = machine.holder(since=1.5)
    return holder > 0 and str(holder) == machine.property(SERVICE, "MainPID")
