"""JSON Lines: one JSON object a line, in UTF-8 unless the source names another
encoding, each line ended by a line break.

Keys are columns. What the source must say is said by each object: a missing key is an error
and not NULL, because an export that lost a column would else be the truth of it; further
keys are ignored. Lines of nothing but white space are skipped.

Numbers are read as the text that is written, so that integers beyond 2^53 and decimals
lose nothing; in a text column `1.50` is the text `1.50`. `true` and `false` are the texts
of the canonical booleans. `null` is NULL, and so is a text listed in the source's `null`;
an empty text is what it is in a CSV file: NULL in a column that is not text. An object or
array in a compared column has no canonical text: its account is left alone, and named.

What other readers guess about is refused: a key that stands twice in one object, `NaN` and
`Infinity`, half of a surrogate pair or a NUL in an escape.
"""

from __future__ import annotations

from json import JSONDecodeError
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from .blocks import Writing, usable_encoding
from .json_text import Refused, decoder, kind_of, refuse_strange_text, value_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..config import SourceConfig
    from ..rows import Schema
    from .blocks import Block
    from .files import SourceFile

_BLANKS = " \t\r\n"


class JsonLinesFormat:
    """How the files of one source are written."""

    def __init__(self, config: SourceConfig) -> None:
        """Raises `ConfigError` for an encoding that cannot be read."""
        self._config = config
        self.writing = Writing(
            "JSON Lines",
            usable_encoding(config.encoding, "JSON Lines"),
            lambda data: data.rfind(b"\n") + 1,
            "an object that is not on a line of its own",
        )

    def open(self, file: SourceFile, schema: Schema) -> JsonRecords:
        """The file's records; nothing of it is read yet."""
        return JsonRecords(self._config, schema)


class JsonRecords:
    """A JSON Lines file. Implements `rows.Records`."""

    def __init__(self, config: SourceConfig, schema: Schema) -> None:
        names = [column.name for column in schema.columns]
        names[0] = config.account or names[0]
        self.readers = [value_reader(column.kind, config.null) for column in schema.columns]
        self._pick = _picker(names, config)
        self._decode = decoder().raw_decode

    def raw(self, block: Block) -> tuple[list[Any], int]:
        """See `rows.Records`."""
        rows = []
        # Not splitlines(): a JSON text may hold what Python takes for line breaks.
        for number, line in enumerate(block.text.split("\n"), block.line):
            text = line.strip(_BLANKS)
            if not text:
                continue
            try:
                value = self._value(text)
                rows.append(self._pick(value))
            except Refused as error:
                raise block.unusable(number, str(error), hint=error.hint) from error
            except JSONDecodeError as error:
                why = error.msg[:1].lower() + error.msg[1:]
                place = error.pos + line.find(text) + 1
                raise block.unusable(number, f"not JSON: {why} at character {place}") from error
            except RecursionError as error:
                raise block.unusable(number, "it is nested too deeply") from error
        return rows, 0

    def lines(self, block: Block) -> Sequence[int]:
        """See `rows.Records`."""
        lines = enumerate(block.text.split("\n"), block.line)
        return [number for number, line in lines if line.strip(_BLANKS)]

    def _value(self, text: str) -> dict[str, Any]:
        value, end = self._decode(text)
        if end != len(text):
            raise JSONDecodeError("Extra data", text, end)
        if type(value) is not dict:
            raise Refused(f"{kind_of(value)}, not an object", "write one JSON object on each line")
        if "\\u" in text:
            refuse_strange_text(value)
        return value


def _picker(
    names: Sequence[str], config: SourceConfig
) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    """What takes the columns out of an object."""
    keys = [
        [key for key, ours in config.rename.items() if ours == name]
        + ([name] if name not in config.rename else [])
        for name in names
    ]

    def slowly(value: dict[str, Any]) -> tuple[Any, ...]:
        found = []
        for name, candidates in zip(names, keys, strict=True):
            there = [key for key in candidates if key in value]
            if not there:
                lacks = " or ".join(map(repr, candidates)) or config.name_in_file(name)
                raise Refused(
                    f"it has no key {lacks}",
                    "export that key in each object, null where there is nothing; or map the"
                    " file's name to it with rename",
                )
            if len(there) > 1:
                raise Refused(
                    f"{' and '.join(map(repr, there))} are both {name}",
                    "look at the source's rename",
                )
            found.append(value[there[0]])
        return tuple(found)

    if len(names) == 1 or any(len(candidates) != 1 for candidates in keys):
        return slowly
    pick = itemgetter(*[candidates[0] for candidates in keys])

    def quickly(value: dict[str, Any]) -> tuple[Any, ...]:
        try:
            found: tuple[Any, ...] = pick(value)
            return found
        except KeyError:
            return slowly(value)

    return quickly
