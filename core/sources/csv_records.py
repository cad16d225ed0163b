"""CSV text cut into records, strictly.

The dialect is RFC 4180 with a delimiter of one character: a field that holds a delimiter,
a quote or a line break stands in double quotes, a quote in it is doubled, lines end in LF
or CRLF, the last one too. Blank lines are skipped, as Python's csv module does. What other
readers guess about is refused: a quote within a field that does not begin with one, text
after a closing quote, a carriage return within a line, a NUL. A last line without its end
is taken for cut.

Because quotes are either openings, closings or doubled, a line break is one between
records exactly where the number of quotes before it is even. So a stream is read in blocks
and cut at the last such break, and a block without any quote, which is the usual one, is
split without looking at its characters one by one.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import SourceUnusable

if TYPE_CHECKING:
    from _csv import Reader
    from collections.abc import Iterator
    from typing import BinaryIO

    from .files import SourceFile

BLOCK = 1 << 17
"""Bytes read at a time: some thousands of short records."""

LONGEST = 1 << 20
"""Bytes that a record may have."""

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the file is written. `encoding` must keep ASCII as it is."""

    delimiter: str
    encoding: str


@dataclass(frozen=True, slots=True)
class Block:
    """Whole records. `offset` in bytes and `line` (from 1) are where the first begins."""

    path: str
    text: str
    offset: int
    line: int
    dialect: Dialect

    def records(self) -> list[list[str]]:
        """The fields of each record that is not blank. Raises `SourceUnusable`."""
        text = self.text
        if '"' in text:
            return self._quoted()
        if "\r" in text:
            text = text.replace("\r\n", "\n")
            at = text.find("\r")
            if at >= 0:
                line = self.line + text.count("\n", 0, at)
                raise self.unusable(line, "a carriage return stands within the line")
        lines = text.split("\n")
        lines.pop()
        if "\n\n" in text or text.startswith("\n"):
            lines = list(filter(None, lines))
        delimiter = self.dialect.delimiter
        return [line.split(delimiter) for line in lines]

    def line_of(self, index: int) -> int:
        """The line on which the record of that index begins; for messages, so it is slow."""
        reader, begins = self._reader(), self.line
        for record in reader:
            if record:
                if index == 0:
                    break
                index -= 1
            begins = self.line + reader.line_num
        return begins

    def unusable(self, line: int, why: str, *, hint: str = "") -> SourceUnusable:
        """An error that names file and line."""
        return SourceUnusable(
            f"{self.path} line {line}: {why}", hint=hint or "export the file again, as CSV"
        )

    def _quoted(self) -> list[list[str]]:
        parts = self.text.split('"')
        ends = (self.dialect.delimiter, "\n")
        if not all(not part or part.endswith(ends) for part in set(parts[:-1:2])):
            raise self._stray(parts, ends)
        reader = self._reader()
        try:
            return list(filter(None, reader))
        except csv.Error as error:
            raise self.unusable(self.line + reader.line_num - 1, str(error)) from error

    def _stray(self, parts: list[str], ends: tuple[str, str]) -> SourceUnusable:
        outside = (i for i in range(0, len(parts) - 1, 2) if parts[i])
        first = next(i for i in outside if not parts[i].endswith(ends))
        line = self.line + sum(part.count("\n") for part in parts[: first + 1])
        return self.unusable(
            line,
            "a quote stands within a field that does not begin with one, or after its end",
            hint='write the field in quotes and double the quote in it: "a ""b"" c"',
        )

    def _reader(self) -> Reader:
        if csv.field_size_limit() < LONGEST + BLOCK:
            csv.field_size_limit(LONGEST + BLOCK)
        lines = io.StringIO(self.text, newline="\n")
        return csv.reader(lines, delimiter=self.dialect.delimiter, strict=True)


def blocks(
    file: SourceFile, stream: BinaryIO, dialect: Dialect, offset: int, line: int
) -> Iterator[Block]:
    """All blocks of a stream that stands at `offset`, where `line` begins.

    Raises `SourceUnusable` for what is no text and for a record that is cut or too long,
    so the end of the iteration is the end of the file.
    """
    rest = b""
    while data := file.read(stream, BLOCK):
        data = rest + data
        cut = _last_break(data)
        if not cut:
            if len(data) > LONGEST:
                raise SourceUnusable(
                    f"{file.path} line {line}: the record is longer than {LONGEST:,} bytes",
                    hint="look for a quote that is never closed",
                )
            rest = data
            continue
        whole, rest = data[:cut], data[cut:]
        yield _decoded(file.path, whole, dialect, offset, line)
        offset += cut
        line += whole.count(b"\n")
    if rest:
        _decoded(file.path, rest, dialect, offset, line)
        if rest.endswith(b"\n"):
            raise SourceUnusable(
                f"{file.path} line {line}: a quote in this record is never closed",
                hint='write a field with a quote in quotes, and double it: "5"" pipe"',
            )
        raise SourceUnusable(
            f"{file.path} line {line}: the last record is cut: it does not end in a line break",
            hint="look whether the export is complete; if it is, add the missing line break",
        )


def _last_break(data: bytes) -> int:
    """Where the last whole record ends; 0 where there is none."""
    end = data.rfind(b"\n") + 1
    odd = data.count(b'"', 0, end) % 2
    while odd and end:
        quote = data.rfind(b'"', 0, end)
        before = data.rfind(b"\n", 0, quote) + 1
        odd = (odd + data.count(b'"', before, end)) % 2
        end = before
    return end


def _decoded(path: str, data: bytes, dialect: Dialect, offset: int, line: int) -> Block:
    nul = data.find(b"\0")
    if nul >= 0:
        raise SourceUnusable(
            f"{path} line {line + data.count(10, 0, nul)}: a NUL byte; this is no text",
            hint="export the file as CSV, in UTF-8 or the encoding that the source names",
        )
    if offset == 0 and dialect.encoding == "utf-8":
        data = data.removeprefix(_BOM)
    try:
        text = data.decode(dialect.encoding)
    except UnicodeDecodeError as error:
        at = line + data.count(b"\n", 0, error.start)
        raise SourceUnusable(
            f"{path} line {at}: byte {data[error.start]:#04x} is no {dialect.encoding} text",
            hint='set the source\'s encoding, for example encoding = "cp1252"',
        ) from error
    return Block(path, text, offset, line, dialect)
