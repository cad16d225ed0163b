"""One file read as it was when it was opened.

The file is opened once and read through that one descriptor, so a file that is *replaced*
under its name meanwhile (the usual `mv new.csv export.csv`) does no harm: what is read is
all of the old one. A file that is *changed* in place is noticed by its size and time of
modification, compared at the end of reading with those at opening.

gzip is recognised by its first bytes, whatever the name.
"""

from __future__ import annotations

import io
import os
import stat
import zlib
from errno import ENXIO
from typing import TYPE_CHECKING, NoReturn

from ..errors import AccessDenied, SourceUnreachable, SourceUnusable

if TYPE_CHECKING:
    from typing import Any, BinaryIO, TypeAlias

    Buffer: TypeAlias = Any  # typing_extensions.Buffer; collections.abc has it from 3.12 on

_GZIP = b"\x1f\x8b"


class SourceFile:
    """An open file; `path` is for messages."""

    def __init__(self, path: str) -> None:
        """Raises `SourceUnreachable` (missing too), `AccessDenied`, `SourceUnusable`."""
        self.path = path
        try:
            # NONBLOCK: opening a fifo would otherwise wait for its writer.
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError) as error:
            _refuse_open(path, error)
        try:
            self._stat = os.fstat(self._fd)
            if not stat.S_ISREG(self._stat.st_mode):
                raise _no_file(path, _kind(self._stat.st_mode))
            self.gzip = os.pread(self._fd, 2, 0) == _GZIP
            if path.endswith(".gz") and not self.gzip:
                raise SourceUnusable(
                    f"{path} is not gzip, whatever its name says",
                    hint="look whether the export failed, or rename the file",
                )
        except BaseException:
            self.close()
            raise

    @property
    def identity(self) -> str:
        """Cheap name of this state of this file on this host."""
        s = self._stat
        return f"{s.st_dev}-{s.st_ino}-{s.st_size}-{s.st_mtime_ns}"

    def digest(self) -> bytes:
        """SHA-256 of the file's bytes as they lie on the disk."""
        from hashlib import file_digest

        try:
            return file_digest(self._buffered(), "sha256").digest()
        except OSError as error:
            raise _unreadable(self.path, error) from error

    def stream(self) -> BinaryIO:
        """The content, unpacked, from its beginning; independent of other streams."""
        if self.gzip:
            from gzip import GzipFile

            return GzipFile(fileobj=self._buffered(), mode="rb")  # type: ignore[return-value]
        return self._buffered()

    def read(self, stream: BinaryIO, size: int) -> bytes:
        """Up to `size` bytes of a stream; empty at its end. Raises `SourceUnusable` for a
        damaged or cut gzip file, `SourceUnreachable` where the disk fails."""
        try:
            return stream.read(size)
        except EOFError as error:
            raise SourceUnusable(
                f"{self.path} is cut short: the gzip stream has no end",
                hint="copy or export the file again",
            ) from error
        except (OSError, zlib.error) as error:
            if isinstance(error, zlib.error) or error.errno is None:
                raise SourceUnusable(
                    f"{self.path} is damaged: {error}", hint="copy or export the file again"
                ) from error
            raise _unreadable(self.path, error) from error

    def skip_to(self, stream: BinaryIO, offset: int) -> None:
        """Go on at an offset of the unpacked content. Errors as `read`."""
        if not self.gzip:
            stream.seek(offset)
            return
        while (rest := offset - stream.tell()) > 0 and self.read(stream, min(rest, _STEP)):
            pass

    def check_unchanged(self) -> None:
        """Raises `SourceUnusable` when the file was written to since it was opened."""
        now = os.fstat(self._fd)
        before = self._stat
        if (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            raise SourceUnusable(
                f"{self.path} was written to while it was read",
                hint="write exports to another name and rename them when they are complete",
            )

    def close(self) -> None:
        """Close the file. Harmless when repeated."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _buffered(self) -> io.BufferedReader:
        return io.BufferedReader(_At(self._fd), _STEP)


_STEP = 1 << 17


class _At(io.RawIOBase):
    """Reads a descriptor at its own position, so that several streams share it."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._fd = fd
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        count = os.preadv(self._fd, [buffer], self._at)
        self._at += count
        return count

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_SET:
            self._at = offset
        elif whence == io.SEEK_CUR:
            self._at += offset
        else:
            self._at = os.fstat(self._fd).st_size + offset
        return self._at


def _refuse_open(path: str, error: OSError | ValueError) -> NoReturn:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        raise SourceUnreachable(
            f"{path} does not exist", hint="look whether the export ran, and the source's path"
        ) from error
    if isinstance(error, PermissionError):
        raise AccessDenied(
            f"{path} may not be read by this user", hint=f"let this user read it: ls -l {path}"
        ) from error
    if isinstance(error, OSError) and error.errno == ENXIO:
        raise _no_file(path, "a socket, or a device that is not there") from error
    raise _unreadable(path, error) from error


def _no_file(path: str, what: str) -> SourceUnusable:
    return SourceUnusable(
        f"{path} is {what}, not a file", hint="set the source's path to a regular file"
    )


def _unreadable(path: str, error: OSError | ValueError) -> SourceUnreachable:
    why = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return SourceUnreachable(
        f"{path} cannot be read: {why}", hint="look at the disk or mount that the file is on"
    )


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a device"
