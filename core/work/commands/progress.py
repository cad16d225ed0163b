"""What a command says on its progress pipe: one JSON object a line.

``cursor``             where the next call goes on: any JSON value; this makes the line a checkpoint
``count``, ``checksum``  of all that this call's range is about, as far as it is done; the newest
                       stand. A whole number, and a text
``expected_count``, ``expected_checksum``  what they have to be in the end; until then the interval
                       does not complete
``progress``           anything; it only shows that work goes on

Any other key is refused, and so is a line that is no such object: a misspelt cursor would be work
that is done again after each kill, and nobody would know why.

Numbers of a cursor are kept as they were written, so that one of any size comes back as it was.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import ProgressUnusable

if TYPE_CHECKING:
    from ...model import JsonObject

LONGEST_CURSOR = 64 * 1024
"""Bytes of a cursor as JSON: it is handed on in the environment, where one variable has 128 KiB."""
LONGEST_CHECKSUM = 1000
KEYS = ("cursor", "count", "checksum", "expected_count", "expected_checksum", "progress")


class Standing(NamedTuple):
    """How far an interval is, as its record keeps it.

    `done` ranges of `ranges` (None: it is called once) have ended well; `cursor` is the JSON text
    of the one under way, "" before its first; `total` adds up the counts of those that are done.
    """

    done: int = 0
    ranges: int | None = None
    cursor: str = ""
    count: int | None = None  # type: ignore[assignment]  # hides tuple.count, of no use here
    checksum: str | None = None
    expected_count: int | None = None
    expected_checksum: str | None = None
    total: int | None = None

    @classmethod
    def from_json(cls, value: JsonObject) -> Standing:
        """What `to_json` gave."""
        known: dict[str, Any] = {name: value[name] for name in cls._fields if name in value}
        return cls(**known)

    def to_json(self) -> JsonObject:
        """For the interval's record."""
        found = {name: value for name, value in self._asdict().items() if value is not None}
        return {"phase": "command", **found}

    def after(self, said: Said) -> Standing:
        """With what a line said; what it does not name stays."""
        return self._replace(**said.given)

    def disagreement(self) -> str | None:
        """What was expected and is not so; None where all agrees."""
        for name in ("count", "checksum"):
            expected, found = getattr(self, f"expected_{name}"), getattr(self, name)
            if expected is not None and found is None:
                return f"a {name} of {_shown(expected)} was expected, and none was reported"
            if expected is not None and expected != found:
                return f"a {name} of {_shown(expected)} was expected, and {_shown(found)} reported"
        return None

    def next_range(self) -> Standing:
        """When the range under way has ended well."""
        total = self.total
        if self.count is not None:
            total = (total or 0) + self.count
        return Standing(
            self.done + 1,
            self.ranges,
            checksum=None if self.ranges else self.checksum,
            total=total,
        )


class Said(NamedTuple):
    """One line. `given` are the fields of `Standing` that it names."""

    given: dict[str, Any]
    is_checkpoint: bool


def read_line(data: bytes, *, is_cut: bool = False) -> Said:
    """What a line says. Raises `ProgressUnusable`, which quotes its beginning."""
    if is_cut:
        raise _unusable(data, "is too long for a line of progress")
    try:
        value = json.loads(data, parse_constant=_no_number, parse_float=_Number)
    except (ValueError, RecursionError) as error:
        raise _unusable(data, "is no JSON") from error
    if not isinstance(value, dict):
        raise _unusable(data, "is no JSON object")
    unknown = next((key for key in value if key not in KEYS), None)
    if unknown is not None:
        raise _unusable(data, f"has a key {unknown[:40]!r}, which means nothing here")
    given: dict[str, Any] = {}
    if "cursor" in value:
        given["cursor"] = _cursor(data, value["cursor"])
    for name in ("count", "expected_count"):
        if name in value:
            number = value[name]
            if type(number) is not int or not 0 <= number < 2**63:
                raise _unusable(data, f"has no whole number as {name}")
            given[name] = number
    for name in ("checksum", "expected_checksum"):
        if name in value:
            text = value[name]
            if type(text) is not str or not 0 < len(text) <= LONGEST_CHECKSUM or _unfit(text):
                raise _unusable(data, f"has no text of 1 to {LONGEST_CHECKSUM} letters as {name}")
            given[name] = text
    return Said(given, "cursor" in value)


class _Number(float):
    """A number with a point, which is written again as it was."""

    def __new__(cls, text: str) -> _Number:
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str

    def __repr__(self) -> str:
        return self.text


def _cursor(line: bytes, value: object) -> str:
    if value is None:
        return ""
    try:
        text = _written(value)
    except RecursionError as error:
        raise _unusable(line, "has a cursor that is nested too deeply") from error
    if len(text) > LONGEST_CURSOR:
        raise _unusable(line, f"has a cursor of more than {LONGEST_CURSOR // 1024} KiB")
    return text


def _written(value: object) -> str:
    """As JSON in ASCII, without blanks. The standard encoder would write a float anew."""
    if isinstance(value, _Number):
        return value.text
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{_written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    return json.dumps(value)


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is no JSON")


def _unfit(text: str) -> bool:
    """What a store cannot keep: NUL, and halves of surrogates."""
    return "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text)


def _unusable(line: bytes, what: str) -> ProgressUnusable:
    begin = line[:80].decode("utf-8", "replace") + ("…" if len(line) > 80 else "")
    return ProgressUnusable(
        f"a line of progress {what}: {begin}",
        hint='write one JSON object a line, such as {"cursor": 17, "count": 1700}, to the file'
        " descriptor that RECONCILE_PROGRESS_FD names",
    )


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
