"""What `doctor` finds: values that stores, targets, sources and the host give it alike.

A finding says how one thing stands and, where it does not stand well, how to mend it: one
command or one sentence. `WARN` is for what works now and may hurt one day, or what a person may
want so; `FAIL` for what keeps a job from its work, or from being noticed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .errors import ReconcileError


class Level(StrEnum):
    """How a thing stands."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(NamedTuple):
    """One thing that was looked at. `subject` is what it belongs to: a job's name, or one of
    `configuration`, `user`, `store`, `clock`, `alerts`, `triggers`. Neither text has a secret."""

    level: Level
    subject: str
    text: str
    mend: str = ""


class StoreLook(NamedTuple):
    """What a store says of itself when it is looked at and not opened. `ready`: it is made, so
    that opening it writes nothing."""

    findings: Sequence[Finding]
    ready: bool


STORE = "store"
_STEP = 1000
_UNITS = ("kB", "MB", "GB", "TB")
_LEAST_FREE = 64 * 1024 * 1024
_NO_FREE = 1024 * 1024


def ok(subject: str, text: str) -> Finding:
    """All is well."""
    return Finding(Level.OK, subject, text)


def warn(subject: str, text: str, mend: str) -> Finding:
    """It works, and yet."""
    return Finding(Level.WARN, subject, text, mend)


def fail(subject: str, text: str, mend: str) -> Finding:
    """It has to be mended."""
    return Finding(Level.FAIL, subject, text, mend)


def refused(subject: str, error: ReconcileError) -> Finding:
    """What a run would be refused with, message and hint alike."""
    text = " ".join(str(error).split()) or error.name
    return Finding(Level.FAIL, subject, text, error.hint)


def noted(warning: str) -> Finding:
    """What a store warns of (`StoreFacts.warnings`): a sentence that ends in brackets with what
    would mend it, where something can."""
    text, bracket, mend = warning.removesuffix(")").rpartition(" (")
    if bracket and warning.endswith(")"):
        return warn(STORE, text, mend)
    return warn(STORE, warning, "see: man 7 reconcile-stores")


def size_text(size: int) -> str:
    """Bytes as people read them, in powers of 1000: `812 bytes`, `1.2 MB`, `20 GB`."""
    if size < _STEP:
        return f"{size} bytes"
    power = min((len(str(size)) - 1) // 3, len(_UNITS))
    value = size / _STEP**power
    return f"{value:.1f} {_UNITS[power - 1]}" if value < 10 else f"{value:.0f} {_UNITS[power - 1]}"


def space(subject: str, folder: str, free: int) -> Iterator[Finding]:
    """Whether a disk has room; nothing where it has."""
    if free < _LEAST_FREE:
        found = fail if free < _NO_FREE else warn
        yield found(
            subject,
            f"the disk of {folder} has {size_text(free)} left",
            f"free space: df -h {folder}",
        )
