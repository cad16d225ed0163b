"""Where the outside enters: streams, variables, the clock, randomness, signals.

Nothing else of the command line reads any of these, so that a test hands in an
`Environment` of its own and sees all that a command does. `cli/host.py` adds what /proc
says of processes.

Words (standard error) are never worth the work: a log that cannot be written, because its
reader went away or its disk is full, does not stop a run. Data (standard output) is what
the caller asked for: it is lost without a word only when the reader went away, which is
what `| head` does.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from io import StringIO, TextIOWrapper
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TextIO, cast

from ..core.errors import ReconcileError
from .host import LinuxHost, boot_offset, user_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from threading import Event
    from types import FrameType

    from ..core.ports import Clock, Entropy, Host, StopSignal
    from .delivery.manager import ServiceManager


NAME = "reconcile"
_LOCALTIME = Path("/etc/localtime")
_ENDING = Lock()
INFO = 6


class OutputFailed(ReconcileError):
    """Standard output cannot be written to, for another reason than a reader that left."""

    name = "output_failed"


class SystemClock:
    """The host's clock. Implements `core.ports.Clock`."""

    def __init__(self) -> None:
        self._offset = boot_offset()

    def now(self) -> datetime:
        """The wall clock, in UTC."""
        return datetime.now(UTC)

    def boot(self) -> float:
        """Seconds since the host's boot, suspend included, in any time namespace."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) - self._offset

    def wait(self, seconds: float, wake: Event) -> bool:
        """Sleep until `wake` is set (True) or the seconds are over (False)."""
        return wake.wait(max(0.0, seconds))


class SystemEntropy:
    """The kernel's randomness. Implements `core.ports.Entropy`."""

    def token(self) -> str:
        """A fresh unguessable name: 32 hex digits."""
        return os.urandom(16).hex()


