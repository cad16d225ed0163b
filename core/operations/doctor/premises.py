"""What `doctor` asks of the host, as values and one Protocol. `cli/premises.py` answers it.

Everything is read: no file is written, no program called but `systemctl list-timers` and, where
the spool of crontabs may not be read, `crontab -l`, each for a bounded time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta


class FileFacts(NamedTuple):
    """A file or folder as this user sees it. `mode` are its permission bits."""

    path: str
    mode: int
    owner: str
    is_folder: bool
    readable: bool
    writable: bool
    executable: bool


class ZoneData(NamedTuple):
    """Releases of the time zone data, as `2026b`; "" for one whose release is not said, None where
    there is none. The system's goes first."""

    system: str | None
    package: str | None
    folder: str = ""


class Crontab(NamedTuple):
    """One table of cron's. `user` is whose lines they are; None: each line names one."""

    where: str
    text: str
    user: str | None


class Timer(NamedTuple):
    """A systemd timer with the service that it starts, drop-ins included. `instance` is what
    stands behind the `@` of a template's name. `active` None: nobody could say."""

    name: str
    text: str
    service: str
    enabled: bool
    active: bool | None = None
    instance: str = ""
    by_user: bool = False


class Callers(NamedTuple):
    """Whoever calls programs by the clock on this host. `unread`: what might, and may not be
    read by this user."""

    crontabs: Sequence[Crontab]
    timers: Sequence[Timer]
    unread: Sequence[str] = ()


class Called(NamedTuple):
    """What a command line calls: `run JOB`, or `run --all` (`job` None), with the configuration
    that it names."""

    job: str | None
    config: str | None


class Call(NamedTuple):
    """Something that calls jobs by the clock. `gap` is the longest time between two calls, None
    where that cannot be told; `off`: how to switch it on, where it is not."""

    where: str
    called: Called
    gap: timedelta | None
    off: str = ""


class Premises(Protocol):
    """The host that the command runs on."""

    @property
    def user(self) -> str:
        """The effective user's login name."""
        ...

    @property
    def is_root(self) -> bool:
        """Whether this user may do anything, so that rights say nothing."""
        ...

    def file(self, path: str) -> FileFacts | None:
        """A file or folder; None where it is not there or may not be looked at."""
        ...

    def free(self, folder: str) -> int | None:
        """Bytes that this user may still write there."""
        ...

    def program(self, name: str, folder: str) -> str | None:
        """Where a command is found that is called in a folder; None where it is not, or may not be
        executed."""
        ...

    def zones(self) -> ZoneData:
        """Which releases of the time zone data are there."""
        ...

    def callers(self) -> Callers:
        """Crontabs and timers."""
        ...

    def called(self, words: Sequence[str]) -> Called | None:
        """What the words after `reconcile` call; None for anything but jobs."""
        ...
