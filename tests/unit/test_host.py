"""Which processes are dead, told from real ones: alive, stopped, ended, zombies, others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconcile.cli import host as host_module
from reconcile.cli.host import LinuxHost, ProcessFacts, boot_offset, read_process
from reconcile.core.errors import UnsupportedPlatform
from reconcile.core.model import Holder

WAITS = "print(flush=True); input()"
LEADER_ENDS = """
import ctypes, threading
def go_on():
    print(flush=True)
    input()
threading.Thread(target=go_on).start()
ctypes.CDLL(None).syscall(60, 0)  # exit(2): this thread alone
"""


@pytest.fixture
def here() -> LinuxHost:
    return LinuxHost(lambda: "token", lambda error: None)


@contextmanager
def child(program: str = WAITS) -> Iterator[subprocess.Popen[bytes]]:
    """A process that says so when it has come as far as it goes by itself."""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def holder_of(here: LinuxHost, pid: int) -> Holder:
    return here.holder()._replace(pid=pid, started=read_process(pid).started, token="theirs")


def wait_until_zombie(pid: int) -> None:
    """WNOWAIT: the child has ended and is left as the zombie it is."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def test_this_process_is_who_it_says(here: LinuxHost) -> None:
    holder = here.holder()
    assert holder.pid == os.getpid()
    assert holder.host == os.uname().nodename
    assert holder.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert holder.pid_namespace == str(Path("/proc/self/ns/pid").readlink())
    assert holder.token == "token"
    assert holder is here.holder()
    assert not here.is_dead(holder)


def test_a_live_process_is_alive_to_its_parent_and_to_itself(here: LinuxHost) -> None:
    with child() as process:
        assert not here.is_dead(holder_of(here, process.pid))


def test_a_stopped_process_is_alive(here: LinuxHost) -> None:
    with child() as process:
        holder = holder_of(here, process.pid)
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        assert read_process(process.pid).state == "T"
        assert not here.is_dead(holder)


def test_a_process_that_has_ended_is_dead(here: LinuxHost) -> None:
    with child() as process:
        holder = holder_of(here, process.pid)
        process.kill()
        process.wait()
        assert here.is_dead(holder)


def test_a_zombie_is_dead(here: LinuxHost) -> None:
    with child() as process:
        holder = holder_of(here, process.pid)
        process.kill()
        wait_until_zombie(process.pid)
        assert read_process(process.pid).state == "Z"
        assert here.is_dead(holder)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the number of exit(2) is x86-64's")
def test_a_zombie_with_a_live_thread_is_alive(here: LinuxHost) -> None:
    with child(LEADER_ENDS) as process:
        holder = holder_of(here, process.pid)
        while read_process(process.pid).state != "Z":
            os.sched_yield()
        assert not here.is_dead(holder)


def test_a_reused_pid_is_not_the_holder(here: LinuxHost) -> None:
    with child() as process:
        holder = holder_of(here, process.pid)
        assert here.is_dead(holder._replace(started=holder.started - 100))
        assert here.is_dead(holder._replace(started=holder.started + 100))


def test_one_tick_is_within_the_error_of_the_offset(here: LinuxHost) -> None:
    with child() as process:
        holder = holder_of(here, process.pid)
        assert not here.is_dead(holder._replace(started=holder.started - 1))
        assert not here.is_dead(holder._replace(started=holder.started + 1))


@pytest.mark.parametrize("name", ["host", "machine_id", "boot_id", "pid_namespace"])
@pytest.mark.parametrize("other", ["elsewhere", ""])
def test_a_process_of_another_place_is_alive(here: LinuxHost, name: str, other: str) -> None:
    with child() as process:
        holder = holder_of(here, process.pid)
        process.kill()
        process.wait()
        assert here.is_dead(holder)
        assert not here.is_dead(holder._replace(**{name: other}))
        assert not here.kill(holder._replace(**{name: other}))


def test_machines_without_an_identity_are_never_the_same(
    here: LinuxHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_module, "_MACHINE_IDS", (Path("/nonexistent/machine-id"),))
    with child() as process:
        holder = holder_of(here, process.pid)
        assert holder.machine_id == ""
        process.kill()
        process.wait()
        assert not here.is_dead(holder)


def test_a_process_that_proc_hides_is_alive(
    here: LinuxHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hidden(pid: int) -> ProcessFacts:
        raise FileNotFoundError(f"/proc/{pid}/stat")

    with child() as process:
        holder = holder_of(here, process.pid)
        monkeypatch.setattr(host_module, "read_process", hidden)
        assert not here.is_dead(holder)
        process.kill()
        process.wait()
        assert here.is_dead(holder)


@pytest.mark.parametrize("error", [PermissionError(1, "no"), ValueError("no number")])
def test_a_process_that_cannot_be_read_is_alive(
    here: LinuxHost, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def unreadable(pid: int) -> ProcessFacts:
        raise error

    with child() as process:
        holder = holder_of(here, process.pid)
        monkeypatch.setattr(host_module, "read_process", unreadable)
        assert not here.is_dead(holder)


def test_another_namespaces_proc_proves_nothing(
    here: LinuxHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = host_module._link

    def of_another(path: Path) -> str:
        return "1" if path == Path("/proc/self") else link(path)

    with child() as process:
        holder = holder_of(here, process.pid)
        process.kill()
        process.wait()
        monkeypatch.setattr(host_module, "_link", of_another)
        assert not here.is_dead(holder)


def test_start_times_are_those_of_the_host_whatever_the_time_namespace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = read_process(os.getpid()).started
    read = host_module._read

    def shifted(path: Path) -> str:
        if path.name == "timens_offsets":
            return "monotonic           0         0\nboottime         1000         0"
        return read(path)

    monkeypatch.setattr(host_module, "_read", shifted)
    assert boot_offset() == 1000.0
    assert read_process(os.getpid()).started == plain - 1000 * os.sysconf("SC_CLK_TCK")


def test_a_kernel_without_time_namespaces_has_no_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "_read", lambda path: "")
    assert boot_offset() == 0.0


def test_kill_ends_a_stopped_process_and_says_so(here: LinuxHost) -> None:
    with child() as process:
        process.send_signal(signal.SIGSTOP)
        assert here.kill(holder_of(here, process.pid))
        assert process.wait() == -signal.SIGKILL


def test_kill_spares_a_process_that_has_the_number_of_the_holder(here: LinuxHost) -> None:
    with child() as process:
        holder = holder_of(here, process.pid)
        assert not here.kill(holder._replace(started=holder.started - 100))
        assert process.poll() is None


def test_kill_spares_itself_and_finds_nobody_where_nobody_is(here: LinuxHost) -> None:
    assert not here.kill(here.holder())
    with child() as process:
        holder = holder_of(here, process.pid)
        process.kill()
        process.wait()
        assert not here.kill(holder)


def test_without_proc_there_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "_PROC", Path("/nonexistent"))
    with pytest.raises(UnsupportedPlatform, match="/proc does not show this process"):
        LinuxHost(lambda: "token", lambda error: None).holder()


def test_a_user_without_a_name_is_a_number() -> None:
    assert host_module.user_name(0) == "root"
    assert host_module.user_name(3_999_999_999) == "3999999999"
