"""CSV files, plain or gzip, as a source.

A dated file (its path names the interval) has a fingerprint: SHA-256 of the file's bytes
together with everything that says how they are read. So a changed file, and a changed
setting, make a new plan; a copy, a `touch` or another modification time does not. Packing
the same rows again with gzip does. Hashing costs about a fiftieth of reading.

Rows must come in order of account, by code point (what ``LC_ALL=C sort`` does) or, where
the target's account is an integer, by value. They are checked while they are read.

A page says where it begins (`Page.resume`): byte offset in the unpacked file, line, and
which file that is true of. Said of another file it is ignored, and reading begins at the
first row.
"""

from __future__ import annotations

from operator import itemgetter, le
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

from ..canonical import Unconvertible, reader
from ..errors import ConfigError, SourceUnusable
from ..placeholders import is_dated
from ..rows import ColumnKind, Page
from .csv_records import Block, Dialect, blocks
from .files import SourceFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..config import SourceConfig
    from ..model import Interval, Json
    from ..rows import Row, Schema

_SEPARATORS = ('"', "\r", "\n", "\0")


class CsvSource:
    """One CSV file, or one for each interval."""

    def __init__(self, config: SourceConfig, fill: Callable[[str, Interval], str]) -> None:
        """Raises `ConfigError` for a delimiter or an encoding that cannot be read."""
        self._config = config
        self._fill = fill
        self._dialect = _dialect(config)
        self.dated = is_dated(config.path)

    def describe(self, interval: Interval | None) -> str:
        """Type and path; the path's pattern where no interval is given."""
        path = self._config.path
        return f"csv {path if interval is None else self._fill(path, interval)}"

    def open(self, interval: Interval, schema: Schema) -> CsvReading:
        """Open the interval's file and read its header."""
        file = SourceFile(self._fill(self._config.path, interval))
        try:
            return CsvReading(file, self._config, self._dialect, schema)
        except BaseException:
            file.close()
            raise


class CsvReading:
    """An open CSV file. Its `fingerprint` is of its bytes, for a live file too: a plan made
    from other bytes does not hold."""

    def __init__(
        self,
        file: SourceFile,
        config: SourceConfig,
        dialect: Dialect,
        schema: Schema,
    ) -> None:
        """Raises `SourceUnusable` where the header lacks a column."""
        self._file = file
        self._dialect = dialect
        self._rows = _Rows(_header(file, dialect), config, schema, file)
        self.fingerprint = _fingerprint(file, config, schema)

    def pages(self, after: str | None = None, resume: Json = None) -> Iterator[Page]:
        """See `endpoints.Reading`. Pages that hold nothing above `after` are left out."""
        offset, line = self._start(resume)
        stream = self._file.stream()
        self._file.skip_to(stream, offset)
        last = _BEFORE_ALL
        above: Any = None if after is None else self._rows.sort_value(after)
        for block in blocks(self._file, stream, self._dialect, offset, line):
            page, last = self._rows.page(block, last)
            if (page.rows or page.bad) and (above is None or last.order > above):
                if block.offset:
                    page.resume = {
                        "file": self.fingerprint,
                        "offset": block.offset,
                        "line": block.line,
                    }
                yield page
        self._file.check_unchanged()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _start(self, resume: Json) -> tuple[int, int]:
        if isinstance(resume, dict) and resume.get("file") == self.fingerprint:
            offset, line = resume.get("offset"), resume.get("line")
            if isinstance(offset, int) and isinstance(line, int):
                return offset, line
        return 0, 1


class _Last(NamedTuple):
    """The last account read: what it sorts by, its text, and why it is bad if it is."""

    order: Any
    account: str
    bad: str | None


_BEFORE_ALL = _Last(None, "", None)


