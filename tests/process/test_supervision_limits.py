"""What a supervisor cannot end by itself: what belongs to others is named, and what got rid of
every mark is caught by a control group where there may be one."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import held, living, shell, wait_for

from reconcile.core.work.commands.supervision.supervisor import cgroups, ending, processes

NOBODY = 65534
ESCAPES = 'env -i setsid sh -c "echo \\$\\$ > {file}; exec sleep 600" & sleep 600'
"""A daemon without any variable of ours, in a session of its own."""


@pytest.mark.skipif(os.geteuid() != 0, reason="not run: only root can be somebody else")
def test_who_may_not_be_ended_is_named_with_the_reason() -> None:
    with subprocess.Popen(["sleep", "600"]) as theirs:
        found = processes.read(theirs.pid)
        assert found is not None
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.setuid(NOBODY)
            left = ending.end(lambda: [found], lambda: False, 0.02)
            os.write(write, repr([(one.pid, one.name, why) for one, why in left]).encode())
            os._exit(0)
        os.waitpid(pid, 0)
        told = os.read(read, 1000).decode()
        os.close(read)
        os.close(write)
        assert theirs.poll() is None
        theirs.kill()
    assert told == repr([(theirs.pid, "sleep", f"user {NOBODY} may not end it")])


def has_ended(pid: int) -> bool:
    """Whoever has adopted it may take its time with what is left in the table."""
    found = processes.read(pid)
    return found is None or found.has_ended


@pytest.fixture
def delegated() -> Iterator[Path]:
    """A control group that was delegated as systemd does it."""
    above = cgroups.own()
    group = Path(above, f"reconcile-test-{os.getpid()}")
    try:
        assert above
        group.mkdir()
        os.setxattr(group, "user.delegate", b"1")
        (group / "cgroup.kill").stat()
    except (AssertionError, OSError):
        if group.exists():
            group.rmdir()
        pytest.skip("not run: there is no control group here that may be written to")
    yield group
    wait_for(lambda: not (group / "cgroup.procs").read_text(), "an empty group")
    group.rmdir()


def test_in_a_delegated_control_group_nothing_escapes_even_a_killed_supervisor(
    delegated: Path, tmp_path: Path
) -> None:
    file = tmp_path / "escaped"
    spec = shell(ESCAPES.format(file=file))
    with held(spec, 60.0, tmp_path, group=delegated) as holder:
        wait_for(lambda: file.exists() and file.read_text().endswith("\n"), "the daemon")
        escaped = int(file.read_text())
        supervisor = next(one for one in processes.everyone() if one.parent == holder.pid)
        assert not processes.bears(escaped, spec.holder.encode())
        os.kill(supervisor.pid, signal.SIGKILL)
        wait_for(lambda: has_ended(escaped), "the end of the daemon")
        assert living(spec) == []
        wait_for(lambda: not list(delegated.glob("reconcile-*")), "the end of its group")
