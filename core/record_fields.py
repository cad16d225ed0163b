"""Records as JSON objects and back, field by field.

Instants and checksums are known by the names of their fields. Whatever is read is checked:
a disk may change a byte, and what comes of it must not look like a defect of whoever reads it.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from .calendars import Dst
from .checksum import Checksum
from .errors import StoreUnusable
from .model import Ending, State, Trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .model import Json, JsonObject


def to_text(instant: datetime) -> str:
    """RFC 3339 in UTC with microseconds."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def from_text(text: str) -> datetime:
    """Read what `to_text` wrote; ValueError for anything without an offset."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text!r} has no offset")
    return found


class Fields:
    """A dataclass that is a record's value."""

    def to_json(self) -> JsonObject:
        """The record's value, without fields that are None."""
        pairs = ((f.name, getattr(self, f.name)) for f in fields(self))  # type: ignore[arg-type]
        return {name: _plain(value) for name, value in pairs if value is not None}

    @classmethod
    def from_json(cls, value: JsonObject) -> Self:
        """The value of a record that `to_json` wrote. Raises `StoreUnusable` for another."""
        try:
            readers = _readers(cls)  # type: ignore[arg-type]
            known: dict[str, Any] = {}
            for name, found in value.items():
                if name in readers and found is not None:
                    exact, convert = readers[name]
                    known[name] = found if type(found) is exact else convert(found)
            return cls(**known)
        except (AttributeError, TypeError, ValueError) as error:
            raise _damaged(cls.__name__, error) from error


def event_value(value: JsonObject) -> JsonObject:
    """An event as it was written. Raises `StoreUnusable` for one whose time is none."""
    try:
        _check("event", "JsonObject", value)
    except (TypeError, ValueError) as error:
        raise _damaged("event", error) from error
    return value


def _damaged(what: str, error: Exception) -> StoreUnusable:
    return StoreUnusable(
        f"the store is damaged: one {what} in it cannot be read ({error})",
        hint="restore it from a copy, or move it away: a new store is created and goes on "
        "from what the target knows",
    )


def _plain(value: Any) -> Json:
    if isinstance(value, datetime):
        return to_text(value)
    if isinstance(value, Checksum):
        return str(value)
    return value  # type: ignore[no-any-return]


@cache
def _readers(cls: type) -> Mapping[str, tuple[type | None, Callable[[Any], Any]]]:
    """How each field of a class is read: a type of which a value is taken as it is, and a
    function for all others. Made once for each class: records are read by the thousand."""
    return {f.name: _reader(f.name, str(f.type).removesuffix(" | None")) for f in fields(cls)}


def _reader(name: str, declared: str) -> tuple[type | None, Callable[[Any], Any]]:
    if name.endswith("_at"):
        return None, from_text
    if name in _CHECKSUMS:
        return None, Checksum.parse
    if name in _ENUMS:
        return None, _ENUMS[name]

    def checked(found: Any) -> Any:
        _check(name, declared, found)
        return found

    return _EXACT.get(declared), checked


def _check(name: str, declared: str, found: Any) -> None:
    """TypeError or ValueError for a value that no program of ours wrote."""
    kinds = _KINDS.get(declared)
    if kinds is not None and type(found) not in kinds:
        raise TypeError(f"{name} is {found!r}")
    if type(found) is dict:
        for instant in _INSTANTS & found.keys():
            if found[instant] is not None:
                from_text(found[instant])
    elif name == "schedules":
        for since, expression, zone, *dst in found:
            from_text(since)
            if type(zone) is not str or not isinstance(expression, str | None):  # None: on demand
                raise TypeError(f"a schedule is {expression!r} in {zone!r}")
            Dst(*dst).check()
    elif name == "pauses":
        for pause in found:
            _check("pause", "JsonObject", pause)


_EXACT: dict[str, type] = {"int": int, "bool": bool, "float": float, "str": str}
_KINDS: dict[str, tuple[type, ...]] = {
    **{"int": (int,), "bool": (bool,), "float": (int, float), "str": (str,)},
    **dict.fromkeys(("JsonObject", "Mapping[str, str]"), (dict,)),
    **dict.fromkeys(("list[Any]", "Sequence[str]", "Sequence[Sequence[Any]]"), (list,)),
}
_INSTANTS = {"at", "until", "ended"}
_CHECKSUMS = {"desired", "observed", "checksum", "left", "applied", "approvable"}
_ENUMS: dict[str, Any] = {"state": State, "trigger": Trigger, "ending": Ending}
