"""A source that is not in order, sorted into a local file: its *spool*.

Reading a source goes on without one while the source is in order. When it turns out not to
be, planning, which has written nothing to the target, begins anew from a spool. A spool
holds what the source's rows became: canonical rows in the schema's order, all of one account
in one page, and the accounts that are bad, with the reason. It is named by the reading's
fingerprint, so a run that was killed finds it again, and one whose source has changed does
not. How rows are sorted says `sorting.py`.

The file ::

    reconcile spool 1 FINGERPRINT       a line
    [[row, …], {account: reason, …}]    a line for each page
    [[offset, order], …]                a line: where pages begin, and what their first account
                                        sorts by
    8 bytes, 32 bytes                   offset of that line; SHA-256 of all before these 32

It is written under another name, synced and renamed, and read only after its digest was
found right: one that a kill or a disk left short or changed is made anew, never believed.

The folder lies beside the store and is there only while a spool is in it. Names begin with
the job's, so two jobs never touch each other's. Two processes of one job, of which one has
lost its lease, write under names of their own; what one removes the other may still read,
because Linux keeps an open file. A run of the job removes what earlier ones left behind
before it reads, and everything when its interval ended.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from contextlib import suppress
from errno import EIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import AccessDenied, SourceUnreachable
from .sorting import encode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from ..rows import Row

PAGE = 1 << 16
"""Characters of a page, more or less."""

_MAGIC = "reconcile spool 1"
_DIGEST, _OFFSET = 32, 8
_TRIES = 20
"""So often the folder is made; another job may remove it, empty, right after."""


class Spools:
    """Where the spools of one job are. Nothing is made before it is needed."""

    def __init__(self, folder: Path, job: str) -> None:
        self._folder = folder
        self._prefix = f"{job}."

    def has(self, fingerprint: str) -> bool:
        """Whether there is one for that reading, whole or not, that this user may see."""
        with suppress(OSError):
            return self._path(fingerprint).exists()
        return False

    def open(self, fingerprint: str) -> Spool | None:
        """The spool of that reading; None where there is none that can be believed.

        Raises `SourceUnreachable`, `AccessDenied`.
        """
        try:
            fd = os.open(self._path(fingerprint), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self.refusal(error) from error
        file = os.fdopen(fd, "rb")
        try:
            return Spool(file, fingerprint)
        except (ValueError, TypeError):  # as it was never written by us
            file.close()
            return None
        except OSError as error:
            file.close()
            raise self.refusal(error) from error

    def draft(self, fingerprint: str) -> Draft:
        """Begin a new one. Raises `OSError`, see `refusal`."""
        for _ in range(_TRIES):
            with suppress(FileNotFoundError):
                self._folder.mkdir(mode=0o700, exist_ok=True)
                return Draft(self._folder, self._prefix, self._path(fingerprint), fingerprint)
        raise FileNotFoundError(2, "another program keeps removing it", str(self._folder))

    def sweep(self, keep: str = "", *beside: Path) -> None:
        """Remove what earlier runs of the job left, but for the spool of one reading, and
        files `beside` it."""
        kept = {self._path(keep).name if keep else "", *(path.name for path in beside)}
        try:
            names = [entry.name for entry in os.scandir(self._folder)]
        except OSError:
            return  # the usual case: there is none
        for name in names:
            if name.startswith(self._prefix) and name not in kept:
                with suppress(OSError):  # it misleads nobody; the next run tries again
                    (self._folder / name).unlink()
        with suppress(OSError):
            self._folder.rmdir()

    def place(self, name: str) -> Path:
        """Where another file of this job is kept, which `sweep` removes too. Makes the folder.
        Raises `OSError`."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        return self._folder / f"{self._prefix}{name}"

    def spool_path(self, fingerprint: str) -> Path:
        """Where the spool of that reading is kept."""
        return self._path(fingerprint)

    def refusal(self, error: OSError) -> SourceUnreachable | AccessDenied:
        """What to tell people of a spool that could not be written or read."""
        why = error.strerror or str(error)
        what = f"the source is not in order, and cannot be sorted in {self._folder}: {why}"
        rather = "or export it in order of account"
        if isinstance(error, PermissionError):
            return AccessDenied(what, hint=f"let this user write there, {rather}")
        return SourceUnreachable(what, hint=f"see df -h {self._folder.parent}, {rather}")

    def _path(self, fingerprint: str) -> Path:
        return self._folder / f"{self._prefix}{fingerprint.rpartition(':')[2]}.spool"


