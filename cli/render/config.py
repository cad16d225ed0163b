"""The effective configuration: as TOML that says the same again, and as JSON."""

from __future__ import annotations

import json
from datetime import UTC
from typing import TYPE_CHECKING, Any

from . import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...core.effective import Effective, EffectiveJob, Setting
    from ...core.model import Json
    from .words import Style

_START = "start"


def text(found: Effective, style: Style) -> str:
    """Every key with its value. What is a default says so; what holds nothing is a comment."""
    lines = [style.paint(f"# {file}", "dim") for file in found.files]
    lines += ["", "[store]", *_settings(found.store, "store", style)]
    lines += ["", "[alerts]", *_settings(found.alerts, "alerts", style)]
    for job in found.jobs:
        lines += _job(job, found.files[0], style)
    if not found.jobs:
        lines += ["", style.paint("# no job", "dim")]
    return "\n".join(lines) + "\n"


def _job(job: EffectiveJob, main: str, style: Style) -> Iterator[str]:
    table = f"jobs.{job.name}"
    yield ""
    yield f"[{table}]"
    if job.origin != main:
        yield style.paint(f"# of {job.origin}", "dim")
    if job.coming:
        there = ", and on the clock there" if job.local[0].tzinfo != UTC else ""
        yield style.paint(f"# its next five instants, in UTC{there}:", "dim")
        for instant, local in zip(job.coming, job.local, strict=True):
            there = f"  {words.local(local)}" if local.tzinfo != UTC else ""
            yield style.paint(f"#   {words.minute(instant)}{there}", "dim")
    yield from _settings(job.settings, table, style)


def _settings(settings: Sequence[Setting], table: str, style: Style) -> Iterator[str]:
    inner = ""
    for one in settings:
        place, _, name = one.key.rpartition(".")
        if place not in {inner, table}:
            yield ""
            yield f"[{table}.{place}]"
            inner = place
        if one.value is None:
            yield style.paint(f"# {name}: {one.told} (default)", "dim")
            continue
        remark = "" if one.given else style.paint("  # default", "dim")
        yield f"{name} = {_value(one)}{remark}"


def _value(one: Setting) -> str:
    if one.key == _START:
        return str(one.value)  # an instant is written without quotes
    return _toml(one.value)


def _toml(value: Json) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        pairs = (f"{_toml(name)} = {_toml(inner)}" for name, inner in value.items())
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)


def as_object(found: Effective) -> dict[str, Any]:
    """For programs: dotted keys with their values, and which of them are defaults."""
    return {
        "files": list(found.files),
        "store": _object(found.store),
        "alerts": _object(found.alerts),
        "jobs": [
            {
                "job": job.name,
                "file": job.origin,
                "next": [words.rfc3339(instant) for instant in job.coming],
                "next_local": [instant.isoformat() for instant in job.local],
                "notes": list(job.notes),
                **_object(job.settings),
            }
            for job in found.jobs
        ],
    }


def _object(settings: Sequence[Setting]) -> dict[str, Any]:
    return {
        "settings": {one.key: one.value for one in settings},
        "defaults": [one.key for one in settings if not one.given],
    }
