"""Keeps one command within its deadline. See `supervision/__init__.py` for the protocol."""

from __future__ import annotations

import marshal
import os
import select
import signal

from . import cgroups, child, ending, kernel, processes

TYPE_CHECKING = False  # the module typing takes as long to import as all of this
if TYPE_CHECKING:
    from typing import Any

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_IGNORED = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGTSTP, signal.SIGPIPE)
_LINGER = 1.0
"""Seconds for what outlives the command to end by itself, as the last part of a pipeline does."""
_PATIENCE = 2.0
"""Seconds from SIGKILL until what is left counts as a survivor."""
_MOST_WORDS = 1 << 20
"""Bytes of progress kept for the next run; who writes more while it is to end need not be heard."""
_MOST_NAMED = 100
"""Leftovers and survivors named: more would not fit into one message, nor help anybody."""


def main(argv: list[str]) -> int:
    """`MARK PARENT CONTROL OUT_READ OUT PROGRESS_READ PROGRESS`: numbers but for the first, and on
    standard input what `Supervised` packs."""
    mark, parent, *numbers = argv[1:]
    for number in map(int, numbers):
        os.set_inheritable(number, False)
    control, _, out, slot, progress = map(int, numbers)
    kernel.name_this_process(b"reconcile-super")
    kernel.adopt_orphans()
    kernel.go_first()
    # SIGCONT: it wakes one that was stopped, who would not learn of the end of its parent.
    came = _Signals()
    kernel.signal_when_parent_ends(signal.SIGCONT)
    if os.getppid() != int(parent):
        return 0  # nothing was begun yet
    supervisor = Supervisor(control, slot, int(parent), came, mark.rpartition("/")[2])
    try:
        with open(0, "rb") as packed:
            argv_, cwd, env, kill_after, deadline, last_words = marshal.load(packed)
        supervisor.keep_within(deadline, kill_after)
        supervisor.begin(argv_, cwd, env, out, progress)
        supervisor.run(last_words)
    except BaseException:  # noqa: BLE001  a defect here must not leave the command to itself
        import traceback

        supervisor.kill()
        supervisor.send("defect", traceback.format_exc())
        return 70
    return 0


class _Signals:
    """Signals as something that poll(2) sees, and whether one asked to stop."""

    def __init__(self) -> None:
        self.fd, write = os.pipe()
        for end in (self.fd, write):
            os.set_blocking(end, False)
        self.stop = False
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)
        for number in (*_STOP_SIGNALS, signal.SIGCHLD, signal.SIGCONT):
            signal.signal(number, self._came)

    def _came(self, number: int, frame: object) -> None:
        self.stop = self.stop or number in _STOP_SIGNALS

    def clear(self) -> None:
        """Forget that any came, but for `stop`."""
        try:
            while os.read(self.fd, 512):
                pass
        except BlockingIOError:
            pass


