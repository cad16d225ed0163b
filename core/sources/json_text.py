"""JSON texts read strictly, by all sources that speak JSON.

Numbers are read as the text that is written, so that integers beyond 2^53 and decimals lose
nothing. What other readers guess about is refused: a key that stands twice in one object,
`NaN` and `Infinity`, half of a surrogate pair or a NUL in an escape.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..canonical import Unconvertible, reader

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ..rows import ColumnKind


class Refused(ValueError):
    """A text that is JSON and still not what was asked for; `hint` says what to mend."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.hint = hint


def decoder() -> json.JSONDecoder:
    """A decoder that raises `Refused` for what readers guess about."""
    return json.JSONDecoder(
        object_pairs_hook=_object,
        parse_int=str,
        parse_float=str,
        parse_constant=_constant,
    )


def whole_text(text: str) -> Any:
    """The value of a text that is one JSON value and nothing else. Raises `JSONDecodeError`,
    `Refused`, `RecursionError`."""
    value = decoder().decode(text)
    if "\\u" in text:
        refuse_strange_text(value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Refused(f"key {twice!r} stands twice in one object", "export each key once")
    return found


def _constant(name: str) -> Any:
    raise Refused(f"{name} is no JSON", "export a number, or null")


def refuse_strange_text(value: Any) -> None:
    """Escapes can write what the text itself was checked not to have. Raises `Refused`."""
    if type(value) is str:
        if "\0" in value:
            raise Refused("a NUL in a text", "export the text without \\u0000")
        try:
            value.encode()
        except UnicodeEncodeError as error:
            half = value[error.start]
            raise Refused(
                f"\\u{ord(half):04x} is half of a surrogate pair, and no character",
                "export the text in UTF-8, without escapes",
            ) from error
    elif type(value) is dict:
        for key, inner in value.items():
            refuse_strange_text(key)
            refuse_strange_text(inner)
    elif type(value) is list:
        for inner in value:
            refuse_strange_text(inner)


def value_reader(kind: ColumnKind, null: Collection[str]) -> Callable[[Any], str | None]:
    """What turns a value of an object into canonical text or NULL."""
    read = reader(kind, null)

    def convert(value: Any) -> str | None:
        if value is None:
            return None
        if type(value) is bool:
            value = "true" if value else "false"
        elif type(value) is not str:
            raise Unconvertible(json.dumps(value), kind, f"it is {kind_of(value)}")
        return value if read is None else read(value)

    return convert


def kind_of(value: Any) -> str:
    """What a value is, for messages."""
    if type(value) is dict:
        return "an object"
    if type(value) is list:
        return "an array"
    if value is None:
        return "null"
    return "true or false" if type(value) is bool else "a text or a number"
