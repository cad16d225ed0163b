"""`doctor`: a line for each finding, its mend below it."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any

from ...core.findings import Level
from . import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...core.findings import Finding
    from .words import Style

_SUBJECT, _LEVEL = 16, 6
_NARROWEST = 30
_COLOURS = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}
_SHOWN = {Level.OK: "ok", Level.WARN: "warn", Level.FAIL: "FAIL"}


def text(findings: Sequence[Finding], style: Style, *, quiet: bool) -> str:
    """All of them, or with `quiet` those that are not well, and a last line that counts."""
    lines: list[str] = []
    before = ""
    for one in findings:
        if quiet and one.level is Level.OK:
            continue
        lines += _lines(one, style, repeated=one.subject == before)
        before = one.subject
    if not quiet:
        lines += ["", _summary(findings)]
    return "".join(f"{line}\n" for line in lines)


def _lines(one: Finding, style: Style, *, repeated: bool) -> Iterator[str]:
    name = "" if repeated else words.shown(one.subject)
    if len(name) >= _SUBJECT:
        yield name
        name = ""
    level = style.paint(_SHOWN[one.level].ljust(_LEVEL), _COLOURS[one.level])
    indent = " " * (_SUBJECT + _LEVEL)
    width = max(_NARROWEST, style.width - len(indent))
    told = style.commands(words.shown(one.text))
    first, *rest = wrap(told, width, break_long_words=False, break_on_hyphens=False) or [""]
    yield f"{name:{_SUBJECT}}{level}{first}".rstrip()
    yield from (f"{indent}{line}" for line in rest)
    for number, mend in enumerate(line for line in one.mend.split("\n") if line.strip()):
        mark = "mend: " if number == 0 else "      "
        # Never folded: it is to be copied.
        yield f"{indent}{mark}{style.commands(words.shown(mend))}"


def _summary(findings: Sequence[Finding]) -> str:
    levels = [one.level for one in findings]
    failed, warned = levels.count(Level.FAIL), levels.count(Level.WARN)
    if not failed and not warned:
        return "all is well"
    return f"{failed} to mend, {words.count(warned, 'warning')}"


def as_object(findings: Sequence[Finding], code: int) -> dict[str, Any]:
    """For programs."""
    levels = [one.level for one in findings]
    return {
        "exit": code,
        "to_mend": levels.count(Level.FAIL),
        "warnings": levels.count(Level.WARN),
        "findings": [
            {"subject": one.subject, "level": one.level.value, "text": one.text, "mend": one.mend}
            for one in findings
        ],
    }
