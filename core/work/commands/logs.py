"""What commands print, kept in a file for each run: `logs/JOB/20261130T023000Z-000001.log`.

The files are this user's alone (0600), hold bytes as they came, and end at about 10 MiB: a log
that grows beyond a mebibyte is sealed under the offset at which it began, `….log.1048576`, and of
sealed parts the newest ten are kept. So whoever reads knows by the first part's name how much is
gone, also where a run was killed between two lines.

A log is for people. That it cannot be written does not stop the work; it is told once.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from ...model import Interval

PART = 1 << 20
PARTS = 10
"""So many sealed parts are kept, beside the one that grows."""
TAIL_LINES = 10
"""So many last lines go with the message that a command failed."""
LONGEST_TAIL_LINE = 400
_READ = 1 << 16


class Part(NamedTuple):
    """A file of a log, and where in the whole output it begins."""

    start: int
    path: Path


class Logs:
    """The logs of all jobs of a configuration."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, interval: Interval, run: int) -> Path:
        """Where the log of a run is, or would be."""
        instant = interval.scheduled_at.strftime("%Y%m%dT%H%M%SZ")
        return self.folder / interval.job / f"{instant}-{run:06d}.log"

    def open(self, interval: Interval, run: int) -> RunLog:
        """The log of a run, to be written."""
        return RunLog(self.path(interval, run))

    def drop_older(self, job: str, before: datetime) -> int:
        """Remove the files of a job that nobody has written to since; how many these were."""
        dropped = 0
        try:
            entries = list(os.scandir(self.folder / job))
        except OSError:
            return 0
        for entry in entries:
            if ".log" not in entry.name:
                continue
            with suppress(OSError):
                if entry.stat(follow_symlinks=False).st_mtime < before.timestamp():
                    Path(entry.path).unlink()
                    dropped += 1
        return dropped


class RunLog:
    """One log while it is written. `fault` says why it is not written any more."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fault: str | None = None
        self._file: int | None = None
        self._size = 0
        self._start = 0

    def write(self, data: bytes) -> None:
        """Add what came."""
        if self.fault is not None:
            return
        try:
            if self._file is None or self._size >= PART:
                self._begin_part()
            assert self._file is not None
            left = memoryview(data)
            while left:
                written = os.write(self._file, left)
                self._size += written
                left = left[written:]
        except OSError as error:
            self.fault = f"its output is not kept: {self.path}: {error.strerror}"
            self.close()

    def close(self) -> None:
        """Nothing more comes."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _begin_part(self) -> None:
        if self._file is None:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = parts(self.path)
            self._start = found[-1].start if found and found[-1].path == self.path else 0
        else:
            self.close()
            self.path.rename(f"{self.path}.{self._start}")
            self._start += self._size
            for old in parts(self.path)[:-PARTS]:
                old.path.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(self.path, flags, 0o600)
        self._size = os.fstat(self._file).st_size


def parts(path: Path) -> list[Part]:
    """The files of a log in order; empty where there is none."""
    found: list[Part] = []
    try:
        names = [one.name for one in path.parent.iterdir()]
    except OSError:
        return found
    for name in names:
        start = name.removeprefix(f"{path.name}.")
        if start != name and start.isdecimal():
            found.append(Part(int(start), path.parent / name))
    found.sort()
    if path.name in names:
        found.append(Part(_end(found[-1]) if found else 0, path))
    return found


def read(path: Path, position: int) -> Iterator[tuple[int, bytes]]:
    """The log from an offset on: pieces, each with the offset at which it begins, which is later
    than asked for where what was before is gone."""
    for part in parts(path):
        try:
            with part.path.open("rb") as file:
                at = max(part.start, position)
                file.seek(at - part.start)
                while data := file.read(_READ):
                    yield at, data
                    at += len(data)
                    position = at
        except FileNotFoundError:
            continue  # sealed, or dropped, since it was listed


def _end(part: Part) -> int:
    try:
        return part.start + part.path.stat().st_size
    except OSError:
        return part.start + PART


class Tail:
    """The last lines of an output."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque(maxlen=TAIL_LINES)
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """What came next."""
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-LONGEST_TAIL_LINE:]
        self._lines.extend(line[-LONGEST_TAIL_LINE:] for line in lines[-TAIL_LINES:])

    def lines(self) -> Sequence[str]:
        """As text, without empty ones at the end; what is no UTF-8 as escapes."""
        every = [*self._lines, *([self._rest] if self._rest else [])][-TAIL_LINES:]
        texts = [line.decode("utf-8", "backslashreplace").rstrip() for line in every]
        while texts and not texts[-1]:
            texts.pop()
        return texts
