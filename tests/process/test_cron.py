"""Debian's cron calls the job by the line that `units` prints, and mails what is new and wrong."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from email import message_from_string

import pytest
from support.fakes import eventually
from support.machine import OFTEN, PROGRAM, SECONDS, CronMachine, Held

SPEED = 1 if os.environ.get("RECONCILE_TEST_LONG") == "1" else 25
"""A minute of cron's takes 60 seconds over this. What it calls knows nothing of that."""
MINUTE = 60 / SPEED

pytestmark = pytest.mark.timeout(150 + 12 * MINUTE)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CronMachine]:
    made = CronMachine(tmp_path_factory.mktemp("machine"), SPEED)
    yield made
    made.close()


def test_every_minute_with_a_kill_an_overlap_and_a_fault_every_interval_is_completed(
    machine: CronMachine,
) -> None:
    machine.lay_out(OFTEN)
    machine.run("install", "-d", "-o", "reconcile", "-m", "0700", "/var/lib/reconcile")
    machine.run("chmod", "1777", "/srv/app/mail")
    assert machine.reconcile("run", "entitlements").returncode == 0
    printed = machine.reconcile("units", "entitlements", "--crontab")
    assert printed.returncode == 0, printed.stderr
    assert f"\n* * * * * {PROGRAM} -q -c " in printed.stdout
    machine.install(f"MAILTO=ops@example.org\n{printed.stdout}")
    patience = 20 + 4 * MINUTE
    eventually(lambda: machine.completed() >= 2, "two knocks", patience)

    with Held(machine):
        eventually(lambda: one_is_turned_away(machine), "two at once, one at work", patience)
    eventually(machine.killed_in_a_run, "a run is killed, and gone on with", patience)
    # Of a killed knock the shell that cron started says so; of a lock that came in the middle of
    # a run, the run does; of all else there is nothing to say.
    bodies = [str(message_from_string(text).get_payload()).strip() for text in machine.mails()]
    assert all(body == "Killed" or "is locked by another" in body for body in bodies), bodies

    export = machine.srv / "export.csv"
    export.rename(machine.srv / "away.csv")
    missing = "does not exist"
    eventually(lambda: missing in "".join(machine.mails()), "a fault is mailed", patience)
    (machine.srv / "away.csv").rename(export)
    mail = message_from_string(next(text for text in machine.mails() if missing in text))
    assert mail["Subject"] == f"Cron <reconcile@{os.uname().nodename}> {printed_command(printed)}"
    assert mail["To"] == "ops@example.org"
    told = re.findall(r"entitlements (\S+Z) failed", "".join(machine.mails()))
    assert told, machine.mails()
    assert len(told) == len(set(told)), "each interval is mailed once"

    done = machine.completed()
    eventually(lambda: machine.completed() > done, "it goes on", patience)
    machine.install("# nothing\n")
    last = ("run", "entitlements")
    eventually(lambda: machine.reconcile(*last).returncode == 0, "the last", patience)
    machine.check_all(SECONDS)


def printed_command(printed: subprocess.CompletedProcess[str]) -> str:
    return printed.stdout.splitlines()[-1].removeprefix("* * * * * ")


def knocks(machine: CronMachine) -> set[str]:
    """The processes that cron has called."""
    found = machine.run("pgrep", "-f", "^/opt/python/bin/python3 .* -q -c .* run entitlements")
    return set(found.stdout.split())


def one_is_turned_away(machine: CronMachine) -> bool:
    """Whether a knock came beside the one at work, and left it at work."""
    holder = machine.holder()
    beside = knocks(machine) - {str(holder[0])}
    if not holder[0] or not beside:
        return False
    eventually(lambda: not knocks(machine) & beside, "it leaves")
    return machine.holder() == holder