class Signals:
    """SIGTERM and SIGINT as a request to stop. Implements `core.ports.StopSignal`.

    The first signal only leaves its name; whoever works looks at it after each range. The
    second ends the process at once, as if there were no handler. What comes together with
    the first is no second request: timeout(1) signals its command, then its whole group.
    """

    TOGETHER_SECONDS = 0.2

    def __init__(self) -> None:
        self._reason: str | None = None
        self._came_at = 0.0

    @property
    def reason(self) -> str | None:
        """`SIGTERM` or `SIGINT` once it came, else None."""
        return self._reason

    def install(self) -> None:
        """Take over both signals, but not one that the caller (nohup, `&`) has ignored."""
        for number in (signal.SIGTERM, signal.SIGINT):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._came)

    def _came(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self._reason is None:
            self._reason = signal.Signals(number).name
            self._came_at = time.monotonic()
        elif time.monotonic() - self._came_at > self.TOGETHER_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


@dataclass(frozen=True, slots=True)
class Environment:
    """All that a command can see and touch of the outside.

    `width` is the terminal's, in columns. `login` is the name of the user who is logged
    in; `state_folder` takes the traceback of a bug. `journald` says that standard error
    goes to the journal, which dates its lines itself. `heed_signals` makes `stop` know of
    signals: work that can stop at a checkpoint calls it, everything else may be killed.
    `program` is what a user types to call this program again; `installation` are its file and the
    folders that it needs, empty where it is no file of its own. `ahead` is how far the clock on
    the wall here is ahead of UTC, `zone` the name of its time zone, as far as it is known.
    `manager` is systemd, where it started this as a service. `tell` takes the object of
    `run --json`, for a process of ours that waits for it.
    """

    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    environ: Mapping[str, str]
    cwd: Path
    clock: Clock
    entropy: Entropy
    host: Host
    stop: StopSignal
    login: str
    state_folder: Path
    stdin_is_terminal: bool = False
    stdout_is_terminal: bool = False
    stderr_is_terminal: bool = False
    journald: bool = False
    width: int = 80
    heed_signals: Callable[[], None] = field(default=lambda: None)
    program: str = NAME
    installation: tuple[Path, ...] = ()
    ahead: timedelta = timedelta()
    zone: str = "UTC"
    manager: ServiceManager | None = None
    tell: Callable[[str], None] | None = None
    closed: set[int] = field(default_factory=set)
    """Streams that nobody reads any more, by `id`."""

    def data(self, text: str) -> None:
        """Write to standard output. Raises `OutputFailed`, but not for `| head`."""
        try:
            self._write(self.stdout, text)
        except OSError as error:
            self._close(self.stdout)  # or Python would try once more when it ends, and say so
            raise _full(error) from error

    def raw(self, data: bytes) -> None:
        """Write bytes to standard output as they are. Raises as `data`."""
        buffer = getattr(self.stdout, "buffer", None)
        if buffer is None or id(self.stdout) in self.closed:
            self.data(data.decode("utf-8", "backslashreplace"))
            return
        try:
            self.stdout.flush()
            buffer.write(data)
            buffer.flush()
        except BrokenPipeError:
            self._close(self.stdout)
        except OSError as error:
            self._close(self.stdout)
            raise _full(error) from error

    def words(self, text: str, level: int = INFO) -> None:
        """Write to standard error, if anybody can still read it. The journal is told of each line
        how urgent it is (`render/levels.py`), where that is not what it takes any line for."""
        if self.journald and level != INFO:
            text = "".join(f"<{level}>{line}" for line in text.splitlines(keepends=True))
        try:
            self._write(self.stderr, text)
        except OSError:
            self._close(self.stderr)

    def _write(self, stream: TextIO, text: str) -> None:
        if not text or id(stream) in self.closed:
            return
        try:
            stream.write(text)
            stream.flush()
        except BrokenPipeError:
            self._close(stream)

    def _close(self, stream: TextIO) -> None:
        """Never write to it again; what it still buffers goes nowhere."""
        self.closed.add(id(stream))
        if stream in (sys.__stdout__, sys.__stderr__):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def _full(error: OSError) -> OutputFailed:
    return OutputFailed(
        f"standard output cannot be written to: {error.strerror}",
        hint="free the disk it goes to, or send it elsewhere",
    )


def real_environment() -> Environment:
    """This process as it is."""
    signals = Signals()
    entropy = SystemEntropy()
    stdin = _stream(sys.stdin, "r")
    stdout = _stream(sys.stdout, "w")
    stderr = _stream(sys.stderr, "w")
    return Environment(
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        environ=os.environ,
        cwd=_cwd(os.environ),
        clock=SystemClock(),
        entropy=entropy,
        host=LinuxHost(entropy.token, end_process),
        stop=signals,
        login=user_name(os.getuid()),
        state_folder=_state_folder(os.environ),
        stdin_is_terminal=stdin.isatty(),
        stdout_is_terminal=stdout.isatty(),
        stderr_is_terminal=stderr.isatty(),
        journald=_is_journal(os.environ.get("JOURNAL_STREAM", "")),
        width=_width(os.environ),
        heed_signals=signals.install,
        program=_program(sys.argv[0], os.environ.get("PATH", "")),
        installation=_installation(sys.argv[0], os.environ),
        ahead=timedelta(seconds=time.localtime().tm_gmtoff),
        zone=_zone(os.environ),
        manager=_manager(os.environ),
    )


def silent_environment(stop: StopSignal, end: Callable[[Exception], None]) -> Environment:
    """This process as a library sees it: nothing is read, shown or handled, and a call is a
    holder of its own, so that two threads are two holders. `end` ends the process, see
    `end_process`."""
    entropy = SystemEntropy()
    return Environment(
        stdin=StringIO(),
        stdout=StringIO(),
        stderr=StringIO(),
        environ=os.environ,
        cwd=_cwd(os.environ),
        clock=SystemClock(),
        entropy=entropy,
        host=LinuxHost(entropy.token, end),
        stop=stop,
        login=user_name(os.getuid()),
        state_folder=_state_folder(os.environ),
    )


def _stream(stream: TextIO | None, mode: str) -> TextIO:
    """The stream, or nowhere when the caller closed it (`>&-`).

    A locale that lacks a letter must not cost the report of a whole night.
    """
    if stream is None:
        return cast("TextIO", Path(os.devnull).open(mode, encoding="utf-8"))
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream


def _program(called: str, path: str) -> str:
    """`reconcile` where that finds what was called; else the path it was called by, as a mail
    of cron's has to show it."""
    if not called.endswith(f"/{NAME}"):
        return NAME  # called as a module, or under a name of the caller's own
    for folder in path.split(os.pathsep):
        found = f"{folder}/{NAME}"
        if os.access(found, os.X_OK):
            return NAME if os.path.realpath(found) == os.path.realpath(called) else called
    return called


def _zone(environ: Mapping[str, str]) -> str:
    """The name of the host's time zone; UTC where it has none that Python could look up."""
    name = environ.get("TZ", "").removeprefix(":")
    if not name:
        with suppress(OSError):
            name = str(_LOCALTIME.readlink()).partition("/zoneinfo/")[2]
    return name if "/" in name and not name.startswith(("/", "Etc/")) else "UTC"


def _manager(environ: Mapping[str, str]) -> ServiceManager | None:
    if not environ.get("NOTIFY_SOCKET"):
        return None
    from .delivery.manager import ServiceManager

    return ServiceManager(environ, SystemClock())


def _installation(called: str, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The console script, as it was called or beside this Python; where Python and we are."""
    package = Path(__file__).parents[1]
    for path in (_cwd(environ) / called, Path(sys.executable).with_name(NAME)):
        if path.name == NAME and os.access(path, os.X_OK) and path.is_file():
            return (path, path.resolve(), Path(sys.prefix), Path(sys.base_prefix), package)
    return ()


def _cwd(environ: Mapping[str, str]) -> Path:
    """The current folder; the name it had where it was removed under us."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path(environ.get("PWD", "/"))


def end_process(error: Exception) -> None:
    """The last resort: no cleaning up, which could hang as well; so could a full pipe. Of two
    threads that call it one is heard."""
    from .exit_codes import ExitCode, exit_code_of_error

    code = exit_code_of_error(error) if isinstance(error, ReconcileError) else ExitCode.BUG
    _ENDING.acquire()
    try:
        _say_at_once(f"reconcile: {error}\n")
    finally:
        os._exit(code)


def _say_at_once(text: str) -> None:
    """Words, but not to a reader that is behind: so many bytes are taken at once, or none."""
    from select import PIPE_BUF, POLLOUT, poll

    stderr = poll()
    stderr.register(2, POLLOUT)
    if any(event & POLLOUT for _, event in stderr.poll(0)):
        os.write(2, text.encode("utf-8", "replace")[:PIPE_BUF])


def _is_journal(stream: str) -> bool:
    """systemd names the device and inode of the stream it connected to the journal."""
    try:
        facts = os.fstat(2)
    except OSError:
        return False
    return stream == f"{facts.st_dev}:{facts.st_ino}"


def _width(environ: Mapping[str, str]) -> int:
    columns = environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    for stream in (sys.__stdout__, sys.__stderr__):
        try:
            if stream is not None:
                return os.get_terminal_size(stream.fileno()).columns or 80
        except (OSError, ValueError):
            continue
    return 80


def _state_folder(environ: Mapping[str, str]) -> Path:
    """systemd's StateDirectory, else the user's state directory of the XDG specification."""
    if given := environ.get("STATE_DIRECTORY"):
        return Path(given.split(":")[0])
    if given := environ.get("XDG_STATE_HOME"):
        return Path(given) / "reconcile"
    return Path(environ.get("HOME", "/")) / ".local/state/reconcile"
