"""What Linux says of processes, read from /proc.

A holder is *dead* only when this is certain: it lived on this very boot of this very
machine, in our process namespace, /proc is that namespace's own, and the pid is gone, is a
zombie whose last thread has ended, or belongs to a process that started at another time.
Everything else is alive: a stopped process, one that we may not look at (EPERM, or a /proc
mounted with `hidepid`), a machine without an identity, a value that does not parse. A live
holder that is taken for dead would mean two holders; a dead one taken for alive only costs
the rest of its lease. A holder is not dead while something that it has started for a command
lives: its supervisor, or what that one had to leave (`core.work.commands.supervision`).

A start time is read in ticks since boot *of this time namespace*; its offset is taken off,
so that both sides of a namespace agree. Taking off an offset that is no whole number of
ticks may be one tick out: a difference of one is the same process.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..core.errors import UnsupportedPlatform
from ..core.model import Holder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PROC = Path("/proc")
_MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_SECONDS_TO_DIE = 5
_ENDED = "ZXx"
_ONE_TICK = 1


class ProcessFacts(NamedTuple):
    """State letter, number of threads and start time (ticks since the host's boot)."""

    state: str
    threads: int
    started: int

    @property
    def has_ended(self) -> bool:
        """A zombie that no thread keeps alive any more."""
        return self.state in _ENDED and self.threads <= 1


def boot_offset() -> float:
    """Seconds that this time namespace adds to `CLOCK_BOOTTIME`; 0 where there is none."""
    for line in _read(_PROC / "self/timens_offsets").splitlines():
        name, seconds, nanoseconds = line.split()
        if name == "boottime":
            return int(seconds) + int(nanoseconds) / 1e9
    return 0.0


def read_process(pid: int) -> ProcessFacts:
    """What /proc says of a process. OSError where it says nothing."""
    text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    fields = text[text.rindex(")") + 2 :].split()
    ticks = int(boot_offset() * os.sysconf("SC_CLK_TCK"))
    return ProcessFacts(state=fields[0], threads=int(fields[17]), started=int(fields[19]) - ticks)


def user_name(uid: int) -> str:
    """The login name of a user id, or the number where there is none."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


class LinuxHost:
    """This process and its neighbours. Implements `core.ports.Host`.

    `token` makes this process start unlike any other; `end` is called by `abort` with the
    error and has to end the process.
    """

    def __init__(self, token: Callable[[], str], end: Callable[[Exception], None]) -> None:
        self._token = token
        self._end = end
        self._holder: Holder | None = None

    def holder(self) -> Holder:
        """This process start; the same value at each call.

        Raises `UnsupportedPlatform` where there is no /proc to tell processes apart.
        """
        if self._holder is None:
            try:
                started = read_process(os.getpid()).started
            except OSError as error:
                raise UnsupportedPlatform(
                    f"/proc does not show this process: {error}",
                    hint="reconcile needs Linux with /proc mounted",
                ) from error
            self._holder = Holder(
                host=os.uname().nodename,
                machine_id=_machine_id(),
                boot_id=_read(_PROC / "sys/kernel/random/boot_id"),
                pid_namespace=_link(_PROC / "self/ns/pid"),
                pid=os.getpid(),
                started=started,
                token=self._token(),
                user=user_name(os.geteuid()),
            )
        return self._holder

    def is_dead(self, holder: Holder) -> bool:
        """Whether that process is provably gone, with all commands that it ran. Any doubt is
        False."""
        return self._sees(holder) and _has_ended(holder) and not self._left_something(holder)

    def _left_something(self, holder: Holder) -> bool:
        """Whether something that it has started for a command may live."""
        from ..core.work.commands.supervision.orphans import something_lives

        ours = self.holder().user == holder.user
        if not ours and not os.access(_PROC / "1/stat", os.R_OK):
            return True  # /proc is mounted with `hidepid`, and shows us nothing of that user's
        offset = int(boot_offset() * os.sysconf("SC_CLK_TCK"))
        return something_lives(
            holder.token, holder.started + offset, lambda pid: _user_of(pid) == holder.user
        )

    def end_leftovers(self, holder: Holder, run: str) -> tuple[Sequence[str], Sequence[str]]:
        """See `ports.Host`. Of another machine nothing is seen here, and nothing is ended."""
        if not self._sees(holder):
            return (), ()
        from ..core.work.commands.supervision.orphans import end_orphans, orphans

        found = orphans(holder.token, run)
        survivors = end_orphans(holder.token, run) if found else ()
        alive = {one.pid for one in survivors}
        ended = [str(one) for one in found if one.pid not in alive]
        return ended, [str(one) for one in survivors]

    def kill(self, holder: Holder) -> bool:
        """SIGKILL that very process and see it end; False where it cannot be verified, may
        not be signalled, or has not ended within five seconds."""
        import select
        import signal

        if holder.pid == os.getpid() or not self._sees(holder):
            return False
        try:
            handle = os.pidfd_open(holder.pid)
        except OSError:
            return False
        try:
            # The handle was opened before the start time is read: if it fits, the handle is
            # that process, whatever becomes of its number from here on.
            if abs(read_process(holder.pid).started - holder.started) > _ONE_TICK:
                return False
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            return bool(poll.poll(_SECONDS_TO_DIE * 1000))
        except (OSError, ValueError, IndexError):
            return False
        finally:
            os.close(handle)

    def abort(self, error: Exception) -> None:
        """End this process now, saying why."""
        self._end(error)

    def _sees(self, holder: Holder) -> bool:
        """Whether the holder's pid means to us what it meant to the holder."""
        me = self.holder()
        known = bool(holder.boot_id and holder.machine_id and holder.pid_namespace)
        here = (
            holder.boot_id == me.boot_id
            and holder.machine_id == me.machine_id
            and holder.host == me.host
            and holder.pid_namespace == me.pid_namespace
        )
        return known and here and _link(_PROC / "self") == str(os.getpid())


def _has_ended(holder: Holder) -> bool:
    try:
        found = read_process(holder.pid)
    except FileNotFoundError:
        return _no_such_process(holder.pid)
    except ProcessLookupError:
        return True
    except (OSError, ValueError, IndexError):
        return False
    return found.has_ended or abs(found.started - holder.started) > _ONE_TICK


def _user_of(pid: int) -> str:
    """The login name of a process's user; empty where there is no such process any more."""
    for line in _read(_PROC / str(pid) / "status").splitlines():
        if line.startswith("Uid:"):
            return user_name(int(line.split()[2]))
    return ""


def _no_such_process(pid: int) -> bool:
    """Ask the kernel itself: with `hidepid`, /proc lacks processes that are alive."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _machine_id() -> str:
    return next(filter(None, map(_read, _MACHINE_IDS)), "")


def _read(path: Path) -> str:
    """The file's text; empty, and so never equal to a known identity, where there is none."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""