class Supervisor:
    """One command, from its beginning until nothing of it is left.

    It moves on in this order, never back: it runs; it is told to end (`_stop`: SIGTERM); it is
    ended (`kill`: SIGKILL). Instants are `CLOCK_BOOTTIME` as this time namespace counts it.
    """

    def __init__(self, control: int, slot: int, parent: int, came: _Signals, run: str) -> None:
        self._control = control
        self._slot = slot
        self._is_alone = False
        """Whether the holder is gone."""
        self._words = b""
        os.set_blocking(control, False)
        self._hears = True
        self._parent = parent
        self._came = came
        self._timer = kernel.Timer()
        self._offset = kernel.boot_offset()
        self._cgroup = cgroups.of_run(run)
        self._poll = select.poll()
        for fd in (control, came.fd, self._timer.fd):
            self._poll.register(fd, select.POLLIN)
        self._pid = 0
        self._report = -1
        self._childless = True
        self._ended: int | None = None
        """What waitpid(2) said of the command."""
        self._failure: tuple[str, int] | None = None
        self._why = ""
        self._kill_after = 0.0
        self._deadline = self._term_at = self._over_at = 0.0
        self._linger_until = 0.0
        self._kill_at = 0.0
        """Once SIGTERM was sent, the time for SIGKILL, if the deadline is not before it; else 0."""
        self._told_at = 0.0
        self._shortened: float | None = None
        self._leftovers: list[tuple[int, str]] = []
        self._survivors: list[tuple[int, str, str]] = []

    def keep_within(self, deadline: float, kill_after: float | None = None) -> None:
        """The trust window now ends at a reading of `CLOCK_BOOTTIME`, without the offset.

        All has to be over before. What SIGTERM and SIGKILL may take of the window is a quarter,
        for a renewal that fails is asked again in the half that is left of it: a command must not
        end because of one answer that was late.
        """
        if kill_after is not None:
            self._kill_after = kill_after
        self._deadline = deadline + self._offset
        window = max(0.0, self._deadline - kernel.now())
        self._over_at = self._deadline - min(0.5, window / 8)
        self._term_at = self._over_at - min(self._kill_after, window / 4)

    def begin(
        self, argv: list[bytes], cwd: bytes, env: dict[bytes, bytes], out: int, progress: int
    ) -> None:
        """Start the command."""
        join = self._cgroup.make() if self._cgroup else -1
        try:
            self._pid, self._report = child.start(argv, cwd, env, out, progress, join)
            self._childless = False
        except OSError as error:
            self._failure = ("supervisor", error.errno or 0)
        for fd in (out, progress, join):
            if fd >= 0:
                os.close(fd)  # so that the reader sees the end when no command has it any more

    def run(self, last_words: bytes = b"") -> None:
        """Until nothing is left, or what is left cannot be ended; then say so. Where the holder is
        gone, what it had not dealt with goes into the file of the `last_words`."""
        while not self._childless:
            self._timer.set(self._next())
            self._poll.poll()
            self._hear()
            self._reap()
            if not self._childless:
                self._act(kernel.now())
            if self._survivors:
                break
        if os.getppid() != self._parent:
            self._hear_alone()
        if self._words and last_words:
            _keep(self._words, last_words)
        self._tell()
        # Its holder would be taken for dead, and the lease given away, while something lives.
        while not self._reap() and os.getppid() != self._parent and kernel.now() < self._deadline:
            self._timer.set(min(self._deadline, kernel.now() + 0.05))
            self._poll.poll()
            self._came.clear()

    def kill(self) -> None:
        """SIGKILL to everybody, and wait until they are gone."""
        if self._ended is None:
            ending.kill_group(self._pid)  # most often that is everybody, and at once
        if self._cgroup:
            self._cgroup.kill()
        left = ending.end(lambda: processes.descendants(os.getpid()), self._reap, _PATIENCE)
        self._survivors = [(one.pid, one.name, why) for one, why in left]
        if not left and not self._childless:
            self._survivors = [(0, "?", "/proc does not show it")]

    def send(self, *message: Any) -> None:
        """To the holder, if there is one still; never waits for it."""
        try:
            os.write(self._control, marshal.dumps(message))
        except OSError:
            pass

    # --- one round

    def _next(self) -> float:
        if self._kill_at:
            return min(self._kill_at, self._over_at)
        return min(self._term_at, self._linger_until or self._term_at)

    def _hear(self) -> None:
        """What its holder, its parent's end or a signal ask for."""
        self._came.clear()
        while self._hears:
            try:
                packed = os.read(self._control, 512)
            except BlockingIOError:
                break
            except OSError:
                packed = b""
            if packed:
                self._obey(*marshal.loads(packed))
            else:
                self._hears = False
                self._poll.unregister(self._control)
        if not self._hears or os.getppid() != self._parent:
            self._stop("holder")
            self._hear_alone()
        if self._came.stop:
            self._stop("signal")

    def _hear_alone(self) -> None:
        """Nobody else takes note of progress any more: what was not dealt with, and what comes
        while the command ends, is for the next run. It need not wait for an answer either."""
        if not self._is_alone:
            self._is_alone = True
            os.set_blocking(self._slot, False)
            self._poll.register(self._slot, select.POLLIN)
        while self._slot >= 0:
            try:
                words = os.read(self._slot, 1 << 16)
            except BlockingIOError:
                break
            self._words += words
            if not words or len(self._words) > _MOST_WORDS:
                self._poll.unregister(self._slot)
                os.close(self._slot)
                self._slot = -1

    def _obey(self, order: str, value: float) -> None:
        if order == "extend":
            self.keep_within(value)
        elif order == "terminate":
            self._stop("terminated")
        else:
            self._stop("killed")
            self._told_at = self._kill_at = kernel.now()

    def _reap(self) -> bool:
        """Take note of who has ended; whether nobody is left. As every orphan becomes ours, to
        have no child is to have no descendant."""
        while not self._childless:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._childless = True
                break
            if pid == 0:
                break
            if pid == self._pid:
                self._ended = os.waitstatus_to_exitcode(status)
                self._why = self._why or "itself"
        return self._childless

    def _act(self, now: float) -> None:
        """What is due at this moment."""
        if self._ended is not None and not self._linger_until:
            self._linger_until = now + _LINGER
        if self._linger_until and now >= self._linger_until:
            self._stop("itself")
        if now >= self._term_at:
            self._stop("deadline")
        if self._kill_at and now >= min(self._kill_at, self._over_at):
            if now < self._kill_at:
                self._shortened = now - self._told_at
            self.kill()

    def _stop(self, why: str) -> None:
        """SIGTERM to all, and SIGKILL later; once."""
        if self._kill_at:
            return
        self._why = self._why or why
        self._told_at = kernel.now()
        self._kill_at = self._told_at + self._kill_after
        found = processes.descendants(os.getpid())
        if self._ended is not None:
            self._leftovers = [(one.pid, one.name) for one in found]
        for process in found:
            # One that is stopped would not see to it before it goes on.
            processes.send(process, signal.SIGTERM, signal.SIGCONT)

    def _tell(self) -> None:
        if self._cgroup:
            self._cgroup.remove()
        if self._report >= 0:
            try:
                said = os.read(self._report, 512)
            except BlockingIOError:
                said = b""  # it did not get as far as that
            if said:
                self._failure = child.failure(said)
        ended = None if self._failure else self._ended
        self.send(
            "ended",
            ended if ended is not None and ended >= 0 else None,
            -ended if ended is not None and ended < 0 else None,
            self._failure,
            self._why or "itself",
            self._leftovers[:_MOST_NAMED],
            self._survivors[:_MOST_NAMED],
            self._shortened,
        )


def _keep(words: bytes, path: bytes) -> None:
    """Leave to the next run what the holder could not make durable; as nobody of the command is
    left, nothing comes after it."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        os.write(file, words)
        os.close(file)
    except OSError:
        pass  # then a step is done again
