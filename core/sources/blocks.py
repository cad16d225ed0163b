"""A file's text in blocks of whole records, strictly.

What a record is the format says (`whole`); all else is the same for each: a record ends in
a line break, the last one too, or it is taken for cut; it has at most `LONGEST` bytes; a
byte order mark is no part of the text; what does not decode, and a NUL, is no text. Each
is one error that names file and line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..errors import ConfigError, SourceUnusable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from .files import SourceFile

BLOCK = 1 << 17
"""Bytes read at a time: some thousands of short records."""

LONGEST = 1 << 20
"""Bytes that a record may have."""

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Writing:
    """How a kind of file is written.

    `kind` is its name for people, `encoding` keeps ASCII as it is. `whole` says where the
    last whole record of some bytes ends, 0 where there is none. `unclosed` is what may have
    run records into one.
    """

    kind: str
    encoding: str
    whole: Callable[[bytes], int]
    unclosed: str


@dataclass(frozen=True, slots=True)
class Block:
    """Whole records. `offset` in bytes and `line` (from 1) are where the first begins."""

    path: str
    text: str
    offset: int
    line: int
    writing: Writing
    unit: ClassVar[str] = "line"
    """What is counted, for messages."""

    def unusable(self, line: int, why: str, *, hint: str = "") -> SourceUnusable:
        """An error that names file and line."""
        return SourceUnusable(
            f"{self.path} {self.unit} {line}: {why}",
            hint=hint or f"export the file again, as {self.writing.kind}",
        )


def usable_encoding(name: str, kind: str) -> str:
    """The encoding's one name. `ConfigError` where ASCII is not what it is elsewhere."""
    ascii_bytes = bytes(range(128))
    try:
        keeps_ascii = ascii_bytes.decode(name) == ascii_bytes.decode("ascii")
        if keeps_ascii:
            from codecs import lookup

            return lookup(name).name
    except (LookupError, ValueError):
        pass
    raise ConfigError(
        f"{name!r} is no encoding that a {kind} file can be read in",
        hint='write one that keeps ASCII as it is, for example encoding = "utf-8" or "cp1252"',
    )


def blocks(
    file: SourceFile, stream: BinaryIO, writing: Writing, offset: int, line: int
) -> Iterator[Block]:
    """All blocks of a stream that stands at `offset`, where `line` begins.

    Raises `SourceUnusable` for what is no text and for a record that is cut or too long,
    so the end of the iteration is the end of the file.
    """
    rest = b""
    while data := file.read(stream, BLOCK):
        data = rest + data
        cut = writing.whole(data)
        if not cut:
            if len(data) > LONGEST:
                raise SourceUnusable(
                    f"{file.path} line {line}: the record is longer than {LONGEST:,} bytes",
                    hint=f"look for {writing.unclosed}",
                )
            rest = data
            continue
        whole, rest = data[:cut], data[cut:]
        yield _decoded(file.path, whole, writing, offset, line)
        offset += cut
        line += whole.count(b"\n")
    if rest:
        _decoded(file.path, rest, writing, offset, line)
        if rest.endswith(b"\n"):
            raise SourceUnusable(
                f"{file.path} line {line}: a quote in this record is never closed",
                hint='write a field with a quote in quotes, and double it: "5"" pipe"',
            )
        raise SourceUnusable(
            f"{file.path} line {line}: the last record is cut: it does not end in a line break",
            hint="look whether the export is complete; if it is, add the missing line break",
        )


def _decoded(path: str, data: bytes, writing: Writing, offset: int, line: int) -> Block:
    nul = data.find(b"\0")
    if nul >= 0:
        raise SourceUnusable(
            f"{path} line {line + data.count(10, 0, nul)}: a NUL byte; this is no text",
            hint=f"export the file as {writing.kind}, in UTF-8 or the encoding that the source"
            " names",
        )
    if offset == 0 and writing.encoding == "utf-8":
        data = data.removeprefix(_BOM)
    try:
        text = data.decode(writing.encoding)
    except UnicodeDecodeError as error:
        at = line + data.count(b"\n", 0, error.start)
        raise SourceUnusable(
            f"{path} line {at}: byte {data[error.start]:#04x} is no {writing.encoding} text",
            hint='set the source\'s encoding, for example encoding = "cp1252"',
        ) from error
    return Block(path, text, offset, line, writing)
