"""CSV text cut into records, strictly.

The dialect is RFC 4180 with a delimiter of one character: a field that holds a delimiter,
a quote or a line break stands in double quotes, a quote in it is doubled, lines end in LF
or CRLF, the last one too. Blank lines are skipped, as Python's csv module does. What other
readers guess about is refused: a quote within a field that does not begin with one, text
after a closing quote, a carriage return within a line, a NUL.

Because quotes are either openings, closings or doubled, a line break is one between
records exactly where the number of quotes before it is even. So a stream is read in blocks
and cut at the last such break, and a block without any quote, which is the usual one, is
split without looking at its characters one by one.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from .blocks import BLOCK, LONGEST, Writing, usable_encoding

if TYPE_CHECKING:
    from _csv import Reader

    from ..errors import SourceUnusable
    from .blocks import Block


def writing(encoding: str) -> Writing:
    """How CSV files of an encoding are written. Raises `ConfigError`."""
    encoding = usable_encoding(encoding, "CSV")
    return Writing("CSV", encoding, _last_break, "a quote that is never closed")


def records(block: Block, delimiter: str) -> list[list[str]]:
    """The fields of each record that is not blank. Raises `SourceUnusable`."""
    text = block.text
    if '"' in text:
        return _quoted(block, delimiter)
    if "\r" in text:
        text = text.replace("\r\n", "\n")
        at = text.find("\r")
        if at >= 0:
            line = block.line + text.count("\n", 0, at)
            raise block.unusable(line, "a carriage return stands within the line")
    lines = text.split("\n")
    lines.pop()
    if "\n\n" in text or text.startswith("\n"):
        lines = list(filter(None, lines))
    return [line.split(delimiter) for line in lines]


def lines(block: Block, delimiter: str) -> list[int]:
    """The line on which each record begins; for messages, so it is slow."""
    reader, begins = _reader(block, delimiter), block.line
    found: list[int] = []
    for record in reader:
        if record:
            found.append(begins)
        begins = block.line + reader.line_num
    return found


def _quoted(block: Block, delimiter: str) -> list[list[str]]:
    parts = block.text.split('"')
    ends = (delimiter, "\n")
    if not all(not part or part.endswith(ends) for part in set(parts[:-1:2])):
        raise _stray(block, parts, ends)
    reader = _reader(block, delimiter)
    try:
        return list(filter(None, reader))
    except csv.Error as error:
        raise block.unusable(block.line + reader.line_num - 1, str(error)) from error


def _stray(block: Block, parts: list[str], ends: tuple[str, str]) -> SourceUnusable:
    outside = (i for i in range(0, len(parts) - 1, 2) if parts[i])
    first = next(i for i in outside if not parts[i].endswith(ends))
    line = block.line + sum(part.count("\n") for part in parts[: first + 1])
    return block.unusable(
        line,
        "a quote stands within a field that does not begin with one, or after its end",
        hint='write the field in quotes and double the quote in it: "a ""b"" c"',
    )


def _reader(block: Block, delimiter: str) -> Reader:
    if csv.field_size_limit() < LONGEST + BLOCK:
        csv.field_size_limit(LONGEST + BLOCK)
    lines = io.StringIO(block.text, newline="\n")
    return csv.reader(lines, delimiter=delimiter, strict=True)


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
