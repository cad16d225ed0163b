"""The Lua scripts of the Redis store, as the server gets them.

A script goes to the server by the SHA-1 of its text, and whole when the server does not
know it (any more). Its first line, which says what it may do, must stay the first.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_LEASES = ("common",)
_RECORDS = ("common", "records")
_WRITES = ("common", "records", "writes")
_BEFORE: Mapping[str, tuple[str, ...]] = {
    "open": (),
    "adopt": _LEASES,
    "acquire": _LEASES,
    "renew": _LEASES,
    "release": _LEASES,
    "ask_stop": _LEASES,
    "lease": _LEASES,
    "take": _LEASES,
    "commit": _WRITES,
    "note": _WRITES,
    "get": _RECORDS,
    "scan": _RECORDS,
}


class Script(NamedTuple):
    """One script. `sha` is what the server calls it."""

    text: str
    sha: str


def load() -> Mapping[str, Script]:
    """All scripts by name."""
    return {name: script(text) for name, text in texts().items()}


def texts() -> dict[str, str]:
    """The text of each script, with the parts that go before it."""
    folder = Path(__file__).parent / "lua"
    parts = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.lua")}
    found = {}
    for name, before in _BEFORE.items():
        first, _, rest = parts[name].partition("\n")
        found[name] = "\n".join([first, *(parts[part] for part in before), rest])
    return found


def script(text: str) -> Script:
    """A script of that text."""
    from hashlib import sha1

    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())
