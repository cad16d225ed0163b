"""Placeholders of an interval in SQL: `WHERE day = {date}`.

They are the same as in paths (`core/placeholders.py`), and stand for a value that is *bound*: the
driver sends it beside the statement, so that it is a text whatever is in it. Within quotes it
would be none, so a placeholder there is refused; in a comment it is part of the comment. Other
braces are SQL's own, as in a JSON literal.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .errors import ConfigError
from .placeholders import check_word, fill_words, names_interval

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .model import Interval

_TOKENS = re.compile(
    r"""(?P<quoted>'(?:[^']|'')*' | "[^"]*" | `[^`]*`)
    | (?P<comment>--[^\n]* | /\*.*?\*/)
    | (?P<ours>\{(?:interval|date|yesterday)(?::[^{}]*)?\})""",
    re.VERBOSE | re.DOTALL,
)


def check(sql: str) -> None:
    """Refuse (`ConfigError`) placeholders that cannot be bound where they stand."""
    for text, ours in pieces(sql):
        if ours:
            check_word(text)


def is_dated(sql: str) -> bool:
    """Whether the statement is another for each interval."""
    return any(ours for _, ours in pieces(sql))


def bound(sql: str, interval: Interval) -> Iterator[tuple[str, bool]]:
    """Pieces of the statement, and values for an interval (True), in their order."""
    for text, ours in pieces(sql):
        yield (fill_words([text], interval)[0] if ours else text), ours


def pieces(sql: str) -> Iterator[tuple[str, bool]]:
    """Pieces of the statement, and placeholders (True), in their order. Raises `ConfigError`."""
    begin = 0
    for token in _TOKENS.finditer(sql):
        if token["quoted"] is not None and names_interval(token[0]):
            raise ConfigError(
                f"{token[0]} has a placeholder within quotes",
                hint="write it without quotes, as in WHERE day = {date}: its value is bound",
            )
        if token["ours"] is not None:
            yield sql[begin : token.start()], False
            yield token[0], True
            begin = token.end()
    yield sql[begin:], False
