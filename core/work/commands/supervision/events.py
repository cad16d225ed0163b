"""What is asked of a supervisor, and what it tells. See the package for the protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LONGEST_LINE = 1 << 20
"""Bytes of a line of progress; more than that is no checkpoint."""

Why: TypeAlias = Literal[
    "itself", "terminated", "killed", "deadline", "holder", "signal", "supervisor"
]
"""What made a command end: *itself*; `terminate()` or `kill()`; its *deadline* was not extended;
its *holder* was gone; a *signal* to the supervisor; or the *supervisor* itself was killed, and so
how the command ended is not known."""


class Spec(NamedTuple):
    """A command to be run. `env` is all that it gets, but for the variables below.

    `argv[0]` is looked for in the `PATH` of `env` where it has no slash. `kill_after`: seconds
    between SIGTERM and SIGKILL. `run` and `holder` are the run id and the holder's token, by
    which processes are known as this command's (`RECONCILE_SUPERVISED`). `last_words`: the file in
    which the supervisor leaves the lines of progress that nobody had dealt with when the holder
    was gone, and those that came since; "" where it is not wanted.

    Added to `env`: `RECONCILE_PROGRESS_FD` (always one digit) and `RECONCILE_SUPERVISED`.
    Standard input is empty; standard output and standard error are one stream.
    """

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    kill_after: float
    run: str
    holder: str
    last_words: str = ""


class Output(NamedTuple):
    """Bytes of standard output and standard error, as they came; not cut at lines."""

    data: bytes


class ProgressLine(NamedTuple):
    """One line written to `RECONCILE_PROGRESS_FD`, without its line feed. A last one that lacks
    it comes too when the command has ended. `is_cut`: it was longer than `LONGEST_LINE` bytes,
    and only its beginning is here."""

    data: bytes
    is_cut: bool = False


class Process(NamedTuple):
    """A process by number and name, and why it could not be ended ("" where it was)."""

    pid: int
    name: str
    why: str = ""

    def __str__(self) -> str:
        told = f"{self.name} (pid {self.pid})"
        return f"{told}: {self.why}" if self.why else told


class NotExecuted(NamedTuple):
    """Why no program was begun. `errno` is the system call's; `what` is what failed: "cwd",
    "program", or "supervisor" (there was not even one to try it). `text` says it in words,
    with the path."""

    what: Literal["cwd", "program", "supervisor"]
    errno: int
    text: str


class Ended(NamedTuple):
    """The last event: the command and all its descendants are gone, but for `survivors`.

    One of `status` (0 … 255), `signal` and `not_executed` is given; none where `why` is
    "supervisor". `leftovers` are processes that outlived the command itself and were ended then.
    `survivors` could not be ended: another user's, or in a system call that does not return.
    `shortened` is the time between SIGTERM and SIGKILL, in seconds, where `kill_after` did not
    fit into the trust window; None where it did, or was not needed.
    """

    status: int | None
    signal: int | None
    not_executed: NotExecuted | None
    why: Why
    leftovers: tuple[Process, ...] = ()
    survivors: tuple[Process, ...] = ()
    shortened: float | None = None


Event: TypeAlias = Output | ProgressLine | Ended


class SupervisedCommand(Protocol):
    """A command that runs under a supervisor of its own. `Supervised(spec, deadline)` is one.

    `extend`, `terminate` and `kill` may be called from any thread, at any time, also once all
    is over; they do not wait. The others belong to the thread that made it.
    """

    def extend(self, deadline: float) -> None:
        """The lease was renewed: the trust window now ends at this reading of `CLOCK_BOOTTIME`
        in seconds, as `Clock.boot` gives it. One that is earlier than the last is heeded too."""
        ...

    def terminate(self) -> None:
        """SIGTERM to the command and its descendants, SIGKILL after `kill_after`, and in any case
        before the deadline. Asked again, it changes nothing."""
        ...

    def kill(self) -> None:
        """SIGKILL to all of it, now."""
        ...

    def events(self, timeout: float) -> Iterator[Event]:
        """What has come, waiting up to `timeout` seconds for the first; the iterator ends when
        nothing more is there yet. All output and progress come before `Ended`, which is the
        last, and is given once.

        Who does not ask makes the command wait once its pipes are full; nothing is lost, and
        the deadline is kept all the same. Raises RuntimeError for a defect of the supervisor.
        """
        ...

    def close(self) -> None:
        """End it (`kill`) unless that was so, wait until it is gone, and free everything. What
        it wrote and nobody asked for is lost."""
        ...
