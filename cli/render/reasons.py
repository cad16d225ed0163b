"""Why an interval was skipped or failed, in words."""

from __future__ import annotations

_REASONS = {
    "catch_up_window": "too old to be caught up",
    "superseded": "a newer interval took its place",
    "paused": "the job was paused",
    "operator": "given up by hand",
    "dst_gap": "the clock went past it",
    "attempts": "no attempt is left",
    "overtaken": "overtaken by a newer interval",
    "cancelled": "refused by hand, after something was applied",
    "recovered": "its record was lost with a store",
}

FAILURES = frozenset({"attempts", "overtaken", "cancelled"})
"""Those of a failed interval; all others are of one that was skipped, or lost."""


def reason_text(reason: str) -> str:
    """The reason in words; one that is not known here is shown as it is stored."""
    return _REASONS.get(reason, reason)
