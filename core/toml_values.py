"""Reading the values of one TOML table, and collecting all that is wrong with them.

A `Section` is one table while it is read. Each reader takes one key, checks it, and gives
its value, or None where the key is missing or wrong; what is wrong becomes a `Problem`.
Reading goes on after it, so that a user sees all problems at once. `finish` reports the
keys that nobody asked for.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from .errors import AccessDenied, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

KeyPath = tuple[str, ...]

_UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_DURATION = re.compile(r"(\d{1,9})([smhd])", re.ASCII)
_LONGEST = timedelta(days=36500)
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)\s*%", re.ASCII)
_VARIABLE = re.compile(r"\$\{([^}]*)(\}?)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SHORTEST_SECRET = 4
"""Letters; shorter ones are found in every word."""
_QUOTING = "'\"{"


class Problem(NamedTuple):
    """What is wrong with one key, and how to mend it. `line` is only given where the key
    cannot be looked up: in a file that is not TOML. `denied`: this user may not read what
    the key names, or too many may write it."""

    file: Path
    key: KeyPath
    text: str
    mend: str = ""
    line: int | None = None
    denied: bool = False


class Problems:
    """All that is wrong so far, in order of finding; and what enters from outside: variables,
    and the files that keys name. `read_secret` raises `ConfigError` or `AccessDenied`."""

    def __init__(
        self,
        environ: Mapping[str, str],
        folder: Path,
        read_secret: Callable[[Path], str] | None = None,
    ) -> None:
        self.environ = environ
        self.folder = folder
        self.read_secret = read_secret
        self.found: list[Problem] = []
        self._filled: dict[str, str] = {}

    def variable(self, name: str) -> str | None:
        """A variable of the environment; its value is shown in no problem from now on."""
        value = self.environ.get(name)
        if value is not None and len(value) >= _SHORTEST_SECRET:
            self._filled[value] = f"${{{name}}}"
        return value

    def add(
        self,
        file: Path,
        key: KeyPath,
        text: str,
        mend: str = "",
        line: int | None = None,
        *,
        denied: bool = False,
    ) -> None:
        """Note a problem, once. What came out of the environment is shown as it is written."""
        text, mend = self._as_written(text), self._as_written(mend)
        problem = Problem(file, key, text, mend, line, denied)
        if problem not in self.found:
            self.found.append(problem)

    def _as_written(self, text: str) -> str:
        for value in sorted(self._filled, key=len, reverse=True):
            text = text.replace(value, self._filled[value])
            text = text.replace(repr(value)[1:-1], self._filled[value])
        return text


class Section:
    """One table of one file while it is read."""

    def __init__(
        self, problems: Problems, file: Path, path: KeyPath, values: Mapping[str, object]
    ) -> None:
        self.problems = problems
        self.file = file
        self.path = path
        self._values = values
        self._asked: set[str] = set()

    def wrong(self, key: str, text: str, mend: str = "") -> None:
        """Report a key of this table, or with "" the table itself. A text that quotes any part
        of a value is not told of one that the environment had a part in: it may be secret."""
        written = _with_variables(self._values.get(key))
        if written and any(mark in text for mark in _QUOTING):
            text = f"is {written}, which cannot be used as the environment fills it in"
        self._report(key, text, mend)

    def _report(self, key: str, text: str, mend: str) -> None:
        self.problems.add(self.file, (*self.path, key) if key else self.path, text, mend)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def names(self) -> Iterable[str]:
        """The keys that the table has."""
        return self._values

    def raw(self, key: str) -> object | None:
        """A key's value as tomllib gives it; None where there is none."""
        self._asked.add(key)
        return self._values.get(key)

    def section(self, key: str) -> Section:
        """A table within this one; an empty one where it is missing."""
        value = self.raw(key)
        if value is not None and not isinstance(value, dict):
            self.wrong(key, f"is {_kind(value)}, not a table", f"write it as [{key}]")
            value = None
        return Section(self.problems, self.file, (*self.path, key), value or {})

    def text(self, key: str) -> str | None:
        """A text that is not empty, variables of the environment filled in."""
        value = self.raw(key)
        if value is None:
            return None
        if not isinstance(value, str):
            self.wrong(key, f"is {_kind(value)}, not a text", "put it in quotes")
            return None
        if not value.strip():
            self.wrong(key, "is empty", "write something, or take it out")
            return None
        return self._filled(key, value)

    def secret(self, key: str) -> str | None:
        """As `text`; instead of `key` there may be `KEY_file`, which names a file that holds
        it, relative to the configuration's folder. One newline at its end is not part of it,
        and nothing in it is filled in."""
        name = secret_file(key)
        path = self.text(name)
        if path is None:
            return self.text(key)
        if self.raw(key) is not None:
            self.wrong(name, f"says what {key} says too", "take one of them out")
            return None
        read = self.problems.read_secret
        if read is None:
            self.wrong(name, "cannot be read here", f"write {key}")
            return None
        try:
            return read(self.problems.folder / path)
        except (AccessDenied, ConfigError) as error:
            self.problems.add(
                self.file,
                (*self.path, name),
                str(error),
                error.hint,
                denied=isinstance(error, AccessDenied),
            )
            return None

    def has(self, key: str) -> bool:
        """Whether the table has the key, or the file that holds it."""
        return key in self._values or secret_file(key) in self._values

    def mark(self, key: str, length: int) -> str | None:
        """A text of so many characters, white space included."""
        value = self.raw(key)
        if value is None:
            return None
        if not isinstance(value, str) or len(value) != length:
            what = f"{length} character{'s' * (length > 1)}"
            self.wrong(key, f"is not a text of {what}", f"write {what} in quotes")
            return None
        return value

    def texts(
        self, key: str, *, empty: bool = False, secret: bool = False
    ) -> tuple[str, ...] | None:
        """A list of different texts; `empty` allows the empty text in it. No message quotes one
        that is `secret`."""
        value = self.raw(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            what = _kind(value) if not isinstance(value, list) else "a list of other things"
            self.wrong(key, f"is {what}, not a list of texts", f'write {key} = ["…", "…"]')
            return None
        if not empty and not all(item.strip() for item in value):
            self.wrong(key, "has an empty text in it", "take it out")
            return None
        filled = [self._filled(key, item) for item in value]
        texts = tuple(item for item in filled if item is not None)
        twice = next((item for n, item in enumerate(texts) if item in texts[:n]), None)
        if twice is not None:
            self.wrong(key, f"names {'one' if secret else repr(twice)} twice", "take one out")
            return None
        return texts if len(texts) == len(filled) else None

    def renames(self, key: str) -> dict[str, str]:
        """A table that leads from one name to another, each to its own."""
        inner = self.section(key)
        names = {name: inner.text(name) for name in inner.names()}
        texts = {name: to for name, to in names.items() if to is not None}
        if len(set(texts.values())) < len(texts):
            self.wrong(key, "leads from two names to the same one", "take one out")
        return texts

    def whole(self, key: str, least: int) -> int | None:
        """A whole number, not less than `least`."""
        value = self.raw(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            self.wrong(key, f"is {_kind(value)}, not a whole number", "write digits, no quotes")
            return None
        if value < least:
            self.wrong(key, f"is {value}", f"write a number from {least} on")
            return None
        return value

    def flag(self, key: str) -> bool | None:
        """True or false."""
        value = self.raw(key)
        if value is None or isinstance(value, bool):
            return value
        self.wrong(key, f"is {_kind(value)}", "write true or false, without quotes")
        return None

    def duration(self, key: str, least: timedelta = _UNITS["s"]) -> timedelta | None:
        """A duration, not less than `least`."""
        value = self.raw(key)
        if value is None:
            return None
        try:
            duration = parse_duration(value if isinstance(value, str) else "")
        except ConfigError as error:
            shown = repr(value) if isinstance(value, str) else _kind(value)
            self.wrong(key, f"is {shown}, not a duration", error.hint)
            return None
        if duration < least:
            self.wrong(key, f"is {value!r}", f"write at least {show_duration(least)}")
            return None
        return duration

    def share(self, key: str) -> float | None:
        """A percentage between 0 and 100, as a fraction of one."""
        value = self.raw(key)
        if value is None:
            return None
        match = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is None or float(match[1]) > 100:
            shown = repr(value) if isinstance(value, str) else _kind(value)
            self.wrong(key, f"is {shown}, not a percentage from 0% to 100%", 'write "10%"')
            return None
        return float(match[1]) / 100

    def choice(self, key: str, known: Sequence[str], later: Sequence[str] = ()) -> str | None:
        """One of the known words; `later` are those of a later version."""
        value = self.text(key)
        if value is None or value in known:
            return value
        names = " or ".join(f'"{name}"' for name in known)
        if value in later:
            self.wrong(key, f"{value!r} is not supported by this version", f"write {names}")
        else:
            self.wrong(key, f"is {value!r}", f"write {names}")
        return None

    def instant(self, key: str, timezone: str) -> datetime | None:
        """A date, which is its midnight in that time zone, or an instant with its offset; in
        UTC."""
        value = self.raw(key)
        if value is None:
            return None
        if isinstance(value, datetime) and value.tzinfo is None:
            self.wrong(key, "has no offset", "write 2026-11-01T02:30:00Z, or a date alone")
            return None
        try:
            if isinstance(value, datetime):
                return value.astimezone(UTC)
            if isinstance(value, date):
                from .calendars.zones import midnight

                return midnight(value, timezone)
        except OverflowError:
            self.wrong(key, "is outside the years 1 to 9999", "write another one")
            return None
        self.wrong(
            key, f"is {_kind(value)}", "write 2026-11-01 or 2026-11-01T02:30:00Z, without quotes"
        )
        return None

    def later(self, *keys: str) -> None:
        """Refuse keys that only a later version knows."""
        for key in keys:
            if self.raw(key) is not None:
                self.wrong(key, "is not supported by this version", "take it out")

    def finish(self) -> None:
        """Report the keys that nobody asked for, each with the nearest known one."""
        for key in self._values:
            if key not in self._asked:
                self.wrong(key, "no such key", _nearest(key, self._asked))

    def _filled(self, key: str, text: str) -> str | None:
        """The text with each ``${NAME}`` filled in from the environment."""
        missing: list[tuple[str, str]] = []

        def value(match: re.Match[str]) -> str:
            if not match[2] or not _NAME.fullmatch(match[1]):
                missing.append(("has ${ that begins no ${NAME}", "write ${NAME}"))
                return ""
            found = self.problems.variable(match[1])
            if found is None:
                text = f"reads ${{{match[1]}}}, which the environment does not have"
                missing.append((text, f"set {match[1]} where this command is called"))
                return ""
            return found

        filled = _VARIABLE.sub(value, text)
        if missing:
            self._report(key, *missing[0])
            return None
        if "\0" in filled:
            self.wrong(key, "has a NUL character in it", "take it out")
            return None
        return filled


def secret_file(key: str) -> str:
    """The key that names the file which holds what `key` would say."""
    return f"{key}_file"


def parse_duration(text: str) -> timedelta:
    """Read `90s`, `10m`, `6h` or `3d`. `ConfigError` for anything else."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"{text!r} is not a duration", hint='write "90s", "10m", "6h" or "3d"')
    number, unit = int(match[1]), _UNITS[match[2]]
    if number > _LONGEST / unit:
        raise ConfigError(f"{text!r} is too long", hint="write at most 36500d")
    return number * unit


def show_duration(duration: timedelta) -> str:
    """A duration of whole seconds as `parse_duration` reads it, in the largest unit."""
    for letter in "dhm":
        if duration and duration % _UNITS[letter] == timedelta():
            return f"{duration // _UNITS[letter]}{letter}"
    return f"{duration // _UNITS['s']}s"


def _with_variables(value: object) -> str:
    """What a value says that has variables in it, as it is written; "" where it has none."""
    items = value if isinstance(value, list) else [value]
    return ", ".join(repr(i) for i in items if isinstance(i, str) and _VARIABLE.search(i))


def _nearest(key: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    names = sorted(known)
    close = get_close_matches(key, names, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else f"known here: {', '.join(names)}"


def _kind(value: object) -> str:
    if isinstance(value, str):
        return "a text"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    return "a date or time"
