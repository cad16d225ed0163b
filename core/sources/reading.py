"""Files, plain or gzip, as a source: one file, or one for each interval.

A dated file (its path names the interval) has a fingerprint: SHA-256 of the file's bytes
together with what its manifest says and everything that says how they are read. So a
changed file, and a changed setting, make a new plan; a copy, a `touch` or another
modification time does not. Packing the same rows again with gzip does. Hashing costs about
a fiftieth of reading. A live file has one too: a plan made from other bytes does not hold.

Rows are wanted in order of account, by code point (what ``LC_ALL=C sort`` does) or, where
the target's account is an integer, by value. A file in that order is streamed. Where it
turns out not to be, reading ends with `Unordered`, and begins anew from a spool, which
`spool.py` explains; while that is made, empty pages tell that reading goes on.

A page says where it begins (`Page.resume`): of a file its fingerprint, byte offset in the
unpacked file, line, and how many rows stand before; of a spool only that it is one, because
a spool is searched by account. What an earlier plan kept of a file that is known to be out
of order is no use (`Unordered`); what a plan kept of a spool makes one again where it is
gone. Said of another file it is ignored, and reading begins at the first row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ..endpoints import Unordered
from ..errors import SourceUnusable
from ..placeholders import is_dated
from ..rows import Page
from .blocks import blocks
from .files import SourceFile
from .manifest import read_manifest
from .rows import BEFORE_ALL, Rows
from .spooling import fill, sorter_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..config import SourceConfig
    from ..endpoints import Calls
    from ..model import Interval, Json
    from ..rows import Schema
    from .blocks import Block, Writing
    from .manifest import Manifest
    from .rows import Records
    from .spool import Draft, Spool, Spools


class Format(Protocol):
    """A kind of file, as one source's configuration has it."""

    writing: Writing

    def open(self, file: SourceFile, schema: Schema) -> Records:
        """Find the columns. Raises `SourceUnusable` where one is missing."""
        ...


class FileSource:
    """Files of one format. `spools` is where those that are not in order are sorted."""

    def __init__(
        self,
        config: SourceConfig,
        form: Format,
        spools: Spools,
        fill: Callable[[str, Interval], str],
    ) -> None:
        self._config = config
        self._format = form
        self._spools = spools
        self._fill = fill
        self.dated = is_dated(config.path)

    def describe(self, interval: Interval | None) -> str:
        """Type and path; the path's pattern where no interval is given."""
        path = self._config.path
        name = path if interval is None else self._fill(path, interval)
        return f"{self._config.type} {name}"

    def open(self, interval: Interval, schema: Schema, calls: Calls | None = None) -> FileReading:
        """Open the interval's file, and hold it against its manifest."""
        config = self._config
        file = SourceFile(self._fill(config.path, interval))
        try:
            manifest = None
            if config.manifest is not None:
                manifest = read_manifest(self._fill(config.manifest, interval))
            return FileReading(file, config, self._format, schema, manifest, self._spools)
        except BaseException:
            file.close()
            raise


