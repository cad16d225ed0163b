"""CSV files, with a header or with the names of their columns in the configuration."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ..canonical import reader
from ..errors import ConfigError, SourceUnusable
from .blocks import blocks
from .csv_records import lines, records, writing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..config import SourceConfig
    from ..rows import Schema
    from .blocks import Block
    from .files import SourceFile

_SEPARATORS = ('"', "\r", "\n", "\0")


class CsvFormat:
    """How the files of one source are written."""

    def __init__(self, config: SourceConfig) -> None:
        """Raises `ConfigError` for a delimiter that cannot be read."""
        if len(config.delimiter) != 1 or config.delimiter in _SEPARATORS:
            raise ConfigError(
                f"{config.delimiter!r} is no delimiter of a CSV file",
                hint='write one character, for example delimiter = ";"',
            )
        self._config = config
        self.writing = writing(config.encoding)

    def open(self, file: SourceFile, schema: Schema) -> CsvRecords:
        """Read the header. Raises `SourceUnusable` where a column is missing."""
        names = self._config.fields
        return CsvRecords(
            self._config,
            schema,
            self._header(file) if names is None else list(names),
            file.path,
        )

    def _header(self, file: SourceFile) -> list[str]:
        first = next(blocks(file, file.stream(), self.writing, 0, 1), None)
        found = records(first, self._config.delimiter) if first else []
        if found:
            return found[0]
        raise SourceUnusable(
            f"{file.path} is empty: it has no header", hint="export the file again"
        )


class CsvRecords:
    """A CSV file whose columns are known. Implements `rows.Records`."""

    def __init__(
        self, config: SourceConfig, schema: Schema, columns: Sequence[str], path: str
    ) -> None:
        """Raises `SourceUnusable` where the columns lack one of the schema."""
        self._delimiter = config.delimiter
        self._columns = list(columns)
        self._width = len(columns)
        self._has_header = config.fields is None
        names = [column.name for column in schema.columns]
        names[0] = config.account or names[0]
        at = _positions(columns, names, config, path)
        picked = itemgetter(*at)
        whole: Any = tuple
        self._pick: Callable[[list[str]], tuple[str, ...]] = (
            whole
            if at == list(range(self._width))
            else picked
            if len(at) > 1
            else lambda r: (r[at[0]],)
        )
        self.readers: Sequence[Callable[[Any], str | None] | None] = [
            reader(column.kind, config.null) for column in schema.columns
        ]

    def raw(self, block: Block) -> tuple[list[Any], int]:
        """See `rows.Records`."""
        found = records(block, self._delimiter)
        skipped = 0
        if block.offset == 0 and self._has_header:
            found, skipped = found[1:], 1
        if found and set(map(len, found)) != {self._width}:
            raise self._ragged(block, found, skipped)
        if self._has_header and self._columns[0] in block.text and self._columns in found:
            raise block.unusable(
                self.lines(block)[found.index(self._columns) + skipped],
                "the header stands here once more",
                hint="it looks like two files one after the other: export one",
            )
        return list(map(self._pick, found)), skipped

    def lines(self, block: Block) -> Sequence[int]:
        """See `rows.Records`."""
        return lines(block, self._delimiter)

    def _ragged(self, block: Block, found: list[list[str]], skipped: int) -> SourceUnusable:
        index = next(i for i, record in enumerate(found) if len(record) != self._width)
        count = len(found[index])
        says = "the header has" if self._has_header else "the source's fields are"
        return block.unusable(
            self.lines(block)[index + skipped],
            f"{count} field{'s' if count != 1 else ''} where {says} {self._width}",
            hint="look for a line that is cut, or a field with a delimiter that is not quoted",
        )


def _positions(
    columns: Sequence[str], names: Sequence[str], config: SourceConfig, path: str
) -> list[int]:
    ours = [config.rename.get(name, name) for name in columns]
    missing = [config.name_in_file(name) for name in names if name not in ours]
    if missing:
        if config.fields is not None:
            raise SourceUnusable(
                f"{path}: the source's fields have no {', '.join(missing)};"
                f" they are {', '.join(columns)}",
                hint="name that column in fields, where it stands in the file",
            )
        lacks, that = ("column", "that column") if len(missing) == 1 else ("columns", "them")
        raise SourceUnusable(
            f"{path} has no {lacks} {', '.join(missing)}; it has {', '.join(columns)}",
            hint=f"export {that}, or {'mend' if config.rename else 'write'} rename, which maps the"
            " file's names to ours; a file without a header needs fields",
        )
    doubled = [name for name in names if ours.count(name) > 1]
    if doubled:
        raise SourceUnusable(
            f"{path} has more than one column {', '.join(doubled)}",
            hint="name the columns of the header differently",
        )
    return [ours.index(name) for name in names]
