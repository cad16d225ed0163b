"""Bytes and texts gone wrong: what disks, networks, editors and people in a hurry do to files."""

from __future__ import annotations

import json
from collections.abc import Callable

from hypothesis import strategies as st

Mutation = tuple[str, float, float, bytes]
"""What is done, at which share of the length, over which share of it, with which bytes."""

_SHARE = st.floats(0, 1, allow_nan=False)
_INTERESTING = [b"\0", b"\n", b"\r\n", b'"', b",", b"\xff", b"\xef\xbb\xbf", b"1", b"a" * 300]
BYTES = st.one_of(st.binary(min_size=1, max_size=8), st.sampled_from(_INTERESTING))
KINDS = ("flip", "replace", "insert", "delete", "repeat", "splice", "cut")


def mutations(*kinds: str, most: int = 3) -> st.SearchStrategy[list[Mutation]]:
    """One to `most` mutations of the kinds named (default: all)."""
    kind = st.sampled_from(kinds or KINDS)
    return st.lists(st.tuples(kind, _SHARE, _SHARE, BYTES), min_size=1, max_size=most)


def mutated(content: bytes, how: list[Mutation]) -> bytes:
    """The content after all of them, in order."""
    for kind, at, span, data in how:
        start = int(at * len(content))
        end = min(len(content), start + 1 + int(span**4 * len(content)))
        content = _DO[kind](content, start, end, data)
    return content


def _flip(content: bytes, start: int, end: int, data: bytes) -> bytes:
    del end
    if start >= len(content):
        return content
    flipped = content[start] ^ (1 << (data[0] % 8))
    return content[:start] + bytes([flipped]) + content[start + 1 :]


def _splice(content: bytes, start: int, end: int, data: bytes) -> bytes:
    """A piece of the content stands where another did."""
    to = int(data[0] / 256 * len(content))
    piece = content[start:end]
    return content[:to] + piece + content[to + len(piece) :]


_DO: dict[str, Callable[[bytes, int, int, bytes], bytes]] = {
    "flip": _flip,
    "splice": _splice,
    "replace": lambda content, start, _, data: (
        content[:start] + data + content[start + len(data) :]
    ),
    "insert": lambda content, start, _, data: content[:start] + data + content[start:],
    "delete": lambda content, start, end, _: content[:start] + content[end:],
    "repeat": lambda content, start, end, _: content[:end] + content[start:],
    "cut": lambda content, start, _end, _data: content[:start],
}


# --- configurations


TEXTS = st.one_of(
    st.sampled_from(["5m", "0s", "36500d", "10%", "0%", "1e9%", "30 2 * * *", "@daily", "UTC", ""]),
    st.sampled_from(["csv", "sql", "exact", "casefold", "all", "level", "account_id", "utf-16"]),
    st.sampled_from(["{date}.csv", "{date:%Y", "{", "${HOME}", "${", "a.csv.gz", "x" * 2000]),
    st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), max_size=8),
)
"""Without a slash: a store is made where its path says."""

_NUMBERS = st.one_of(
    st.integers(-2, 12), st.sampled_from([2**31, 2**63, 10**30, -(10**30)]), st.floats()
)
_DATES = st.sampled_from(
    (
        "2026-11-01",
        "0001-01-01",
        "9999-12-31",
        "2026-11-01T02:30:00Z",
        "2026-11-01T02:30:00",
        "9999-12-31T23:59:59-14:00",
        "0001-01-01T00:00:00+14:00",
        "02:30:00",
    )
)


def _written(text: str) -> str:
    # JSON's escapes are TOML's, but for this letter.
    return json.dumps(text).replace("\x7f", "\\u007f")


def _listed(items: list[str]) -> str:
    return f"[{', '.join(items)}]"


def _tabled(items: list[str]) -> str:
    return f"{{{', '.join(f'k{n} = {item}' for n, item in enumerate(items))}}}"


VALUES: st.SearchStrategy[str] = st.recursive(
    st.one_of(TEXTS.map(_written), _NUMBERS.map(str), _DATES, st.sampled_from(["true", "false"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(_listed), st.lists(inner, max_size=3).map(_tabled)
    ),
    max_leaves=4,
)
"""A value as TOML writes it, of any type, sensible or not."""