class _Rows:
    """Records as canonical rows of the schema, in order."""

    def __init__(
        self, header: Sequence[str], config: SourceConfig, schema: Schema, file: SourceFile
    ) -> None:
        self._width = len(header)
        self._schema = schema
        names = [column.name for column in schema.columns]
        names[0] = config.account or names[0]
        at = _positions(header, names, config, file.path)
        picked = itemgetter(*at)
        whole: Any = tuple
        self._pick: Callable[[list[str]], Row] = (
            whole
            if at == list(range(self._width))
            else picked
            if len(at) > 1
            else lambda r: (r[at[0]],)
        )
        self._readers = [reader(column.kind, config.null) for column in schema.columns]
        self._convert = any(self._readers)
        self._numeric = schema.account.kind is ColumnKind.INTEGER
        self._sort = _how_to_sort(file, config.delimiter, at[0] + 1, numeric=self._numeric)
        self.sort_value = schema.sort_value

    def page(self, block: Block, last: _Last) -> tuple[Page, _Last]:
        """The block's rows, and its last account."""
        records = block.records()
        skipped = 0
        if block.offset == 0:
            records, skipped = records[1:], 1
        if not records:
            return Page([]), last
        if set(map(len, records)) != {self._width}:
            raise self._ragged(block, records, skipped)
        rows: list[Row] = list(map(self._pick, records))
        bad: dict[str, str] = {}
        accounts: list[Any] = [row[0] for row in rows]
        if self._convert:
            rows, accounts, bad = self._converted(block, rows, skipped)
        if accounts and accounts[0] == "":  # in order of accounts it would come first
            raise self._nobody(block, skipped, f"{self._schema.columns[0].name} is empty")
        order = list(map(int, accounts)) if self._numeric else accounts
        if (last.account and last.order > order[0]) or not all(map(le, order, order[1:])):
            raise self._unordered(block, order, accounts, last, skipped)
        if last.bad and last.account == accounts[0]:
            bad.setdefault(last.account, last.bad)
        if bad:
            rows = [row for row in rows if row[0] not in bad]
        return Page(rows, None, bad), _Last(order[-1], accounts[-1], bad.get(accounts[-1]))

    def _converted(
        self, block: Block, raw: list[Row], skipped: int
    ) -> tuple[list[Row], list[str], dict[str, str]]:
        rows: list[Row] = []
        accounts: list[str] = []
        bad: dict[str, str] = {}
        first, *others = self._readers
        for index, fields in enumerate(raw):
            values: list[str | None] = list(fields)
            try:
                account = values[0] = first(values[0] or "") if first else values[0]
            except Unconvertible as error:
                raise block.unusable(block.line_of(index + skipped), f"account {error}") from error
            if account is None:
                raise self._null(block, index + skipped, 0)
            accounts.append(account)
            at = 0
            try:
                for at, read in enumerate(others, 1):
                    if read is not None:
                        values[at] = read(values[at] or "")
            except Unconvertible as error:
                line = block.line_of(index + skipped)
                name = self._schema.columns[at].name
                bad.setdefault(account, f"line {line}: {name} {error}")
                continue
            for at in self._schema.key:
                if values[at] is None:
                    raise self._null(block, index + skipped, at)
            rows.append(tuple(values))
        return rows, accounts, bad

    def _null(self, block: Block, index: int, at: int) -> SourceUnusable:
        return self._nobody(block, index, f"{self._schema.columns[at].name} is NULL")

    @staticmethod
    def _nobody(block: Block, index: int, what: str) -> SourceUnusable:
        return block.unusable(
            block.line_of(index),
            f"{what}, which says of nobody what they have",
            hint="leave such rows out of the export",
        )

    def _ragged(self, block: Block, records: list[list[str]], skipped: int) -> SourceUnusable:
        index = next(i for i, record in enumerate(records) if len(record) != self._width)
        count = len(records[index])
        return block.unusable(
            block.line_of(index + skipped),
            f"{count} field{'s' if count != 1 else ''} where the header has {self._width}",
            hint="look for a line that is cut, or a field with a delimiter that is not quoted",
        )

    def _unordered(
        self, block: Block, order: list[Any], accounts: list[str], last: _Last, skipped: int
    ) -> SourceUnusable:
        pairs = [(last.order, last.account)] if last.account else []
        pairs += zip(order, accounts, strict=True)
        at = next(i for i in range(1, len(pairs)) if pairs[i - 1][0] > pairs[i][0])
        index = at - 1 if last.account else at
        return block.unusable(
            block.line_of(index + skipped),
            f"account {pairs[at][1]!r} comes after {pairs[at - 1][1]!r}: the file is not in order",
            hint=f"sort it by account: {self._sort}",
        )


def _how_to_sort(file: SourceFile, delimiter: str, field: int, *, numeric: bool) -> str:
    """The command that sorts a file without quotes and keeps its header."""
    path, target = quote(file.path), quote(file.path.removesuffix(".gz") + ".sorted")
    order = f"sort -s{'n' if numeric else ''} -t {quote(delimiter)} -k {field},{field}"
    read = "zcat" if file.gzip else "cat"
    return f'{read} {path} | (IFS= read -r h; echo "$h"; LC_ALL=C {order}) > {target}'


def _dialect(config: SourceConfig) -> Dialect:
    if len(config.delimiter) != 1 or config.delimiter in _SEPARATORS:
        raise ConfigError(
            f"{config.delimiter!r} is no delimiter of a CSV file",
            hint='write one character, for example delimiter = ";"',
        )
    ascii_bytes = bytes(range(128))
    try:
        keeps_ascii = ascii_bytes.decode(config.encoding) == ascii_bytes.decode("ascii")
        if keeps_ascii:
            from codecs import lookup

            return Dialect(config.delimiter, lookup(config.encoding).name)
    except (LookupError, ValueError):
        pass
    raise ConfigError(
        f"{config.encoding!r} is no encoding that a CSV file can be read in",
        hint='write one that keeps ASCII as it is, for example encoding = "utf-8" or "cp1252"',
    )


def _header(file: SourceFile, dialect: Dialect) -> list[str]:
    first = next(blocks(file, file.stream(), dialect, 0, 1), None)
    records = first.records() if first else []
    if records:
        return records[0]
    raise SourceUnusable(f"{file.path} is empty: it has no header", hint="export the file again")


def _positions(
    header: Sequence[str], names: Sequence[str], config: SourceConfig, path: str
) -> list[int]:
    ours = [config.rename.get(name, name) for name in header]
    if config.columns is not None:
        unlisted = [name for name in names[1:] if name not in config.columns]
        if unlisted:
            raise SourceUnusable(
                f"{path}: the target compares {', '.join(unlisted)}, "
                "which the source's columns do not list",
                hint="list the same columns for source and target",
            )
    missing = [name for name in names if name not in ours]
    if missing:
        raise SourceUnusable(
            f"{path} has no column {', '.join(missing)}; it has {', '.join(header)}",
            hint="export that column, or map the file's name to it with rename",
        )
    doubled = [name for name in names if ours.count(name) > 1]
    if doubled:
        raise SourceUnusable(
            f"{path} has more than one column {', '.join(doubled)}",
            hint="name the columns of the header differently",
        )
    return [ours.index(name) for name in names]


def _fingerprint(file: SourceFile, config: SourceConfig, schema: Schema) -> str:
    from hashlib import sha256

    reading = (
        config.account,
        config.columns,
        config.null,
        sorted(config.rename.items()),
        config.delimiter,
        config.encoding,
        [(column.name, column.kind.value) for column in schema.columns],
        schema.key,
    )
    digest = sha256(file.digest() + repr(reading).encode("utf-8", "surrogatepass"))
    return f"sha256:{digest.hexdigest()}"