class Draft:
    """A spool that is being written, and the scratch file for sorting it. Both have mode
    0600. Errors of the disk are `OSError`."""

    def __init__(self, folder: Path, prefix: str, path: Path, fingerprint: str) -> None:
        from hashlib import sha256
        from tempfile import TemporaryFile, mkstemp

        self._path = path
        self._fingerprint = fingerprint
        self._index: list[tuple[int, Any]] = []
        self._digest = sha256()
        self._offset = 0
        fd, name = mkstemp(prefix=prefix, suffix=".tmp", dir=folder)
        self._temporary: Path | None = Path(name)
        self._file = os.fdopen(fd, "w+b")
        try:
            # It has no name, so a kill leaves nothing of it.
            self.scratch: BinaryIO = TemporaryFile(dir=folder)  # noqa: SIM115
            self._write(f"{_MAGIC} {fingerprint}\n".encode())
        except BaseException:
            self.discard()
            raise

    def add(self, rows: list[Row], bad: dict[str, str], order: Any) -> None:
        """One more page; `order` is what its first account sorts by."""
        self._index.append((self._offset, order))
        self._write(encode([rows, bad]).encode() + b"\n")

    def finish(self) -> Spool:
        """Make it complete and found by others; it is open for reading."""
        at = self._offset
        self._write(encode(self._index).encode() + b"\n")
        self._write(at.to_bytes(_OFFSET, "big"))
        self._file.write(self._digest.digest())
        self._file.flush()
        os.fsync(self._file.fileno())
        assert self._temporary is not None, "it is finished once"
        # Without its name it serves this run as well: a successor has swept it away.
        with suppress(FileNotFoundError):
            self._temporary.rename(self._path)
            _sync_folder(self._path.parent)
        self._temporary = None
        self.scratch.close()
        try:
            return Spool(self._file, self._fingerprint)
        except ValueError as error:
            raise OSError(EIO, "it reads back otherwise than it was written") from error

    def discard(self) -> None:
        """Give it up, if it is not complete. Harmless when repeated."""
        if self._temporary is not None:
            with suppress(OSError):
                self._temporary.unlink()
            self._temporary = None
            for file in (self._file, getattr(self, "scratch", None)):
                if file is not None:
                    with suppress(OSError):  # what is not written any more is not wanted
                        file.close()

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._digest.update(data)
        self._offset += len(data)


class Spool:
    """A complete spool. Any number of readers may read it at a time."""

    def __init__(self, file: BinaryIO, fingerprint: str) -> None:
        """Raises `ValueError` or `TypeError` where it is not whole, or another's."""
        self._file = file
        body = os.fstat(file.fileno()).st_size - _DIGEST
        if body < _OFFSET:
            raise ValueError("it is cut")
        file.seek(0)
        if _digest_of(file, body) != os.pread(file.fileno(), _DIGEST, body):
            raise ValueError("it is damaged")
        at = int.from_bytes(os.pread(file.fileno(), _OFFSET, body - _OFFSET), "big")
        head = f"{_MAGIC} {fingerprint}\n".encode()
        if os.pread(file.fileno(), len(head), 0) != head:
            raise ValueError("it is another's")
        index = json.loads(os.pread(file.fileno(), body - _OFFSET - at, at))
        self._orders = [order for _, order in index]
        self._offsets = [offset for offset, _ in index] + [at]

    def pages(self, above: Any) -> Iterator[tuple[list[Row], dict[str, str]]]:
        """Pages from the last one on that does not begin above `above` (None: all), which is
        what accounts sort by. Raises `OSError`."""
        first = 0 if above is None else max(0, bisect_right(self._orders, above) - 1)
        for at in range(first, len(self._orders)):
            begin, end = self._offsets[at], self._offsets[at + 1]
            rows, bad = json.loads(os.pread(self._file.fileno(), end - begin, begin))
            yield list(map(tuple, rows)), bad

    def close(self) -> None:
        """Close the file. Harmless when repeated."""
        self._file.close()


def _digest_of(file: BinaryIO, size: int) -> bytes:
    from hashlib import sha256

    digest = sha256()
    while size and (data := file.read(min(size, 1 << 20))):
        digest.update(data)
        size -= len(data)
    return digest.digest()


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
