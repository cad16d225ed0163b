"""An answer's JSON as rows: what is read of it, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any, ClassVar

from ...errors import SourceUnusable
from ...json_paths import (
    Missing,
    follow,
    parse_rows,
    parse_value,
    rows_of,
    value_at,
)
from ..blocks import Block, Writing
from ..json_text import Refused, value_reader, whole_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...config import SourceConfig
    from ...http_config import HttpConfig
    from ...json_paths import Items
    from ...rows import Schema

_LOOK = "look at what the address answers, for example with curl"
_WRITING = Writing("JSON", "utf-8", len, "an object that is never closed")


class Garbled(Exception):
    """An answer that is not what was asked for, as one that was cut: worth asking for again.
    `error` is what to say where it stays so."""

    def __init__(self, error: SourceUnusable) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True, slots=True)
class Answered(Block):
    """The rows of one answer. `path` says for messages which answer it was; `value` is all of
    it, `headers` those of the answer by lower-case name, `items` those of its outermost array,
    of which the listing is one."""

    value: Any = None
    headers: Mapping[str, str] = None  # type: ignore[assignment]
    rows: Sequence[Items] = ()
    items: Sequence[Any] = ()
    unit: ClassVar[str] = "row"

    def unusable(self, line: int, why: str, *, hint: str = "") -> SourceUnusable:
        """An error that names the answer and the row."""
        return SourceUnusable(f"{self.path} row {line}: {why}", hint=hint or _LOOK)

    def said(self, place: str) -> Any:
        """What the answer says at a JSON path or in `header:NAME`. Raises `Missing`."""
        name = header_name(place)
        if name is None:
            return follow(self.value, parse_value(place).keys)
        if name not in self.headers:
            raise Missing(f"has no header {name}")
        return self.headers[name]


def header_name(place: str) -> str | None:
    """The header that a place names, in lower case; None where it is a JSON path."""
    kind, mark, name = place.partition(":")
    return name.strip().lower() if kind == "header" and mark else None


class AnswerReader:
    """Reads the answers of one source. Implements `rows.Records`."""

    def __init__(self, config: SourceConfig, http: HttpConfig, schema: Schema) -> None:
        names = [column.name for column in schema.columns]
        names[0] = config.account or names[0]
        self.readers = [value_reader(column.kind, config.null) for column in schema.columns]
        self._paths = [_path(name, http) for name in names]
        self.asked: str | None = None
        """The account that was asked for, where a row need not say it."""
        self._says_account = names[0] in http.values or http.accounts is None
        self._rows = parse_rows(http.rows)
        self._where = http.rows

    def read(self, body: bytes, headers: Mapping[str, str], name: str) -> Answered:
        """The rows of an answer. Raises `Garbled`."""
        try:
            text = body.decode("utf-8-sig")
            value = whole_text(text)
        except (UnicodeDecodeError, JSONDecodeError, RecursionError) as error:
            what = f"{len(body):,} bytes" if body else "an empty body"
            told = SourceUnusable(f"{name} answers {what} that is no JSON", hint=_LOOK)
            raise Garbled(told) from error
        except Refused as error:
            raise Garbled(SourceUnusable(f"{name}: {error}", hint=error.hint)) from error
        try:
            rows, items = rows_of(value, self._rows)
        except Missing as error:
            told = SourceUnusable(
                f"{name}: the answer {error}",
                hint=f"source.rows is {self._where!r}: write where the rows are in the answer",
            )
            raise Garbled(told) from error
        return Answered(name, "", 0, 1, _WRITING, value, headers, rows, items)

    def raw(self, block: Block) -> tuple[list[Any], int]:
        """See `rows.Records`."""
        assert isinstance(block, Answered), "nothing else is read"
        found = []
        for number, items in enumerate(block.rows, 1):
            values = [] if self._says_account else [self.asked]
            for path, name in self._paths if self._says_account else self._paths[1:]:
                try:
                    values.append(value_at(items, path))
                except Missing as error:
                    raise block.unusable(
                        number,
                        f"{name} is not there: the row {error}",
                        hint="write in source.values where it is; null says that there is none",
                    ) from error
            if self.asked is not None and values[0] != self.asked:
                raise block.unusable(number, f"it is of {values[0]!r}, not of {self.asked!r}")
            found.append(tuple(values))
        return found, 0

    def lines(self, block: Block) -> Sequence[int]:
        """See `rows.Records`."""
        assert isinstance(block, Answered), "nothing else is read"
        return range(1, len(block.rows) + 1)


def _path(name: str, http: HttpConfig) -> tuple[Any, str]:
    """Where a column's value is: under its own name unless the configuration says."""
    from ...json_paths import ValuePath

    said = http.values.get(name)
    return (ValuePath(0, (name,)) if said is None else parse_value(said)), name