class FileReading:
    """An open file. Implements `endpoints.Reading`."""

    def __init__(
        self,
        file: SourceFile,
        config: SourceConfig,
        form: Format,
        schema: Schema,
        manifest: Manifest | None,
        spools: Spools,
    ) -> None:
        """Raises `SourceUnusable` where the file lacks a column or is not what its manifest
        says."""
        _check_columns(file, config, schema)
        digest = file.digest()
        if manifest is not None:
            manifest.check_digest(file.path, digest)
        self._file = file
        self._writing = form.writing
        self._rows = Rows(form.open(file, schema), schema)
        self._schema = schema
        self._manifest = manifest
        self._may_be_empty = config.type == "csv" and config.fields is None
        self.fingerprint = _fingerprint(digest, config, schema, manifest)
        self._spools = spools
        self._unordered = spools.has(self.fingerprint)
        self._swept = False
        self._spool: Spool | None = None
        self._draft: Draft | None = None

    def pages(self, after: str | None = None, resume: Json = None) -> Iterator[Page]:
        """See `endpoints.Reading`. Pages that hold nothing above `after` are left out."""
        if not self._swept:
            self._swept = True
            self._spools.sweep(self.fingerprint)
        where = resume if isinstance(resume, dict) else {}
        if where.get("file") != self.fingerprint:
            where = {}
        above = None if after is None else self._schema.sort_value(after)
        if where.get("spool") or (self._unordered and not where):
            return self._from_spool(above)
        if self._unordered:
            raise Unordered
        return self._from_file(above, where)

    def close(self) -> None:
        """Close the file, and give up a spool that is not complete."""
        if self._draft is not None:
            self._draft.discard()
        if self._spool is not None:
            self._spool.close()
        self._file.close()

    # --- in order

    def _from_file(self, above: Any, where: dict[str, Json]) -> Iterator[Page]:
        last = BEFORE_ALL
        found = (where.get("offset"), where.get("line"), where.get("rows"))
        offset, line, rows = (n if isinstance(n, int) else 0 for n in found)
        try:
            for block in self._blocks(offset, line):
                before = rows
                page, last, count = self._rows.page(block, last)
                rows += count
                # Who wants one range only does not come to the end, where the whole is judged.
                self._file.check_unchanged()
                if (page.rows or page.bad) and (above is None or last.order > above):
                    if block.offset:
                        page.resume = {
                            "file": self.fingerprint,
                            "offset": block.offset,
                            "line": block.line,
                            "rows": before,
                        }
                    yield page
        except Unordered:
            self._unordered = True
            raise
        self._check_end(rows)

    def _blocks(self, offset: int = 0, line: int = 0) -> Iterator[Block]:
        stream = self._file.stream()
        self._file.skip_to(stream, offset)
        return blocks(self._file, stream, self._writing, offset, line or 1)

    def _check_end(self, rows: int) -> None:
        """What can only be said of the whole."""
        self._file.check_unchanged()
        if self._manifest is not None:
            self._manifest.check_rows(self._file.path, rows)
        if (
            not rows
            and not self._may_be_empty
            and not (self._manifest and self._manifest.rows == 0)
        ):
            raise SourceUnusable(
                f"{self._file.path} is empty, which is what an export that failed leaves",
                hint='export it again; a manifest with "rows": 0 says that it has to be empty',
            )

    # --- not in order

    def _from_spool(self, above: Any) -> Iterator[Page]:
        self._unordered = True
        begin: Json = {"file": self.fingerprint, "spool": True}
        if self._spool is None:
            yield Page([], begin)
            self._spool = self._spools.open(self.fingerprint)
        if self._spool is None:
            for _ in self._sorted():
                yield Page([], begin)
        assert self._spool is not None, "it was made"
        try:
            for rows, bad in self._spool.pages(above):
                yield Page(rows, begin, bad)
        except OSError as error:
            raise self._spools.refusal(error) from error

    def _sorted(self) -> Iterator[None]:
        """Make the spool; comes back every now and then."""
        draft: Draft | None = None
        try:
            draft = self._draft = self._spools.draft(self.fingerprint)
            sorter = sorter_for(draft, self._schema)
            rows = 0
            for block in self._blocks():
                items, count = self._rows.items(block)
                rows += count
                sorter.add(items, len(block.text))
                yield
            self._check_end(rows)
            yield from fill(draft, sorter, self._rows, self._schema)
            self._spool = draft.finish()
        except OSError as error:
            raise self._spools.refusal(error) from error
        finally:
            if draft is not None:
                draft.discard()


def _check_columns(file: SourceFile, config: SourceConfig, schema: Schema) -> None:
    if config.columns is None:
        return
    unlisted = [c.name for c in schema.columns[1:] if c.name not in config.columns]
    if unlisted:
        raise SourceUnusable(
            f"{file.path}: the target compares {', '.join(unlisted)}, "
            "which the source's columns do not list",
            hint="list the same columns for source and target",
        )


def _fingerprint(
    digest: bytes, config: SourceConfig, schema: Schema, manifest: Manifest | None
) -> str:
    from hashlib import sha256

    reading = (
        config.type,
        config.account,
        config.columns,
        config.null,
        sorted(config.rename.items()),
        config.delimiter,
        config.encoding,
        config.fields,
        manifest and (manifest.rows, manifest.sha256),
        [(column.name, column.kind.value) for column in schema.columns],
        schema.key,
        schema.policy.value,
    )
    found = sha256(digest + repr(reading).encode("utf-8", "surrogatepass"))
    return f"sha256:{found.hexdigest()}"
