"""Where something is in a JSON value: a small, strict subset of what path languages offer.

::

    data.items          the value of key `items` in the object under `data`
    "a.b".c             keys with dots, brackets or quotes in them stand in double quotes
    users[].grants      for rows: each grant of each user; the last array needs no []
    .                   the value itself
    ^id   ^^id          for values: of the item one (two) arrays further out

Whole query languages were left out on purpose: in those a key that is missing is nothing,
and whoever reads entitlements must not take nothing for an answer. Here a missing key, or
another kind of value than the path leads through, is an error that says so.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, TypeAlias

Keys: TypeAlias = tuple[str, ...]
Items: TypeAlias = tuple[Any, ...]
"""One row with what it is part of: the outermost item first, the row itself last."""

_KEY = re.compile(r'"((?:[^"\\]|\\.)*)"|([^."\[\]^\s][^."\[\]^]*)')


class PathError(ValueError):
    """A text that is no path."""


class Missing(LookupError):
    """A value has not what a path leads to; says what is there instead."""


class ValuePath(NamedTuple):
    """Where a value is: so many arrays further out, then key by key."""

    out: int
    keys: Keys


class RowsPath(NamedTuple):
    """Where rows are: the keys to each array, the outermost first."""

    arrays: tuple[Keys, ...]


def parse_value(text: str) -> ValuePath:
    """`account.id`, `^id`, `.`. Raises `PathError`."""
    inner = text.lstrip("^")
    out = len(text) - len(inner)
    if inner == ".":
        return ValuePath(out, ())
    return ValuePath(out, _keys(inner, text))


def parse_rows(text: str) -> RowsPath:
    """`data`, `users[].grants`; the empty text is the answer itself. Raises `PathError`."""
    parts = text.removesuffix("[]").split("[]")
    arrays = []
    for number, part in enumerate(parts):
        inner = part.removeprefix(".") if number else part
        arrays.append(_keys(inner, text) if inner else ())
    return RowsPath(tuple(arrays))


def _keys(text: str, whole: str) -> Keys:
    keys = []
    at = 0
    while True:
        match = _KEY.match(text, at)
        if match is None:
            raise PathError(f"{whole!r} is no path")
        quoted = match[1]
        keys.append(match[2] if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
        at = match.end()
        if at == len(text):
            return tuple(keys)
        if text[at] != ".":
            raise PathError(f"{whole!r} is no path")
        at += 1


def value_at(items: Items, path: ValuePath) -> Any:
    """The value of a row. Raises `Missing`."""
    if path.out >= len(items):
        raise Missing(f"is in no {path.out} arrays")
    return follow(items[-1 - path.out], path.keys)


def follow(value: Any, keys: Keys) -> Any:
    """The value under these keys. Raises `Missing`."""
    for at, key in enumerate(keys):
        if type(value) is not dict:
            where = ".".join(keys[:at])
            raise Missing(f"has {kind(value)}{' under ' + where if where else ''}, not an object")
        if key not in value:
            raise Missing(f"has no key {'.'.join(keys[: at + 1])}")
        value = value[key]
    return value


def rows_of(answer: Any, path: RowsPath) -> tuple[list[Items], list[Any]]:
    """The rows of an answer, and the items of its outermost array. Raises `Missing`."""
    first = _array(answer, path.arrays[0])
    rows: list[Items] = [(item,) for item in first]
    for keys in path.arrays[1:]:
        rows = [(*items, inner) for items in rows for inner in _array(items[-1], keys)]
    return rows, first


def _array(value: Any, keys: Keys) -> list[Any]:
    found = follow(value, keys)
    if type(found) is not list:
        where = ".".join(keys)
        raise Missing(f"has {kind(found)}{' under ' + where if where else ''}, not an array")
    return found


def kind(value: Any) -> str:
    """What a value is, for messages."""
    if value is None:
        return "null"
    names = {dict: "an object", list: "an array", bool: "true or false"}
    return names.get(type(value), "a text or a number")
