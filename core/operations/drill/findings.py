"""What a drill finds: one finding for each promise that it rehearses."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...model import Json

CUT_OFF = 12

PROMISES = MappingProxyType(
    {
        1: "one holder",
        2: "fenced commits",
        3: "fence first",
        4: "nothing twice",
        5: "nothing lost silently",
        6: "a trigger is not proof",
        7: "renewal needs progress",
        8: "stop before expiry",
        CUT_OFF: "nobody is cut off by accident",
    }
)
"""The promises of README that a drill can see broken, by its number there."""


class Verdict(StrEnum):
    """What became of one rehearsal. Only `HOLDS` is good."""

    HOLDS = "holds"
    FAILED = "failed"
    NOT_REHEARSED = "not rehearsed"


class Finding(NamedTuple):
    """One rehearsal: its name, verdict, and the evidence in words and figures. `promise` is the
    number of the one that broke, or that is rehearsed first of all."""

    name: str
    promise: int
    verdict: Verdict
    evidence: str
    figures: Mapping[str, Json] = MappingProxyType({})


class DrillReport(NamedTuple):
    """A whole drill. `left` says what could not be removed afterwards, None where all was;
    `leftovers` counts the records of a drill before this one that were found and removed."""

    store: str
    findings: Sequence[Finding]
    seconds: float
    left: str | None = None
    leftovers: int = 0

    @property
    def holds(self) -> bool:
        """Whether each promise was rehearsed, and held."""
        return self.left is None and all(one.verdict is Verdict.HOLDS for one in self.findings)


class Broke(Exception):
    """A promise was seen broken."""

    def __init__(self, promise: int, evidence: str) -> None:
        super().__init__(evidence)
        self.promise = promise


class NotRehearsed(Exception):
    """It did not come to what was to be rehearsed."""


class Interrupted(Exception):
    """A signal asked the drill to stop; the text says what could not be removed, if anything."""
